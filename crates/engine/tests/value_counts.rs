//! Reports answered from value counts equal those that read the events: over sealed buckets, with values of every kind
//! of column.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use quarry_engine::{Engine, EngineOptions};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Store, StoreOptions};
use quarry_testworld::{engine, lines, request, rows_of};

const FIELDS: [&str; 12] =
    ["hex", "prefixed", "uuid", "few", "number", "mixed", "dotted", "counter", "ip", "decimal", "path", "quoted"];

const CONDITIONS: [&str; 16] = [
    "*",
    "every10",
    "NOT every10",
    "every10 OR 404",
    "few=INFO",
    "few=info OR number=404",
    "number>=404",
    "NOT number=200",
    "mixed=1",
    "mixed>0",
    "path=\"/api/a/*\"",
    "quoted=\"user x*\"",
    "decimal<0.5",
    "ip=10.1.*",
    "dotted=a.b",
    "number::404",
];

/// Text of event number `at`, which is the same in every run.
fn text(at: u64) -> String {
    let random = |salt: u64| (at * 64 + salt + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) >> 8;
    let pick = |salt: u64, of: &[&'static str]| of[random(salt) as usize % of.len()];
    let values = [
        format!("{:x}", random(0) as u32),
        format!("u{}", at * 7_919 % 100_003),
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            random(1) as u32,
            at % 65_536,
            at % 4_096,
            at % 97,
            random(2) >> 16
        ),
        pick(3, &["INFO", "WARN", "ERROR", "info", "200"]).to_owned(),
        pick(4, &["200", "404", "500", "302"]).to_owned(),
        pick(5, &["1", "1.0", "01", "x1", "0.5", "7", "-3"]).to_owned(),
        if random(6).is_multiple_of(10) { "a.b".to_owned() } else { format!("{:x}", random(7) as u16) },
        at.to_string(),
        format!("10.{}.{}.{}", random(8) % 4, random(9) % 3, random(10) % 9),
        format!("{:.2}", (random(11) % 200) as f64 / 100.0),
        format!("/api/{}/{}", pick(12, &["a", "b", "cart"]), random(13) % 30),
        format!("\"user {} {} of\"", pick(14, &["x", "y"]), random(15) % 20),
    ];
    let pairs: Vec<String> = FIELDS.iter().zip(values).map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} every{}", pairs.join(" "), if at.is_multiple_of(10) { 10 } else { 1 })
}

fn store(folder: &std::path::Path) -> Arc<Store> {
    let store = Store::open(StoreOptions::at(folder), ManualClock::shared(1_000_000_000)).unwrap();
    for (host, events) in [("web", 0..4_500u64), ("db", 4_500..5_200)] {
        let mut batch = EventBatch::default();
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: host.into(),
            source: "/var/log/x.log".into(),
            sourcetype: "kv".into(),
        });
        events.for_each(|at| batch.push(text(at).as_bytes(), at as i64 * 1_000_000_000, meta));
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        // One slab for each host.
        store.seal_all().unwrap();
    }
    store
}

fn rows(engine: &Engine, store: &Arc<Store>, search: &str) -> Vec<String> {
    let request = request(search);
    let mut job = engine.start(request, store.clone()).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
    let found = lines(&rows_of(&mut job).unwrap_or_else(|error| panic!("{search}: {error}")));
    assert!(job.messages().is_empty(), "{search}: {:?}", job.messages());
    found
}

#[test]
fn value_counts_and_events_give_the_same_reports() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let engine = engine(&EngineOptions::default());
    let mut faults = Vec::new();
    for (number, field) in FIELDS.iter().enumerate() {
        let reports = [
            "stats count".to_owned(),
            format!("stats count by {field}"),
            format!("stats dc({field}) values({field}) count"),
            format!("stats min({field}) max({field}) count by host"),
            format!("top limit=0 {field}"),
        ];
        for (at, condition) in CONDITIONS.iter().enumerate() {
            let report = &reports[(number + at) % reports.len()];
            for report in [report, &reports[1]] {
                // A command in between needs each event.
                let counted = rows(&engine, &store, &format!("search {condition} | {report}"));
                let read = rows(&engine, &store, &format!("search {condition} | eval each=1 | {report}"));
                if counted != read {
                    faults.push(format!("{condition} | {report}: {} and {} rows", counted.len(), read.len()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} differ\n{}", faults.len(), faults.join("\n"));
}
