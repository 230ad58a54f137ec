//! Orphaned objects, and no others, are deleted from volumes after a grace period.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use quarry_blob::{BlobError, BlobStore, ListedObject};
use quarry_bucket::ReadAt;
use quarry_catalog::RemoteState;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::compaction::seal;
use super::deletion::find_events;
use super::objects::TimedObjects;
use super::remote::{assert_tidy, options, states};
use super::{all, append, expected, texts};
use crate::remote::copies::UPLOAD_EPOCH_SETTING;
use crate::{RemoteOptions, Store, StoreOptions, SweepResult};

/// Age in seconds at which an orphaned object is deleted.
const GRACE: u64 = 100;

/// A volume on which selected puts report a failure but complete later.
#[derive(Debug, Default)]
struct LateVolume {
    objects: TimedObjects,
    /// Suffixes of the names whose puts are late.
    late: Mutex<Vec<&'static str>>,
    under_way: Mutex<Vec<(String, Vec<u8>)>>,
    now_ns: AtomicI64,
    after_listing: Hook,
    /// Names of the objects of uploads that have not ended, and times of their beginning.
    unfinished: Mutex<Vec<(String, i64)>>,
    /// Whether the objects of a bucket are listed apart from each other.
    is_unordered: AtomicBool,
    /// Whether listings fail.
    is_unlisted: AtomicBool,
}

/// A function that is called once, after a listing.
#[derive(Default)]
struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl LateVolume {
    fn set_late(&self, endings: &[&'static str]) {
        *self.late.lock().unwrap() = endings.to_vec();
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        self.objects.put(name, bytes, self.now_ns.load(Ordering::SeqCst));
    }

    /// Completes the puts in progress; returns their number.
    fn land(&self) -> usize {
        let landed = std::mem::take(&mut *self.under_way.lock().unwrap());
        landed.iter().for_each(|(name, bytes)| self.write(name, bytes));
        landed.len()
    }
}

impl BlobStore for LateVolume {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        if self.late.lock().unwrap().iter().any(|ending| name.ends_with(ending)) {
            self.under_way.lock().unwrap().push((name.to_owned(), bytes.to_vec()));
            return Err(BlobError::Io { action: "write", path: name.into(), reason: "no answer".into() });
        }
        self.write(name, bytes);
        Ok(())
    }

    fn put_all(&self, objects: &[(&str, &[u8])]) -> Result<(), BlobError> {
        let ended: Vec<_> = objects.iter().map(|(name, bytes)| self.put(name, bytes)).collect();
        ended.into_iter().collect()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.objects.store.open(name)
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        self.objects.delete(name)
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        self.objects.store.exists(name)
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        self.objects.store.list()
    }

    fn delete_unfinished(&self, before_ns: i64, is_own: &dyn Fn(&str) -> bool) -> Result<u64, BlobError> {
        let mut unfinished = self.unfinished.lock().unwrap();
        let before = unfinished.len();
        unfinished.retain(|(name, begun_ns)| *begun_ns >= before_ns || !is_own(name));
        Ok((before - unfinished.len()) as u64)
    }

    fn now_ns(&self) -> Option<i64> {
        Some(self.now_ns.load(Ordering::SeqCst))
    }

    fn list_each(&self, visit: &mut dyn FnMut(ListedObject)) -> Result<(), BlobError> {
        if self.is_unlisted.load(Ordering::SeqCst) {
            return Err(BlobError::Io { action: "list", path: "here".into(), reason: "no answer".into() });
        }
        let mut listed = self.objects.list();
        if self.is_unordered.load(Ordering::SeqCst) {
            // Receipts of all buckets come first.
            listed.sort_by_key(|object| !object.name.ends_with("receipt"));
        }
        listed.into_iter().for_each(visit);
        let hook = self.after_listing.0.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        Ok(())
    }
}

struct World {
    _dir: tempfile::TempDir,
    volume: Arc<LateVolume>,
    clock: Arc<ManualClock>,
    options: StoreOptions,
}

impl World {
    fn new() -> World {
        let (dir, volume) = (tempdir().unwrap(), Arc::new(LateVolume::default()));
        let options = with_grace(dir.path(), volume.clone());
        volume.now_ns.store(1_000_000, Ordering::SeqCst);
        World { _dir: dir, volume, clock: ManualClock::shared(1_000_000), options }
    }

    fn open(&self) -> Arc<Store> {
        let store = Store::open(self.options.clone(), self.clock.clone()).unwrap();
        // Stops the upload thread, because the tests start sweeps themselves.
        store.shared.uploads.stop();
        store
    }

    fn pass(&self, secs: u64) {
        let by_ns = i64::try_from(secs).unwrap() * NS_PER_SEC;
        self.clock.advance_ns(by_ns);
        self.volume.now_ns.fetch_add(by_ns, Ordering::SeqCst);
    }
}

fn with_grace(dir: &Path, volume: Arc<LateVolume>) -> StoreOptions {
    let options = options(dir, volume, 0);
    let remote = RemoteOptions { orphan_grace_secs: GRACE, ..(**options.remote.as_ref().unwrap()).clone() };
    StoreOptions { remote: Some(Arc::new(remote)), ..options }
}

#[test]
fn objects_of_late_puts_are_deleted_after_the_grace_period() {
    for late in [&["bucket"][..], &["filter"], &["bucket", "filter"], &["receipt"]] {
        let world = World::new();
        let store = world.open();
        seal(&store, &["main"], 1, 5);
        world.volume.set_late(late);
        store.upload_all().unwrap_err();
        assert_eq!(store.retention(&[("main".to_owned(), 0)]).unwrap().len(), 1);
        assert_eq!(world.volume.list().unwrap(), [""; 0], "{late:?}");
        world.volume.set_late(&[]);
        world.pass(1_000);
        assert!(world.volume.land() >= late.len());
        world.pass(GRACE - 1);
        let swept = store.sweep_volumes().unwrap();
        assert_eq!((swept.deleted, swept.young as usize, swept.unknown_buckets), (0, late.len(), 0), "{late:?}");
        world.pass(1);
        assert_eq!(store.sweep_volumes().unwrap().deleted as usize, late.len(), "{late:?}");
        assert_tidy(&store, &*world.volume);
    }
}

#[test]
fn a_deleted_bucket_whose_objects_all_return_is_swept() {
    for (is_unordered, is_moved) in [(false, false), (true, false), (false, true)] {
        let mut world = World::new();
        let store = world.open();
        seal(&store, &["main"], 2, 5);
        store.upload_all().unwrap();
        let volume = Arc::clone(&world.volume);
        let read = |name: String| {
            let object = volume.open(&name).unwrap();
            (name, object.read_at(0, object.len() as usize).unwrap())
        };
        let returning: Vec<_> = volume.list().unwrap().into_iter().map(read).collect();
        let copy = format!("cold/{}", returning[0].0.split_once('.').unwrap().0);
        let store = if is_moved {
            drop(store);
            let remote = RemoteOptions { default: None, ..(**world.options.remote.as_ref().unwrap()).clone() };
            world.options.remote = Some(Arc::new(remote));
            Store::open(world.options.clone(), world.clock.clone()).unwrap().migrate("main", None).unwrap();
            world.open()
        } else {
            store.retention(&[("main".to_owned(), 0)]).unwrap();
            store
        };
        assert_eq!(volume.list().unwrap(), [""; 0]);
        // Simulates puts that ended after the deletion.
        world.pass(GRACE - 1);
        returning.iter().for_each(|(name, bytes)| volume.write(name, bytes));
        volume.is_unordered.store(is_unordered, Ordering::SeqCst);
        world.pass(GRACE - 1);
        assert_eq!(store.sweep_volumes().unwrap(), SweepResult { young: 6, ..SweepResult::default() });
        world.pass(1);
        assert_eq!(store.sweep_volumes().unwrap(), SweepResult { deleted: 6, ..SweepResult::default() });
        assert_tidy(&store, &*volume);
        let catalog = &store.shared.catalog;
        assert!(catalog.is_deleted_copy(&copy).unwrap(), "objects were found in the last sweep");
        assert_eq!(store.sweep_volumes().unwrap(), SweepResult::default());
        assert!(!catalog.is_deleted_copy(&copy).unwrap());
    }
}

#[test]
fn objects_of_an_upload_by_another_node_are_not_swept() {
    let world = World::new();
    let store = world.open();
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    let keys = world.volume.list().unwrap();
    let other = |ending: &str| {
        let key = keys.iter().find(|key| key.ends_with(ending)).unwrap();
        key.replace("0000000001-", "0000000777-")
    };
    // Another node puts the objects of a bucket; the second one takes longer than the grace period.
    world.volume.write(&other(".bucket"), b"object");
    world.pass(GRACE + 1);
    world.volume.write(&other(".filter"), b"filter");
    assert_eq!(store.sweep_volumes().unwrap(), SweepResult { young: 2, ..SweepResult::default() });
    // The clock of this machine is days ahead of the volume's.
    world.clock.advance_ns(1_000_000 * NS_PER_SEC);
    assert_eq!(store.sweep_volumes().unwrap(), SweepResult { young: 2, ..SweepResult::default() });
    world.pass(GRACE + 1);
    assert_eq!(store.sweep_volumes().unwrap(), SweepResult { deleted: 2, ..SweepResult::default() });
    assert_tidy(&store, &*world.volume);
}

#[test]
fn uploads_that_never_end_are_given_up_after_the_grace_period() {
    let world = World::new();
    let store = world.open();
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    let own = "buckets/main/00000000000005ee/0000000009-00000000000f4240.bucket".to_owned();
    let other = own.replace("5ee", "5ef");
    let begun_ns = world.volume.now_ns.load(Ordering::SeqCst);
    *world.volume.unfinished.lock().unwrap() = vec![(own, begun_ns), (other.clone(), begun_ns)];
    world.pass(GRACE);
    assert_eq!(store.sweep_volumes().unwrap(), SweepResult::default());
    world.pass(1);
    assert_eq!(store.sweep_volumes().unwrap(), SweepResult { unfinished: 1, ..SweepResult::default() });
    assert_eq!(*world.volume.unfinished.lock().unwrap(), [(other, begun_ns)]);
}

#[test]
fn a_volume_that_cannot_be_listed_does_not_keep_others_from_being_swept() {
    let mut world = World::new();
    let unlisted = Arc::new(LateVolume::default());
    unlisted.is_unlisted.store(true, Ordering::SeqCst);
    let mut remote = RemoteOptions::clone(world.options.remote.as_ref().unwrap());
    remote.volumes.insert("away".to_owned(), unlisted);
    world.options.remote = Some(Arc::new(remote));
    let store = world.open();
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    world.volume.write("buckets/main/00000000000005ee/0000000009-00000000000f4240.bucket", b"orphan");
    world.pass(GRACE + 1);
    store.sweep_volumes().unwrap_err();
    assert_tidy(&store, &*world.volume);
}

#[test]
fn volumes_are_swept_while_a_bucket_cannot_be_uploaded() {
    let world = World::new();
    let store = world.open();
    let orphan = "buckets/main/00000000000005ee/0000000009-00000000000f4240.bucket".to_owned();
    world.volume.write(&orphan, b"orphan");
    world.volume.set_late(&["bucket"]);
    seal(&store, &["main"], 1, 5);
    world.pass(GRACE + 1);
    store.shared.transfer().unwrap_err();
    assert!(!world.volume.list().unwrap().contains(&orphan));
}

#[test]
fn records_of_deletions_do_not_stay_without_a_listing() {
    let world = World::new();
    let store = world.open();
    let catalog = &store.shared.catalog;
    let copies = ["cold/x/1", "former/x/1"];
    copies.iter().for_each(|copy| catalog.set_setting(&format!("deleted {copy}"), "1000000").unwrap());
    let known = || copies.map(|copy| catalog.is_deleted_copy(copy).unwrap());
    world.volume.is_unlisted.store(true, Ordering::SeqCst);
    for (secs, expected) in [(GRACE, [true, true]), (1, [true, false]), (29 * GRACE, [false, false])] {
        world.pass(secs);
        store.sweep_volumes().unwrap_err();
        assert_eq!(known(), expected);
    }
}

#[test]
fn buckets_that_return_after_a_listing_are_not_swept_with_their_late_objects() {
    let world = World::new();
    let store = world.open();
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    let keys = world.volume.list().unwrap();
    drop(store);
    let remote = RemoteOptions { default: None, ..(**world.options.remote.as_ref().unwrap()).clone() };
    let local = StoreOptions { remote: Some(Arc::new(remote)), ..world.options.clone() };
    let store = Store::open(local, world.clock.clone()).unwrap();
    store.migrate("main", None).unwrap();
    assert_eq!(world.volume.list().unwrap(), [""; 0]);
    drop(store);
    // Simulates a put that ended after the deletion.
    let late = keys.iter().find(|key| key.ends_with(".bucket")).unwrap();
    world.volume.write(late, b"late");
    world.pass(GRACE * 2);
    let store = world.open();
    let uploading = Arc::clone(&store);
    *world.volume.after_listing.0.lock().unwrap() = Some(Box::new(move || {
        uploading.upload_all().unwrap();
    }));
    assert_eq!(store.sweep_volumes().unwrap().deleted, 1);
    let returned = world.volume.list().unwrap();
    assert!(returned.len() == 3 && returned.iter().all(|key| !keys.contains(key)), "{returned:?}");
    assert_eq!(texts(&all(&store)), expected("main", 0..5));
    assert_tidy(&store, &*world.volume);
}

#[test]
fn an_outdated_receipt_is_swept_without_a_new_epoch() {
    let world = World::new();
    let store = world.open();
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    let outdated = world.volume.list().unwrap().into_iter().find(|key| key.ends_with(".receipt")).unwrap();
    store.delete(&find_events(&all(&store), |number| number == 3)).unwrap();
    store.upload_all().unwrap();
    let keys = world.volume.list().unwrap();
    assert!(keys.len() == 3 && !keys.contains(&outdated), "{keys:?}");
    // Simulates a put that ended after the deletion.
    world.volume.write(&outdated, b"late");
    world.pass(GRACE + 1);
    assert_eq!(store.sweep_volumes().unwrap(), SweepResult { deleted: 1, ..SweepResult::default() });
    assert_eq!(world.volume.list().unwrap(), keys);
    assert_eq!(store.shared.catalog.setting(UPLOAD_EPOCH_SETTING).unwrap(), None);
}

#[test]
fn objects_of_pending_commits_are_never_swept() {
    for late in [&["bucket"][..], &["filter"], &["receipt"]] {
        let world = World::new();
        let store = world.open();
        seal(&store, &["main"], 2, 5);
        world.volume.set_late(late);
        store.upload_all().unwrap_err();
        let there = world.volume.list().unwrap();
        assert!(!there.is_empty());
        // The same holds after a restart.
        drop(store);
        let store = world.open();
        for _ in 0..3 {
            world.pass(GRACE * 10);
            assert_eq!(store.sweep_volumes().unwrap(), SweepResult::default(), "{late:?}");
        }
        assert_eq!(world.volume.list().unwrap(), there);
        world.volume.set_late(&[]);
        world.volume.land();
        store.upload_all().unwrap();
        world.pass(GRACE * 10);
        assert_eq!(store.sweep_volumes().unwrap(), SweepResult::default());
        assert_eq!(texts(&all(&store)), expected("main", 0..10));
        assert_tidy(&store, &*world.volume);
    }
}

#[test]
fn buckets_of_a_newer_catalog_and_of_other_directories_stay() {
    let world = World::new();
    let store = world.open();
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    drop(store);
    let catalog = world.options.dir.join("catalog.sqlite");
    let kept = std::fs::read(&catalog).unwrap();
    let store = world.open();
    append(&store, "main", 10, 5);
    store.seal_all().unwrap();
    store.upload_all().unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Evicted); 3]);
    drop(store);
    let other = tempdir().unwrap();
    let remote = RemoteOptions {
        new_store_id: "0123456789abcdef".to_owned(),
        ..(**with_grace(other.path(), world.volume.clone()).remote.as_ref().unwrap()).clone()
    };
    let options = StoreOptions { remote: Some(Arc::new(remote)), ..with_grace(other.path(), world.volume.clone()) };
    let store = Store::open(options, world.clock.clone()).unwrap();
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    drop(store);
    let all = world.volume.list().unwrap();
    assert_eq!(all.len(), 12);
    std::fs::write(&catalog, kept).unwrap();
    let store = world.open();
    world.pass(GRACE * 10);
    for is_unordered in [false, true] {
        world.volume.is_unordered.store(is_unordered, Ordering::SeqCst);
        assert_eq!(store.sweep_volumes().unwrap(), SweepResult { unknown_buckets: 1, ..SweepResult::default() });
        assert_eq!(world.volume.list().unwrap(), all);
    }
    assert!(store.messages().iter().any(|it| it.text.contains("rebuild-catalog")));
}
