//! A search has the same result whether its condition is tested early (term dictionary, raw text, metadata) or on
//! finished rows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use quarry_engine::{Engine, EngineOptions};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Store, StoreOptions};
use quarry_testworld::{engine, request, rows_of};

const EVENTS: [&str; 12] = [
    "user=alice status=200 path=/a/b msg=\"all fine\"",
    "user=bob status=404 path=/missing msg=\"not found\"",
    "user=Alice status=500 err=timeout-42 ip=10.1.2.3",
    "{\"user\":\"carol\",\"status\":200,\"tags\":[\"x\",\"y\"],\"note\":\"a \\\"quoted\\\" word\"}",
    "{\"user\":\"dave\",\"status\":404,\"nested\":{\"deep\":\"value\"}}",
    "plain words without any pairs, error: disk full",
    "ERROR user=eve status=404 took=12ms",
    "user=alice",
    "status=-1 user=zoë",
    "alice bob carol",
    "path=/a/b.c?d=e user=frank",
    "user=alice status=2000",
];

/// Events whose JSON strings contain escapes that a search may write differently.
const ESCAPED: [&str; 12] = [
    "{\"name\":\"Jos\\u00e9\"}",
    "{\"name\":\"José\"}",
    "{\"name\":\"JOS\\u00C9\"}",
    "{\"text\":\"line1\\nline2\"}",
    "{\"text\":\"tab\\u0009here\"}",
    "{\"text\":\"a\\u0026b \\u003cé\\u003e\"}",
    "{\"text\":\"a&b <\\u00e9>\"}",
    "{\"text\":\"a\\u0026b \\u003c\\u00e9\\u003e\"}",
    "{\"text\":\"\\ud83d\\ude00\"}",
    "{\"text\":\"\\u007f\"}",
    "{\"text\":\"C:\\\\new\"}",
    "{\"text\":\"a b\"}",
];

fn store(dir: &std::path::Path, sealed: bool) -> Arc<Store> {
    store_of(&EVENTS, dir, sealed)
}

fn store_of(events: &[&str; 12], dir: &std::path::Path, sealed: bool) -> Arc<Store> {
    let store = Store::open(StoreOptions::at(dir), ManualClock::shared(1_000_000_000)).unwrap();
    for (host, from) in [("web", 0), ("db", 6)] {
        let mut batch = EventBatch::default();
        let meta = Metadata {
            index: "main".into(),
            host: host.into(),
            source: "/var/log/x.log".into(),
            sourcetype: "generic_single_line".into(),
        };
        let meta = batch.intern(&meta);
        for (at, event) in events.iter().enumerate().skip(from).take(6) {
            batch.push(event.as_bytes(), at as i64 * 1_000_000_000, meta);
        }
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }
    if sealed {
        store.seal_all().unwrap();
    }
    store
}

fn times(engine: &Engine, store: &Arc<Store>, search: &str) -> Vec<String> {
    let request = request(&format!("{search} | table _time"));
    let mut job = engine.start(request, store.clone()).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
    let batches = rows_of(&mut job).unwrap_or_else(|error| panic!("{search}: {error}"));
    let times = batches.iter().flat_map(|batch| {
        let column = batch.column_by_name("_time").unwrap();
        (0..batch.num_rows()).map(|row| arrow::util::display::array_value_to_string(column, row).unwrap())
    });
    times.collect()
}

#[test]
fn early_tests_change_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&EngineOptions::default());
    for sealed in [false, true] {
        let store = store(&folder.path().join(sealed.to_string()), sealed);
        for (condition, matches) in [
            ("alice", 5),
            ("ALICE status=200", 1),
            ("user=alice", 4),
            ("user=alice NOT status=*", 1),
            ("status!=200", 6),
            ("NOT status=200", 10),
            ("status>=404", 5),
            ("status IN (200, 500)", 3),
            ("user=a* OR user=bob", 5),
            ("host=web error", 1),
            ("host=w* user=*", 5),
            ("host!=web", 6),
            ("NOT host=web user=alice", 2),
            ("\"not found\"", 1),
            ("TERM(err=timeout-42)", 1),
            ("timeout", 1),
            ("CASE(ERROR)", 1),
            ("nested.deep=value", 1),
            ("tags{}=y", 1),
            ("path=\"/a/b\"", 1),
            ("path=/a/*", 2),
            ("(user=alice OR user=bob) status=*", 4),
            ("user=zoë", 1),
            ("disk NOT (user=* OR status=*)", 1),
            ("source=*.log sourcetype=generic_single_line alice carol", 1),
            ("sourcetype=none", 0),
            ("took=12", 0),
            ("status=2000", 1),
        ] {
            let early = times(&engine, &store, condition);
            let late = times(&engine, &store, &format!("* | search {condition}"));
            assert_eq!(early, late, "{condition}, sealed: {sealed}");
            assert_eq!(early.len(), matches, "{condition}, sealed: {sealed}");
            assert!(early.is_sorted_by(|a, b| a >= b), "{condition} is not newest first: {early:?}");
        }
    }
}

#[test]
fn values_are_found_however_json_escapes_them() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&EngineOptions::default());
    for sealed in [false, true] {
        let store = store_of(&ESCAPED, &folder.path().join(sealed.to_string()), sealed);
        for (condition, matches) in [
            ("name=José", 3),
            ("name IN (José, none)", 3),
            ("text=\"line1\nline2\"", 1),
            ("text=\"tab\there\"", 1),
            ("text=\"a&b <é>\"", 3),
            ("text=😀", 1),
            ("text=\"\u{7f}\"", 1),
            ("text=\"C:\\\\new\"", 1),
            ("text=\"a b\"", 1),
            ("text=José", 0),
        ] {
            let early = times(&engine, &store, condition);
            let late = times(&engine, &store, &format!("* | search {condition}"));
            assert_eq!(early, late, "{condition}, sealed: {sealed}");
            assert_eq!(early.len(), matches, "{condition}, sealed: {sealed}");
        }
    }
}
