//! A checkpoint never covers a part of a file that was not stored.

use std::sync::Arc;

use quarry_blob::{BlobStore, MemoryBlobStore};
use quarry_catalog::Catalog;
use quarry_event::EventBatch;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::faults::Room;
use super::sample::{batch, checkpoint};
use super::{all, expected, open, small, texts};
use crate::{AppendRequest, Store, StoreError, Ticket, data_dir};

/// Appends event `number` of the file `source`, which has one event per byte of offset.
fn append(store: &Store, source: &str, number: u64) -> Result<Ticket, StoreError> {
    let checkpoint = Some(checkpoint(source, number + 1));
    store.append(AppendRequest { batch: batch(source, number, 1), checkpoint })
}

fn offset(store: &Store, source: &str) -> u64 {
    let found = store.checkpoints_of(source.as_bytes(), "").unwrap();
    found.first().map_or(0, |logged| logged.checkpoint.offset)
}

/// Asserts that the checkpoint of `source` matches the stored events exactly, and returns their number.
fn assert_checkpoint_matches(store: &Store, source: &str) -> u64 {
    let offset = offset(store, source);
    let mut stored = texts(&all(store));
    stored.retain(|text| text.starts_with(source));
    assert_eq!(stored, expected(source, 0..offset));
    offset
}

#[test]
fn appends_after_a_failed_one_fail_until_checkpoints_are_read() {
    let dir = tempdir().unwrap();
    let room = Room::new(1 << 20);
    let blobs: Arc<dyn BlobStore> = Arc::new(MemoryBlobStore::default());
    let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
    let disk = Arc::new(room.clone());
    let store = Store::open_with(small(dir.path()), disk, blobs, catalog, ManualClock::shared(0)).unwrap();
    append(&store, "a", 0).unwrap().wait().unwrap();
    room.fail_write_after(0);
    assert!(matches!(append(&store, "a", 1).unwrap().wait(), Err(StoreError::Full { .. })));
    let error = append(&store, "a", 2).unwrap_err();
    assert!(matches!(&error, StoreError::EarlierPartMissing { source_name } if source_name == "a"), "{error}");
    append(&store, "b", 0).unwrap().wait().unwrap();
    assert_eq!(offset(&store, "b"), 1);
    assert!(append(&store, "a", 2).is_err(), "the state of another file says nothing");
    assert_eq!(assert_checkpoint_matches(&store, "a"), 1);
    append(&store, "a", 1).unwrap().wait().unwrap();
    append(&store, "a", 2).unwrap().wait().unwrap();
    assert_eq!(assert_checkpoint_matches(&store, "a"), 3);
}

#[test]
fn checkpoints_never_pass_a_failed_write() {
    for failing in 0..12 {
        let dir = tempdir().unwrap();
        let room = Room::new(1 << 20);
        let blobs: Arc<dyn BlobStore> = Arc::new(MemoryBlobStore::default());
        let open = || {
            let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
            let disk = Arc::new(room.clone());
            Store::open_with(small(dir.path()), disk, blobs.clone(), catalog, ManualClock::shared(0)).unwrap()
        };
        let store = open();
        room.fail_write_after(failing);
        let mut failed = 0;
        for burst in 0..12 {
            let numbers = burst * 5..burst * 5 + 5;
            let append = |number| ["a", "b"].map(|source| append(&store, source, number));
            let tickets: Vec<_> = numbers.flat_map(append).collect();
            failed += tickets.into_iter().map(|ticket| ticket.and_then(Ticket::wait)).filter(Result::is_err).count();
        }
        drop(store);
        let store = open();
        let stored = ["a", "b"].map(|source| assert_checkpoint_matches(&store, source));
        assert!(failed > 0 && stored.iter().any(|stored| *stored < 60), "{failed} failed, {stored:?} stored");
        store.seal_all().unwrap();
        for source in ["a", "b"] {
            assert_checkpoint_matches(&store, source);
        }
    }
}

#[test]
fn refused_appends_also_block_their_file() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    let broken = EventBatch { ends: vec![9], ..EventBatch::default() };
    let request = AppendRequest { batch: broken, checkpoint: Some(checkpoint("a", 1)) };
    assert!(matches!(store.append(request), Err(StoreError::InvalidBatch { .. })));
    assert!(matches!(append(&store, "a", 1), Err(StoreError::EarlierPartMissing { .. })));
    assert_eq!(assert_checkpoint_matches(&store, "a"), 0);
    append(&store, "a", 0).unwrap().wait().unwrap();
    assert_eq!(assert_checkpoint_matches(&store, "a"), 1);
}
