//! Searches that use the plans, answers and facts that earlier searches left for a pattern have the same results as the
//! first search with the pattern.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use quarry_engine::{Engine, EngineOptions};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Store, StoreOptions};
use quarry_testworld::{engine, lines, request, rows_of};

const EVENTS: u64 = 9_000;
const FAILURE: &str =
    "rex \"The (?<component>[a-z-]+) could not reach (?<peer>[a-z0-9-]+) after (?<attempts>\\d+) attempts\"";
const PLACE: &str = "rex \"in (?<place>[a-z]+)\\. \"";
const TICKET: &str = "rex \"ticket (?<ticket>[0-9a-f]{10})\"";
const LAST: &str = "rex \"(?<last>\\w+)\\?$\"";

/// Text of event number `at`: sentences of words, of which some contain the words of the patterns.
fn text(at: u64) -> String {
    let random = |salt: u64| (at * 64 + salt + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) >> 8;
    let words =
        ["unable", "in", "after", "reach", "out", "attempts", "ticket", "not", "could", "of", "session", "größe"];
    let phrase = |salt: u64, count: u64| {
        (0..count).map(|word| words[random(salt + word) as usize % words.len()]).collect::<Vec<_>>().join(" ")
    };
    let component = ["cache-proxy", "upload", "token-job"][random(1) as usize % 3];
    let mut text = match at % 3 {
        0 => format!("The {component} could not reach peer-{} after {} attempts. ", random(2) % 40, random(3) % 12),
        _ => format!("Now {component} says: "),
    };
    text.push_str(&phrase(4, 1 + random(5) % 9));
    if random(20).is_multiple_of(3) {
        text.push_str(&format!(" in {}. Then", ["payment", "config", "risk"][random(21) as usize % 3]));
    }
    if random(22).is_multiple_of(2) {
        text.push_str(&format!(" \"{}\",", phrase(30, 1 + random(23) % 7)));
    }
    if at.is_multiple_of(4) {
        text.push_str(&format!(" see ticket {:010x}", random(24) & 0xff_ffff_ffff));
    }
    text.push(if random(25).is_multiple_of(9) { '?' } else { '.' });
    text
}

fn store(folder: &std::path::Path) -> Arc<Store> {
    let options = StoreOptions { slab_events: EVENTS as usize / 2, ..StoreOptions::at(folder) };
    let store = Store::open(options, ManualClock::shared(1_000_000_000)).unwrap();
    for first in [0, EVENTS / 2] {
        let mut batch = EventBatch::default();
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: "h".into(),
            source: "/var/log/x.log".into(),
            sourcetype: "prose".into(),
        });
        (first..first + EVENTS / 2).for_each(|at| batch.push(text(at).as_bytes(), at as i64 * 1_000_000_000, meta));
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
    }
    store
}

fn rows(engine: &Engine, store: &Arc<Store>, search: &str) -> Vec<String> {
    let mut job = engine.start(request(search), store.clone()).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
    lines(&rows_of(&mut job).unwrap_or_else(|error| panic!("{search}: {error}")))
}

#[test]
fn later_searches_with_a_pattern_have_the_results_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let searches = [
        format!("search index=main | {FAILURE} | stats count by component"),
        format!("search index=main | {FAILURE} | stats count by component peer attempts"),
        format!("search index=main | {FAILURE} | search peer=peer-7 | stats count by component"),
        format!("search index=main | {FAILURE} | {PLACE} | stats count by component place"),
        format!("search index=main | {PLACE} | stats count by place"),
        format!("search index=main earliest=100 latest=900 | {PLACE} | stats count by place"),
        format!("search index=main session | {PLACE} | {TICKET} | stats count(ticket) by place"),
        format!("search index=main | {TICKET} | stats dc(ticket) count(ticket)"),
        format!("search index=main | {TICKET} | where isnull(ticket) | {FAILURE} | stats count by attempts"),
        format!("search index=main | {LAST} | stats count by last"),
        format!("search index=main | {LAST} | {PLACE} | search NOT place=risk | stats count by last place"),
        "search index=main | regex _raw=\"after 1[0-2] attempts\" | stats count".to_owned(),
        "search index=main | where match(_raw, \"after 1[0-2] attempts\") | stats count".to_owned(),
    ];
    let expected = searches.each_ref().map(|search| rows(&engine(&EngineOptions::default()), &store, search));
    // A new engine has nothing from earlier searches.
    let lasting = engine(&EngineOptions::default());
    for round in 0..3 {
        for step in 0..searches.len() {
            // A different order in each round; 13 and each of the strides have no common divisor.
            let at = step * [1, 5, 8][round] % searches.len();
            assert_eq!(rows(&lasting, &store, &searches[at]), expected[at], "round {round}: {}", searches[at]);
        }
    }
    let tickets = rows(&lasting, &store, &format!("search index=main | {TICKET} | stats count(ticket) AS tickets"));
    assert_eq!(tickets, [format!("tickets={}", EVENTS / 4)], "every fourth event has a ticket");
    let failures = rows(&lasting, &store, &format!("search index=main | {FAILURE} | stats count(peer) AS failures"));
    assert_eq!(failures, [format!("failures={}", EVENTS / 3)], "every third event is a failure");
}
