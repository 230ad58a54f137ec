//! Cached partial states never change an answer, whatever happens to the data and whichever user searches, and they
//! avoid reading events again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod world;

use std::sync::Arc;

use quarry_engine::Engine;
use quarry_event::TimeRange;
use tempfile::tempdir;

use crate::world::{
    SECOND, START, SUFFICIENT_BYTES, SearchOutcome, TestSearch, World, append_keys, deletion_of_every, engine, open,
};

/// A search with a subsearch over events.
const SUBSEARCH: &str = "[search status=500 | head 1 | fields user] | stats count by user, status";

/// Searches whose states are cached.
const CACHED: &[&str] = &[
    "* | stats count",
    "* | stats count by user",
    "error | stats count by user, status",
    "status=404 user=bob | stats count",
    "nothing_is_so | stats count",
    "nothing_is_so | stats count by user",
    "* | stats count(took) sum(took) avg(took) min(took) max(took) range(took) sumsq(took)",
    "* | stats dc(user) estdc(user) values(status) mode(status) by host",
    "* | stats dc(took) values(user) min(user) max(path)",
    "* | stats median(took) perc90(took) exactperc75(took) upperperc10(took) by status",
    "* | stats earliest(user) latest(user) earliest_time(user) latest_time(user) rate(took) by status",
    "user=* | stats sparkline(count) sparkline(avg(took), 1m) by user",
    "* | stats count by tags{}",
    "* | stats count(eval(status>300)) AS bad count AS all by host",
    "* | chart count over status by user",
    "* | chart avg(took) by path",
    "* | chart sum(took) over took span=10 by host",
    "* | timechart span=1m count",
    "* | timechart span=5m avg(took) by user limit=2",
    "* | timechart span=1m per_minute(took)",
    "* | top user",
    "* | top limit=2 status by host",
    "* | rare path",
    "* | rex \"code-(?<code>\\d+)\" | stats count by code",
    "* | rex \"code-(?<code>\\d+)\" | rex \"of (?<u>\\w+) code\" | stats count by code, u",
    "* | rex \"code-(?<code>\\d+)\" | rex \"of (?<u>\\w+) code\" | search u=bob | stats count by code",
    "* | search user=bob | stats count by status",
    "* | eval slow=if(took>20, \"yes\", \"no\") | where slow=\"yes\" | stats count by user",
    "* | bin _time span=10m | stats count by _time",
    "* | bin took span=5 | stats count by took",
    "* | makemv delim=\"/\" path | mvexpand path | stats count by path",
    "* | fillnull value=none path | stats count by path",
    "* | spath | stats count by status",
    "* | rename user AS who | stats count by who | sort -count | head 3",
    "* | stats count by status | eval age=now()-1000 | sort status",
    SUBSEARCH,
    "index=main OR index=other | stats count by index, user",
];

/// Searches whose partial states must not be cached.
const NOT_CACHED: &[&str] = &[
    "* | eval age=now()-_time | stats sum(age)",
    "* | eval age=time()-_time | stats max(age)",
    "* | where _time < relative_time(now(), \"-12d@h\") | stats count",
    "* | stats count(eval(_time < now() - 990000)) AS old",
    "* | stats first(user) last(user) list(status) by host",
    "* | search [search status=500 | head 1 | fields user] | stats count by user",
    "* | stats avg(t*)",
    "_index_earliest=-30d | stats count",
    "* | timechart count",
    "* | timechart span=1m aligntime=earliest count",
    "* | dedup user | stats count",
    "* | head 10 | stats count by user",
];

/// Commands that drop rows; the scan may omit these rows.
const DROPPING: &[&str] = &[
    "rex \"code-(?<code>\\d+)\" | rex \"of (?<u>\\w+) code\" | search u=bob | stats count by code",
    "rex \"code-(?<code>\\d+)\" | rex \"of (?<u>\\w+) code\" | stats count by code, u",
    "rex \"of (?<u>\\w+) code\" | search u=nobody | table u",
    "search user=bob | stats count by status",
    "search user=nobody | table user",
];

#[test]
fn events_dropped_by_later_commands_count_as_matches() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 900, 0);
    let engine = engine_without_cache();
    for is_sealed in [false, true] {
        if is_sealed {
            world.store.seal_all().unwrap();
        }
        let all = TestSearch::new("* | stats count").run(&engine, &world);
        for commands in DROPPING {
            let answer = TestSearch::new(&format!("* | {commands}")).run(&engine, &world);
            assert_eq!(answer.figures, all.figures, "{commands}");
            assert_eq!(answer.rows.is_empty(), commands.contains("nobody"), "{commands}");
        }
    }
}

fn engine_without_cache() -> Engine {
    engine(0, "")
}

/// Runs a search three times and compares each result with the one without cached states.
fn check(question: &TestSearch, kept: &Engine, plain: &Engine, world: &Arc<World>) -> SearchOutcome {
    let expected = question.run(plain, world);
    for run in 1..=3 {
        assert_eq!(question.run(kept, world), expected, "{} at run {run}", question.text);
    }
    expected
}

#[test]
fn third_run_reads_no_sealed_page_and_gives_the_same_result() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 900, 0);
    world.append("other", 0, 200, 50);
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    for text in CACHED {
        let question = TestSearch::new(text);
        let expected = question.run(&plain, &world);
        assert!(text.starts_with("nothing") || !expected.rows.is_empty(), "{text}");
        for run in 1..=4 {
            world.reads();
            let (answer, pages) = question.run_counting_skipped_pages(&kept, &world);
            assert_eq!(answer, expected, "{text} at run {run}");
            match run {
                1 | 2 => assert_eq!(pages, 0, "{text} at run {run}"),
                // A subsearch over events reads pages in every run.
                _ if text.starts_with('[') => assert!(pages > 0, "{text} at run {run}"),
                _ => assert_eq!(world.reads(), 0, "{text} at run {run}"),
            }
        }
    }
}

#[test]
fn searches_that_depend_on_more_than_events_are_not_cached() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 900, 0);
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    for text in NOT_CACHED {
        let mut question = TestSearch::new(text);
        for run in 1..=4 {
            question.now += 777 * SECOND;
            let (answer, pages) = question.run_counting_skipped_pages(&kept, &world);
            assert_eq!(answer, question.run(&plain, &world), "{text} at run {run}");
            assert_eq!(pages, 0, "{text} at run {run}");
        }
    }
}

#[test]
fn new_late_sealed_merged_and_retired_events_are_counted_at_once() {
    let folder = tempdir().unwrap();
    // The test decides when slabs are sealed.
    let world = open(folder.path(), 10_000);
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    let ask = |what: &str| -> Vec<SearchOutcome> {
        let answers = CACHED.iter().step_by(2).chain(&["* | stats count"]);
        answers
            .map(|text| {
                let question = TestSearch::new(text);
                let expected = question.run(&plain, &world);
                for run in 1..=2 {
                    assert_eq!(question.run(&kept, &world), expected, "{text} {what}, run {run}");
                }
                expected
            })
            .collect()
    };
    let total = |answers: &[SearchOutcome]| answers.last().unwrap().rows.clone();
    ask("before any event");
    world.append("main", 0, 400, 0);
    world.append("other", 0, 130, 0);
    assert_eq!(total(&ask("with hot events")), ["count=400"]);
    world.store.seal_all().unwrap();
    ask("after a seal");
    world.append("main", 400, 450, 0);
    ask("with events after a seal");
    world.append("main", 450, 600, 5_000);
    assert_eq!(total(&ask("with late events")), ["count=600"]);
    world.store.seal_all().unwrap();
    world.append("other", 130, 200, 0);
    ask("after another seal");
    let report = world.store.compact_all().unwrap();
    let merged = ask("after a merge");
    assert_eq!(total(&merged), ["count=600"], "{report:?}");
    world.append("main", 600, 700, 0);
    world.store.seal_all().unwrap();
    world.store.compact_all().unwrap();
    assert_eq!(total(&ask("after another merge")), ["count=700"]);
    // The clock is fixed at 10,000,000 seconds after the first event.
    let retired = world.store.retention(&[("main".into(), 9_999_000)]).unwrap();
    let left = ask("after buckets were retired");
    assert!(retired.is_empty() || total(&left) != ["count=700"], "{retired:?}");
    world.store.retention(&[("main".into(), 1)]).unwrap();
    assert_eq!(total(&ask("after all were retired")), ["count=0"]);
}

#[test]
fn every_range_has_its_own_answer() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 100);
    world.append("main", 0, 600, 0);
    world.append("main", 600, 700, 300);
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    let mut spared = 0;
    for text in ["* | stats count sum(took) by user", "* | timechart count by user", "error | timechart span=30s count"]
    {
        for (from, until) in [(0, 700), (0, 700), (0, 700), (50, 700), (100, 450), (0, 101), (99, 301), (7, 8), (9, 9)]
        {
            let question = TestSearch::within(text, from, until);
            for run in 1..=2 {
                let (answer, pages) = question.run_counting_skipped_pages(&kept, &world);
                assert_eq!(answer, question.run(&plain, &world), "{text} from {from} until {until}, run {run}");
                spared += pages;
            }
        }
        for range in [
            TimeRange { earliest: Some(START + 100 * SECOND), latest: None },
            TimeRange { earliest: None, latest: Some(START + 350 * SECOND) },
            TimeRange::ALL,
        ] {
            check(&TestSearch { range, ..TestSearch::new(text) }, &kept, &plain, &world);
        }
    }
    assert!(spared > 50, "{spared}");
}

#[test]
fn slightly_different_searches_share_no_states() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 600, 0);
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    let texts = [
        "ERROR | stats count by user",
        "CASE(ERROR) | stats count by user",
        "not found | stats count by user",
        "\"not found\" | stats count by user",
        "NOT found | stats count by user",
        "* | stats count by user",
        "* | stats count by User",
        "* | stats count by \"user\" status",
        "* | stats count(user)",
        "* | stats dc(user)",
        "* | stats count AS count(user)",
        "* | stats perc10(took)",
        "* | stats perc90(took)",
        "* | stats exactperc90(took)",
        "* | top limit=1 user",
        "* | top limit=2 user",
        "* | top limit=2 user showperc=f",
        "* | rare limit=2 user",
        "* | timechart span=1m count",
        "* | timechart span=2m count",
        "* | timechart span=2m count by user useother=f limit=1",
        "* | timechart span=2m count by user limit=1",
        "* | eval x=\"took\" | stats count by x",
        "* | eval x=took | stats count by x",
        "* | eval x=Took | stats count by x",
        "* | where user=\"alice\" | stats count",
        "* | where user=\"Alice\" | stats count",
        "* | search user=Alice | stats count",
        "* | rex \"code-(?<code>\\d+)\" | stats count by code",
        "* | rex \"code-(?<code>\\d)\" | stats count by code",
    ];
    let expected: Vec<SearchOutcome> = texts.iter().map(|text| TestSearch::new(text).run(&plain, &world)).collect();
    for run in 1..=3 {
        for (text, expected) in texts.iter().zip(&expected) {
            assert_eq!(TestSearch::new(text).run(&kept, &world), *expected, "{text} at run {run}");
        }
    }
    // Times are formatted and bucketed in the user's zone.
    let text = "* | eval hour=strftime(_time, \"%H:%M\") | bin _time span=1d | stats count by _time, hour";
    for zone in ["UTC", "Europe/Berlin", "Asia/Kolkata", "UTC"] {
        let zone = jiff::tz::TimeZone::get(zone).unwrap_or(jiff::tz::TimeZone::UTC);
        check(&TestSearch { zone, ..TestSearch::new(text) }, &kept, &plain, &world);
    }
}

#[test]
fn other_rules_and_other_stores_have_their_own_states() {
    let folder = tempdir().unwrap();
    let worlds = [open(&folder.path().join("a"), 100), open(&folder.path().join("b"), 100)];
    for (world, until) in worlds.iter().zip([300, 500]) {
        world.append("main", 0, until, 0);
        world.store.seal_all().unwrap();
    }
    let props = ["", "[mixed]\nKV_MODE = none\n", "[mixed]\nEXTRACT-user = words of (?<user>\\w)\n"];
    let question = TestSearch::new("* | stats count by user");
    let mut answers: Vec<SearchOutcome> = Vec::new();
    for props in props {
        let (kept, plain) = (engine(SUFFICIENT_BYTES, props), engine(0, props));
        for _ in 0..2 {
            for world in &worlds {
                let answer = check(&question, &kept, &plain, world);
                if !answers.contains(&answer) {
                    answers.push(answer);
                }
            }
        }
    }
    // In both stores, events have no field `user`, because automatic extraction is off.
    assert!(answers.len() >= 5, "{answers:?}");
}

#[test]
fn a_low_cache_limit_reduces_savings_but_not_results() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 60);
    world.append("main", 0, 900, 0);
    world.store.seal_all().unwrap();
    let plain = engine_without_cache();
    let spared = |bytes: usize| -> u64 {
        let kept = engine(bytes, "");
        let mut spared = 0;
        for _ in 0..4 {
            for text in ["* | stats count by user", "* | stats values(took) dc(path) by user", "error | stats count"] {
                let question = TestSearch::new(text);
                let (answer, pages) = question.run_counting_skipped_pages(&kept, &world);
                assert_eq!(answer, question.run(&plain, &world), "{text} with {bytes} bytes");
                spared += pages;
            }
        }
        spared
    };
    let all = spared(SUFFICIENT_BYTES);
    let some = [1, 300, 5_000, 20_000, 60_000, 100_000, 200_000].map(spared);
    assert_eq!(some[0], 0);
    assert!(all > 60 && some.iter().all(|pages| *pages <= all), "{some:?} of {all}");
}

#[test]
fn stopped_searches_leave_no_wrong_states() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 50);
    world.append("main", 0, 900, 0);
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    let question = TestSearch::new("* | stats count sum(took) by user");
    question.run(&kept, &world);
    for _ in 0..5 {
        question.stop_early(&kept, &world);
    }
    check(&question, &kept, &plain, &world);
}

#[test]
fn messages_are_repeated_on_every_run() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 10_000);
    append_keys(&world, 2_100);
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    // After another command, `spath` creates all fields, not only the two that are needed.
    let question = TestSearch::new("* | eval n=1 | spath | stats count dc(k7) values(k9)");
    for run in 1..=4 {
        let (answer, pages) = question.run_counting_skipped_pages(&kept, &world);
        assert_eq!(answer, question.run(&plain, &world), "at run {run}");
        assert_eq!((answer.messages.len(), pages), (1, 0), "{answer:?}");
    }
    // A message that depends only on the text of the search does not prevent caching.
    let question = TestSearch::new("* | stats count | abstract maxlines=1");
    let expected = check(&question, &kept, &plain, &world);
    assert_eq!(expected.messages.len(), 1);
    assert_eq!(question.run_counting_skipped_pages(&kept, &world), (expected, 1));
}

#[test]
fn large_slabs_are_cached_in_parts() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 200_000);
    for from in (0..140_000).step_by(10_000) {
        world.append_batch("main", from..from + 10_000, 0);
    }
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    for (from, until) in [(0, 140_000), (0, 70_000), (135_000, 140_000)] {
        for text in ["* | stats count by user", "* | stats latest(took) by user", "error | timechart span=1h count"] {
            check(&TestSearch::within(text, from, until), &kept, &plain, &world);
        }
    }
}

/// Deletes the events of one index whose row number is a multiple of `by`.
fn delete_every(world: &World, index: &str, by: usize) -> u64 {
    world.store.delete(&deletion_of_every(&world.store, index, by)).unwrap().values().sum()
}

/// A deletion that commits while a search reads affects neither the search's answer nor the states cached from it.
#[test]
fn deletions_during_a_search_apply_from_the_next_search() {
    let plain = engine_without_cache();
    for text in CACHED.iter().step_by(4).chain(&[SUBSEARCH, "* | table _raw", "* | dedup user | table user status"]) {
        // The first run caches nothing yet, the second caches states, the third reads some.
        for (run, at) in [(1, 0), (2, 3), (3, 0)] {
            let dir = tempdir().unwrap();
            let world = open(dir.path(), 150);
            world.append("main", 0, 600, 0);
            world.append("other", 0, 200, 0);
            world.store.seal_all().unwrap();
            let kept = engine(SUFFICIENT_BYTES, "");
            let question = TestSearch::new(text);
            let before = question.run(&plain, &world);
            for _ in 1..run {
                assert_eq!(question.run(&kept, &world), before, "{text}");
            }
            let (store, doomed) = (Arc::clone(&world.store), deletion_of_every(&world.store, "main", 3));
            world.interruption.set(at, move || drop(store.delete(&doomed).unwrap()));
            let meanwhile = question.run(&kept, &world);
            let happened = !world.interruption.clear();
            // A subsearch is a search of its own: the outer one may begin after the deletion.
            let after = question.run(&plain, &world);
            let is_after = text.starts_with('[') && meanwhile.rows == after.rows;
            assert!(meanwhile == before || is_after, "{text}: run {run}, read {at}: {meanwhile:?} is not {before:?}");
            assert!(happened || run == 3 || text.contains("nothing_is_so"), "{text}: run {run}, read {at}");
            for _ in 0..3 {
                assert_eq!(question.run(&kept, &world), after, "{text}: after run {run}, read {at}");
            }
        }
    }
}

#[test]
fn states_are_not_reused_after_a_slab_loses_events() {
    let dir = tempdir().unwrap();
    let world = open(dir.path(), 300);
    for index in ["main", "other"] {
        world.append(index, 0, 900, 0);
    }
    world.store.seal_all().unwrap();
    let (kept, plain) = (engine(SUFFICIENT_BYTES, ""), engine_without_cache());
    let questions: Vec<TestSearch> = CACHED.iter().map(|text| TestSearch::new(text)).collect();
    let first: Vec<SearchOutcome> = questions.iter().map(|question| check(question, &kept, &plain, &world)).collect();
    assert!(delete_every(&world, "main", 3) > 0);
    let second: Vec<SearchOutcome> = questions.iter().map(|question| check(question, &kept, &plain, &world)).collect();
    let changed = first.iter().zip(&second).filter(|(first, second)| first.rows != second.rows).count();
    assert!(changed * 10 > questions.len() * 8, "{changed} of {}", questions.len());
    // States of unchanged data are still cached.
    let other = TestSearch::new("index=other | stats count by user");
    let _ = check(&other, &kept, &plain, &world);
    let (_, pages) = other.run_counting_skipped_pages(&kept, &world);
    assert!(delete_every(&world, "main", 2) > 0 && pages > 0);
    assert_eq!(other.run_counting_skipped_pages(&kept, &world).1, pages);
    world.store.compact_all().unwrap();
    for question in &questions {
        let _ = check(question, &kept, &plain, &world);
    }
}
