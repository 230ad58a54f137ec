//! A missing or damaged catalog is reported, and no object is ever overwritten.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::{all, append, expected, open, small, texts};
use crate::{Store, StoreError, StoreOptions};

/// Results of opening the store for writing and for reading.
fn open_both(options: &StoreOptions) -> [Result<Arc<Store>, StoreError>; 2] {
    let clock = || ManualClock::shared(0);
    let read = Store::open_read_only(options.clone(), clock());
    [read, Store::open(options.clone(), clock())]
}

fn sealed(dir: &Path) -> StoreOptions {
    let options = small(dir);
    let store = open(&options);
    append(&store, "main", 0, 8);
    store.seal_all().unwrap();
    options
}

#[test]
fn data_without_a_catalog_is_refused_and_kept() {
    let dir = tempdir().unwrap();
    let options = sealed(dir.path());
    let (catalog, object) = (dir.path().join("catalog.sqlite"), dir.path().join("db/main/0000000001.bucket"));
    let before = fs::read(&object).unwrap();
    fs::rename(&catalog, dir.path().join("aside")).unwrap();
    for opened in open_both(&options) {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::CatalogMissing { .. }), "{error}");
        assert!(error.to_string().contains("catalog.sqlite is missing"), "{error}");
    }
    assert!(!catalog.exists());
    fs::write(&catalog, "").unwrap();
    for opened in open_both(&options) {
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("is damaged: it is empty"), "{error}");
    }
    assert_eq!(fs::read(&object).unwrap(), before);
    fs::rename(dir.path().join("aside"), &catalog).unwrap();
    assert_eq!(texts(&all(&open(&options))), expected("main", 0..8));
}

#[test]
fn a_changed_row_of_a_bucket_is_refused_and_its_objects_are_kept() {
    let dir = tempdir().unwrap();
    let options = sealed(dir.path());
    let path = dir.path().join("catalog.sqlite");
    let whole = fs::read(&path).unwrap();
    let name = b"main/0000000001.bucket";
    let at = whole.windows(name.len()).position(|bytes| bytes == name).unwrap();
    let mut changed = whole.clone();
    changed[at..at + name.len()].copy_from_slice(b"main/0000000002.bucket");
    fs::write(&path, changed).unwrap();
    for opened in open_both(&options) {
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("row 1 of table bucket does not match its checksum"), "{error}");
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(texts(&all(&open(&options))), expected("main", 0..8));
}

#[test]
fn a_log_without_a_catalog_is_refused() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    append(&open(&options), "main", 0, 3);
    fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
    for opened in open_both(&options) {
        assert!(matches!(opened, Err(StoreError::CatalogMissing { .. })));
    }
}

#[test]
fn unknown_objects_are_not_overwritten() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let folder = dir.path().join("db/main");
    let store = open(&options);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("0000000001.bucket"), "the only copy").unwrap();
    fs::write(folder.join("0000000001-1.filter"), "of something").unwrap();
    append(&store, "main", 0, 8);
    store.seal_all().unwrap();
    assert_eq!(fs::read(folder.join("0000000001.bucket")).unwrap(), b"the only copy");
    assert!(folder.join("0000000001-2.bucket").exists());
    assert!(store.messages()[0].text.contains("main/0000000001.bucket belongs to no bucket"), "{:?}", store.messages());
    drop(store);
    let store = open(&options);
    assert_eq!(texts(&all(&store)), expected("main", 0..8));
    let wrong: Vec<_> = store.verify().into_iter().filter(|verdict| verdict.result.is_err()).collect();
    let names: Vec<&str> = wrong.iter().map(|verdict| verdict.bucket.as_str()).collect();
    assert_eq!(names, ["main/0000000001-1.filter", "main/0000000001.bucket"]);
    assert!(wrong[0].result.as_ref().is_err_and(|reason| reason.to_string().contains("no bucket of the catalog")));
}

#[test]
fn opening_an_empty_folder_read_only_fails() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let error = Store::open_read_only(options, ManualClock::shared(0)).unwrap_err();
    assert!(matches!(error, StoreError::NoData { .. }), "{error}");
    assert_eq!(error.to_string(), format!("no data in {}; add data first", dir.path().display()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Removes or restores write permission for everything below `path`.
fn set_writable(path: &Path, writable: bool) {
    let mut rights = fs::metadata(path).unwrap().permissions();
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    rights.set_mode(if writable { mode } else { mode & 0o555 });
    fs::set_permissions(path, rights).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| set_writable(&entry.unwrap().path(), writable));
    }
}

/// Not meaningful for the superuser, who ignores permissions.
#[test]
fn read_only_folders_can_be_searched() {
    let dir = tempdir().unwrap();
    let options = sealed(dir.path());
    append(&open(&options), "main", 8, 3);
    for without_lock in [false, true] {
        if without_lock {
            fs::remove_file(dir.path().join("lock")).unwrap();
        }
        set_writable(dir.path(), false);
        let store = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
        assert_eq!(texts(&all(&store)), expected("main", 0..11));
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
        drop(store);
        set_writable(dir.path(), true);
    }
}
