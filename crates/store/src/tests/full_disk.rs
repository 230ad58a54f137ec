//! A full disk refuses events and accepts them again when there is space; a store that cannot seal reports the reason.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use quarry_blob::{BlobError, BlobStore, MemoryBlobStore};
use quarry_catalog::Catalog;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::faults::Room;
use super::objects::{Objects, Request};
use super::remote::options;
use super::sample::batch;
use super::{all, expected, open, small, texts, try_append};
use crate::hot_slabs::HotKey;
use crate::options::UNCOUNTED_QUARANTINED_SLABS;
use crate::state::Progress;
use crate::{AppendRequest, BucketCopies, ListingState, LocalDisk, Store, StoreError, StoreOptions, data_dir};

#[test]
fn a_full_disk_refuses_whole_batches_and_recovers() {
    for bytes in (0..1_500).step_by(113) {
        let dir = tempdir().unwrap();
        let mut options = small(dir.path());
        options.slab_events = 1_000;
        let room = Room::new(bytes);
        let blobs: Arc<dyn BlobStore> = Arc::new(MemoryBlobStore::default());
        let open = || {
            let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
            let disk = Arc::new(room.clone());
            Store::open_with(options.clone(), disk, blobs.clone(), catalog, ManualClock::shared(0)).unwrap()
        };
        let store = open();
        let mut stored = 0;
        let error = loop {
            match try_append(&store, "main", stored, 3) {
                Ok(()) => stored += 3,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(matches!(try_append(&store, "main", stored, 3), Err(StoreError::Full { .. })));
        assert_eq!(texts(&all(&store)), expected("main", 0..stored));
        assert!(store.messages()[0].text.contains("no space left"));
        room.set(1 << 20);
        try_append(&store, "main", stored, 3).unwrap();
        assert_eq!(texts(&all(&store)), expected("main", 0..stored + 3));
        drop(store);
        assert_eq!(texts(&all(&open())), expected("main", 0..stored + 3), "room for {bytes} bytes");
    }
}

#[test]
fn batches_that_the_log_refused_are_returned_and_can_be_appended_again() {
    let dir = tempdir().unwrap();
    let room = Room::new(0);
    let catalog = Catalog::open_in_memory().unwrap();
    let blobs = Arc::new(MemoryBlobStore::default());
    let disk = Arc::new(room.clone());
    let store = Store::open_with(small(dir.path()), disk, blobs, catalog, ManualClock::shared(0)).unwrap();
    let append = |batch| store.append(AppendRequest { batch, checkpoint: None }).unwrap();
    let mut refused = Vec::new();
    for first in [0, 3] {
        let ticket = append(batch("main", first, 3));
        assert!(matches!(ticket.wait_for_all(&mut refused), Err(StoreError::Full { .. })));
    }
    room.set(1 << 20);
    let again: Vec<_> = refused.drain(..).map(append).collect();
    again.into_iter().for_each(|ticket| ticket.wait_for_all(&mut refused).unwrap());
    assert!(refused.is_empty());
    assert_eq!(texts(&all(&store)), expected("main", 0..6));
}

#[test]
fn unsynced_batches_do_not_reappear() {
    let dir = tempdir().unwrap();
    let room = Room::new(1 << 20);
    let blobs: Arc<dyn BlobStore> = Arc::new(MemoryBlobStore::default());
    let open = || {
        let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
        let disk = Arc::new(room.clone());
        Store::open_with(small(dir.path()), disk, blobs.clone(), catalog, ManualClock::shared(0)).unwrap()
    };
    let store = open();
    try_append(&store, "main", 0, 2).unwrap();
    room.fail_next_sync();
    assert!(matches!(try_append(&store, "main", 100, 9), Err(StoreError::Io { action: "sync", .. })));
    assert_eq!(texts(&all(&store)), expected("main", 0..2));
    drop(store);
    let store = open();
    assert_eq!(texts(&all(&store)), expected("main", 0..2));
    room.fail_next_sync();
    assert!(try_append(&store, "main", 100, 9).is_err());
    try_append(&store, "main", 2, 1).unwrap();
    drop(store);
    assert_eq!(texts(&all(&open())), expected("main", 0..3));
}

#[test]
fn appends_keep_the_minimum_free_space() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    options.free_bytes_min = 1_000;
    let room = Room::new(900);
    let catalog = Catalog::open_in_memory().unwrap();
    let disk = Arc::new(room.clone());
    let store =
        Store::open_with(options, disk, Arc::new(MemoryBlobStore::default()), catalog, ManualClock::shared(0)).unwrap();
    assert!(matches!(try_append(&store, "main", 0, 3), Err(StoreError::Full { .. })));
    assert!(matches!(store.check_room(), Err(StoreError::Full { .. })));
    // There is room, but not for these events.
    room.set(1_100);
    assert!(matches!(try_append(&store, "main", 0, 3), Err(StoreError::Full { .. })));
    store.check_room().unwrap();
    room.set(2_000);
    try_append(&store, "main", 0, 3).unwrap();
    assert_eq!(texts(&all(&store)), expected("main", 0..3));
}

/// A blob store that refuses to put objects whose names contain `refused`, while the switch is set; and the switch, which
/// is set.
fn refusing(refused: &'static str) -> (Arc<Objects>, Arc<AtomicBool>) {
    let is_full = Arc::new(AtomicBool::new(true));
    let full = Arc::clone(&is_full);
    let blobs = Objects::watched(move |request| match request {
        Request::Put(name, _) if full.load(Ordering::SeqCst) && name.contains(refused) => {
            Err(BlobError::Full { path: name.into() })
        }
        _ => Ok(()),
    });
    (blobs, is_full)
}

#[test]
fn failing_seals_block_appends_and_are_retried() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    options.sealers = 1;
    options.unsealed_slabs_max = 2;
    let (blobs, is_full) = refusing("");
    let catalog = Catalog::open_in_memory().unwrap();
    let store = Store::open_with(options, Arc::new(LocalDisk), blobs.clone(), catalog, ManualClock::shared(0)).unwrap();
    let mut stored = 0;
    let error = loop {
        match try_append(&store, "main", stored, 10) {
            Ok(()) => stored += 10,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::SealStalled { .. }), "{error}");
    assert!((40..=60).contains(&stored), "{stored}");
    assert!(matches!(store.seal_all(), Err(StoreError::Blob(BlobError::Full { .. }))));
    assert_eq!(texts(&all(&store)), expected("main", 0..stored));
    is_full.store(false, Ordering::SeqCst);
    store.seal_all().unwrap();
    try_append(&store, "main", stored, 10).unwrap();
    assert_eq!(texts(&all(&store)), expected("main", 0..stored + 10));
    assert!(store.messages().iter().any(|message| message.text.contains("is not sealed")));
}

#[test]
fn appends_fail_after_too_many_slabs_that_cannot_be_verified() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { unsealed_slabs_max: 2, ..small(dir.path()) };
    let store = open(&options);
    let mut quarantined = 0;
    let error = loop {
        let index = format!("index{quarantined}");
        if let Err(error) = try_append(&store, &index, 0, 1) {
            break error;
        }
        quarantined += 1;
        assert!(quarantined <= UNCOUNTED_QUARANTINED_SLABS + 2, "memory is limited");
        let mut state = store.shared.state();
        state.close_hot(&HotKey { index: index.as_str().into(), set: 0 });
        state.closed.values_mut().for_each(|slab| slab.progress = Progress::Quarantined("it differs".into()));
    };
    assert!(matches!(&error, StoreError::SealStalled { reason } if reason == "it differs"), "{error}");
    assert_eq!(quarantined, UNCOUNTED_QUARANTINED_SLABS + 2);
}

#[test]
fn unavailable_volumes_fill_the_disk_but_lose_no_events() {
    let dir = tempdir().unwrap();
    let volume = Objects::around(Arc::new(MemoryBlobStore::default()));
    volume.is_down.store(true, Ordering::SeqCst);
    let used = Arc::<Mutex<BTreeMap<String, usize>>>::default();
    let known = Arc::clone(&used);
    // The local disk has space for 9,000 bytes.
    let blobs = Objects::watched(move |request| {
        let mut used = known.lock().unwrap();
        match request {
            Request::Put(name, bytes) if used.values().sum::<usize>() + bytes.len() > 9_000 => {
                return Err(BlobError::Full { path: name.into() });
            }
            Request::Put(name, bytes) => drop(used.insert(name.to_owned(), bytes.len())),
            Request::Delete(name) => drop(used.remove(name)),
            Request::Open(_) => {}
        }
        Ok(())
    });
    let clock = ManualClock::shared(0);
    let open = || {
        let options = StoreOptions { unsealed_slabs_max: 2, ..options(dir.path(), volume.clone(), 0) };
        let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
        Store::open_with(options, Arc::new(LocalDisk), blobs.clone(), catalog, clock.clone()).unwrap()
    };
    let mut store = open();
    let mut stored = 0;
    // Ten minutes with a restart every minute: events are accepted until the disk is full.
    let error = 'down: {
        for _ in 0..10 {
            for _ in 0..6 {
                if let Err(error) = try_append(&store, "main", stored, 20) {
                    break 'down Some(error);
                }
                stored += 20;
                // The upload fails as soon as there is a sealed bucket.
                drop(store.upload_all());
            }
            drop(store);
            clock.advance_ns(60_000_000_000);
            store = open();
            assert_eq!(texts(&all(&store)), expected("main", 0..stored));
        }
        None
    };
    let bytes: usize = used.lock().unwrap().values().sum();
    assert!(matches!(error, Some(StoreError::SealStalled { .. })), "{stored} {bytes} {error:?}");
    assert!(stored > 100 && store.buckets().iter().all(|bucket| bucket.copies != BucketCopies::Remote));
    assert!(matches!(try_append(&store, "main", stored, 20), Err(StoreError::SealStalled { .. })));
    assert_eq!(texts(&all(&store)), expected("main", 0..stored), "and searches go on");
    // The volume is back, so evicting uploaded copies makes room.
    volume.is_down.store(false, Ordering::SeqCst);
    store.upload_all().unwrap();
    while store.seal_all().is_err() {
        store.upload_all().unwrap();
    }
    try_append(&store, "main", stored, 20).unwrap();
    store.seal_all().unwrap();
    store.upload_all().unwrap();
    assert_eq!(texts(&all(&store)), expected("main", 0..stored + 20));
    drop(store);
    let store = open();
    assert_eq!(texts(&all(&store)), expected("main", 0..stored + 20));
    assert!(store.buckets().iter().all(|bucket| bucket.copies == BucketCopies::Remote));
    assert_eq!(used.lock().unwrap().len(), 0);
}

#[test]
fn slabs_sealed_out_of_order_are_not_duplicated_after_restart() {
    let dir = tempdir().unwrap();
    let (blobs, is_full) = refusing("main/0000000001");
    let clock = ManualClock::shared(0);
    let open = || {
        let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
        Store::open_with(small(dir.path()), Arc::new(LocalDisk), blobs.clone(), catalog, clock.clone()).unwrap()
    };
    let states = |store: &Store| -> Vec<ListingState> { store.buckets().iter().map(|bucket| bucket.state).collect() };
    let store = open();
    for first in [0, 20, 40] {
        try_append(&store, "main", first, 20).unwrap();
    }
    let sealed_later = [ListingState::Sealing, ListingState::Sealed, ListingState::Sealed];
    while states(&store) != sealed_later {
        assert!(store.seal_all().is_err());
    }
    drop(store);
    let store = open();
    assert_eq!(texts(&all(&store)), expected("main", 0..60));
    // A retired bucket is not restored from the log, although an older bucket still keeps the log.
    clock.advance_ns(2_000_000_000);
    assert_eq!(store.retention(&[("main".to_owned(), 1)]).unwrap(), ["main~2", "main~3"]);
    drop(store);
    let store = open();
    assert_eq!(texts(&all(&store)), expected("main", 0..20));
    try_append(&store, "main", 20, 3).unwrap();
    is_full.store(false, Ordering::SeqCst);
    store.seal_all().unwrap();
    drop(store);
    let store = open();
    assert_eq!(texts(&all(&store)), expected("main", 0..23));
    assert_eq!(store.buckets().iter().map(|bucket| bucket.id.clone()).collect::<Vec<_>>(), ["main~1", "main~4"]);
}
