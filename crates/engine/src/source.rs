//! Source of a search's events: a store on disk or in memory, or a restricted view of a store.

use std::collections::BTreeMap;

use quarry_event::{EventBatch, TimeRange};
use quarry_stdx::Fault;
use quarry_store::{
    AppendRequest, BucketListing, Deletion, Follower, IndexSelector, IndexStats, MemoryStore, RemoteStats, Snapshot,
    Store, StoreError,
};

/// Error text if events are not stored in buckets.
const NOT_DELETED: &str = "these events cannot be deleted: they are in no index";
/// Source of a search's events.
pub trait SnapshotSource: Send + Sync {
    /// A snapshot of these indexes in this time range.
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError>;
    /// Like [`SnapshotSource::snapshot`], for reading the newest events first; a part of it may be opened later.
    fn snapshot_newest_first(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        self.snapshot(indexes, range)
    }
    /// The buckets of these indexes that may have events in this time range; `None` if events are not stored in
    /// buckets.
    fn buckets(&self, _indexes: &IndexSelector, _range: &TimeRange) -> Result<Option<Vec<BucketListing>>, StoreError> {
        Ok(None)
    }
    /// Totals of every index that contains events; empty if events are not stored in buckets.
    fn index_stats(&self) -> Vec<IndexStats> {
        Vec::new()
    }
    /// Follows the new events of these indexes; `None` if the source cannot do this, or has too many followers.
    fn follow(&self, _indexes: &IndexSelector) -> Option<Follower> {
        None
    }
    /// Figures of remote volumes and their cache; `None` without volumes.
    fn remote_figures(&self) -> Option<RemoteStats> {
        None
    }
    /// Stores events made by a search, all of one index.
    fn store_events(&self, _events: EventBatch) -> Result<(), Fault> {
        Err(Fault::invalid("events cannot be stored here"))
    }
    /// Seals the current events of these indexes, so that they can be deleted.
    fn seal(&self, _indexes: &IndexSelector) -> Result<(), Fault> {
        Err(Fault::invalid(NOT_DELETED))
    }
    /// Hides all these events from later snapshots, or none of them if it fails; returns their number per index.
    fn delete(&self, _deletion: &Deletion) -> Result<BTreeMap<String, u64>, Fault> {
        Err(Fault::invalid(NOT_DELETED))
    }
}

impl SnapshotSource for Store {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(Store::snapshot(self, indexes, range))
    }

    fn snapshot_newest_first(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(Store::snapshot_newest_first(self, indexes, range))
    }

    fn buckets(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Option<Vec<BucketListing>>, StoreError> {
        Store::buckets_of(self, indexes, range).map(Some)
    }

    fn index_stats(&self) -> Vec<IndexStats> {
        Store::stats(self)
    }

    fn follow(&self, indexes: &IndexSelector) -> Option<Follower> {
        Store::follow(self, indexes)
    }

    fn remote_figures(&self) -> Option<RemoteStats> {
        Store::remote_stats(self)
    }

    fn store_events(&self, events: EventBatch) -> Result<(), Fault> {
        self.append(AppendRequest { batch: events, checkpoint: None })?.wait()?;
        Ok(())
    }

    fn seal(&self, indexes: &IndexSelector) -> Result<(), Fault> {
        Ok(self.seal_selected(indexes)?)
    }

    fn delete(&self, deletion: &Deletion) -> Result<BTreeMap<String, u64>, Fault> {
        Ok(Store::delete(self, deletion)?)
    }
}

/// Returns all events, whatever index and time range are requested: a search over files has only one index, and the
/// scan tests times.
impl SnapshotSource for MemoryStore {
    fn snapshot(&self, _: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(MemoryStore::snapshot(self))
    }

    fn store_events(&self, events: EventBatch) -> Result<(), Fault> {
        Ok(self.append(events)?)
    }
}
