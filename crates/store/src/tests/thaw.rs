//! Thawed buckets are found once, are exempt from retention, disappear with their folder, and are complete or absent
//! after a crash.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_blob::DirectoryStore;
use quarry_catalog::Catalog;
use quarry_event::TimeRange;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::faults::{Machine, MachineBlobs};
use super::{all, append, expected, open, small, texts, try_append};
use crate::{IndexSelector, RetentionRule, Store, StoreError, StoreOptions, data_dir};

/// The directory of an archived bucket with the events `0..8` of main.
fn archived(place: &Path) -> PathBuf {
    let options = small(&place.join("before"));
    let store = open(&options);
    append(&store, "main", 0, 8);
    store.seal_all().unwrap();
    drop(store);
    let folder = place.join("db_7_0_1");
    fs::create_dir(&folder).unwrap();
    for object in ["0000000001.bucket", "0000000001.filter"] {
        fs::copy(place.join("before/db/main").join(object), folder.join(object)).unwrap();
    }
    folder
}

/// A retention rule that removes every bucket it may remove.
fn remove_everything_rule() -> RetentionRule {
    RetentionRule {
        index: "main".to_owned(),
        max_age_secs: 0,
        max_stored_bytes: Some(1),
        max_raw_bytes: None,
        archives: false,
        empties_after_secs: 0,
    }
}

#[test]
fn thawed_buckets_are_searchable_until_their_folder_is_removed() {
    let dir = tempdir().unwrap();
    let folder = archived(dir.path());
    let options = small(&dir.path().join("data"));
    let store = open(&options);
    append(&store, "main", 8, 4);
    let id = store.thaw("main", &folder).unwrap();
    assert_eq!(store.thaw("main", &folder).unwrap(), id, "once");
    let mut found = texts(&all(&store));
    found.sort();
    let mut both = expected("main", 0..12);
    both.sort();
    assert_eq!(found, both);
    // Later events are sealed, and neither a merge nor retention touches the thawed bucket.
    append(&store, "main", 12, 4);
    store.seal_all().unwrap();
    append(&store, "main", 16, 4);
    store.seal_all().unwrap();
    store.compact_all().unwrap();
    assert!(store.buckets().iter().any(|bucket| bucket.id == id && bucket.events == 8));
    store.run_retention(&[remove_everything_rule()], &|_| Ok(())).unwrap();
    drop(store);
    let store = open(&options);
    assert_eq!(store.run_retention(&[remove_everything_rule()], &|_| Ok(())).unwrap(), Default::default());
    assert_eq!(texts(&all(&store)), expected("main", 0..8));
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()), "{:?}", store.verify());
    assert_eq!(store.scan_thawed().unwrap(), Default::default());
    fs::remove_dir_all(dir.path().join("data/db/main/thaweddb/db_7_0_1")).unwrap();
    assert_eq!(store.scan_thawed().unwrap().removed, [id]);
    assert!(texts(&all(&store)).is_empty());
    drop(store);
    let store = open(&options);
    assert!(texts(&all(&store)).is_empty());
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()), "{:?}", store.verify());
}

#[test]
fn folders_in_thaweddb_are_found_and_broken_ones_reported_once() {
    let dir = tempdir().unwrap();
    let folder = archived(dir.path());
    let options = StoreOptions { configured_indexes: ["main".to_owned()].into(), ..small(&dir.path().join("data")) };
    let store = open(&options);
    let place = dir.path().join("data/db/main/thaweddb");
    fs::create_dir_all(&place).unwrap();
    let copy = |name: &str| {
        fs::create_dir(place.join(name)).unwrap();
        for object in ["0000000001.bucket", "0000000001.filter"] {
            fs::copy(folder.join(object), place.join(name).join(object)).unwrap();
        }
    };
    copy("db_7_0_1");
    copy("damaged");
    let object = place.join("damaged/0000000001.bucket");
    let mut bytes = fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&object, bytes).unwrap();
    copy("half");
    fs::remove_file(place.join("half/0000000001.filter")).unwrap();
    let looked = store.scan_thawed().unwrap();
    assert_eq!((looked.added.len(), looked.refused.len()), (1, 2), "{looked:?}");
    assert!(looked.refused[0].contains("damaged is not thawed"), "{looked:?}");
    assert!(looked.refused[1].contains("it has no .filter file"), "{looked:?}");
    assert_eq!(store.scan_thawed().unwrap(), Default::default());
    assert_eq!(texts(&all(&store)), expected("main", 0..8));
    for wrong in [place.join("damaged"), place.join("half"), dir.path().join("none")] {
        assert!(matches!(store.thaw("main", &wrong), Err(StoreError::NotThawed { .. })));
    }
}

#[test]
fn thawed_buckets_do_not_move_the_sealing_position() {
    let dir = tempdir().unwrap();
    let folder = archived(dir.path());
    let store = open(&small(&dir.path().join("data")));
    append(&store, "main", 8, 4);
    // The log thread has chosen the number of the next slab, but its events are not in the log yet.
    let planned = store.shared.state().take_number();
    let id = store.thaw("main", &folder).unwrap();
    assert_eq!(id, format!("main~{}", planned + 1));
    store.seal_all().unwrap();
    // After a crash, events of the planned slab must be taken from the log.
    assert_eq!(store.shared.catalog.positions().unwrap(), [("main".to_owned(), planned - 1)]);
}

#[test]
fn a_folder_that_was_removed_and_restored_keeps_its_objects() {
    let dir = tempdir().unwrap();
    let folder = archived(dir.path());
    let options = small(&dir.path().join("data"));
    let store = open(&options);
    append(&store, "main", 8, 4);
    store.thaw("main", &folder).unwrap();
    let place = dir.path().join("data/db/main/thaweddb/db_7_0_1");
    let aside = dir.path().join("aside");
    fs::rename(&place, &aside).unwrap();
    assert_eq!(store.scan_thawed().unwrap().removed.len(), 1);
    fs::rename(&aside, &place).unwrap();
    assert_eq!(store.scan_thawed().unwrap().added.len(), 1);
    // This round deletes the objects of the bucket that was removed.
    store.run_retention(&[], &|_| Ok(())).unwrap();
    let check = |store: &Store| {
        let mut found = texts(&all(store));
        found.sort();
        let mut both = expected("main", 0..12);
        both.sort();
        assert_eq!(found, both);
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()), "{:?}", store.verify());
    };
    check(&store);
    // Now the process ends before the objects of the removed bucket are deleted.
    fs::rename(&place, &aside).unwrap();
    assert_eq!(store.scan_thawed().unwrap().removed.len(), 1);
    fs::rename(&aside, &place).unwrap();
    assert_eq!(store.scan_thawed().unwrap().added.len(), 1);
    drop(store);
    let store = open(&options);
    check(&store);
    assert_eq!(store.shared.catalog.buckets(quarry_catalog::BucketState::Retired).unwrap(), []);
}

fn open_on(machine: &Machine, options: &StoreOptions) -> Result<Arc<Store>, StoreError> {
    fs::create_dir_all(&options.dir).unwrap();
    let catalog = Catalog::open(&data_dir::catalog(&options.dir))?;
    let blobs = MachineBlobs(machine.clone(), DirectoryStore::open(&data_dir::objects(&options.dir))?);
    Store::open_with(options.clone(), Arc::new(machine.clone()), Arc::new(blobs), catalog, ManualClock::shared(0))
}

#[test]
fn crash_during_thawing_leaves_the_bucket_complete_or_absent() {
    let dir = tempdir().unwrap();
    let folder = archived(dir.path());
    let mut outcomes = BTreeSet::new();
    for bytes in (0..2_000).step_by(50) {
        let options = small(&dir.path().join(format!("data-{bytes}")));
        let machine = Machine::new(bytes);
        let Ok(store) = open_on(&machine, &options) else { continue };
        let is_appended = try_append(&store, "main", 8, 4).is_ok();
        let is_thawed = store.thaw("main", &folder).is_ok();
        outcomes.insert((is_appended, is_thawed));
        drop(store);
        machine.lose_unsynced(bytes);
        let store = open(&options);
        let found = || {
            let mut found = texts(&store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL));
            found.sort();
            found
        };
        let holds = |texts: &[String]| texts.iter().all(|text| found().contains(text));
        let (own, thawed) = (expected("main", 8..12), expected("main", 0..8));
        assert!(holds(&own) || !is_appended, "{bytes}");
        assert!(holds(&thawed) || !is_thawed, "{bytes}");
        assert!([0, 4, 8, 12].contains(&found().len()), "{bytes}");
        store.thaw("main", &folder).unwrap();
        assert!(holds(&thawed) && found().len() <= 12, "{bytes}");
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()), "{bytes} {:?}", store.verify());
    }
    assert!(outcomes.is_superset(&[(true, false), (true, true)].into()), "{outcomes:?}");
}
