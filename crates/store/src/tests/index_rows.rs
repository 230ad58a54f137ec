//! Rows that a start leaves in the catalog are read when something needs them, and no step overlooks them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quarry_catalog::Catalog;
use quarry_event::TimeRange;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::{all, append, deletion, expected, open, segment_texts, small, texts, try_append};
use crate::{IndexSelector, RetentionRule, Store, StoreOptions, data_dir};

/// Events of a bucket.
const EVENTS: u64 = 20;

/// A store with a large index, `far`, and a small index, `near`. A start keeps only the rows of `near` in memory.
fn filled(dir: &std::path::Path) -> StoreOptions {
    let options = StoreOptions { rows_at_start: 3, rows_of_cell: 4_096, ..small(dir) };
    let store = open(&options);
    for number in 0..4 {
        append(&store, "far", number * EVENTS, EVENTS);
        store.seal_all().unwrap();
    }
    append(&store, "near", 0, EVENTS);
    store.seal_all().unwrap();
    options
}

/// Names of the indexes with rows that are not in memory.
fn unloaded(store: &Store) -> Vec<String> {
    let state = store.shared.state();
    state
        .sealed
        .indexes()
        .filter(|index| state.sealed.unloaded_of(index).next().is_some())
        .map(|index| index.to_string())
        .collect()
}

fn of(store: &Store, index: &str, range: &TimeRange) -> Vec<String> {
    texts(&store.snapshot(&IndexSelector::new([index]), range))
}

fn rule(index: &str, max_age_secs: u64, max_stored_bytes: Option<u64>) -> RetentionRule {
    RetentionRule {
        index: index.to_owned(),
        max_age_secs,
        max_stored_bytes,
        max_raw_bytes: None,
        archives: false,
        empties_after_secs: 0,
    }
}

#[test]
fn rows_are_read_when_a_search_needs_them() {
    let dir = tempdir().unwrap();
    let options = filled(dir.path());
    let read = Store::open(StoreOptions { rows_at_start: 100, ..options.clone() }, ManualClock::shared(0)).unwrap();
    assert_eq!(unloaded(&read), [""; 0]);
    let stats = read.stats();
    drop(read);
    let store = open(&options);
    assert_eq!((unloaded(&store), store.stats()), (vec!["far".to_owned()], stats.clone()));
    assert_eq!(of(&store, "near", &TimeRange::ALL), expected("near", 0..EVENTS));
    let later = TimeRange { earliest: Some(4 * EVENTS as i64), latest: None };
    assert_eq!(of(&store, "far", &later), [""; 0]);
    let rules = [rule("far", u64::MAX, Some(u64::MAX)), rule("near", u64::MAX, None)];
    assert_eq!(store.run_retention(&rules, &|_| Ok(())).unwrap().too_old, [""; 0]);
    assert_eq!(unloaded(&store), ["far"], "nothing needed the rows so far");
    let last = TimeRange { earliest: Some(4 * EVENTS as i64 - 1), latest: None };
    assert_eq!(of(&store, "far", &last), expected("far", 0..4 * EVENTS)[3 * EVENTS as usize..]);
    assert_eq!((unloaded(&store), store.stats()), (vec![], stats));
    assert_eq!(of(&store, "far", &TimeRange::ALL), expected("far", 0..4 * EVENTS));
    drop(store);
    let store = Store::open_read_only(options, ManualClock::shared(0)).unwrap();
    assert_eq!(unloaded(&store), ["far"]);
    assert_eq!(of(&store, "far", &TimeRange::ALL), expected("far", 0..4 * EVENTS));
}

#[test]
fn a_search_reads_only_rows_of_its_times() {
    const BUCKETS: u64 = 9;
    let dir = tempdir().unwrap();
    let mut options = StoreOptions { rows_at_start: 0, rows_of_cell: 2, ..small(dir.path()) };
    options.compaction.bucket_merging = false;
    let store = open(&options);
    for number in 0..BUCKETS {
        append(&store, "far", number * EVENTS, EVENTS);
        store.seal_all().unwrap();
    }
    drop(store);
    let store = open(&options);
    let rows = || store.shared.state().sealed.rows();
    for bucket in [8, 0, 4, 5] {
        let events = bucket * EVENTS..(bucket + 1) * EVENTS;
        let range = TimeRange { earliest: Some(events.start as i64), latest: Some(events.end as i64) };
        assert_eq!((rows(), of(&store, "far", &range)), (0, expected("far", events)));
        assert!((1..=3).contains(&rows()), "{bucket}: {} rows were read", rows());
        assert_eq!(store.stats()[0].buckets, BUCKETS);
        store.shared.unload_idle(0);
    }
    append(&store, "far", BUCKETS * EVENTS, EVENTS);
    store.seal_all().unwrap();
    assert!(rows() <= 4, "a seal needs the newest rows: {} were read", rows());
    // Three buckets are too many: those that end first have to go.
    let bytes: u64 = store.buckets().iter().skip(3).map(|bucket| bucket.stored_bytes).sum();
    store.shared.unload_idle(0);
    let removed = store.run_retention(&[rule("far", u64::MAX, Some(bytes))], &|_| Ok(())).unwrap().too_many;
    assert_eq!(removed.len(), 3);
    assert!(rows() <= 6, "{} rows were read", rows());
    assert_eq!(of(&store, "far", &TimeRange::ALL), expected("far", 3 * EVENTS..(BUCKETS + 1) * EVENTS));
}

#[test]
fn a_list_reads_only_rows_of_its_indexes_and_times() {
    let dir = tempdir().unwrap();
    let options = filled(dir.path());
    let read = open(&StoreOptions { rows_at_start: 100, ..options.clone() });
    let listed = read.buckets();
    drop(read);
    assert_eq!(listed.len(), 5);
    let store = open(&options);
    let of_index = |index: &str, range: &TimeRange| store.buckets_of(&IndexSelector::new([index]), range).unwrap();
    let (later, last) = (4 * EVENTS as i64, 4 * EVENTS as i64 - 1);
    let from = |time: i64| TimeRange { earliest: Some(time), latest: None };
    assert_eq!(of_index("near", &TimeRange::ALL), listed[4..]);
    assert_eq!((of_index("far", &from(later)), of_index("near", &from(later))), (vec![], vec![]));
    assert_eq!(unloaded(&store), ["far"], "nothing needed the rows so far");
    assert_eq!(of_index("far", &from(last)), listed[3..4]);
    assert_eq!(unloaded(&store), [""; 0]);
    append(&store, "far", 4 * EVENTS, 1);
    let with_hot = of_index("far", &from(last));
    assert_eq!((with_hot.len(), &with_hot[0]), (2, &listed[3]));
    assert!(of_index("far", &from(later + 1)).is_empty());
    assert_eq!(store.buckets().len(), 6);
}

/// Each step has the same result whether rows are in memory or in the catalog.
#[test]
fn no_step_overlooks_rows_in_the_catalog() {
    type Step = fn(&Store) -> String;
    let steps: [(&str, Step); 8] = [
        ("list", |store| format!("{:?}", store.buckets())),
        ("verify", |store| format!("{:?}", store.verify())),
        ("append and seal", |store| {
            append(store, "far", 4 * EVENTS, EVENTS);
            format!("{:?}", store.seal_all())
        }),
        ("merge", |store| format!("{:?}", store.compact_all().unwrap())),
        ("remove old buckets", |store| {
            format!("{:?}", store.run_retention(&[rule("far", 0, None)], &|_| Ok(())).unwrap())
        }),
        ("remove buckets beyond the limit", |store| {
            format!("{:?}", store.run_retention(&[rule("far", u64::MAX, Some(1))], &|_| Ok(())).unwrap())
        }),
        ("remove the index", |store| format!("{:?}", store.remove_events_of("far").unwrap())),
        ("migrate", |store| format!("{:?}", store.migrate("far", None).unwrap())),
    ];
    for (name, step) in steps {
        let after = [(0, 4_096), (3, 4_096), (0, 1), (1, 1), (3, 2), (3, 3), (100, 4_096)];
        let after = after.map(|(rows_at_start, rows_of_cell)| {
            let dir = tempdir().unwrap();
            let options = StoreOptions { rows_at_start, rows_of_cell, ..filled(dir.path()) };
            let store = open(&options);
            assert_eq!(unloaded(&store).is_empty(), rows_at_start == 100);
            let done = step(&store);
            let found = (done, store.stats(), store.buckets(), texts(&all(&store)));
            drop(store);
            let store = open(&options);
            assert_eq!((&store.stats(), &texts(&all(&store))), (&found.1, &found.3), "{name}, after a restart");
            found
        });
        assert!(after.iter().all(|other| *other == after[6]), "{name}: {after:?}");
    }
}

#[test]
fn a_search_finds_each_event_once_while_rows_are_read() {
    const INDEXES: [&str; 3] = ["one", "two", "three"];
    let dir = tempdir().unwrap();
    let mut stored = 0;
    for round in 0..8 {
        let rows_of_cell = if round % 2 == 0 { 4_096 } else { 5 };
        let options = StoreOptions { rows_at_start: 0, rows_of_cell, ..small(dir.path()) };
        let store = open(&options);
        assert_eq!(unloaded(&store).is_empty(), round == 0);
        let (appended, done) = (AtomicU64::new(stored), AtomicBool::new(false));
        let search = |index: &str| {
            while !done.load(Ordering::SeqCst) {
                let before = appended.load(Ordering::SeqCst);
                let found = of(&store, index, &TimeRange::ALL);
                assert!(found.len() as u64 >= before, "round {round}: {} of {before} events of {index}", found.len());
                assert_eq!(found, expected(index, 0..found.len() as u64), "round {round}");
            }
        };
        std::thread::scope(|scope| {
            let mut threads: Vec<_> = INDEXES.map(|index| scope.spawn(move || search(index))).into();
            threads.push(scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    store.compact_all().unwrap();
                }
            }));
            threads.push(scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    store
                        .run_retention(&INDEXES.map(|index| rule(index, u64::MAX, Some(u64::MAX))), &|_| Ok(()))
                        .unwrap();
                    assert!(round == 0 || store.buckets().len() >= INDEXES.len());
                }
            }));
            threads.push(scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    store.shared.unload_idle(0);
                    std::thread::yield_now();
                }
            }));
            let failed = || threads.iter().any(|thread| thread.is_finished());
            for _ in 0..6 {
                for index in INDEXES.into_iter().filter(|_| !failed()) {
                    append(&store, index, stored, 7);
                }
                stored = appended.fetch_add(7, Ordering::SeqCst) + 7;
                store.seal_all().unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        append(&store, "one", stored, 1);
        drop(store);
        let store = open(&options);
        assert_eq!(of(&store, "one", &TimeRange::ALL), expected("one", 0..stored + 1));
        for index in &INDEXES[1..] {
            append(&store, index, stored, 1);
        }
        stored = appended.into_inner() + 1;
    }
}

#[test]
fn rows_that_nothing_needs_leave_memory_again() {
    let dir = tempdir().unwrap();
    let mut options = StoreOptions { rows_at_start: 0, ..filled(dir.path()) };
    options.compaction.bucket_merging = false;
    let store = open(&options);
    let search = || store.snapshot(&IndexSelector::new(["far"]), &TimeRange::ALL);
    let put_away = |rounds| {
        store.shared.unload_idle(rounds);
        unloaded(&store)
    };
    let stats = store.stats();
    let found = search();
    assert_eq!((put_away(0), texts(&found)), (vec!["near".to_owned()], expected("far", 0..4 * EVENTS)));
    drop(found);
    assert_eq!((put_away(0), store.stats()), (vec!["far".to_owned(), "near".to_owned()], stats.clone()));
    assert_eq!(texts(&search()), expected("far", 0..4 * EVENTS), "open buckets are closed and opened again");
    for rounds in 1..=3 {
        assert_eq!(put_away(3).contains(&"far".to_owned()), rounds == 3, "{rounds}");
    }
    drop(search());
    assert_eq!(put_away(2), ["near"]);
    drop(search());
    assert_eq!(put_away(2), ["near"], "a search begins the count again");
    let deletion = deletion::find_events(&search(), |number| number == 3);
    assert_eq!(put_away(0), ["near"], "a deletion holds the bucket");
    store.delete(&deletion).unwrap();
    drop(deletion);
    assert_eq!(put_away(0), ["near"], "a bucket with deleted events may have to be rewritten");
    store.compact_all().unwrap();
    let left = [expected("far", 0..3), expected("far", 4..4 * EVENTS)].concat();
    assert_eq!((put_away(0), texts(&search())), (vec!["far".to_owned(), "near".to_owned()], left));
}

#[test]
fn rows_that_another_program_changed_are_an_error_and_lose_nothing() {
    let dir = tempdir().unwrap();
    let options = filled(dir.path());
    let store = open(&options);
    let other = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
    other.retire(&[2]).unwrap();
    drop(other);
    let found = store.snapshot(&IndexSelector::new(["far"]), &TimeRange::ALL);
    assert_eq!((found.segments.len(), found.damaged.len()), (0, 1));
    assert!(found.damaged[0].reason.contains("rows of index far differ from the sums"), "{:?}", found.damaged);
    assert!(store.verify().iter().any(|verdict| verdict.bucket == "catalog" && verdict.result.is_err()));
    assert_eq!(store.buckets().len(), 1);
    assert!(store.messages().iter().any(|message| message.text.contains("not all buckets are listed")));
    try_append(&store, "far", 4 * EVENTS, 3).unwrap();
    append(&store, "near", EVENTS, 3);
    let error = store.seal_all().unwrap_err().to_string();
    assert!(error.contains("rows of index far differ from the sums"), "{error}");
    let found = store.snapshot(&IndexSelector::new(["far"]), &TimeRange::ALL);
    let found: Vec<String> = found.segments.iter().flat_map(|segment| segment_texts(&**segment).unwrap()).collect();
    assert_eq!(found, expected("far", 4 * EVENTS..4 * EVENTS + 3), "events stay in memory and in the log");
    drop(store);
    let store: Arc<Store> = open(&options);
    let left = [expected("far", 0..EVENTS), expected("far", 2 * EVENTS..4 * EVENTS + 3)].concat();
    assert_eq!(of(&store, "far", &TimeRange::ALL), left);
    store.seal_all().unwrap();
    assert_eq!(of(&store, "far", &TimeRange::ALL), left);
    assert_eq!(of(&store, "near", &TimeRange::ALL), expected("near", 0..EVENTS + 3));
}
