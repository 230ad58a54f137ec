//! If the machine fails at any byte, acknowledged data is stored once, other data at most once, and the checkpoint
//! matches the stored data exactly.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use quarry_blob::DirectoryStore;
use quarry_catalog::Catalog;
use quarry_event::TimeRange;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::faults::{Machine, MachineBlobs};
use super::{expected, open, small, texts};
use crate::tests::sample::{batch, checkpoint};
use crate::{AppendRequest, IndexSelector, Store, StoreError, StoreOptions, Ticket, data_dir};

/// Number of events of one batch.
const EVENTS: u64 = 4;
const INDEXES: [&str; 2] = ["main", "other"];

fn options(dir: &Path) -> StoreOptions {
    StoreOptions { log_segment_bytes: 700, ..small(dir) }
}

fn open_on(machine: &Machine, options: &StoreOptions) -> Result<Arc<Store>, StoreError> {
    std::fs::create_dir_all(&options.dir).unwrap();
    let catalog = Catalog::open(&data_dir::catalog(&options.dir))?;
    let blobs = MachineBlobs(machine.clone(), DirectoryStore::open(&data_dir::objects(&options.dir))?);
    Store::open_with(options.clone(), Arc::new(machine.clone()), Arc::new(blobs), catalog, ManualClock::shared(0))
}

/// Appends batch `number` of one file, whose batches alternate between the indexes.
fn append(store: &Store, number: u64) -> Result<Ticket, StoreError> {
    let index = INDEXES[(number % 2) as usize];
    let batch = batch(index, number / 2 * EVENTS, EVENTS);
    store.append(AppendRequest { batch, checkpoint: Some(checkpoint("a.log", number + 1)) })
}

/// Number of batches in the store. Asserts that these are the first batches, each stored once, and that the checkpoint
/// matches.
fn stored_batches(store: &Store) -> u64 {
    let found = store.checkpoints_of(b"a.log", "").unwrap();
    let batches = found.first().map_or(0, |logged| logged.checkpoint.offset);
    for (at, index) in INDEXES.iter().enumerate() {
        let of_index = (batches + 1 - at as u64) / 2;
        let snapshot = store.snapshot(&IndexSelector::new([*index]), &TimeRange::ALL);
        assert_eq!(texts(&snapshot), expected(index, 0..of_index * EVENTS), "{batches} batches");
    }
    batches
}

/// Appends batches up to `until` in bursts; returns the number of acknowledged and of attempted batches.
fn work(store: &Store, from: u64, until: u64, burst: u64) -> (u64, u64) {
    let mut acknowledged = from;
    for first in (from..until).step_by(burst as usize) {
        let end = until.min(first + burst);
        let tickets: Vec<_> = (first..end).map(|number| append(store, number)).collect();
        for ticket in tickets {
            match ticket.and_then(Ticket::wait) {
                Ok(()) => acknowledged += 1,
                Err(_) => return (acknowledged, end),
            }
        }
    }
    (acknowledged, until)
}

/// Runs until the machine fails after writing `bytes`, then on a working machine; returns whether the first machine
/// failed.
fn crash_after(bytes: u64, burst: u64) -> bool {
    let dir = tempdir().unwrap();
    let options = options(dir.path());
    let machine = Machine::new(bytes);
    let (mut acknowledged, mut tried) = (0, 0);
    if let Ok(store) = open_on(&machine, &options) {
        (acknowledged, tried) = work(&store, 0, 24, burst);
        if !machine.is_dead() {
            drop(store.seal_all());
        }
        if !machine.is_dead() {
            drop(store.compact_all());
        }
    }
    machine.lose_unsynced(bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
    let store = open(&options);
    let stored = stored_batches(&store);
    assert!((acknowledged..=tried).contains(&stored), "{acknowledged} of {tried} acknowledged, {stored} stored");
    assert_eq!(work(&store, stored, 30, 1), (30, 30));
    assert_eq!(stored_batches(&store), 30);
    store.seal_all().unwrap();
    assert_eq!(stored_batches(&store), 30);
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    drop(store);
    assert_eq!(stored_batches(&open(&options)), 30);
    machine.is_dead()
}

#[test]
fn crash_at_any_byte_neither_loses_nor_duplicates_events() {
    let mut bytes = 0;
    while crash_after(bytes, 1 + bytes % 3) {
        bytes += 173;
    }
    assert!(bytes > 5_000, "the work had finished after {bytes} bytes");
}

#[test]
fn crash_during_the_first_record_loses_nothing() {
    for bytes in (0..420).step_by(31) {
        assert!(crash_after(bytes, 1));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Append(u64),
    SealAll,
    Compact,
    Reopen,
    Crash(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (1u64..6).prop_map(Step::Append),
        1 => Just(Step::SealAll),
        2 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        2 => (0u64..2_500).prop_map(Step::Crash),
    ];
    prop::collection::vec(step, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_keeps_every_batch_once(steps in steps()) {
        let dir = tempdir().unwrap();
        let options = options(dir.path());
        let mut machine = Machine::new(u64::MAX);
        let mut store = open_on(&machine, &options).ok();
        let (mut acknowledged, mut tried) = (0, 0);
        for step in steps {
            match (step, &store) {
                (Step::Append(batches), Some(open)) if !machine.is_dead() => {
                    let from = stored_batches(open);
                    prop_assert_eq!(from, acknowledged);
                    (acknowledged, tried) = work(open, from, from + batches, 2);
                }
                (Step::SealAll, Some(open)) if !machine.is_dead() => drop(open.seal_all()),
                (Step::Compact, Some(open)) if !machine.is_dead() => drop(open.compact_all()),
                (Step::Reopen | Step::Crash(_), _) => {
                    drop(store.take());
                    machine.lose_unsynced(tried * 7);
                    machine = Machine::new(if let Step::Crash(bytes) = step { bytes } else { u64::MAX });
                    store = open_on(&machine, &options).ok();
                    if let Some(open) = &store {
                        let stored = stored_batches(open);
                        prop_assert!((acknowledged..=tried.max(acknowledged)).contains(&stored));
                        (acknowledged, tried) = (stored, stored);
                    }
                }
                _ => {}
            }
        }
        drop(store.take());
        machine.lose_unsynced(3);
        let stored = stored_batches(&open(&options));
        prop_assert!((acknowledged..=tried.max(acknowledged)).contains(&stored));
    }
}
