//! Buckets move to another volume and back, even if searches, merges, deletions or crashes happen in between.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quarry_blob::{BlobStore, DirectoryStore, MemoryBlobStore};
use quarry_catalog::{Catalog, RemoteState};
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::compaction::seal;
use super::deletion::{find_events, remaining_texts};
use super::objects::{Objects, OperationsLeft, Request};
use super::remote::{assert_tidy, options, states};
use super::{all, append, expected, open, texts};
use crate::remote::copies::ObjectKind;
use crate::{LocalDisk, RemoteOptions, RemotePath, Store, StoreError, StoreOptions, data_dir, rebuild_catalog};

/// Location of index `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Cold,
    Warm,
    Here,
}

impl Place {
    fn volume(self) -> Option<&'static str> {
        match self {
            Place::Cold => Some("cold"),
            Place::Warm => Some("warm"),
            Place::Here => None,
        }
    }
}

/// Options of a store with two volumes, whose index `main` is at `place`.
pub(super) fn at(
    place: Place,
    dir: &Path,
    cold: Arc<dyn BlobStore>,
    warm: Arc<dyn BlobStore>,
    cache: u64,
) -> StoreOptions {
    let options = options(dir, cold, cache);
    let mut remote = RemoteOptions::clone(options.remote.as_ref().unwrap());
    remote.volumes.insert("warm".to_owned(), warm);
    let path = |volume: &str| RemotePath { volume: volume.to_owned(), path: format!("{volume}/$_index_name") };
    remote.of_index.insert("main".to_owned(), place.volume().map(path));
    StoreOptions { remote: Some(Arc::new(remote)), ..options }
}

#[test]
fn an_index_moves_between_volumes_and_back_while_searches_go_on() {
    for cache in [0, u64::MAX] {
        let dir = tempdir().unwrap();
        let (cold, warm) = (Arc::new(MemoryBlobStore::default()), Arc::new(MemoryBlobStore::default()));
        let at = |place| at(place, dir.path(), cold.clone(), warm.clone(), cache);
        let store = open(&at(Place::Here));
        seal(&store, &["main"], 3, 5);
        store.delete(&find_events(&all(&store), |number| number == 7)).unwrap();
        let whole = remaining_texts("main", 0..15, |number| number == 7);
        let counts = || (cold.list().unwrap().len(), warm.list().unwrap().len());
        assert!(matches!(store.migrate("main", Some("warm")), Err(StoreError::PlacementMismatch { .. })));
        for to in [None, Some("warm"), Some("cold")] {
            assert!(matches!(store.migrate("nosuch", to), Err(StoreError::NoIndex { .. })), "{to:?}");
        }
        drop(store);
        let way = [Place::Cold, Place::Warm, Place::Here, Place::Warm, Place::Cold, Place::Here];
        for (from, place) in std::iter::once(Place::Here).chain(way).zip(way) {
            let store = open(&at(place));
            let before = all(&store);
            let report = store.migrate("main", place.volume()).unwrap();
            // The upload thread may already have uploaded buckets that were on no volume.
            let uploaded = if from == Place::Here { report.already_there } else { 0 };
            let moved = (report.moved + uploaded, report.already_there - uploaded, report.not_moved.len());
            assert_eq!(moved, (3, 0, 0), "{from:?} to {place:?}: {report:?}");
            assert_eq!(super::texts(&before), whole, "a search that had begun");
            // Objects that the search may still read stay until it ends.
            assert_eq!(report.waiting, if from == Place::Here { 0 } else { 3 });
            drop(before);
            assert_eq!(store.migrate("main", place.volume()).unwrap().moved, 0);
            assert_eq!(texts(&all(&store)), whole);
            let expected = match place {
                Place::Cold => (9, 0),
                Place::Warm => (0, 9),
                Place::Here => (0, 0),
            };
            assert_eq!(counts(), expected, "{from:?} to {place:?}");
            assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
            let volume: &dyn BlobStore = if place == Place::Warm { &*warm } else { &*cold };
            assert_tidy(&store, volume);
        }
        let store = open(&at(Place::Here));
        assert_eq!(states(&store), [None; 3]);
        assert_eq!(texts(&all(&store)), whole);
    }
}

#[test]
fn a_damaged_copy_is_not_fetched_and_its_volume_keeps_it() {
    let dir = tempdir().unwrap();
    let (cold, warm) = (Arc::new(MemoryBlobStore::default()), Arc::new(MemoryBlobStore::default()));
    let at = |place| at(place, dir.path(), cold.clone(), warm.clone(), 0);
    let store = open(&at(Place::Cold));
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    drop(store);
    let name = cold.list().unwrap().into_iter().find(|name| name.ends_with(".bucket")).unwrap();
    let object = cold.open(&name).unwrap();
    let whole = object.read_at(0, object.len() as usize).unwrap();
    let mut damaged = whole.to_vec();
    damaged[whole.len() / 3] ^= 4;
    cold.put(&name, &damaged).unwrap();
    let store = open(&at(Place::Here));
    let report = store.migrate("main", None).unwrap();
    assert_eq!((report.moved, report.not_moved.len()), (1, 1), "{report:?}");
    assert!(report.not_moved[0].reason.contains("copy on the volume is damaged"), "{report:?}");
    assert_eq!(states(&store)[0], Some(RemoteState::Evicted));
    cold.put(&name, &whole).unwrap();
    assert_eq!(store.migrate("main", None).unwrap().moved, 1);
    assert_eq!((texts(&all(&store)), cold.list().unwrap()), (expected("main", 0..10), vec![]));
    assert_tidy(&store, &*cold);
}

#[test]
fn a_damaged_local_copy_does_not_replace_the_one_on_the_volume() {
    let dir = tempdir().unwrap();
    let (cold, warm) = (Arc::new(MemoryBlobStore::default()), Arc::new(MemoryBlobStore::default()));
    let at = |place| at(place, dir.path(), cold.clone(), warm.clone(), u64::MAX);
    let store = open(&at(Place::Cold));
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    drop(store);
    let locals = [1, 2].map(|number| dir.path().join(format!("db/main/{number:010}.bucket")));
    let whole = std::fs::read(&locals[0]).unwrap();
    for local in &locals {
        let mut damaged = std::fs::read(local).unwrap();
        let middle = damaged.len() / 3;
        damaged[middle] ^= 4;
        std::fs::write(local, damaged).unwrap();
    }
    // The second bucket is fetched again. Both copies of the first are damaged, and both stay.
    let name = cold.list().unwrap().into_iter().find(|name| name.ends_with(".bucket")).unwrap();
    cold.put(&name, &std::fs::read(&locals[0]).unwrap()).unwrap();
    let store = open(&at(Place::Here));
    let report = store.migrate("main", None).unwrap();
    assert_eq!((report.moved, report.not_moved.len()), (1, 1), "{report:?}");
    assert!(report.not_moved[0].reason.contains("copy on the volume is damaged"), "{report:?}");
    assert_eq!(states(&store), [Some(RemoteState::Uploaded), None]);
    assert!(locals[0].exists() && cold.list().unwrap().contains(&name));
    std::fs::write(&locals[0], whole).unwrap();
    assert_eq!(store.migrate("main", None).unwrap().moved, 1);
    assert_eq!((texts(&all(&store)), cold.list().unwrap()), (expected("main", 0..10), vec![]));
    assert_tidy(&store, &*cold);
}

/// Migrates from one location to another on a machine that dies after `acts` operations on objects; returns whether the
/// migration finished before that.
fn crash_after(acts: u64, from: Place, to: Place, writes_late: bool) -> bool {
    let dir = tempdir().unwrap();
    let volumes = [Arc::new(MemoryBlobStore::default()), Arc::new(MemoryBlobStore::default())];
    let at = |place, cold, warm| at(place, dir.path(), cold, warm, 0);
    let store = open(&at(from, volumes[0].clone(), volumes[1].clone()));
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    drop(store);
    let left: OperationsLeft = Arc::new(AtomicU64::new(acts));
    {
        let objects = |store: Arc<dyn BlobStore>| Objects::new(store, &left, writes_late) as Arc<dyn BlobStore>;
        let local = DirectoryStore::open(&data_dir::objects(dir.path())).unwrap();
        let options = at(to, objects(volumes[0].clone()), objects(volumes[1].clone()));
        let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
        let clock = ManualClock::shared(1_000_000);
        let opened = Store::open_with(options, Arc::new(LocalDisk), objects(Arc::new(local)), catalog, clock);
        if let Ok(store) = opened {
            drop(store.migrate("main", to.volume()));
        }
    }
    let is_over = left.load(Ordering::SeqCst) > 0;
    let store = open(&at(to, volumes[0].clone(), volumes[1].clone()));
    assert_eq!(texts(&all(&store)), expected("main", 0..10), "{from:?} to {to:?}, {acts} acts");
    // In every third case, the migration is reversed after the crash.
    let back = acts % 3 == 2;
    if back {
        drop(store);
        let store = open(&at(from, volumes[0].clone(), volumes[1].clone()));
        while store.migrate("main", from.volume()).unwrap().not_moved.len() + buckets_with_old_copies(&store) > 0 {}
        assert_eq!(texts(&all(&store)), expected("main", 0..10));
        check(&store, from, &volumes);
        return is_over;
    }
    append(&store, "main", 10, 5);
    store.seal_all().unwrap();
    while store.migrate("main", to.volume()).unwrap().not_moved.len() + buckets_with_old_copies(&store) > 0 {}
    assert_eq!(texts(&all(&store)), expected("main", 0..15), "{from:?} to {to:?}, {acts} acts");
    check(&store, to, &volumes);
    is_over
}

/// Number of buckets with objects at an old location.
fn buckets_with_old_copies(store: &Store) -> usize {
    store.shared.state_with_all().unwrap().sealed.values().filter(|bucket| bucket.copies.other().is_some()).count()
}

fn check(store: &Store, place: Place, volumes: &[Arc<MemoryBlobStore>; 2]) {
    let [cold, warm] = [0, 1].map(|at: usize| volumes[at].list().unwrap().len());
    assert!(if place == Place::Cold { warm == 0 } else { cold == 0 }, "{place:?}: {cold} {warm}");
    assert_tidy(store, if place == Place::Warm { &*volumes[1] } else { &*volumes[0] });
    let state = place.volume().map(|_| RemoteState::Evicted);
    store.upload_all().unwrap();
    assert!(states(store).iter().all(|found| *found == state), "{:?}", states(store));
}

#[test]
fn crash_during_migration_neither_loses_nor_duplicates_events() {
    for (from, to) in [(Place::Cold, Place::Warm), (Place::Warm, Place::Here), (Place::Here, Place::Cold)] {
        for writes_late in [false, true] {
            let mut acts = 0;
            while !crash_after(acts, from, to, writes_late) {
                acts += 1;
            }
            assert!(acts > 7, "{from:?} to {to:?}: {acts}");
        }
    }
}

#[test]
fn an_unreachable_volume_does_not_delay_uploads_to_others() {
    let dir = tempdir().unwrap();
    let (cold, warm) = (Arc::new(MemoryBlobStore::default()), Arc::new(MemoryBlobStore::default()));
    let down = Objects::around(cold.clone());
    let store = open(&at(Place::Warm, dir.path(), down.clone(), warm.clone(), u64::MAX));
    store.shared.uploads.stop();
    down.is_down.store(true, Ordering::SeqCst);
    // Index `web` is on volume `cold`, and its bucket is the oldest.
    seal(&store, &["web", "main"], 2, 5);
    for _ in 0..3 {
        store.upload_all().unwrap_err();
    }
    assert_eq!(states(&store), [Some(RemoteState::Uploading), Some(RemoteState::Uploaded)]);
    down.is_down.store(false, Ordering::SeqCst);
    store.upload_all().unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Uploaded); 2]);
}

#[test]
fn a_bucket_that_cannot_be_uploaded_does_not_delay_others() {
    for uploads_max in [1, 3] {
        let dir = tempdir().unwrap();
        let is_refused = Arc::new(AtomicBool::new(true));
        let refuses = Arc::clone(&is_refused);
        // The store accepts every bucket except the oldest one, for example because it is too large.
        let volume = Objects::watched(move |request| match request {
            Request::Put(name, _) if name.contains("/0000000001-") && refuses.load(Ordering::SeqCst) => {
                Err(request.unreachable("it refuses this bucket"))
            }
            _ => Ok(()),
        });
        let options = options(dir.path(), volume, u64::MAX);
        let remote = RemoteOptions { uploads_max, ..RemoteOptions::clone(options.remote.as_ref().unwrap()) };
        let store = open(&StoreOptions { remote: Some(Arc::new(remote)), ..options });
        store.shared.uploads.stop();
        seal(&store, &["main"], 4, 5);
        // The first call of the two fails at once if a single bucket is uploaded at a time.
        for _ in 0..2 {
            store.upload_all().unwrap_err();
        }
        let uploaded = Some(RemoteState::Uploaded);
        assert_eq!(states(&store), [Some(RemoteState::Uploading), uploaded, uploaded, uploaded], "{uploads_max}");
        is_refused.store(false, Ordering::SeqCst);
        store.upload_all().unwrap();
        assert_eq!(states(&store), [uploaded; 4]);
    }
}

/// A volume that receives every request to delete twice, the second time late.
#[derive(Default)]
struct RepeatedDeletes {
    store: Arc<MemoryBlobStore>,
    under_way: Arc<Mutex<Vec<String>>>,
}

impl RepeatedDeletes {
    fn volume(&self) -> Arc<Objects> {
        let under_way = Arc::clone(&self.under_way);
        Objects::watched_around(self.store.clone(), move |request| {
            if let Request::Delete(name) = request {
                under_way.lock().unwrap().push(name.to_owned());
            }
            Ok(())
        })
    }

    /// Executes the late requests; returns their number.
    fn land(&self) -> usize {
        let names = std::mem::take(&mut *self.under_way.lock().unwrap());
        names.iter().for_each(|name| self.store.delete(name).unwrap());
        names.len()
    }
}

#[test]
fn a_late_delete_does_not_hit_a_bucket_that_has_returned() {
    for away in [Place::Here, Place::Warm] {
        let dir = tempdir().unwrap();
        let (cold, warm) = (RepeatedDeletes::default(), RepeatedDeletes::default());
        let at = |place| at(place, dir.path(), cold.volume(), warm.volume(), 0);
        let mut folders = Vec::new();
        for place in [Place::Cold, away, Place::Cold, away, Place::Cold] {
            let store = open(&at(place));
            if folders.is_empty() {
                seal(&store, &["main"], 2, 5);
            }
            // The second migration deletes the objects at the old locations.
            for _ in 0..2 {
                store.migrate("main", place.volume()).unwrap();
            }
            cold.land();
            assert_eq!(texts(&all(&store)), expected("main", 0..10), "{away:?}: {folders:?}");
            assert_tidy(&store, if place == Place::Warm { &*warm.store } else { &*cold.store });
            let folder = |name: String| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
            folders.extend(cold.store.list().unwrap().into_iter().next().and_then(folder));
        }
        assert_eq!(warm.land() > 0, away == Place::Warm);
        assert_eq!(folders[0], "cold/main/00000000000005ee");
        folders.dedup();
        assert_eq!(folders.len(), 3, "each return has keys of its own: {folders:?}");
        // A catalog is rebuilt from a folder of a later epoch.
        let other = tempdir().unwrap();
        let options = super::migrate::at(Place::Cold, other.path(), cold.volume(), warm.volume(), 0);
        assert_eq!(rebuild_catalog(&options, "00000000000005ee", 0).unwrap().buckets, 2);
        assert_eq!(texts(&all(&open(&options))), expected("main", 0..10));
    }
}

#[test]
fn a_late_delete_does_not_hit_a_bucket_that_returns_after_a_rebuild() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let (cold, warm) = (RepeatedDeletes::default(), RepeatedDeletes::default());
    let at = |place, dir: &Path| at(place, dir, cold.volume(), warm.volume(), 0);
    let store = open(&at(Place::Cold, dir.path()));
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    drop(store);
    let store = open(&at(Place::Warm, dir.path()));
    store.migrate("main", Some("warm")).unwrap();
    drop(store);
    // The machine is lost before its requests to delete have arrived for the second time.
    let options = at(Place::Cold, other.path());
    assert_eq!(rebuild_catalog(&options, "00000000000005ee", 0).unwrap().buckets, 2);
    let store = open(&options);
    assert_eq!(store.migrate("main", Some("cold")).unwrap().moved, 2);
    assert!(cold.land() > 0);
    assert_eq!(texts(&all(&store)), expected("main", 0..10));
}

#[test]
fn a_search_that_opens_a_bucket_while_it_moves_does_not_hinder_later_searches() {
    let dir = tempdir().unwrap();
    let (cold, warm) = (Arc::new(MemoryBlobStore::default()), Arc::new(MemoryBlobStore::default()));
    let at = |place| StoreOptions {
        page_cache_bytes: 0,
        column_cache_bytes: 0,
        ..at(place, dir.path(), cold.clone(), warm.clone(), 0)
    };
    let store = open(&at(Place::Cold));
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    drop(store);
    let store = open(&at(Place::Warm));
    let before = all(&store);
    assert_eq!(texts(&before), expected("main", 0..5));
    let readers = &store.shared.readers;
    let object_at_cold = {
        let bucket = store.shared.state_with_all().unwrap().sealed.values().next().cloned().unwrap();
        readers.remotes().open(&bucket.row, ObjectKind::Object, &bucket.copies.remote().unwrap()).unwrap().object
    };
    assert_eq!(store.migrate("main", Some("warm")).unwrap().waiting, 1);
    // The search had opened the object before the move, and caches it only now.
    readers.put_open_object(1, object_at_cold);
    drop(before);
    assert_eq!(store.migrate("main", Some("warm")).unwrap().waiting, 0);
    assert_eq!(cold.list().unwrap(), [""; 0]);
    assert_eq!(texts(&all(&store)), expected("main", 0..5));
}

#[test]
fn an_old_volume_out_of_reach_does_not_slow_down_uploads() {
    let dir = tempdir().unwrap();
    let (cold, warm) = (Objects::around(Arc::new(MemoryBlobStore::default())), Arc::new(MemoryBlobStore::default()));
    let at = |place| at(place, dir.path(), cold.clone(), warm.clone(), u64::MAX);
    let store = open(&at(Place::Cold));
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    drop(store);
    let store = open(&at(Place::Warm));
    let before = all(&store);
    assert_eq!(store.migrate("main", Some("warm")).unwrap().waiting, 1);
    store.shared.uploads.stop();
    cold.is_down.store(true, Ordering::SeqCst);
    drop(before);
    // There are more buckets than one round uploads.
    for first in (5..40).step_by(5) {
        append(&store, "main", first, 5);
        store.seal_all().unwrap();
    }
    let waiting = store.shared.uploads.count();
    assert!(waiting > 3, "{waiting} buckets wait");
    while store.shared.transfer().unwrap_or(false) {}
    assert!(states(&store).iter().all(|state| *state == Some(RemoteState::Uploaded)), "{:?}", states(&store));
    // The failure is reported once, and not as a failed upload.
    assert!(!store.shared.transfer().unwrap());
    let told = store.messages();
    let is_about = |part: &str| told.iter().filter(|message| message.text.contains(part)).count();
    assert_eq!((is_about("cannot be deleted yet"), is_about("cannot be uploaded")), (1, 0), "{told:?}");
    cold.is_down.store(false, Ordering::SeqCst);
    assert!(!store.shared.transfer().unwrap());
    assert_eq!(cold.list().unwrap(), [""; 0]);
}
