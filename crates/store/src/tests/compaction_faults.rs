//! A merge that fails at any step changes nothing and loses nothing.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use quarry_blob::{BlobStore, MemoryBlobStore};
use quarry_bucket::{BucketEncoder, BucketError, SlabSource};
use quarry_catalog::{BucketState, Catalog};
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::compaction::{objects, of_index, seal};
use super::faults::Room;
use super::objects::{Objects, OperationsLeft};
use super::{all, append, expected, open, small, texts};
use crate::{LocalDisk, Store, StoreError, StoreOptions, data_dir};

fn open_on(options: &StoreOptions, blobs: Arc<dyn BlobStore>) -> Arc<Store> {
    let catalog = Catalog::open(&data_dir::catalog(&options.dir)).unwrap();
    Store::open_with(options.clone(), Arc::new(LocalDisk), blobs, catalog, ManualClock::shared(0)).unwrap()
}

/// Asserts that there are no unknown objects and no leftover records.
fn assert_tidy(store: &Store) {
    let live = store.shared.catalog.buckets(BucketState::Live).unwrap();
    let mut names: Vec<String> = live.iter().flat_map(|row| [row.object.clone(), row.filter.clone()]).collect();
    names.sort();
    assert_eq!(objects(store), names);
    for state in [BucketState::Sealing, BucketState::Retired] {
        assert_eq!(store.shared.catalog.buckets(state).unwrap(), []);
    }
}

/// Merges with a blob store that fails after `acts` operations; returns whether all merges were done.
fn fail_after(acts: u64, writes_late: bool) -> bool {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let blobs = Arc::new(MemoryBlobStore::default());
    let store = open_on(&options, blobs.clone());
    seal(&store, &["main", "other"], 6, 5);
    let before = texts(&all(&store));
    drop(store);
    let store = open_on(&options, Objects::new(blobs.clone(), &OperationsLeft::new(acts.into()), writes_late));
    let outcome = store.compact_all();
    assert_eq!(texts(&all(&store)), before, "{acts} acts");
    match &outcome {
        Ok(report) => assert_eq!((report.merges.len(), store.buckets().len()), (2, 2)),
        Err(error) => {
            assert!(error.to_string().contains("the machine is off"), "{error}");
            let messages = store.messages();
            assert!(messages.iter().any(|message| message.text.contains("next attempt in 60 s")), "{messages:?}");
        }
    }
    let is_clean = store.messages().is_empty();
    drop(store);
    let store = open_on(&options, blobs);
    assert_eq!(texts(&all(&store)), before, "{acts} acts");
    assert_tidy(&store);
    store.compact_all().unwrap();
    assert_eq!((texts(&all(&store)), store.buckets().len()), (before, 2));
    assert_tidy(&store);
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    is_clean
}

#[test]
fn crash_at_any_step_neither_loses_nor_duplicates_events() {
    for writes_late in [false, true] {
        let mut acts = 0;
        while !fail_after(acts, writes_late) {
            acts += 1;
        }
        assert_eq!(acts, 16, "two puts and six deletions a merge");
    }
}

#[test]
fn unreadable_buckets_are_kept_and_reported() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    seal(&store, &["main"], 6, 5);
    drop(store);
    let path: PathBuf = dir.path().join("db/main/0000000003.bucket");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 4;
    let cut = whole[..whole.len() - 9].to_vec();
    for damaged in [Some(flipped), Some(cut), None] {
        match &damaged {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let store = open(&options);
        for _ in 0..2 {
            let report = store.compact_all().unwrap();
            let skipped: Vec<&str> = report.skipped.iter().map(|damage| damage.bucket.as_str()).collect();
            assert_eq!(skipped, ["main~3"]);
        }
        let messages = store.messages();
        let told = messages.iter().any(|it| it.text.contains("bucket main~3 is damaged and is not compacted"));
        assert!(told, "{messages:?}");
        let inputs: Vec<u64> = store.buckets().iter().map(|bucket| bucket.events).collect();
        assert_eq!(inputs, [5, 10, 15]);
        assert_eq!(path.exists(), damaged.is_some());
    }
    fs::write(&path, &whole).unwrap();
    let store = open(&options);
    assert_eq!(texts(&all(&store)), expected("main", 0..30));
    assert_eq!(store.compact_all().unwrap().buckets_after, 1);
    assert_eq!(texts(&all(&store)), expected("main", 0..30));
}

#[test]
fn buckets_without_term_filter_are_not_merged() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    seal(&store, &["main"], 3, 5);
    drop(store);
    fs::remove_file(dir.path().join("db/main/0000000002.filter")).unwrap();
    let store = open(&options);
    assert_eq!(all(&store).damaged.len(), 1);
    assert_eq!(store.compact_all().unwrap().buckets_after, 3);
}

fn encode_losing_an_event(encoder: &mut BucketEncoder, slab: &SlabSource<'_>) -> Result<(), BucketError> {
    let mut events = slab.events.clone();
    events.raw.truncate(events.ends[events.len() - 2] as usize);
    for column in [&mut events.ends, &mut events.meta] {
        column.pop();
    }
    events.time.pop();
    let index_times = slab.index_times.map(|times| &times[1..]);
    encoder.add_slab(&SlabSource { events: &events, index_times, extractions: &[], extracted_names: None })
}

fn panic_in_encoder(_: &mut BucketEncoder, _: &SlabSource<'_>) -> Result<(), BucketError> {
    panic!("on purpose")
}

#[test]
fn merged_buckets_that_decode_differently_are_discarded() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    seal(&store, &["main", "other"], 6, 5);
    let (buckets, before) = (store.buckets(), objects(&store));
    for (add, reason) in
        [(encode_losing_an_event as crate::compaction::AddSlab, "differ"), (panic_in_encoder, "panicked")]
    {
        let report = store.compact_with(add).unwrap();
        assert_eq!((report.merges.len(), report.skipped.len()), (0, 2));
        assert!(report.skipped[0].reason.contains(reason), "{:?}", report.skipped);
        assert_eq!((store.buckets(), objects(&store)), (buckets.clone(), before.clone()));
        assert_eq!(texts(&of_index(&store, "main")), expected("main", 0..15));
    }
    let messages = store.messages();
    assert!(messages[0].text.contains("buckets main~1 to main~5 cannot be compacted"));
    assert_tidy(&store);
    assert_eq!(store.compact_all().unwrap().buckets_after, 2);
}

#[test]
fn merges_leave_the_space_that_appends_need() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    options.free_bytes_min = 1_000;
    let room = Room::new(1 << 20);
    let blobs = Arc::new(MemoryBlobStore::default());
    let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
    let disk = Arc::new(room.clone());
    let store = Store::open_with(options, disk, blobs, catalog, ManualClock::shared(0)).unwrap();
    seal(&store, &["main"], 4, 5);
    room.set(1_100);
    let before = objects(&store);
    assert!(matches!(store.compact_all(), Err(StoreError::Full { .. })));
    assert_eq!((objects(&store), texts(&all(&store))), (before, expected("main", 0..20)));
    assert!(store.messages()[0].text.contains("next attempt in 60 s"), "{:?}", store.messages());
    room.set(1 << 20);
    assert_eq!(store.compact_all().unwrap().buckets_after, 1);
    assert_eq!(texts(&all(&store)), expected("main", 0..20));
}

/// Gate at which [`encode_when_gate_opens`] waits.
static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Slab encoder that blocks until [`GATE`] is open.
fn encode_when_gate_opens(encoder: &mut BucketEncoder, slab: &SlabSource<'_>) -> Result<(), BucketError> {
    let opened = GATE.1.wait_while(GATE.0.lock().unwrap(), |open| !*open).unwrap();
    drop(opened);
    encoder.add_slab(slab)
}

#[test]
fn closing_the_store_abandons_a_running_encoder() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    seal(&store, &["main"], 4, 5);
    let before = objects(&store);
    std::thread::scope(|scope| {
        let merging = scope.spawn(|| store.compact_with(encode_when_gate_opens));
        while !store.shared.state().compaction_encodes {
            std::thread::yield_now();
        }
        store.close();
        *GATE.0.lock().unwrap() = true;
        GATE.1.notify_all();
        assert!(matches!(merging.join().unwrap(), Err(StoreError::Closed)));
    });
    assert_eq!((objects(&store), texts(&all(&store))), (before, expected("main", 0..20)));
    assert_tidy(&store);
}

/// The store whose buckets [`encode_after_expiry`] retires.
static AGING: OnceLock<Arc<Store>> = OnceLock::new();

/// Slab encoder that lets the buckets expire during the merge.
fn encode_after_expiry(encoder: &mut BucketEncoder, slab: &SlabSource<'_>) -> Result<(), BucketError> {
    let retired = AGING.get().unwrap().retention(&[("main".to_owned(), 10)]).unwrap();
    assert_eq!(retired, ["main~1", "main~2"]);
    encoder.add_slab(slab)
}

#[test]
fn buckets_retired_during_a_merge_stay_retired() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let clock = ManualClock::shared(0);
    let store = AGING.get_or_init(|| Store::open(options.clone(), clock.clone()).unwrap());
    seal(store, &["main"], 2, 5);
    append(store, "main", 20_000_000_000, 5);
    store.seal_all().unwrap();
    clock.advance_ns(20_000_000_000);
    let report = store.compact_with(encode_after_expiry).unwrap();
    assert_eq!((report.merges.len(), report.skipped.len(), store.buckets().len()), (0, 0, 1));
    assert_eq!(texts(&all(store)), expected("main", 20_000_000_000..20_000_000_005));
    assert_tidy(store);
    assert_eq!(store.messages(), []);
}
