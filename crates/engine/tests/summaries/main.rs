//! Summaries of data models change no answer, whatever happens to data, definitions and files, and avoid reading
//! events.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use quarry_engine::Engine;
use tempfile::tempdir;

use crate::world::{
    PEOPLE, PROPS, SEARCHES, Summaries, World, deletion_of_every, engine, explained, open, other_model, reads_no_event,
    run_search, summarise,
};

/// More pages than any test has.
const ALL: usize = usize::MAX;

fn accelerated(summaries: &Arc<Summaries>) -> Engine {
    engine(PROPS, PEOPLE, None, Some(Arc::clone(summaries)))
}

fn plain() -> Engine {
    engine(PROPS, PEOPLE, None, None)
}

/// Compares every result with the one computed from events.
fn check(with: &Engine, without: &Engine, world: &Arc<World>, range: Option<(i64, i64)>, what: &str) {
    for text in SEARCHES {
        assert_eq!(run_search(with, world, text, range), run_search(without, world, text, range), "{what}: {text}");
    }
}

#[test]
fn summaries_give_the_same_results_without_reading_events() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 900, 0);
    world.append("other", 0, 200, 50);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    let report = summarise(&world, &with, ALL);
    assert!(report.is_complete);
    let objects: Vec<&str> = report.objects.iter().map(|object| object.object.as_str()).collect();
    assert_eq!(objects, ["Traffic", "Late", "Words"]);
    for object in &report.objects {
        assert_eq!((object.slabs_done, object.faults.len()), (object.slabs_total, 0), "{object:?}");
        assert!(object.rows > 0 && object.rows <= object.events && object.bytes > 0, "{object:?}");
    }
    assert_eq!(summarise(&world, &with, ALL).objects.iter().map(|object| object.slabs_built).sum::<u64>(), 0);
    for text in SEARCHES {
        let expected = run_search(&without, &world, text, None);
        assert!(text.contains("nobody") || !expected.rows.is_empty(), "{text}");
        world.reads();
        assert_eq!(run_search(&with, &world, text, None), expected, "{text}");
        assert_eq!(world.reads() == 0, reads_no_event(text), "{text}");
    }
    for range in [(100, 700), (333, 334), (0, 1), (-60, 40)] {
        check(&with, &without, &world, Some(range), &format!("{range:?}"));
    }
    assert_eq!(summaries.unusable.load(Ordering::Relaxed), 0);
}

#[test]
fn explanations_mention_summaries() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 450, 0);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    assert!(summarise(&world, &with, ALL).is_complete);
    world.append("main", 450, 460, 0);
    let read = |engine, text: &str| explained(engine, &world, text).events.unwrap().summaries;
    let of_some = read(&with, "| tstats count FROM datamodel=Web.Traffic").unwrap();
    assert_eq!((of_some.object.as_str(), of_some.slabs), ("Web.Traffic", 3));
    assert!(of_some.slabs_total > of_some.slabs, "hot events have no summary: {of_some:?}");
    // Searches that depend on the order of events read events.
    assert_eq!(read(&with, "| tstats list(_raw) FROM datamodel=Web.Traffic").unwrap().slabs, 0);
    assert_eq!(read(&without, "| tstats count FROM datamodel=Web.Traffic"), None);
    assert_eq!(read(&with, "* | stats count"), None);
}

#[test]
fn late_hot_sealed_merged_and_retired_events_are_counted_at_once() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 100);
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    world.append("main", 0, 300, 0);
    world.append("other", 0, 120, 0);
    world.store.seal_all().unwrap();
    summarise(&world, &with, ALL);
    world.append("main", 300, 360, 0);
    check(&with, &without, &world, None, "hot events");
    world.append("main", 0, 70, 100);
    world.append("other", 120, 240, 500);
    check(&with, &without, &world, None, "late events");
    world.store.seal_all().unwrap();
    check(&with, &without, &world, None, "sealed, not summarised");
    summarise(&world, &with, 3);
    check(&with, &without, &world, None, "some summarised");
    summarise(&world, &with, ALL);
    let before = summarise(&world, &with, ALL);
    world.store.compact_all().unwrap();
    check(&with, &without, &world, None, "merged");
    summarise(&world, &with, ALL);
    // A search of both indexes splits merged slabs where events of the other index lie between theirs.
    check(&with, &without, &world, None, "merged and summarised");
    let after = summarise(&world, &with, ALL);
    assert!(after.is_complete && after.names.is_disjoint(&before.names));
    world.store.retention(&[("main".to_owned(), 1)]).unwrap();
    check(&with, &without, &world, None, "retired");
}

#[test]
fn a_changed_definition_finds_no_summary() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 400, 0);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    summarise(&world, &accelerated(&summaries), ALL);
    let other = other_model();
    let changed = |summaries: Option<Arc<Summaries>>| engine(PROPS, PEOPLE, Some(&other), summaries);
    check(&changed(Some(Arc::clone(&summaries))), &changed(None), &world, None, "another model");
    // A summary depends on settings and tables only through the text of `configuration`, so it is changed here by hand.
    *summaries.configuration.lock().unwrap() = "another".to_owned();
    let props = PROPS.replace("user.\"-\"", "user.\"+\"");
    let people = PEOPLE.replace("red", "green");
    let changed = |summaries: Option<Arc<Summaries>>| engine(&props, &people, None, summaries);
    check(&changed(Some(Arc::clone(&summaries))), &changed(None), &world, None, "other rules and tables");
    summarise(&world, &changed(Some(Arc::clone(&summaries))), ALL);
    check(&changed(Some(Arc::clone(&summaries))), &changed(None), &world, None, "summarised anew");
}

#[test]
fn damage_is_noticed_and_events_are_read() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 300, 0);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    summarise(&world, &with, ALL);
    let text = "| tstats count sum(Traffic.took) values(Traffic.parts) AS p FROM datamodel=Web.Traffic BY Traffic.user _time span=1m";
    let expected = run_search(&without, &world, text, None);
    let whole = summaries.files.lock().unwrap().clone();
    let longest = whole.values().map(Vec::len).max().unwrap();
    for at in (0..longest).step_by(longest / 60 + 1).chain(longest.saturating_sub(40)..longest) {
        for (name, bytes) in &whole {
            let mut bytes = bytes.clone();
            let place = at % bytes.len();
            bytes[place] ^= 0x41;
            summaries.files.lock().unwrap().insert(name.clone(), bytes);
        }
        assert_eq!(run_search(&with, &world, text, None), expected, "byte {at}");
    }
    assert!(summaries.unusable.load(Ordering::Relaxed) > 0);
    for length in (0..longest).step_by(longest / 40 + 1) {
        let cut = |(name, bytes): (&String, &Vec<u8>)| (name.clone(), bytes[..length.min(bytes.len())].to_vec());
        *summaries.files.lock().unwrap() = whole.iter().map(cut).collect();
        assert_eq!(run_search(&with, &world, text, None), expected, "cut at {length}");
    }
    // A summary under the name of another slab is not used.
    let names: Vec<String> = whole.keys().cloned().collect();
    let turned = whole.values().cloned().rev();
    *summaries.files.lock().unwrap() = names.into_iter().zip(turned).collect();
    check(&with, &without, &world, None, "names exchanged");
    // Damaged summaries are rebuilt.
    let made = summarise(&world, &with, ALL);
    assert!(made.objects.iter().all(|object| object.slabs_done == object.slabs_total));
    assert_eq!(*summaries.files.lock().unwrap(), whole);
}

#[test]
fn failed_writes_are_reported_and_retried() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 300, 0);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    summaries.full.store(true, Ordering::Relaxed);
    let report = summarise(&world, &with, ALL);
    assert!(!report.is_complete && report.objects[0].faults[0].contains("the disk is full"), "{report:?}");
    check(&with, &without, &world, None, "a full disk");
    summaries.full.store(false, Ordering::Relaxed);
    assert!(summarise(&world, &with, ALL).is_complete);
    check(&with, &without, &world, None, "room again");
}

#[test]
fn summaries_only_reads_what_is_summarised() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 450, 0);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    let only = "| tstats summariesonly=true count FROM datamodel=Web.Traffic";
    let all = "| tstats count FROM datamodel=Web.Traffic";
    assert_eq!(run_search(&with, &world, only, None).rows, ["count=0"]);
    summarise(&world, &with, ALL);
    let expected = run_search(&without, &world, all, None);
    assert_eq!(run_search(&with, &world, only, None), expected);
    world.append("main", 450, 500, 0);
    assert_eq!(run_search(&with, &world, only, None), expected, "hot events are not summarised");
    assert_ne!(run_search(&with, &world, all, None), expected);
    // Fields that a summary lacks are read from events, but only of summarised slabs.
    let term = "| tstats summariesonly=true count FROM datamodel=Web.Traffic WHERE TERM(user=bob)";
    let sealed = run_search(&with, &world, term, Some((0, 450)));
    assert_eq!(sealed, run_search(&with, &world, term, None));
    assert_eq!(
        sealed.rows,
        run_search(&without, &world, &term.replace("summariesonly=true ", ""), Some((0, 450))).rows
    );
    // After a merge, a merged slab without a summary is read from events, so that the answer does not change.
    world.store.compact_all().unwrap();
    assert_eq!(run_search(&with, &world, only, None), expected);
    let reported = run_search(&without, &world, only, None);
    assert_eq!(reported.rows, ["count=0"]);
    assert!(reported.messages[0].contains("data model Web is not accelerated"), "{reported:?}");
    assert!(reported.messages[0].contains("acceleration=true"), "{reported:?}");
}

#[test]
fn pivot_gives_the_same_results_as_tstats_of_summaries() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 900, 0);
    world.append("other", 0, 200, 50);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    assert!(summarise(&world, &with, ALL).is_complete);
    for (pivot, tstats) in [
        ("count(Traffic) AS n", "count AS n FROM datamodel=Web.Traffic"),
        (
            "count(Traffic) AS n avg(third) AS a SPLITROW user",
            "count AS n avg(Traffic.third) AS a FROM datamodel=Web.Traffic BY Traffic.user",
        ),
        (
            "dc(path) AS n SPLITROW team SPLITROW slow",
            "dc(Traffic.path) AS n FROM datamodel=Web.Traffic BY Traffic.team Traffic.slow",
        ),
        (
            "count(Traffic) AS n SPLITROW leaf FILTER user is BOB FILTER took > 10",
            "count AS n FROM datamodel=Web.Traffic WHERE Traffic.user=bob Traffic.took>10 BY Traffic.leaf",
        ),
        ("count(Traffic) AS n SPLITROW parts", "count AS n FROM datamodel=Web.Traffic BY Traffic.parts"),
    ] {
        let pivot = format!("| pivot Web Traffic {pivot}");
        let tstats = format!("| tstats summariesonly=true {tstats} | rename Traffic.* AS *");
        let expected = run_search(&without, &world, &pivot, None);
        assert!(!expected.rows.is_empty(), "{pivot}");
        assert_eq!(run_search(&with, &world, &pivot, None), expected, "{pivot}");
        let summarised = run_search(&with, &world, &tstats, None);
        let sorted = |rows: &[String]| {
            let mut rows: Vec<Vec<String>> = rows
                .iter()
                .map(|row| {
                    let mut cells: Vec<String> = row.split_whitespace().map(str::to_owned).collect();
                    cells.sort();
                    cells
                })
                .collect();
            rows.sort();
            rows
        };
        assert_eq!(sorted(&summarised.rows), sorted(&expected.rows), "{pivot}");
    }
    for object in ["Failed", "Broken", "Late"] {
        let pivot = format!("| pivot Web {object} count({object}) AS n");
        let tstats = format!("| tstats summariesonly=true count AS n FROM datamodel=Web.{object}");
        assert_eq!(
            run_search(&with, &world, &pivot, None).rows,
            run_search(&with, &world, &tstats, None).rows,
            "{object}"
        );
    }
}

/// The same search with `summariesonly=true`.
fn only(text: &str) -> String {
    text.replace("| tstats ", "| tstats summariesonly=true ")
}

#[test]
fn deletions_between_searches_apply_with_and_without_summaries() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 450, 0);
    world.append("other", 0, 200, 0);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let (with, without) = (accelerated(&summaries), plain());
    summarise(&world, &with, ALL);
    let check_both = |what: &str| -> Vec<_> {
        check(&with, &without, &world, None, what);
        // Every event that was not deleted is in a summary.
        let each = SEARCHES.iter().map(|text| {
            let expected = run_search(&without, &world, text, None);
            assert_eq!(run_search(&with, &world, &only(text), None), expected, "{what}: {text} of summaries alone");
            expected
        });
        each.collect()
    };
    let before = check_both("before");
    let doomed = deletion_of_every(&world.store, "main", 3);
    assert!(world.store.delete(&doomed).unwrap().values().sum::<u64>() > 0);
    let after = check_both("deleted");
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!(changed * 10 > SEARCHES.len() * 8, "{changed} of {}", SEARCHES.len());
    summarise(&world, &with, ALL);
    assert_eq!(check_both("summarised anew"), after);
    world.store.compact_all().unwrap();
    assert_eq!(check_both("merged").len(), after.len());
}

/// The deletion commits when the search has its snapshot and reads summaries or events.
#[test]
fn deletions_during_a_search_apply_from_the_next_search() {
    for (at, texts) in (0..3).flat_map(|at| SEARCHES.chunks(4).map(move |texts| (at, &texts[..1]))) {
        let folder = tempdir().unwrap();
        let world = open(folder.path(), 150);
        world.append("main", 0, 450, 0);
        world.append("other", 0, 200, 0);
        world.store.seal_all().unwrap();
        let summaries = Arc::new(Summaries::default());
        let (with, without) = (accelerated(&summaries), plain());
        summarise(&world, &with, ALL);
        for text in texts.iter().flat_map(|text| [(*text).to_owned(), only(text)]) {
            let before = run_search(&with, &world, &text, None);
            // Events are deleted during a read of a summary or of events, because some searches read no summaries.
            // Events already deleted are not deleted again.
            for reads in [&summaries.interruption, &*world.interruption] {
                let (store, doomed) = (Arc::clone(&world.store), deletion_of_every(&world.store, "main", 5));
                reads.set(at, move || drop(store.delete(&doomed).unwrap()));
            }
            let meanwhile = run_search(&with, &world, &text, None);
            let left = [summaries.interruption.clear(), world.interruption.clear()];
            assert!(left.contains(&false), "{text}: nothing was deleted at read {at}");
            let after = run_search(&without, &world, &text.replace("summariesonly=true ", ""), None);
            // A subsearch is a search of its own: the outer one may begin after the deletion.
            let is_after = text.contains("[search") && meanwhile == after;
            assert!(meanwhile == before || is_after, "{text}: read {at}: {meanwhile:?} is not {before:?}");
            assert_eq!(run_search(&with, &world, &text, None), after, "{text}: after read {at}");
            summarise(&world, &with, ALL);
            assert_eq!(run_search(&with, &world, &text, None), after, "{text}: summarised after read {at}");
        }
    }
}

#[test]
fn time_dependent_values_are_not_summarised() {
    let folder = tempdir().unwrap();
    let world = open(folder.path(), 150);
    world.append("main", 0, 200, 0);
    world.store.seal_all().unwrap();
    let summaries = Arc::new(Summaries::default());
    let props = format!("{PROPS}EVAL-age = now()-_time\n");
    let report = summarise(&world, &engine(&props, PEOPLE, None, Some(Arc::clone(&summaries))), ALL);
    assert!(report.objects[0].faults[0].contains("EVAL-age of sourcetype mixed"), "{report:?}");
    let model = other_model().replace("took/3", "now()-_time");
    let with = engine(PROPS, PEOPLE, Some(&model), Some(Arc::clone(&summaries)));
    let report = summarise(&world, &with, ALL);
    assert!(report.objects[0].faults[0].contains("now()"), "{report:?}");
    check(&with, &engine(PROPS, PEOPLE, Some(&model), None), &world, None, "a model with now()");
}

/// Operation on a store.
#[derive(Clone, Debug)]
enum Step {
    Append { other: bool, count: u64, late: i64 },
    Seal,
    Compact,
    Summarise(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append =
        (any::<bool>(), 1..160_u64, 0..400_i64).prop_map(|(other, count, late)| Step::Append { other, count, late });
    let step = prop_oneof![
        4 => append,
        2 => Just(Step::Seal),
        1 => Just(Step::Compact),
        2 => (1..12_usize).prop_map(Step::Summarise),
        1 => Just(Step::Summarise(ALL)),
    ];
    prop::collection::vec(step, 3..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn any_store_history_gives_the_same_results_as_events(steps in steps(), from in 0..300_i64, length in 1..600_i64) {
        let folder = tempdir().unwrap();
        let world = open(folder.path(), 100);
        let summaries = Arc::new(Summaries::default());
        let (with, without) = (accelerated(&summaries), plain());
        let mut at = 0;
        for step in &steps {
            match step {
                Step::Append { other, count, late } => {
                    world.append(if *other { "other" } else { "main" }, at, at + count, *late);
                    at += count;
                }
                Step::Seal => world.store.seal_all().unwrap(),
                Step::Compact => drop(world.store.compact_all().unwrap()),
                Step::Summarise(pages) => drop(summarise(&world, &with, *pages)),
            }
        }
        check(&with, &without, &world, None, &format!("{steps:?}"));
        check(&with, &without, &world, Some((from, from + length)), &format!("{steps:?}"));
    }
}
