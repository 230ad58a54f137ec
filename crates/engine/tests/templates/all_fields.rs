//! The fields of rows and the order of their columns do not depend on how events are stored.

use std::sync::Arc;

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::{MemoryStore, Segment};
use quarry_testworld::request;

use super::{FixedSnapshot, SPLIT_OPTIONS, compare, compare_in, engine, run_search, store};
use crate::shaper::HandMade;

const SEARCHES: &[&str] = &[
    "search host=web2 took>54 | fillnull value=- | table took note u",
    "search status>450 | fillnull value=- | table _time status note k ok",
    "search host=web2 | head 7 | where took>1 | fillnull value=- | table took note tags{}",
    "search status>450 | stats count(*) by host",
    "search took>54 | chart count(*s) over host",
];

#[test]
fn fields_without_values_are_no_fields() {
    compare(SEARCHES.iter().map(|search| ((*search).to_owned(), TimeRange::ALL)));
    let source = Arc::new(FixedSnapshot(store().snapshot().segments));
    let found = run_search(&engine(), &source, SEARCHES[0], TimeRange::ALL);
    assert_eq!(found, ["took=54.5"], "events with `note` or `u` do not match");
}

/// Patterns of field names that only some events have. The templates of most events determine which fields match.
const PATTERNS: &[&str] = &[
    "a*", "code*", "e*", "k*", "le*", "m*", "n*", "q*", "st*us", "t*", "took*", "us*", "*_id", "v*", "x*", "zon*",
    "*{}", "*.b", "h*t", "nothing*",
];

#[test]
fn fields_that_match_a_pattern_do_not_depend_on_storage() {
    let of_pattern = |pattern: &&str| {
        [
            format!("* | table _time {pattern}"),
            format!("status=404 OR level=INFO | fields host {pattern} | stats count(*) dc(*) by host"),
            format!("* | rename {pattern} as renamed_* | stats count(renamed_*) by sourcetype"),
            format!("host=web2 | rename {pattern} as renamed_* | where isnull(renamed_) | stats count by level"),
        ]
    };
    compare(PATTERNS.iter().flat_map(of_pattern).map(|search| (search, TimeRange::ALL)));
    let source = Arc::new(FixedSnapshot(store().snapshot().segments));
    let found = run_search(&engine(), &source, "host=db1 | stats count(us*) count(ma*) by host", TimeRange::ALL);
    assert_eq!(found, ["count(made)=60 | count(user)=60 | host=db1"]);
}

#[test]
fn fields_of_events_are_sorted_by_name() {
    let plain = store().snapshot().segments;
    let shaped = |segment: &Arc<dyn Segment>| HandMade::new(Arc::clone(segment), SPLIT_OPTIONS[0]) as Arc<dyn Segment>;
    let shaped = plain.iter().map(shaped).collect();
    for segments in [plain, shaped] {
        let source = Arc::new(FixedSnapshot(segments));
        let engine = engine();
        let mut job = engine.start(request("search host=web2 | table *"), source).unwrap();
        let batches: Vec<_> = std::iter::from_fn(|| job.next_batch()).map(|batch| batch.unwrap()).collect();
        assert!(!batches.is_empty());
        for batch in batches {
            let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
            let (metadata, found) = names.split_at(4);
            assert_eq!(metadata, ["host", "source", "sourcetype", "index"]);
            assert!(found.is_sorted() && !found.is_empty(), "{found:?}");
        }
    }
}

/// A key with characters that field names do not have, outside of the pairs that the templates have.
fn unusual_keys() -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let meta = batch.intern(&Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/app.log".into(),
        sourcetype: "kv".into(),
    });
    for at in 0..60i64 {
        let key = if at % 20 == 7 { "a\u{2713}" } else { "size" };
        batch.push(format!("id={at} {key}={} rest={at}", at * 7).as_bytes(), at * 1_000_000_000, meta);
    }
    store.append(batch).unwrap();
    store
}

#[test]
fn keys_become_the_same_names() {
    let searches =
        ["stats count(a_) as n count(\"a\u{2713}\") as m", "search a_=* | table _time a_", "search a_>100 | table id"];
    let of_all = |search: &str| (format!("search * | {search}"), TimeRange::ALL);
    compare_in(&unusual_keys(), &engine(), searches.into_iter().map(of_all));
    let source = Arc::new(FixedSnapshot(unusual_keys().snapshot().segments));
    let found = run_search(&engine(), &source, &of_all(searches[0]).0, TimeRange::ALL);
    assert_eq!(found, ["m=0 | n=3"]);
}
