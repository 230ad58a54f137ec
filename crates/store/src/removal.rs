//! Removal of all events of an index, when the index itself is removed.
//!
//! What is in memory is sealed first, so that removing means retiring buckets in one transaction of the catalog. Events
//! that arrive meanwhile stay. How far files were read into the index is forgotten, so that they can be added again:
//! their checkpoints cannot be found by index, so those of log records up to the removal no longer count. Not here:
//! retention ([`crate::retire`]), deleting single events ([`crate::deletion`]).

use std::sync::Arc;

use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{IndexSelector, Store, StoreError};

/// Prefix of catalog settings: the last log record before the removal of an index.
const FORGOTTEN: &str = "forgotten/";

impl Store {
    /// Removes the events of an index; returns the ids of its buckets. Objects that a search still reads are deleted
    /// later. Thawed buckets stay, because their folders belong to whoever thawed them.
    pub fn remove_events_of(&self, index: &str) -> Result<Vec<String>, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        self.settle()?;
        let through = self.shared.state().durable_lsn;
        self.seal_selected(&IndexSelector::new([index.to_owned()]))?;
        let removed = self.shared.retire_index(index)?;
        // This comes last: after a crash before it, files may need `--again`; after a crash behind it, nothing is
        // duplicated.
        self.shared.catalog.set_setting(&format!("{FORGOTTEN}{index}"), &through.to_string())?;
        self.shared.delete_retired();
        Ok(removed)
    }
}

impl Shared {
    /// The number of the last log record whose checkpoints no longer count for files read into an index; 0 if all do.
    pub(crate) fn forgotten_through(&self, index: &str) -> Result<u64, StoreError> {
        let through = self.catalog.setting(&format!("{FORGOTTEN}{index}"))?;
        Ok(through.and_then(|through| through.parse().ok()).unwrap_or(0))
    }

    fn retire_index(&self, index: &str) -> Result<Vec<String>, StoreError> {
        // A merge that reads these buckets finds under this lock that they are gone.
        let _commit = lock(&self.commit);
        let mut chosen: Vec<Arc<SealedBucket>> = {
            let state = self.state();
            state.sealed.of_index(index).filter(|bucket| !bucket.row.thawed).cloned().collect()
        };
        chosen.sort_by_key(|bucket| bucket.row.number);
        let numbers: Vec<u64> = chosen.iter().map(|bucket| bucket.row.number).collect();
        let ids = chosen.iter().map(|bucket| bucket.id().to_owned()).collect();
        if numbers.is_empty() {
            return Ok(ids);
        }
        self.catalog.retire(&numbers)?;
        let mut state = self.state();
        numbers.iter().for_each(|number| state.sealed.remove(*number));
        state.retired.extend(chosen);
        Ok(ids)
    }
}
