//! Reports on time and source are answered from page metadata if a slab has a single source.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::{compare_in, engine, events};

const REPORTS: &[&str] = &[
    "stats count by host",
    "stats count min(_time) max(_time) range(_time) by sourcetype",
    "stats min(_time) AS first max(_time) AS last dc(host) values(sourcetype) count",
    "stats earliest(_time) latest(_time) earliest_time(host) latest_time(_time) by host, source",
    "stats earliest(sourcetype) latest(host) min(host) max(source) count by index",
    "stats estdc(sourcetype) count AS n by host, sourcetype | stats sum(n)",
    // These reports need each event.
    "stats dc(_time) count by host",
    "stats count sum(_time) avg(_time) by host",
    "stats count(host) count by host",
    "stats list(host) count",
    "stats count min(_time) by host, status",
    "eval late=1 | stats count min(_time) by host",
    "timechart span=1m count by host",
    "stats count(eval(host=\"web1\")) max(_time)",
    "top host",
    "rex \"(?<host>zebra)\" | stats count max(_time) by host",
];

/// Each sourcetype in a slab of its own, the last one with one event only.
pub(super) fn store() -> MemoryStore {
    let store = MemoryStore::new("main");
    let events = events();
    for (source, (host, sourcetype)) in
        [("web1", "kv"), ("web2", "json"), ("db1", "cut"), ("db2", "esc")].into_iter().enumerate()
    {
        let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
        let meta_of = |host: &str| Metadata {
            index: "main".into(),
            host: host.into(),
            source: "/var/log/x.log".into(),
            sourcetype: sourcetype.into(),
        };
        // The second slab has two hosts.
        let metas = [batch.intern(&meta_of(host)), batch.intern(&meta_of(if source == 1 { "web3" } else { host }))];
        let own = events.iter().enumerate().filter(|(_, (of, _))| *of == source);
        for (at, (_, text)) in own.take(if source == 3 { 1 } else { usize::MAX }) {
            batch.push(text.as_bytes(), (7_919 * at as i64 % 1_000) * 1_000_000_000, metas[at % 2]);
        }
        store.append(batch).unwrap();
    }
    store
}

#[test]
fn page_metadata_gives_the_same_results() {
    let conditions = ["*", "sourcetype=json", "NOT host=db*", "host=web1 OR zebra", "source=/var/*", "host=nobody"];
    let range = TimeRange { earliest: Some(100_000_000_000), latest: Some(900_000_000_000) };
    let searches = REPORTS.iter().flat_map(|report| {
        conditions.iter().flat_map(move |condition| {
            [TimeRange::ALL, range].map(|range| (format!("search {condition} | {report}"), range))
        })
    });
    compare_in(&store(), &engine(), searches);
}
