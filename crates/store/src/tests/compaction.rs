//! For every search at any time, merged buckets contain the events of their inputs in the same order.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_event::{AnyColumn, FieldRef, PageColumns, TermQuery, TimeRange};
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::{all, append, expected, open, segment_texts, small, texts};
use crate::hot_slabs::HotKey;
use crate::state::Progress;
use crate::tests::sample::batch;
use crate::{AppendRequest, CompactionReport, IndexSelector, ListingState, Snapshot, Store, StoreError, StoreOptions};

/// Seals `buckets` buckets of `events` events each, alternating between the given indexes.
pub(super) fn seal(store: &Store, indexes: &[&str], buckets: u64, events: u64) {
    for bucket in 0..buckets {
        let index = indexes[bucket as usize % indexes.len()];
        append(store, index, bucket / indexes.len() as u64 * events, events);
        store.seal_all().unwrap();
    }
}

pub(super) fn of_index(store: &Store, index: &str) -> Snapshot {
    store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL)
}

pub(super) fn objects(store: &Store) -> Vec<String> {
    store.shared.readers.blobs().list().unwrap()
}

/// Texts in the order of a newest-first search.
fn newest_first(snapshot: &Snapshot) -> Vec<String> {
    let mut events = Vec::new();
    for segment in &snapshot.segments {
        for at in 0..segment.pages().len() {
            let page = segment.read_page(at, PageColumns::ALL).unwrap();
            for row in 0..page.len() {
                let arrival = segment.arrival(page.first_row + row as u64);
                // Many events have the same time.
                events.push((page.time[row] / 10, arrival, String::from_utf8(page.raw(row).to_vec()).unwrap()));
            }
        }
    }
    events.sort_by_key(|event| std::cmp::Reverse((event.0, event.1)));
    events.into_iter().map(|event| event.2).collect()
}

#[test]
fn merges_preserve_events_and_their_order() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    let indexes = ["main", "other", "third"];
    seal(&store, &indexes, 15, 7);
    append(&store, "main", 35, 3);
    let orders = |store: &Store| (texts(&all(store)), newest_first(&all(store)));
    let before = orders(&store);
    let stored: u64 = store.buckets().iter().map(|bucket| bucket.stored_bytes).sum();
    let report = store.compact_all().unwrap();
    assert_eq!((report.buckets_before, report.buckets_after, report.merges.len()), (15, 3, 3));
    assert_eq!(report.merges[0].inputs, ["main~1", "main~4", "main~7", "main~10", "main~13"]);
    assert_eq!((report.merges[0].bucket.as_str(), report.merges[0].events), ("main~17", 35));
    assert_eq!(report.bytes_before, stored);
    assert!(report.bytes_after < report.bytes_before);
    assert_eq!(report.skipped, []);
    assert_eq!(orders(&store), before);
    for index in indexes {
        let snapshot = of_index(&store, index);
        assert_eq!(snapshot.segments[0].pages()[0].events, 35, "one index needs no cut");
        assert_eq!(texts(&snapshot), expected(index, 0..if index == "main" { 38 } else { 35 }));
    }
    let levels: Vec<(u32, ListingState)> = store.buckets().iter().map(|bucket| (bucket.level, bucket.state)).collect();
    let sealed = (1, ListingState::Sealed);
    assert_eq!(levels, [(0, ListingState::Hot), sealed, sealed, sealed]);
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    assert_eq!((store.messages(), objects(&store).len()), (vec![], 6));
    drop(store);
    let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
    assert_eq!(orders(&reader), before);
    assert!(matches!(reader.compact_all(), Err(StoreError::ReadOnly)));
    drop(reader);
    let store = open(&options);
    assert_eq!(orders(&store), before);
    append(&store, "main", 38, 2);
    store.seal_all().unwrap();
    assert_eq!(texts(&of_index(&store, "main")), expected("main", 0..40));
    store.close();
    assert!(matches!(store.compact_all(), Err(StoreError::Closed)));
}

#[test]
fn merged_buckets_are_no_larger_than_their_inputs() {
    // Ids that hardly repeat, so that a merge saves no space, while locators take some.
    let text = |at: u64| {
        let mixed =
            |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        match at % 3 {
            0 => format!(
                "I1121 00:00:00.{:06} id=\"{:016x}{:016x}\" n={}",
                at % 1_000_000,
                mixed(at),
                mixed(at * 3),
                at % 9
            ),
            1 => format!(
                "I1121 00:00:00.{:06} uid=\"containerd://{:016x}{:08x}\"",
                mixed(at) % 1_000_000,
                mixed(at),
                at as u32
            ),
            _ => {
                format!("I1121 00:00:00.{:06} gone {:x}-{:x}", mixed(at) % 1_000_000, mixed(at) >> 40, mixed(at) as u16)
            }
        }
    };
    let dir = tempdir().unwrap();
    let store = open(&StoreOptions { slab_events: 6_000, log_segment_bytes: 1 << 20, ..small(dir.path()) });
    for bucket in 0..4 {
        let mut events = batch("main", bucket * 6_000, 1);
        (events.raw, events.ends, events.time, events.meta) = Default::default();
        (bucket * 6_000..(bucket + 1) * 6_000).for_each(|at| events.push(text(at).as_bytes(), at as i64, 0));
        store.append(AppendRequest { batch: events, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
    }
    let before = newest_first(&all(&store));
    let report = store.compact_all().unwrap();
    assert_eq!(report.merges.len(), 1, "{report:?}");
    assert!(report.bytes_after <= report.bytes_before, "{report:?}");
    assert_eq!(newest_first(&all(&store)), before);
}

/// Sentences of few words in an order that no template describes.
fn sentence(at: u64) -> String {
    const WORDS: [&str; 8] = ["the", "store", "keeps", "what", "a", "log", "of", "yesterday"];
    let mixed = |word: u64| ((at * 61 + word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 45) as usize;
    let words = 40 + mixed(60) % 20;
    (0..words as u64).map(|word| WORDS[mixed(word) % WORDS.len()]).collect::<Vec<_>>().join(" ")
}

/// Digits that a merge compresses hardly better than sealing does.
fn digits(at: u64) -> String {
    (0..20).map(|part| format!("{:016x}", (at * 20 + part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

#[test]
fn single_buckets_are_rewritten_if_they_become_smaller() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { slab_events: 6_000, log_segment_bytes: 1 << 20, ..small(dir.path()) };
    let store = open(&options);
    let add = |index: &str, events: u64, text: fn(u64) -> String| {
        let mut batch = batch(index, 0, 1);
        (batch.raw, batch.ends, batch.time, batch.meta) = Default::default();
        (0..events).for_each(|at| batch.push(text(at).as_bytes(), at as i64, 0));
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
    };
    add("prose", 6_000, sentence);
    add("digits", 5_000, digits);
    add("short", 100, sentence);
    let levels = |store: &Store| {
        let listing = store.buckets();
        let level = |index: &str| listing.iter().find(|bucket| bucket.index == index).unwrap().level;
        ["prose", "digits", "short"].map(level)
    };
    assert_eq!(levels(&store), [0, 0, 0]);
    let before = newest_first(&all(&store));
    let report = store.compact_all().unwrap();
    assert_eq!((report.merges.len(), report.skipped.len(), levels(&store)), (1, 0, [1, 0, 0]), "{report:?}");
    let merge = &report.merges[0];
    assert!(merge.bytes_after <= merge.bytes_before - merge.bytes_before / 32, "{merge:?}");
    assert_eq!(newest_first(&all(&store)), before);
    assert_eq!(store.compact_all().unwrap().merges, []);
    assert_eq!(store.messages(), []);
}

#[test]
fn repeated_merges_are_idempotent_and_later_buckets_join() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    seal(&store, &["main", "other"], 8, 6);
    store.compact_all().unwrap();
    let (buckets, before) = (store.buckets(), objects(&store));
    let again = store.compact_all().unwrap();
    assert_eq!(again, CompactionReport { merges: vec![], ..again.clone() });
    assert_eq!((store.buckets(), objects(&store)), (buckets, before));
    append(&store, "other", 24, 6);
    append(&store, "main", 24, 6);
    store.seal_all().unwrap();
    let before = texts(&all(&store));
    assert_eq!(store.compact_all().unwrap().merges.len(), 2);
    assert_eq!(store.buckets().iter().map(|bucket| bucket.level).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(texts(&all(&store)), before);
}

#[test]
fn fields_terms_and_times_are_found_in_merged_buckets() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    for first in [0, 10, 20, 30] {
        let mut events = batch("main", first, 10);
        events.fields.push(3, "user", &format!("ann{first}"));
        store.append(AppendRequest { batch: events, checkpoint: None }).unwrap().wait().unwrap();
        append(&store, "other", first, 10);
        store.seal_all().unwrap();
    }
    store.compact_all().unwrap();
    let fields = |snapshot: &Snapshot| -> Vec<(u64, String)> {
        let read = |segment: &Arc<dyn crate::Segment>| segment.read_page(0, PageColumns::ALL).unwrap();
        let pages = snapshot.segments.iter().map(read);
        let field = |page: &quarry_event::Page, field: FieldRef<'_>| {
            (page.first_row + u64::from(field.row), field.value.to_string())
        };
        pages.flat_map(|page| page.fields.iter().map(|it| field(&page, it)).collect::<Vec<_>>()).collect()
    };
    let found = [(3, "ann0"), (13, "ann10"), (23, "ann20"), (33, "ann30")].map(|(row, name)| (row, name.to_owned()));
    assert_eq!(fields(&of_index(&store, "main")), found);
    assert_eq!(fields(&all(&store)), found);
    for snapshot in [of_index(&store, "main"), all(&store)] {
        for (word, is_there) in [("number", true), ("absent", false)] {
            for segment in &snapshot.segments {
                let pages = segment.candidate_pages(&TermQuery::for_keyword(word), &AnyColumn).unwrap();
                assert_eq!(pages.contains(0), is_there);
                assert!(!pages.contains(1));
            }
        }
    }
    let some = TimeRange { earliest: Some(12), latest: Some(13) };
    let snapshot = store.snapshot(&IndexSelector::new(["main"]), &some);
    assert_eq!((snapshot.segments.len(), snapshot.segments[0].pages()[0].time_max), (1, 39));
    let late = TimeRange { earliest: Some(40), latest: None };
    assert_eq!(store.snapshot(&IndexSelector::all(), &late).segments.len(), 0);
}

#[test]
fn merges_fill_pages_across_buckets() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    options.slab_events = 10_000;
    let store = open(&options);
    seal(&store, &["main", "other"], 6, 3_000);
    let before = texts(&all(&store));
    store.compact_all().unwrap();
    let pages = |snapshot: &Snapshot| -> Vec<Vec<u32>> {
        snapshot.segments.iter().map(|it| it.pages().iter().map(|page| page.events).collect()).collect()
    };
    assert_eq!(pages(&of_index(&store, "main")), [[4_096, 4_096, 808]]);
    assert_eq!(pages(&all(&store))[2], [1_096, 1_904], "a part of a bucket that lies in two pages");
    assert_eq!(texts(&all(&store)), before);
}

#[test]
fn running_searches_keep_reading_the_merged_inputs() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    (options.open_buckets_max, options.page_cache_bytes) = (1, 0);
    let store = open(&options);
    seal(&store, &["main"], 4, 5);
    let reading = all(&store);
    store.compact_all().unwrap();
    assert_eq!(objects(&store).len(), 10);
    let after = all(&store);
    assert_eq!((reading.segments.len(), after.segments.len()), (4, 1));
    for _ in 0..2 {
        assert_eq!(texts(&reading), expected("main", 0..20));
        assert_eq!(texts(&after), expected("main", 0..20));
        store.retention(&[]).unwrap();
    }
    drop(reading);
    store.retention(&[]).unwrap();
    assert_eq!(objects(&store).len(), 2);
    assert_eq!(texts(&after), expected("main", 0..20));
}

#[test]
fn merged_buckets_expire_with_their_newest_event() {
    let dir = tempdir().unwrap();
    let clock = ManualClock::shared(0);
    let options = small(dir.path());
    let store = Store::open(options.clone(), clock.clone()).unwrap();
    seal(&store, &["main"], 4, 5);
    append(&store, "main", 90 * 86_400_000_000_000, 2);
    store.seal_all().unwrap();
    store.compact_all().unwrap();
    assert_eq!(store.buckets().len(), 2, "the last one is too far away in time");
    clock.advance_ns(30_000_000_000);
    let ages = [("main".to_owned(), 29)];
    assert_eq!(store.retention(&[("main".to_owned(), 31)]).unwrap(), Vec::<String>::new());
    assert_eq!(store.retention(&ages).unwrap(), ["main~6"]);
    assert_eq!((texts(&all(&store)).len(), objects(&store).len()), (2, 2));
    append(&store, "main", 100, 3);
    drop(store);
    assert_eq!(texts(&all(&open(&options))).len(), 5);
}

#[test]
fn log_events_are_not_duplicated_after_merge_and_restart() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    for round in 0..5 {
        append(&store, "slow", round, 1);
        seal_full(&store, round * 60..round * 60 + 60);
        store.compact_all().unwrap();
        let seen = texts(&of_index(&store, "main"));
        assert_eq!(seen, expected("main", 0..round * 60 + 60));
    }
    let before = texts(&all(&store));
    let files = fs::read_dir(dir.path().join("wal")).unwrap().count();
    assert!(files > 2, "a slab that is never closed also keeps the log of the others");
    drop(store);
    for _ in 0..2 {
        let store = open(&options);
        assert_eq!(texts(&all(&store)), before);
        store.compact_all().unwrap();
        assert_eq!(texts(&all(&store)), before);
    }
}

/// Appends events that fill slabs of index `main`, and waits until they are sealed; other slabs stay hot.
fn seal_full(store: &Store, numbers: std::ops::Range<u64>) {
    for first in numbers.step_by(20) {
        append(store, "main", first, 20);
    }
    let mut state = store.shared.state();
    while !state.closed.is_empty() {
        state = crate::sync::wait(&store.shared.seal_done, state);
    }
}

#[test]
fn merged_bucket_numbers_do_not_affect_log_replay() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    seal(&store, &["main"], 3, 5);
    store.compact_all().unwrap();
    let state = store.shared.state();
    let merged = state.sealed.values().next().unwrap().row.clone();
    assert_eq!((merged.number, merged.level), (4, 1));
    assert_eq!(state.sealed_through("main", &[3].into()), 3);
}

#[test]
fn background_merges_run_concurrently_with_other_work() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    options.compaction.bucket_merging = true;
    // The test clock does not advance.
    options.compaction.quiet_secs = 0;
    options.compaction.cpu_percent = 100;
    options.compaction.bytes_per_second = 0;
    let store = open(&options);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers = ["a", "b", "c"].map(|index| {
            let store: &Arc<Store> = &store;
            scope.spawn(move || {
                for first in (0..400).step_by(5) {
                    append(store, index, first, 5);
                    assert_eq!(texts(&of_index(store, index)), expected(index, 0..first + 5));
                }
            })
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let seen = all(&store);
                let mut found: Vec<String> = Vec::new();
                for segment in &seen.segments {
                    found.extend(segment_texts(&**segment).unwrap());
                }
                let count = found.len();
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len(), count, "each event once");
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    store.seal_all().unwrap();
    store.compact_all().unwrap();
    assert_eq!(store.messages(), []);
    let before = texts(&all(&store));
    assert_eq!((before.len(), store.buckets().len()), (1_200, 3));
    assert!(store.buckets().iter().all(|bucket| bucket.level > 0));
    drop(store);
    let store = open(&options);
    assert_eq!(texts(&all(&store)), before);
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
}

#[test]
fn background_merges_are_throttled_unless_a_caller_waits() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    let store = open(&options);
    seal(&store, &["main"], 4, 5);
    drop(store);
    options.compaction.bucket_merging = true;
    // The test clock does not advance.
    options.compaction.quiet_secs = 0;
    // With this budget, reading one page takes hours.
    options.compaction.bytes_per_second = 1;
    let store = open(&options);
    store.compact_all().unwrap();
    assert_eq!((store.buckets().len(), texts(&all(&store)).len()), (1, 20));
    drop(store);
    let store = open(&options);
    seal(&store, &["other"], 4, 5);
    drop(store);
}

#[test]
fn background_merges_wait_for_pending_seals() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    seal(&store, &["main"], 3, 5);
    let is_due = |store: &Store| crate::compaction::is_due(&store.shared, &mut store.shared.state());
    assert!(!is_due(&store), "too few");
    append(&store, "main", 15, 5);
    store.seal_all().unwrap();
    assert!(is_due(&store));
    append(&store, "other", 0, 5);
    let mut state = store.shared.state();
    state.close_hot(&HotKey { index: "other".into(), set: 0 });
    for (progress, due) in [
        (Progress::Waiting, false),
        (Progress::Failed, false),
        (Progress::Sealing, false),
        (Progress::Quarantined("it differs".into()), true),
    ] {
        state.closed.values_mut().for_each(|slab| slab.progress = progress.clone());
        assert_eq!(crate::compaction::is_due(&store.shared, &mut state), due, "{progress:?}");
    }
}
