//! A search that reads the newest events first opens remote buckets in groups.

use std::sync::Arc;

use quarry_blob::MemoryBlobStore;
use quarry_event::{TimeNs, TimeRange};
use tempfile::tempdir;

use super::compaction::seal;
use super::remote::options;
use super::{expected, open, texts};
use crate::sealed_buckets::CONCURRENT_OPENS_MAX;
use crate::{IndexSelector, Snapshot, Store};

fn newest_first(store: &Store) -> Snapshot {
    store.snapshot_newest_first(&IndexSelector::all(), &TimeRange::ALL)
}

#[test]
fn the_newest_remote_buckets_are_opened_first() {
    let dir = tempdir().unwrap();
    let options = options(dir.path(), Arc::new(MemoryBlobStore::default()), 0);
    let store = open(&options);
    let group = CONCURRENT_OPENS_MAX as u64;
    let events = 2 * (2 * group + 3);
    seal(&store, &["main"], 2 * group + 3, 2);
    store.upload_all().unwrap();
    drop(store);
    let store = open(&options);
    let mut snapshot = newest_first(&store);
    assert_eq!(texts(&snapshot), expected("main", events - 2 * group..events));
    // The time of an event is its number. The oldest group has the first three buckets.
    let ends: Vec<TimeNs> = snapshot.later.iter().map(|later| later.time_max()).collect();
    assert_eq!(ends, [5, 2 * group as TimeNs + 5]);
    assert_eq!(texts(&snapshot.later[0].open()), expected("main", 0..6));
    snapshot.open_later();
    assert_eq!(texts(&snapshot), expected("main", 0..events));
    assert!(newest_first(&store).later.is_empty(), "the buckets are open by now");
}
