//! Several pipeline sets that append in parallel have separate slabs and one order of arrival, and lose or repeat
//! nothing.

use std::sync::Arc;

use proptest::prelude::*;
use quarry_blob::{BlobStore, DirectoryStore, MemoryBlobStore};
use quarry_catalog::Catalog;
use quarry_event::TimeRange;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::faults::{Machine, MachineBlobs, Room};
use super::sample::{batch, checkpoint};
use super::{all, expected, open, small, texts};
use crate::{AppendRequest, IndexSelector, ListingState, Store, StoreError, StoreOptions, Ticket, data_dir};

/// Number of events of one batch.
const EVENTS: u64 = 4;
/// Names of the files. The events of a file are numbered from its position in this list times `FIRST`.
const FILES: [&str; 3] = ["a.log", "b.log", "c.log"];
const FIRST: u64 = 1_000_000;
const INDEXES: [&str; 2] = ["main", "other"];

fn options(dir: &std::path::Path, sets: usize) -> StoreOptions {
    StoreOptions { pipeline_sets: sets, log_segment_bytes: 900, ..small(dir) }
}

fn open_on(machine: &Machine, options: &StoreOptions) -> Result<Arc<Store>, StoreError> {
    std::fs::create_dir_all(&options.dir).unwrap();
    let catalog = Catalog::open(&data_dir::catalog(&options.dir))?;
    let blobs = MachineBlobs(machine.clone(), DirectoryStore::open(&data_dir::objects(&options.dir))?);
    Store::open_with(options.clone(), Arc::new(machine.clone()), Arc::new(blobs), catalog, ManualClock::shared(0))
}

/// Appends batch `number` of a file, whose batches alternate between the indexes.
fn append(store: &Store, set: usize, file: usize, number: u64) -> Result<Ticket, StoreError> {
    let index = INDEXES[(number % 2) as usize];
    let batch = batch(index, file as u64 * FIRST + number / 2 * EVENTS, EVENTS);
    store.append_to_set(set, AppendRequest { batch, checkpoint: Some(checkpoint(FILES[file], number + 1)) })
}

/// Number of stored batches of a file. Asserts that these are the first batches of the file, each stored once and in
/// order, and that the checkpoint matches.
fn stored_batches(store: &Store, file: usize) -> u64 {
    let found = store.checkpoints_of(FILES[file].as_bytes(), "").unwrap();
    let batches = found.first().map_or(0, |logged| logged.checkpoint.offset);
    for (at, index) in INDEXES.iter().enumerate() {
        let first = file as u64 * FIRST;
        let snapshot = store.snapshot(&IndexSelector::new([*index]), &TimeRange::ALL);
        let mut of_file = texts(&snapshot);
        let is_of_file = |text: &String| {
            let number: u64 = text.split(['=', ' ']).nth(2).unwrap().parse().unwrap();
            number / FIRST == file as u64
        };
        of_file.retain(is_of_file);
        let events = (batches + 1 - at as u64) / 2 * EVENTS;
        assert_eq!(of_file, expected(index, first..first + events), "{batches} batches of {}", FILES[file]);
    }
    batches
}

fn stored(store: &Store) -> [u64; 3] {
    [0, 1, 2].map(|file| stored_batches(store, file))
}

/// Appends the batches up to `until` of every file in parallel; file `n` goes through set `n + shift`. Returns the
/// number of acknowledged batches of each file, and whether all were acknowledged.
fn work(store: &Store, mut acknowledged: [u64; 3], until: u64, shift: usize) -> ([u64; 3], bool) {
    for number in 0..until {
        let files = (0..FILES.len()).filter(|file| acknowledged[*file] <= number);
        let tickets: Vec<_> = files.map(|file| (file, append(store, file + shift, file, number))).collect();
        let mut failed = false;
        for (file, ticket) in tickets {
            match ticket.and_then(Ticket::wait) {
                Ok(()) => acknowledged[file] = number + 1,
                Err(_) => failed = true,
            }
        }
        if failed {
            return (acknowledged, false);
        }
    }
    (acknowledged, true)
}

#[test]
fn each_set_fills_its_own_slab() {
    let dir = tempdir().unwrap();
    let store = open(&options(dir.path(), 2));
    for (set, first) in [(0, 0), (1, 100), (2, 4), (3, 104)] {
        let request = AppendRequest { batch: batch("main", first, 4), checkpoint: None };
        store.append_to_set(set, request).unwrap().wait().unwrap();
    }
    let in_order = [expected("main", 0..8), expected("main", 100..108)].concat();
    assert_eq!(texts(&all(&store)), in_order);
    let listed = |store: &Store| store.buckets().into_iter().map(|it| (it.id, it.state, it.events)).collect::<Vec<_>>();
    let hot = |number: u32| (format!("main~{number}"), ListingState::Hot, 8);
    assert_eq!(listed(&store), [hot(1), hot(2)]);
    drop(store);
    let store = open(&options(dir.path(), 2));
    assert_eq!(texts(&all(&store)), in_order, "the log brings both back as they were");
    assert_eq!(listed(&store)[1], hot(2), "the newest slab is continued");
    store.seal_all().unwrap();
    assert_eq!(store.compact_all().unwrap().merges.len(), 1);
    assert_eq!(texts(&all(&store)), in_order);
}

#[test]
fn slabs_of_all_sets_merge_in_creation_order() {
    let dir = tempdir().unwrap();
    let store = open(&options(dir.path(), 2));
    let mut acknowledged = [0; 3];
    for until in [7, 14, 21, 28] {
        acknowledged = work(&store, acknowledged, until, 0).0;
        if until == 14 {
            store.seal_all().unwrap();
        }
    }
    let before = texts(&all(&store));
    store.compact_all().unwrap();
    assert_eq!(texts(&all(&store)), before);
    store.seal_all().unwrap();
    assert!(!store.compact_all().unwrap().merges.is_empty());
    assert_eq!(texts(&all(&store)), before);
    assert_eq!(stored(&store), [28; 3]);
}

#[test]
fn files_continued_by_another_set_keep_their_order() {
    let dir = tempdir().unwrap();
    let store = open(&options(dir.path(), 2));
    let mut acknowledged = [0; 3];
    for shift in 0..12 {
        acknowledged = work(&store, acknowledged, acknowledged[0] + 1 + shift as u64 % 3, shift).0;
        assert_eq!(stored(&store), acknowledged);
    }
    store.seal_all().unwrap();
    assert_eq!(stored(&store), acknowledged);
}

#[test]
fn restart_continues_no_slab_older_than_a_sealed_one() {
    let dir = tempdir().unwrap();
    let store = open(&options(dir.path(), 2));
    let append = |store: &Store, set: usize, first: u64| {
        let checkpoint = Some(checkpoint("a.log", first + EVENTS));
        let request = AppendRequest { batch: batch("main", first, EVENTS), checkpoint };
        store.append_to_set(set, request).unwrap().wait().unwrap();
    };
    append(&store, 0, 0);
    (1..6).for_each(|number| append(&store, 1, number * EVENTS));
    // The second slab is full and is sealed in the background; the first stays hot.
    let is_sealed = |store: &Store| store.buckets()[1].state == ListingState::Sealed;
    while !is_sealed(&store) {
        std::thread::yield_now();
    }
    assert_eq!(store.buckets()[0].state, ListingState::Hot);
    drop(store);
    let store = open(&options(dir.path(), 2));
    append(&store, 0, 6 * EVENTS);
    assert_eq!(texts(&all(&store)), expected("main", 0..7 * EVENTS));
}

#[test]
fn failed_writes_refuse_the_files_of_all_sets_in_the_group() {
    for failing in 0..10 {
        let dir = tempdir().unwrap();
        let room = Room::new(1 << 20);
        let blobs: Arc<dyn BlobStore> = Arc::new(MemoryBlobStore::default());
        let open = || {
            let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
            let disk = Arc::new(room.clone());
            Store::open_with(options(dir.path(), 2), disk, blobs.clone(), catalog, ManualClock::shared(0)).unwrap()
        };
        let store = open();
        room.fail_write_after(failing);
        let (acknowledged, whole) = work(&store, [0; 3], 14, 0);
        assert!(!whole);
        assert_eq!(stored(&store), acknowledged);
        assert_eq!(
            work(&store, acknowledged, 14, 1),
            ([14; 3], true),
            "files whose events were refused after a failed write continue in other sets"
        );
        assert_eq!(stored(&store), [14; 3]);
        drop(store);
        assert_eq!(stored(&open()), [14; 3]);
    }
}

/// Runs two sets until the machine dies after writing `bytes`, then on a working machine; returns whether the first
/// machine died.
fn crash_after(bytes: u64) -> bool {
    let dir = tempdir().unwrap();
    let options = options(dir.path(), 2);
    let machine = Machine::new(bytes);
    let mut acknowledged = [0; 3];
    if let Ok(store) = open_on(&machine, &options) {
        acknowledged = work(&store, acknowledged, 12, 0).0;
        if !machine.is_dead() {
            drop(store.seal_all());
        }
        if !machine.is_dead() {
            drop(store.compact_all());
        }
    }
    machine.lose_unsynced(bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
    let sets = 1 + bytes as usize % 3;
    let options = StoreOptions { pipeline_sets: sets, ..options };
    let store = open(&options);
    let found = stored(&store);
    let fits = |file: usize| (acknowledged[file]..=acknowledged[file] + 1).contains(&found[file]);
    assert!((0..3).all(fits), "{acknowledged:?} acknowledged, {found:?} stored");
    let order = texts(&all(&store));
    drop(store);
    let store = open(&options);
    assert_eq!(texts(&all(&store)), order, "the order of arrival survives a restart");
    assert_eq!(work(&store, found, 18, 1), ([18; 3], true));
    assert_eq!(stored(&store), [18; 3]);
    store.seal_all().unwrap();
    store.compact_all().unwrap();
    assert_eq!(stored(&store), [18; 3]);
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    drop(store);
    assert_eq!(stored(&open(&options)), [18; 3]);
    machine.is_dead()
}

#[test]
fn crash_at_any_byte_preserves_the_events_of_all_sets() {
    let mut bytes = 0;
    while crash_after(bytes) {
        bytes += 257;
    }
    assert!(bytes > 5_000, "the work had finished after {bytes} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_of_files_and_sets_keeps_order(steps in prop::collection::vec((0usize..3, 0usize..3, 1u64..5, 0u32..9), 1..16)) {
        let dir = tempdir().unwrap();
        let mut store = open(&options(dir.path(), 3));
        let mut numbers = [0; 3];
        for (file, set, batches, then) in steps {
            for _ in 0..batches {
                append(&store, set, file, numbers[file]).unwrap().wait().unwrap();
                numbers[file] += 1;
            }
            match then {
                0 => store.seal_all().unwrap(),
                1 => drop(store.compact_all().unwrap()),
                2 => {
                    drop(store);
                    store = open(&options(dir.path(), 3));
                }
                _ => {}
            }
            prop_assert_eq!(stored(&store), numbers);
        }
    }
}
