//! One conformance suite for every blob store, and tests specific to files.

use super::*;
use quarry_bucket::ReadError;

pub(crate) fn conformance(store: &dyn BlobStore) {
    assert!(store.list().unwrap().is_empty());
    put_many(store);
    store.put("main/0000000001.bucket", b"hello world").unwrap();
    store.put("_internal/0000000002.bucket", b"").unwrap();
    assert_eq!(store.list().unwrap(), ["_internal/0000000002.bucket", "main/0000000001.bucket"]);
    assert!(store.exists("main/0000000001.bucket").unwrap());
    assert!(!store.exists("main/0000000009.bucket").unwrap());

    let object = store.open("main/0000000001.bucket").unwrap();
    assert_eq!(object.len(), 11);
    assert_eq!(&object.read_at(6, 5).unwrap()[..], b"world");
    assert_eq!(&object.read_at(11, 0).unwrap()[..], b"");
    for (offset, len) in [(6, 6), (12, 0), (u64::MAX, 1), (0, usize::MAX)] {
        assert!(matches!(object.read_at(offset, len), Err(ReadError::PastEnd { .. })), "{offset} {len}");
    }
    assert!(store.open("_internal/0000000002.bucket").unwrap().is_empty());

    store.put("main/0000000001.bucket", b"second").unwrap();
    assert_eq!(&store.open("main/0000000001.bucket").unwrap().read_at(0, 6).unwrap()[..], b"second");
    store.delete("main/0000000001.bucket").unwrap();
    store.delete("main/0000000001.bucket").unwrap();
    assert_eq!(&object.read_at(0, 5).unwrap()[..], b"hello", "an open object outlives its name");
    assert!(matches!(store.open("main/0000000001.bucket"), Err(BlobError::NotFound { .. })));

    for name in ["", "/etc/passwd", "../x", "a//b", "a/../b", "a b", "x.unfinished", &"x".repeat(513)] {
        assert!(matches!(store.put(name, b""), Err(BlobError::InvalidName { .. })), "{name}");
        assert!(matches!(store.delete(name), Err(BlobError::InvalidName { .. })), "{name}");
    }
}

fn put_many(store: &dyn BlobStore) {
    let objects: Vec<(String, Vec<u8>)> =
        (0..100_u8).map(|at| (format!("i{}/{at:03}", at % 7), vec![at; usize::from(at)])).collect();
    let parts: Vec<(&str, &[u8])> = objects.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    store.put_all(&parts).unwrap();
    store.put_all(&[]).unwrap();
    assert_eq!(store.list().unwrap().len(), 100);
    for (name, bytes) in &objects {
        assert_eq!(&store.open(name).unwrap().read_at(0, bytes.len()).unwrap()[..], bytes);
        store.delete(name).unwrap();
    }
    assert!(matches!(store.put_all(&[("a", b""), ("../x", b"")]), Err(BlobError::InvalidName { .. })));
    store.delete("a").unwrap();
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn memory_store_conforms() {
    conformance(&MemoryBlobStore::default());
}

#[test]
fn directory_store_conforms() {
    let folder = tempfile::tempdir().unwrap();
    conformance(&DirectoryStore::open(&folder.path().join("db")).unwrap());
}

#[test]
fn leftovers_of_interrupted_puts_are_ignored_and_deletable() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(folder.path()).unwrap();
    std::fs::write(folder.path().join("a.bucket.unfinished"), b"half").unwrap();
    assert!(store.list().unwrap().is_empty());
    assert!(!store.exists("a.bucket").unwrap());
    store.delete("a.bucket").unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_failed_put_leaves_the_old_object() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(folder.path()).unwrap();
    store.put("a", b"old").unwrap();
    std::fs::create_dir(folder.path().join("a.unfinished")).unwrap();
    assert!(matches!(store.put("a", b"new"), Err(BlobError::Io { .. })));
    assert_eq!(&store.open("a").unwrap().read_at(0, 3).unwrap()[..], b"old");
}

#[test]
fn a_listing_that_cannot_read_a_file_fails() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(folder.path()).unwrap();
    store.put("a/1.bucket", b"a").unwrap();
    // A file that was removed during the listing.
    std::os::unix::fs::symlink("nowhere", folder.path().join("a/2.bucket")).unwrap();
    assert_eq!(store.list().unwrap(), ["a/1.bucket"]);
    std::os::unix::fs::symlink("3.bucket", folder.path().join("a/3.bucket")).unwrap();
    assert!(matches!(store.list(), Err(BlobError::Io { .. })));
}
