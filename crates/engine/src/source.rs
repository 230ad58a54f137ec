//! Where a search gets its events: a store on disk or in memory, or one of which a user sees a part.

use std::collections::BTreeMap;

use quarry_event::{EventBatch, TimeRange};
use quarry_stdx::Fault;
use quarry_store::{AppendRequest, BucketListing, Deletion, IndexSelector, MemoryStore, Snapshot, Store, StoreError};

/// Told where events are not in buckets.
const NOT_DELETED: &str = "no events can be deleted here: they are in no index";
/// Where a search gets its events.
pub trait SnapshotSource: Send + Sync {
    /// The events of these indexes in this range, as they are now.
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError>;
    /// The buckets there are; `None` where events are not kept in buckets.
    fn buckets(&self) -> Option<Vec<BucketListing>> {
        None
    }
    /// Keeps events that a search made, all of one index.
    fn keep(&self, _events: EventBatch) -> Result<(), Fault> {
        Err(Fault::invalid("no events can be kept here"))
    }
    /// Puts the events of these indexes that are there where they can be deleted.
    fn seal(&self, _indexes: &IndexSelector) -> Result<(), Fault> {
        Err(Fault::invalid(NOT_DELETED))
    }
    /// Takes events out of every later snapshot, all or none; gives how many of each index.
    fn delete(&self, _deletion: &Deletion) -> Result<BTreeMap<String, u64>, Fault> {
        Err(Fault::invalid(NOT_DELETED))
    }
}

impl SnapshotSource for Store {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(Store::snapshot(self, indexes, range))
    }

    fn buckets(&self) -> Option<Vec<BucketListing>> {
        Some(Store::buckets(self))
    }

    fn keep(&self, events: EventBatch) -> Result<(), Fault> {
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

/// Every event, whatever index is asked for: a search over files has one.
impl SnapshotSource for MemoryStore {
    fn snapshot(&self, _: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(MemoryStore::snapshot(self))
    }

    fn keep(&self, events: EventBatch) -> Result<(), Fault> {
        Ok(self.append(events)?)
    }
}
