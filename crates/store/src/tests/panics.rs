//! A panic in a background thread is reported, and the work of the thread is done nevertheless.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_catalog::Catalog;
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::objects::{Objects, Request};
use super::{all, append, expected, small, texts};
use crate::{LocalDisk, Store, StoreError, StoreOptions, data_dir};

#[test]
fn slabs_whose_seal_panicked_are_sealed_later() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { sealers: 1, ..small(dir.path()) };
    let panics_left = AtomicUsize::new(2);
    let blobs = Objects::watched(move |request| {
        if let Request::Put(..) = request {
            let left = panics_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            assert!(left.is_err(), "a panic of this test");
        }
        Ok(())
    });
    let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
    let store = Store::open_with(options, Arc::new(LocalDisk), blobs, catalog, ManualClock::shared(0)).unwrap();
    append(&store, "main", 0, 8);
    for _ in 0..2 {
        let error = store.seal_all().unwrap_err();
        assert!(matches!(error, StoreError::SealPanicked), "{error}");
    }
    assert_eq!(texts(&all(&store)), expected("main", 0..8));
    assert!(store.messages().iter().any(|message| message.text.contains("main~1 is not sealed: sealing panicked")));
    store.seal_all().unwrap();
    append(&store, "main", 8, 4);
    store.seal_all().unwrap();
    assert_eq!(texts(&all(&store)), expected("main", 0..12));
    assert_eq!(store.buckets().len(), 2);
}
