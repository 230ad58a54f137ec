//! A catalog rebuilt from a volume contains every uploaded event exactly once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quarry_blob::{BlobStore, DirectoryStore, MemoryBlobStore};
use quarry_catalog::RemoteState;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::compaction::{of_index, seal};
use super::deletion::{find_events, remaining_texts};
use super::migrate::{Place, at};
use super::objects::{Objects, Request};
use super::remote::{assert_tidy, options, states};
use super::{all, append, expected, open, texts};
use crate::remote::copies::UPLOAD_EPOCH_SETTING;
use crate::{RebuildResult, RemoteOptions, Store, StoreError, StoreOptions, rebuild_catalog, stores_on_volumes};

/// Id of the data directory in these tests.
const STORE: &str = "00000000000005ee";
/// Time of the rebuilds.
const NOW_NS: i64 = 0x77;

fn rebuilt(dir: &Path, volume: Arc<dyn BlobStore>) -> (RebuildResult, Arc<Store>) {
    let options = options(dir, volume, 0);
    let rebuilt = rebuild_catalog(&options, STORE, NOW_NS).unwrap();
    assert_eq!(rebuilt.refused, []);
    (rebuilt, open(&options))
}

/// Texts of an index in the order of arrival.
fn texts_of(store: &Store, index: &str) -> Vec<String> {
    texts(&of_index(store, index))
}

#[test]
fn rebuilt_catalogs_contain_all_uploaded_buckets() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let volume = Arc::new(MemoryBlobStore::default());
    let store = open(&options(dir.path(), volume.clone(), u64::MAX));
    seal(&store, &["main", "web"], 6, 5);
    assert_eq!(store.compact_all().unwrap().buckets_after, 2);
    for first in [15, 20] {
        for index in ["web", "main"] {
            append(&store, index, first, 5);
            store.seal_all().unwrap();
        }
    }
    store.upload_all().unwrap();
    let is_deleted = |number: u64| number == 3 || (18..22).contains(&number);
    store.delete(&find_events(&of_index(&store, "main"), is_deleted)).unwrap();
    store.upload_all().unwrap();
    let before: Vec<_> = store.buckets();
    let order = texts(&all(&store));
    drop(store);
    let (report, store) = rebuilt(other.path(), volume.clone());
    assert_eq!((report.buckets, report.events, report.replaced), (6, 45, 0));
    let epoch = store.shared.catalog.setting(UPLOAD_EPOCH_SETTING).unwrap();
    assert_eq!(epoch.as_deref(), Some("0000000000000077"));
    assert_eq!(texts_of(&store, "main"), remaining_texts("main", 0..25, is_deleted));
    assert_eq!(texts_of(&store, "web"), expected("web", 0..25));
    assert_eq!(texts(&all(&store)), order, "the order of arrival, over all indexes");
    let after: Vec<_> = store.buckets();
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        let copies = after.copies;
        assert_eq!(&crate::BucketListing { copies, ..before.clone() }, after);
    }
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    // The store remains usable.
    append(&store, "main", 25, 5);
    store.seal_all().unwrap();
    store.upload_all().unwrap();
    assert_eq!(texts_of(&store, "main"), remaining_texts("main", 0..30, is_deleted));
    assert_tidy(&store, &*volume);
    assert_eq!(store.retention(&[("main".to_owned(), 0), ("web".to_owned(), 0)]).unwrap().len(), 7);
    assert_eq!(volume.list().unwrap(), [""; 0]);
}

#[test]
fn rebuild_restores_either_a_merged_bucket_or_its_inputs() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let memory = Arc::new(MemoryBlobStore::default());
    let volume = Objects::around(memory.clone());
    let store = open(&options(dir.path(), volume.clone(), u64::MAX));
    seal(&store, &["main"], 4, 5);
    store.upload_all().unwrap();
    volume.keeps.store(true, Ordering::SeqCst);
    // After two merges, the inputs of the first one still exist when the result of the second is uploaded.
    for round in 0..2 {
        store.compact_all().unwrap();
        store.upload_all().unwrap();
        append(&store, "main", 20 + round * 5, 5);
        store.seal_all().unwrap();
        store.upload_all().unwrap();
    }
    assert_eq!(memory.list().unwrap().len(), (4 + 2 + 2) * 3);
    drop(store);
    let (report, store) = rebuilt(other.path(), memory.clone());
    assert_eq!((report.buckets, report.events, report.replaced), (2, 30, 6));
    assert_eq!(texts_of(&store, "main"), expected("main", 0..30));
    store.retention(&[]).unwrap();
    assert_tidy(&store, &*memory);
}

#[test]
fn merge_inputs_stay_on_the_volume_until_the_output_is_uploaded() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let memory = Arc::new(MemoryBlobStore::default());
    let volume = Objects::around(memory.clone());
    let with = options(dir.path(), volume.clone(), u64::MAX);
    let store = open(&with);
    seal(&store, &["main"], 3, 5);
    store.upload_all().unwrap();
    store.shared.uploads.stop();
    assert_eq!(store.compact_all().unwrap().buckets_after, 1);
    store.retention(&[]).unwrap();
    assert_eq!(memory.list().unwrap().len(), 9);
    drop(store);
    // The machine is lost now.
    {
        let (report, store) = rebuilt(other.path(), memory.clone());
        assert_eq!((report.buckets, texts_of(&store, "main")), (3, expected("main", 0..15)));
    }
    // The machine was not lost.
    let store = open(&with);
    store.upload_all().unwrap();
    store.retention(&[]).unwrap();
    assert_eq!((texts_of(&store, "main"), memory.list().unwrap().len()), (expected("main", 0..15), 3));
    assert_tidy(&store, &*memory);
}

#[test]
fn remote_deletion_does_not_wait_for_impossible_uploads() {
    let dir = tempdir().unwrap();
    let memory = Arc::new(MemoryBlobStore::default());
    let with = options(dir.path(), memory.clone(), u64::MAX);
    let store = open(&with);
    seal(&store, &["main"], 3, 5);
    store.upload_all().unwrap();
    drop(store);
    // From now on, new buckets of the index stay local, and so does the merged bucket.
    let mut remote = RemoteOptions::clone(with.remote.as_ref().unwrap());
    remote.default = None;
    let store = open(&StoreOptions { remote: Some(Arc::new(remote)), ..with });
    store.compact_all().unwrap();
    store.retention(&[]).unwrap();
    assert_eq!((texts_of(&store, "main"), memory.list().unwrap().len()), (expected("main", 0..15), 0));
}

#[test]
fn deletions_are_uploaded_after_a_restart() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let memory = Arc::new(MemoryBlobStore::default());
    let volume = Objects::around(memory.clone());
    let with = options(dir.path(), volume.clone(), 0);
    let store = open(&with);
    seal(&store, &["main"], 1, 10);
    store.upload_all().unwrap();
    volume.is_down.store(true, Ordering::SeqCst);
    volume.is_down.store(false, Ordering::SeqCst);
    store.shared.uploads.stop();
    for deleted in [2, 5] {
        store.delete(&find_events(&all(&store), |number| number == deleted)).unwrap();
    }
    drop(store);
    let store = open(&with);
    store.upload_all().unwrap();
    assert_tidy(&store, &*memory);
    drop(store);
    let (_, store) = rebuilt(other.path(), memory);
    assert_eq!(texts_of(&store, "main"), remaining_texts("main", 0..10, |number| number == 2 || number == 5));
}

/// A volume of which at most `opens` objects can be opened.
fn failing_after(opens: u64, store: &Arc<MemoryBlobStore>) -> Arc<Objects> {
    let left = AtomicU64::new(opens);
    Objects::watched_around(store.clone(), move |request| match request {
        Request::Open(_) => {
            let opened = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            opened.map(drop).map_err(|_| request.unreachable("the store is off"))
        }
        _ => Ok(()),
    })
}

#[test]
fn interrupted_rebuilds_resume_and_finished_ones_are_refused() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let memory = Arc::new(MemoryBlobStore::default());
    let store = open(&options(dir.path(), memory.clone(), 0));
    seal(&store, &["main", "web"], 8, 5);
    store.upload_all().unwrap();
    let order = texts(&all(&store));
    drop(store);
    // A second volume has one bucket of the same directory. If it fails, the results of the first volume are kept.
    let with = |second: Arc<dyn BlobStore>| {
        let options = options(other.path(), memory.clone(), 0);
        let mut remote = RemoteOptions::clone(options.remote.as_ref().unwrap());
        remote.volumes.insert("second".to_owned(), second);
        StoreOptions { remote: Some(Arc::new(remote)), ..options }
    };
    let second = Arc::new(MemoryBlobStore::default());
    for name in memory.list().unwrap().iter().filter(|name| name.contains("/web/")) {
        let object = memory.open(name).unwrap();
        second.put(name, &object.read_at(0, object.len() as usize).unwrap()).unwrap();
        memory.delete(name).unwrap();
    }
    for opens in 0..4 {
        let error = rebuild_catalog(&with(failing_after(opens, &second)), STORE, NOW_NS).unwrap_err();
        assert!(error.to_string().contains("the store is off"), "{error}");
        assert!(!other.path().join("catalog.sqlite").exists());
    }
    // Receipts that were read before are not read again: the four of `main` are known.
    let options = with(second.clone());
    let mut remote = RemoteOptions::clone(options.remote.as_ref().unwrap());
    remote.volumes.insert("cold".to_owned(), failing_after(0, &memory));
    let report = rebuild_catalog(&StoreOptions { remote: Some(Arc::new(remote)), ..options }, STORE, NOW_NS).unwrap();
    assert_eq!((report.buckets, report.refused.len()), (8, 0));
    let again = rebuild_catalog(&with(second.clone()), STORE, NOW_NS).unwrap_err();
    assert!(matches!(again, StoreError::CatalogExists { .. }), "{again}");
    let store = open(&with(second));
    assert_eq!(texts(&all(&store)), order);
}

#[test]
fn rebuild_refuses_directories_with_local_data() {
    let (dir, volume) = (tempdir().unwrap(), Arc::new(MemoryBlobStore::default()));
    let with = options(dir.path(), volume.clone(), u64::MAX);
    let store = open(&with);
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    let running = rebuild_catalog(&with, STORE, NOW_NS).unwrap_err();
    assert!(matches!(running, StoreError::Locked { .. }), "{running}");
    drop(store);
    std::fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
    let error = rebuild_catalog(&with, STORE, NOW_NS).unwrap_err();
    assert!(matches!(&error, StoreError::DataWithoutCatalog { .. }), "{error}");
    let none = StoreOptions { remote: None, ..with };
    assert!(matches!(rebuild_catalog(&none, STORE, NOW_NS), Err(StoreError::NoVolumes)));
}

#[test]
fn data_directories_on_one_volume_are_kept_apart() {
    let dirs = [tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap()];
    let volume = Arc::new(MemoryBlobStore::default());
    for (at, id) in ["1111111111111111", STORE].into_iter().enumerate() {
        let options = options(dirs[at].path(), volume.clone(), 0);
        let remote = RemoteOptions { new_store_id: id.to_owned(), ..(**options.remote.as_ref().unwrap()).clone() };
        let store = open(&StoreOptions { remote: Some(Arc::new(remote)), ..options });
        append(&store, "main", at as u64 * 10, 10);
        store.seal_all().unwrap();
        store.upload_all().unwrap();
    }
    let with = options(dirs[2].path(), volume.clone(), 0);
    let known = stores_on_volumes(with.remote.as_ref().unwrap()).unwrap();
    let ids: Vec<_> = known.iter().map(|store| (store.id.as_str(), store.buckets)).collect();
    assert_eq!(ids, [(STORE, 1), ("1111111111111111", 1)]);
    let (report, store) = rebuilt(dirs[2].path(), volume);
    assert_eq!((report.buckets, texts_of(&store, "main")), (1, expected("main", 10..20)));
}

#[test]
fn buckets_with_conflicting_numbers_are_renumbered() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let memory = Arc::new(MemoryBlobStore::default());
    let with = options(dir.path(), memory.clone(), 0);
    let catalog = dir.path().join("catalog.sqlite");
    let add = |first: u64, time: i64| {
        let store = Store::open(with.clone(), ManualClock::shared(time)).unwrap();
        append(&store, "main", first, 5);
        store.seal_all().unwrap();
        store.upload_all().unwrap();
        assert!(states(&store).iter().all(|state| *state == Some(RemoteState::Evicted)));
        drop(store);
        std::fs::remove_dir_all(dir.path().join("wal")).unwrap();
    };
    add(0, 1_000);
    let kept = std::fs::read(&catalog).unwrap();
    add(5, 2_000);
    // An older catalog is restored, so that the same number is used again.
    std::fs::write(&catalog, kept).unwrap();
    add(10, 3_000);
    let (report, store) = rebuilt(other.path(), memory.clone());
    assert_eq!((report.buckets, report.events), (3, 15));
    let mut found = texts_of(&store, "main");
    found.sort();
    let mut whole = expected("main", 0..15);
    whole.sort();
    assert_eq!(found, whole);
    assert_tidy(&store, &*memory);
    assert_eq!(store.sweep_volumes().unwrap().unknown_buckets, 0);
    assert_eq!(store.retention(&[("main".to_owned(), 0)]).unwrap().len(), 3);
    assert_eq!(memory.list().unwrap(), [""; 0]);
}

#[test]
fn damaged_receipts_are_reported_and_others_restored() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let memory = Arc::new(MemoryBlobStore::default());
    let store = open(&options(dir.path(), memory.clone(), 0));
    seal(&store, &["main"], 3, 5);
    store.upload_all().unwrap();
    drop(store);
    let name = memory.list().unwrap().into_iter().find(|name| name.ends_with("receipt")).unwrap();
    memory.put(&name, b"{}\n0000000000000000\n").unwrap();
    let with = options(other.path(), memory, 0);
    let report = rebuild_catalog(&with, STORE, NOW_NS).unwrap();
    assert_eq!((report.buckets, report.refused.len()), (2, 1));
    assert!(report.refused[0].0.contains(&name) && report.refused[0].1.to_string().contains("checksum"));
    assert_eq!(texts_of(&open(&with), "main"), expected("main", 5..15));
}

#[test]
fn buckets_whose_objects_are_cut_off_are_refused() {
    let (dir, other, there) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    let volume = Arc::new(DirectoryStore::open(there.path()).unwrap());
    let store = open(&options(dir.path(), volume.clone(), 0));
    seal(&store, &["main"], 3, 5);
    store.upload_all().unwrap();
    drop(store);
    let names = volume.list().unwrap();
    // A copy of the volume was interrupted; receipts come first.
    for (ending, kept) in [(".bucket", 100), (".filter", 0)] {
        let name = names.iter().find(|name| name.ends_with(ending)).unwrap();
        let whole = std::fs::read(volume.path(name)).unwrap();
        std::fs::write(volume.path(name), &whole[..kept]).unwrap();
        let options = options(other.path(), volume.clone(), 0);
        let rebuilt = rebuild_catalog(&options, STORE, NOW_NS).unwrap();
        assert_eq!(rebuilt.buckets, 2);
        let [(_, fault)] = &rebuilt.refused[..] else { panic!("{:?}", rebuilt.refused) };
        assert!(fault.to_string().contains(&format!("{name} has only {kept} bytes")), "{fault}");
        std::fs::write(volume.path(name), whole).unwrap();
        std::fs::remove_file(other.path().join("catalog.sqlite")).unwrap();
    }
    assert_eq!(texts_of(&rebuilt(other.path(), volume).1, "main"), expected("main", 0..15));
}

#[test]
fn the_copy_with_the_newest_deletions_is_restored() {
    let (dir, other) = (tempdir().unwrap(), tempdir().unwrap());
    let (cold, warm) = (Arc::new(MemoryBlobStore::default()), Arc::new(MemoryBlobStore::default()));
    let keeping = Objects::around(cold.clone());
    let there = |place| at(place, dir.path(), keeping.clone(), warm.clone(), 0);
    let store = open(&there(Place::Cold));
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    drop(store);
    // The objects at the previous location stay, as after a crash before their deletion.
    keeping.keeps.store(true, Ordering::SeqCst);
    let store = open(&there(Place::Warm));
    store.migrate("main", Some("warm")).unwrap_err();
    store.delete(&find_events(&all(&store), |number| number == 2)).unwrap();
    store.upload_all().unwrap();
    drop(store);
    let (receipts, _): (Vec<String>, _) = warm.list().unwrap().into_iter().partition(|name| name.ends_with("receipt"));
    assert_eq!((receipts.len(), cold.list().unwrap().len()), (1, 3));
    let options = at(Place::Warm, other.path(), cold.clone(), warm.clone(), 0);
    let rebuilt = rebuild_catalog(&options, STORE, NOW_NS).unwrap();
    assert_eq!((rebuilt.buckets, rebuilt.events, rebuilt.refused.len()), (1, 4, 0));
    let store = open(&options);
    assert_eq!(texts_of(&store, "main"), remaining_texts("main", 0..5, |number| number == 2));
}
