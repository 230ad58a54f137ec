//! Deleted events are gone for every search that begins later, regardless of merges, restarts and failures.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use proptest::prelude::*;
use quarry_blob::DirectoryStore;
use quarry_bucket::{BucketEncoder, BucketError, SlabSource};
use quarry_catalog::Catalog;
use quarry_event::{PageColumns, TimeRange};
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::faults::{Machine, MachineBlobs};
use super::{all, append, expected, open, small, texts, try_append};
use crate::tests::sample;
use crate::{Deletion, IndexSelector, RetentionRule, Snapshot, Store, StoreError, StoreOptions, data_dir};

/// The sealed events of a snapshot that `is_wanted` selects by number.
pub(super) fn find_events(snapshot: &Snapshot, is_wanted: impl Fn(u64) -> bool) -> Deletion {
    let mut deletion = Deletion::default();
    for segment in snapshot.segments.iter().filter(|segment| segment.stored().is_some()) {
        for at in 0..segment.pages().len() {
            let page = segment.read_page(at, PageColumns::ALL).unwrap();
            let rows = (0..page.len() as u32).filter(|row| is_wanted(page.time[*row as usize] as u64));
            assert!(segment.add_to_deletion(at, &rows.collect::<Vec<_>>(), &mut deletion));
        }
    }
    deletion
}

fn of_index(store: &Store, index: &str) -> Snapshot {
    store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL)
}

pub(super) fn remaining_texts(
    index: &str,
    numbers: std::ops::Range<u64>,
    is_deleted: impl Fn(u64) -> bool,
) -> Vec<String> {
    numbers.filter(|number| !is_deleted(*number)).map(|number| sample::text(index, number)).collect()
}

fn counts(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter().map(|(index, count)| ((*index).to_owned(), *count)).collect()
}

#[test]
fn deletions_affect_only_later_snapshots() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    append(&store, "main", 0, 10);
    let hot = all(&store);
    assert!(!hot.segments[0].add_to_deletion(0, &[0], &mut Deletion::default()), "the slab is not sealed");
    append(&store, "other", 0, 10);
    for (index, events) in [("main", 50), ("other", 30)] {
        (10..events).step_by(10).for_each(|first| append(&store, index, first, 10));
    }
    store.seal_selected(&IndexSelector::new(["main"])).unwrap();
    store.seal_selected(&IndexSelector::all()).unwrap();
    let before = all(&store);
    let known: Vec<_> = before.segments.iter().map(|segment| segment.identity().unwrap()).collect();
    let is_deleted = |number: u64| number % 7 == 3 && number < 20 || (40..45).contains(&number);
    let deletion = find_events(&before, is_deleted);
    assert_eq!((deletion.events(), deletion.bytes() > 0), (11, true));
    assert_eq!(store.delete(&deletion).unwrap(), counts(&[("main", 8), ("other", 3)]));
    assert_eq!(store.delete(&deletion).unwrap(), counts(&[]), "the events are deleted already");
    let check = |store: &Store| {
        assert_eq!(texts(&of_index(store, "main")), remaining_texts("main", 0..50, is_deleted));
        assert_eq!(texts(&of_index(store, "other")), remaining_texts("other", 0..30, is_deleted));
        let stats = store.stats();
        let stats: Vec<_> = stats.iter().map(|it| (it.index.as_str(), it.events, it.deleted)).collect();
        assert_eq!(stats, [("main", 42, 8), ("other", 27, 3)]);
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    };
    check(&store);
    let seen: usize = before.segments.iter().map(|segment| super::segment_texts(&**segment).unwrap().len()).sum();
    assert_eq!(seen, 80, "a search that had begun sees what was there");
    let now: Vec<_> = all(&store).segments.iter().map(|segment| segment.identity().unwrap()).collect();
    let changed = known.iter().filter(|slab| !now.contains(slab)).count();
    assert_eq!((changed, now.len()), (3, known.len()), "only slabs that lost events have new identities");
    drop((before, store));
    check(&open(&small(dir.path())));
    check(&Store::open_read_only(small(dir.path()), ManualClock::shared(0)).unwrap());
    let reader = Store::open_read_only(small(dir.path()), ManualClock::shared(0)).unwrap();
    assert!(matches!(reader.delete(&deletion), Err(StoreError::ReadOnly)));
}

#[test]
fn fully_deleted_buckets_are_removed_at_once() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    append(&store, "main", 0, 20);
    append(&store, "main", 20, 20);
    store.seal_all().unwrap();
    drop(store.delete(&find_events(&all(&store), |number| number == 25)).unwrap());
    assert_eq!(store.delete(&find_events(&all(&store), |number| number >= 20)).unwrap(), counts(&[("main", 19)]));
    assert_eq!((store.buckets().len(), texts(&all(&store))), (1, expected("main", 0..20)));
    assert_eq!(store.shared.readers.blobs().list().unwrap().len(), 4, "a search may still read them");
    store.retention(&[]).unwrap();
    assert_eq!(store.shared.readers.blobs().list().unwrap().len(), 2);
    assert_eq!(store.shared.catalog.deletions().unwrap(), []);
    drop(store);
    let store = open(&small(dir.path()));
    assert_eq!(texts(&all(&store)), expected("main", 0..20));
    assert_eq!(store.delete(&find_events(&all(&store), |_| true)).unwrap(), counts(&[("main", 20)]));
    append(&store, "main", 100, 3);
    assert_eq!(texts(&all(&store)), expected("main", 100..103));
}

#[test]
fn merges_drop_deleted_events() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    for first in (0..60).step_by(10) {
        append(&store, "main", first, 10);
        append(&store, "other", first, 10);
        store.seal_all().unwrap();
    }
    // The second and the last bucket of each index become empty; of the third, only the end remains.
    let is_deleted = |number: u64| (8..25).contains(&number) || number % 10 == 4 || number >= 50;
    drop(store.delete(&find_events(&all(&store), is_deleted)).unwrap());
    let check = |store: &Store| {
        for index in ["main", "other"] {
            assert_eq!(texts(&of_index(store, index)), remaining_texts(index, 0..60, is_deleted));
        }
        // In a search of both indexes, buckets are split where buckets of the other index arrived in between.
        let together = texts(&all(store));
        let of_index =
            |index: &str| together.iter().filter(|text| text.starts_with(index)).cloned().collect::<Vec<_>>();
        assert_eq!(of_index("main"), remaining_texts("main", 0..60, is_deleted));
        assert_eq!(of_index("other"), remaining_texts("other", 0..60, is_deleted));
        assert_eq!(together.iter().position(|text| text.starts_with("other number=0 ")), Some(7));
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()), "{:?}", store.verify());
    };
    check(&store);
    store.compact_all().unwrap();
    check(&store);
    let stats = store.stats();
    assert!(stats.iter().all(|stats| (stats.buckets, stats.deleted) == (1, 0)), "{stats:?}");
    assert_eq!(store.shared.catalog.deletions().unwrap(), []);
    // A single bucket is rewritten only on request, unless many of its events were deleted.
    let also = |number: u64| number == 30;
    drop(store.delete(&find_events(&of_index(&store, "main"), also)).unwrap());
    assert_eq!(store.compact_all().unwrap().merges.len(), 1);
    assert_eq!(store.compact_all().unwrap().merges.len(), 0);
    assert_eq!(
        texts(&of_index(&store, "main")),
        remaining_texts("main", 0..60, |number| is_deleted(number) || also(number))
    );
    drop(store);
    let store = open(&small(dir.path()));
    assert_eq!(
        texts(&of_index(&store, "main")),
        remaining_texts("main", 0..60, |number| is_deleted(number) || also(number))
    );
}

#[test]
fn events_moved_by_a_merge_are_still_deleted() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    let seal = |from: u64, until: u64| {
        for first in (from..until).step_by(10) {
            append(&store, "main", first, 10);
            store.seal_all().unwrap();
        }
    };
    seal(0, 40);
    let slow = |number: u64| number % 4 == 1 || number == 10;
    let deletion = find_events(&all(&store), slow);
    let quick = |number: u64| number.is_multiple_of(3) || (8..14).contains(&number);
    let quick = |number: u64| number < 40 && quick(number);
    drop(store.delete(&find_events(&all(&store), quick)).unwrap());
    // A snapshot from between two deletions has the same objects with other deleted events.
    let middle = find_events(&all(&store), |number| number == 2);
    drop(store.delete(&find_events(&all(&store), |number| number == 4)).unwrap());
    store.compact_all().unwrap();
    seal(40, 60);
    store.compact_all().unwrap();
    drop(store.delete(&find_events(&all(&store), |number| number == 8 || number == 16)).unwrap());
    let gone = |number: u64| quick(number) || [4, 8, 16].contains(&number);
    assert_eq!(texts(&all(&store)), remaining_texts("main", 0..60, gone));
    let newly = (0..40).filter(|number| slow(*number) && !gone(*number)).count() as u64;
    assert_eq!(store.delete(&deletion).unwrap(), counts(&[("main", newly)]));
    assert_eq!(store.delete(&middle).unwrap(), counts(&[("main", 1)]));
    let gone = |number: u64| gone(number) || number == 2 || slow(number) && number < 40;
    assert_eq!(texts(&all(&store)), remaining_texts("main", 0..60, gone));
    drop((deletion, middle));
    store.compact_all().unwrap();
    assert_eq!(texts(&all(&store)), remaining_texts("main", 0..60, gone));
    drop(store.retention(&[]).unwrap());
    assert_eq!(store.shared.readers.blobs().list().unwrap().len(), 2);
}

/// Store and events to delete while an encoder works.
static WHILE_MERGING: OnceLock<(Arc<Store>, Mutex<Option<Deletion>>)> = OnceLock::new();

fn add_and_delete(encoder: &mut BucketEncoder, slab: &SlabSource<'_>) -> Result<(), BucketError> {
    if let Some((store, deletion)) = WHILE_MERGING.get()
        && let Some(deletion) = deletion.lock().unwrap().take()
    {
        drop(store.delete(&deletion).unwrap());
    }
    encoder.add_slab(slab)
}

#[test]
fn running_merges_do_not_restore_deleted_events() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    for first in [0, 10] {
        append(&store, "main", first, 10);
        store.seal_all().unwrap();
    }
    let deletion = find_events(&all(&store), |number| number % 2 == 0);
    WHILE_MERGING.set((Arc::clone(&store), Mutex::new(Some(deletion)))).map_err(drop).unwrap();
    let report = store.compact_with(add_and_delete).unwrap();
    assert_eq!(report.merges.len(), 1, "the first attempt has no effect");
    assert_eq!(texts(&all(&store)), remaining_texts("main", 0..20, |number| number % 2 == 0));
    assert_eq!(store.stats()[0].deleted, 0);
    assert!(store.messages().is_empty(), "{:?}", store.messages());
}

#[test]
fn archives_exclude_deleted_events() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    append(&store, "main", 0, 20);
    store.seal_all().unwrap();
    drop(store.delete(&find_events(&all(&store), |number| number < 5)).unwrap());
    let rule = RetentionRule {
        index: "main".into(),
        max_age_secs: 0,
        max_stored_bytes: Some(0),
        max_raw_bytes: None,
        archives: true,
        empties_after_secs: 0,
    };
    let archived = Mutex::new(Vec::new());
    let archive = |bucket: &crate::ExpiredBucket| {
        archived.lock().unwrap().push((texts(&all(&store)), bucket.number));
        Ok(())
    };
    let rules = [rule];
    let first = store.run_retention(&rules, &archive).unwrap();
    assert_eq!((first.too_old.len() + first.too_many.len(), archived.lock().unwrap().len()), (0, 0));
    assert_eq!((store.stats()[0].deleted, texts(&all(&store))), (0, expected("main", 5..20)));
    let second = store.run_retention(&rules, &archive).unwrap();
    assert_eq!(second.too_old.len() + second.too_many.len(), 1);
    assert_eq!(*archived.lock().unwrap(), [(expected("main", 5..20), 2)]);
}

fn open_on(machine: &Machine, options: &StoreOptions) -> Result<Arc<Store>, StoreError> {
    std::fs::create_dir_all(&options.dir).unwrap();
    let catalog = Catalog::open(&data_dir::catalog(&options.dir))?;
    let blobs = MachineBlobs(machine.clone(), DirectoryStore::open(&data_dir::objects(&options.dir))?);
    Store::open_with(options.clone(), Arc::new(machine.clone()), Arc::new(blobs), catalog, ManualClock::shared(0))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Append(u64),
    Seal,
    Compact,
    /// Deletes every event whose number, divided by the first value, leaves the second as remainder.
    Delete(u64, u64),
    /// Finds the same events as `Delete`, but leaves the deletion to the next `Commit`.
    Find(u64, u64),
    Commit,
    Reopen,
    Crash(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let part = || (1u64..7).prop_flat_map(|by| (Just(by), 0..by));
    let step = prop_oneof![
        5 => (1u64..16).prop_map(Step::Append),
        2 => Just(Step::Seal),
        3 => Just(Step::Compact),
        3 => part().prop_map(|(by, rest)| Step::Delete(by, rest)),
        2 => part().prop_map(|(by, rest)| Step::Find(by, rest)),
        2 => Just(Step::Commit),
        1 => Just(Step::Reopen),
        2 => (0u64..4_000).prop_map(Step::Crash),
    ];
    prop::collection::vec(step, 1..25)
}

/// A store and its expected content.
struct History<'d> {
    dir: &'d Path,
    machine: Machine,
    store: Option<Arc<Store>>,
    /// Numbers of the events that must exist, and of those that may exist.
    held: Vec<u64>,
    doubtful: Vec<u64>,
    next: u64,
    found: Option<(Deletion, Vec<u64>)>,
}

impl History<'_> {
    fn options(&self) -> StoreOptions {
        StoreOptions { log_segment_bytes: 700, ..small(self.dir) }
    }

    fn store(&self) -> Option<Arc<Store>> {
        self.store.clone().filter(|_| !self.machine.is_dead())
    }

    fn step(&mut self, step: Step) {
        if matches!(step, Step::Reopen | Step::Crash(_)) {
            (self.found, self.store) = (None, None);
            self.machine.lose_unsynced(self.next * 7);
            self.machine = Machine::new(if let Step::Crash(bytes) = step { bytes } else { u64::MAX });
            self.store = open_on(&self.machine, &self.options()).ok();
            return self.check();
        }
        let Some(store) = self.store() else { return };
        match step {
            Step::Append(events) => {
                let numbers = self.next..self.next + events;
                self.next = numbers.end;
                match try_append(&store, "main", numbers.start, events) {
                    Ok(()) => self.held.extend(numbers),
                    Err(_) => self.doubtful.extend(numbers),
                }
            }
            Step::Seal => drop(store.seal_all()),
            Step::Compact => drop(store.compact_all()),
            Step::Delete(by, rest) => {
                // If sealing fails, nothing is deleted.
                if store.seal_selected(&IndexSelector::all()).is_ok() {
                    let found = self.find(&store, by, rest);
                    self.commit(&store, found);
                }
            }
            Step::Find(by, rest) => self.found = Some(self.find(&store, by, rest)),
            Step::Commit => {
                if let Some(found) = self.found.take() {
                    self.commit(&store, found);
                }
            }
            Step::Reopen | Step::Crash(_) => {}
        }
        if !self.machine.is_dead() {
            self.check();
        }
    }

    fn find(&self, store: &Store, by: u64, rest: u64) -> (Deletion, Vec<u64>) {
        let snapshot = all(store);
        let is_wanted = |number: u64| number % by == rest;
        let numbers = snapshot.segments.iter().filter(|segment| segment.stored().is_some()).flat_map(|segment| {
            let pages = 0..segment.pages().len();
            pages.flat_map(|at| segment.read_page(at, PageColumns::ALL).unwrap().time).collect::<Vec<_>>()
        });
        let numbers = numbers.map(|number| number as u64).filter(|number| is_wanted(*number)).collect();
        (find_events(&snapshot, is_wanted), numbers)
    }

    fn commit(&mut self, store: &Store, (deletion, numbers): (Deletion, Vec<u64>)) {
        // The deletion succeeds, because the disk of the catalog does not fail in this test.
        let deleted: u64 = store.delete(&deletion).unwrap().values().sum();
        let before = self.held.len() as u64;
        self.held.retain(|number| !numbers.contains(number));
        assert_eq!(deleted, before - self.held.len() as u64);
    }

    /// Compares the store with the expected content, and adopts the uncertain events that exist.
    fn check(&mut self) {
        let Some(store) = &self.store else { return };
        let held = texts(&all(store));
        let doubtful = held.len().saturating_sub(self.held.len());
        self.held.extend(self.doubtful.iter().take(doubtful));
        self.doubtful.clear();
        let expected: Vec<String> = self.held.iter().map(|number| sample::text("main", *number)).collect();
        assert_eq!(held, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_keeps_live_events_and_no_deleted_ones(steps in steps()) {
        let dir = tempdir().unwrap();
        let machine = Machine::new(u64::MAX);
        let mut history =
            History { dir: dir.path(), machine, store: None, held: vec![], doubtful: vec![], next: 0, found: None };
        history.store = open_on(&history.machine, &history.options()).ok();
        steps.into_iter().for_each(|step| history.step(step));
        history.step(Step::Reopen);
        let store = history.store().unwrap();
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()), "{:?}", store.verify());
        history.step(Step::Seal);
        history.step(Step::Compact);
        assert_eq!(store.stats().iter().map(|stats| stats.deleted).sum::<u64>(), 0);
    }
}
