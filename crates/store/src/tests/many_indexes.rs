//! Hundreds of nearly empty indexes need little memory and few commits, and lose no events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_blob::{BlobError, BlobStore, DirectoryStore, MemoryBlobStore};
use quarry_bucket::ReadAt;
use quarry_catalog::{BucketState, Catalog};
use quarry_event::TimeRange;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::faults::{Machine, MachineBlobs};
use super::sample::{batch, checkpoint};
use super::{all, append, expected, open, texts};
use crate::{AppendRequest, IndexSelector, ListingState, Store, StoreError, StoreOptions, data_dir};

const INDEXES: u64 = 400;

fn name(index: u64) -> String {
    format!("i{index}")
}

fn options(dir: &std::path::Path) -> StoreOptions {
    StoreOptions { sealers: 2, slab_events: 640, log_segment_bytes: 4_000, ..StoreOptions::at(dir) }
}

/// Appends one event to each index in `range`, without waiting for each.
fn append_each(store: &Store, range: std::ops::Range<u64>) {
    let request = |index: u64| {
        let source = format!("{index}.log");
        AppendRequest { batch: batch(&name(index), index, 1), checkpoint: Some(checkpoint(&source, 1)) }
    };
    let tickets: Vec<_> = range.map(|index| store.append(request(index)).unwrap()).collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
}

fn each(range: std::ops::Range<u64>) -> Vec<String> {
    range.flat_map(|index| expected(&name(index), index..index + 1)).collect()
}

/// In-memory blob store that counts puts; a real put would wait for a disk.
#[derive(Debug, Default)]
struct Counting {
    puts: AtomicUsize,
    /// Part of the names of objects whose puts fail.
    refused: Option<&'static str>,
    inner: MemoryBlobStore,
}

impl BlobStore for Counting {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        self.put_all(&[(name, bytes)])
    }

    fn put_all(&self, objects: &[(&str, &[u8])]) -> Result<(), BlobError> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        if let Some((name, _)) = objects.iter().find(|(name, _)| self.refused.is_some_and(|it| name.contains(it))) {
            return Err(BlobError::Full { path: name.into() });
        }
        self.inner.put_all(objects)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.inner.open(name)
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        self.inner.delete(name)
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        self.inner.exists(name)
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        self.inner.list()
    }
}

fn open_on(options: &StoreOptions, blobs: Arc<dyn BlobStore>) -> Arc<Store> {
    std::fs::create_dir_all(&options.dir).unwrap();
    let catalog = Catalog::open(&data_dir::catalog(&options.dir)).unwrap();
    let disk = Arc::new(crate::LocalDisk);
    Store::open_with(options.clone(), disk, blobs, catalog, ManualClock::shared(0)).unwrap()
}

#[test]
fn one_event_in_each_index_is_found_hot_sealed_and_after_a_restart() {
    let dir = tempdir().unwrap();
    let blobs = Arc::new(Counting::default());
    let store = open_on(&options(dir.path()), blobs.clone());
    append_each(&store, 0..INDEXES);
    assert_eq!(texts(&all(&store)), each(0..INDEXES));
    assert!(store.shared.state().hot.bytes() < INDEXES as usize * 4_096, "an idle slab is small");
    drop(store);
    let store = open_on(&options(dir.path()), blobs.clone());
    assert_eq!(texts(&all(&store)), each(0..INDEXES));
    store.seal_all().unwrap();
    // Slabs are sealed in groups; the first group of each of the two sealers may be small.
    assert!(blobs.puts.load(Ordering::SeqCst) < INDEXES as usize / 10, "{blobs:?}");
    assert_eq!(texts(&all(&store)), each(0..INDEXES));
    let one = store.snapshot(&IndexSelector::new(["i77"]), &TimeRange::ALL);
    assert_eq!(texts(&one), expected("i77", 77..78));
    assert_eq!(store.shared.log_files.bytes(), 0, "the log is not needed any more");
    drop(store);
    let store = open_on(&options(dir.path()), blobs);
    assert_eq!(texts(&all(&store)), each(0..INDEXES));
    for index in 0..INDEXES {
        assert_eq!(store.checkpoints_of(format!("{index}.log").as_bytes(), "").unwrap().len(), 1);
    }
}

#[test]
fn exceeding_hot_memory_seals_the_largest_slabs_first() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { hot_bytes_max: 300_000, ..options(dir.path()) };
    let store = open(&options);
    append(&store, "large", 0, 500);
    append_each(&store, 0..INDEXES);
    store.wait_for_appends().unwrap();
    let most = 300_000;
    assert!(store.shared.state().hot.bytes() <= most);
    let listed: BTreeMap<String, ListingState> = store.buckets().into_iter().map(|it| (it.index, it.state)).collect();
    assert_ne!(listed["large"], ListingState::Hot);
    assert_eq!(texts(&all(&store)), [expected("large", 0..500), each(0..INDEXES)].concat());
    append_each(&store, INDEXES..2 * INDEXES);
    store.wait_for_appends().unwrap();
    assert!(store.shared.state().hot.bytes() <= most);
    store.seal_all().unwrap();
    assert_eq!(texts(&all(&store)), [expected("large", 0..500), each(0..2 * INDEXES)].concat());
}

#[test]
fn failing_small_slabs_do_not_delay_others() {
    let dir = tempdir().unwrap();
    let options = options(dir.path());
    let blobs = Arc::new(Counting { refused: Some("i7/"), ..Counting::default() });
    let store = open_on(&options, blobs);
    append_each(&store, 0..30);
    assert!(matches!(store.seal_all(), Err(StoreError::Blob(BlobError::Full { .. }))));
    let unsealed = |store: &Store| -> Vec<String> {
        let left = store.buckets().into_iter().filter(|bucket| bucket.state != ListingState::Sealed);
        left.map(|bucket| bucket.index).collect()
    };
    // The other sealer may still be sealing the rest.
    while unsealed(&store).len() > 1 {
        std::thread::yield_now();
    }
    assert_eq!(unsealed(&store), ["i7"]);
    assert_eq!(texts(&all(&store)), each(0..30));
}

#[test]
fn group_seals_advance_the_position_to_the_last_bucket() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { sealers: 1, ..options(dir.path()) };
    let store = open(&options);
    for number in 0..6 {
        // The slabs are closed without notifying the sealer, so that they wait and are sealed together.
        append(&store, "main", number, 1);
        let mut state = store.shared.state();
        let key = crate::hot_slabs::HotKey { index: "main".into(), set: 0 };
        state.close_hot(&key);
    }
    store.seal_all().unwrap();
    assert_eq!(store.shared.catalog.positions().unwrap(), [("main".to_owned(), 6)]);
    assert_eq!(store.shared.catalog.buckets(BucketState::Live).unwrap().len(), 6);
    drop(store);
    assert_eq!(texts(&all(&open(&options))), expected("main", 0..6));
}

/// Fills indexes until the machine fails after writing `bytes`, then checks the store on a working machine; returns
/// whether the first machine failed.
fn crash_after(bytes: u64) -> bool {
    let dir = tempdir().unwrap();
    let options = StoreOptions { hot_bytes_max: 60_000, ..options(dir.path()) };
    let machine = Machine::new(bytes);
    let mut acknowledged = 0;
    let mut work = || -> Result<(), StoreError> {
        std::fs::create_dir_all(&options.dir).unwrap();
        let catalog = Catalog::open(&data_dir::catalog(&options.dir))?;
        let blobs = MachineBlobs(machine.clone(), DirectoryStore::open(&data_dir::objects(&options.dir))?);
        let disk = Arc::new(machine.clone());
        let store = Store::open_with(options.clone(), disk, Arc::new(blobs), catalog, ManualClock::shared(0))?;
        for index in 0..60 {
            store.append(AppendRequest { batch: batch(&name(index), index, 1), checkpoint: None })?.wait()?;
            acknowledged = index + 1;
        }
        store.seal_all()
    };
    drop(work());
    machine.lose_unsynced(bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
    let store = open(&options);
    let found = texts(&all(&store));
    let fits = found == each(0..acknowledged) || found == each(0..acknowledged + 1);
    assert!(fits, "{acknowledged} acknowledged, {} found", found.len());
    store.seal_all().unwrap();
    assert_eq!(texts(&all(&store)), found);
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    machine.is_dead()
}

#[test]
fn crash_during_a_group_seal_loses_nothing() {
    let mut bytes = 0;
    while crash_after(bytes) {
        bytes += 1_801;
    }
    assert!(bytes > 20_000, "the work had finished after {bytes} bytes");
}
