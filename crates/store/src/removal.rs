//! Removal of all events of an index, when the index itself is removed.
//!
//! Hot slabs are sealed first, so that the index can be removed by retiring its buckets in one transaction of the
//! catalog. Events that arrive during the removal stay: the log thread determines the last record and the last bucket
//! that belong to the removed events, and no buckets are merged until both are gone. The positions up to which files
//! were read into the index are forgotten, so that the files can be added again. Checkpoints do not name an index, so
//! whenever a file is read into the index later, all checkpoints in log records up to the removal are ignored. Not
//! here: retention ([`crate::retire`]), deletion of single events ([`crate::deletion`]).

use std::sync::{Arc, OnceLock};

use crate::compaction::CompactionWaiter;
use crate::queue::{Closing, RemovalCut};
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{IndexSelector, Store, StoreError};

/// Prefix of catalog settings, one per index, with the number of the last log record before the removal of the index.
const FORGOTTEN_PREFIX: &str = "forgotten/";

impl Store {
    /// Removes the events of an index; returns the ids of its buckets. Objects that a search still reads are deleted
    /// later. Thawed buckets stay, because their folders belong to the operator.
    pub fn remove_events_of(&self, index: &str) -> Result<Vec<String>, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let removed = {
            // A merge would mix events that are removed with events that stay.
            let _waiting = CompactionWaiter::new(&self.shared);
            let _turn = lock(&self.shared.compacting);
            let cut = self.close_before_removal(index)?;
            self.remove_before(index, cut)?
        };
        self.shared.delete_retired();
        Ok(removed)
    }

    /// Closes the slabs of an index and determines which events belong to them or to earlier buckets.
    pub(crate) fn close_before_removal(&self, index: &str) -> Result<RemovalCut, StoreError> {
        let cut = Arc::new(OnceLock::new());
        self.close_slabs(Closing::Removal(index.into(), Arc::clone(&cut)))?;
        cut.get().copied().ok_or(StoreError::Closed)
    }

    /// Removes the events of an index before `cut`, once they are sealed. The caller holds `compacting`.
    pub(crate) fn remove_before(&self, index: &str, cut: RemovalCut) -> Result<Vec<String>, StoreError> {
        self.wait_for_seals(&IndexSelector::new([index.to_owned()]))?;
        let removed = self.shared.retire_index(index, cut.first_kept)?;
        // This setting is written last. If a crash comes before, files can be added again only with `--again`, but no
        // events are duplicated.
        self.shared.catalog.set_setting(&format!("{FORGOTTEN_PREFIX}{index}"), &cut.last_lsn.to_string())?;
        Ok(removed)
    }
}

impl Shared {
    /// The number of the last log record whose checkpoint is ignored when files are read into an index; 0 if none is
    /// ignored.
    pub(crate) fn forgotten_through(&self, index: &str) -> Result<u64, StoreError> {
        let through = self.catalog.setting(&format!("{FORGOTTEN_PREFIX}{index}"))?;
        Ok(through.and_then(|through| through.parse().ok()).unwrap_or(0))
    }

    fn retire_index(&self, index: &str, first_kept: u64) -> Result<Vec<String>, StoreError> {
        let mut turn = self.begin_commit()?;
        let mut chosen: Vec<Arc<SealedBucket>> = {
            let state = self.state_with_index(index)?;
            state
                .sealed
                .of_index(index)
                .filter(|bucket| !bucket.row.thawed && bucket.row.number < first_kept)
                .cloned()
                .collect()
        };
        chosen.sort_by_key(|bucket| bucket.row.number);
        let ids = chosen.iter().map(|bucket| bucket.id().to_owned()).collect();
        turn.retire(chosen)?;
        Ok(ids)
    }
}
