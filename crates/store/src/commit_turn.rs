//! Commits changes of the catalog, one at a time, and applies them to the state in memory.
//!
//! After an error it is unknown whether the catalog has executed a transaction: the connection to the database may have
//! been lost after the commit was sent. The change then stays *unsettled*, and the next turn begins by reading a fact
//! from the catalog that shows the outcome: either the state in memory follows the catalog, or the change is undone. No
//! change is decided on a state that may be wrong, so no event is stored twice, and the objects of a bucket that the
//! catalog has made live are never deleted. The same applies after a panic between the commit and the change of the
//! state.
//!
//! Not here: transactions that can be repeated without harm, such as those that store checkpoints or change the state
//! of a remote copy.

use std::sync::{Arc, MutexGuard};

use quarry_catalog::{Catalog, CatalogError};

use crate::StoreError;
use crate::catalog_change::{CatalogChange, CommitEvidence};
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;

/// The right to commit. As long as it is held, nothing else changes which buckets are live.
#[derive(Debug)]
pub(crate) struct CommitTurn<'a> {
    shared: &'a Shared,
    unsettled: MutexGuard<'a, Option<CatalogChange<Shared>>>,
}

impl Shared {
    /// Waits for the turn to commit. Fails if an earlier change is unsettled and the catalog cannot tell its outcome.
    pub(crate) fn begin_commit(&self) -> Result<CommitTurn<'_>, StoreError> {
        let mut turn = CommitTurn { shared: self, unsettled: lock(&self.commit) };
        turn.settle()?;
        Ok(turn)
    }
}

impl CommitTurn<'_> {
    fn settle(&mut self) -> Result<(), StoreError> {
        let Some(change) = &*self.unsettled else { return Ok(()) };
        let catalog = &self.shared.catalog;
        let is_committed = match &change.evidence {
            CommitEvidence::Live(number) => catalog.is_live_for_certain(*number)?,
            CommitEvidence::NotLive(number) => !catalog.is_live_for_certain(*number)?,
            CommitEvidence::Deleted(deletion) => catalog.is_deleted_for_certain(deletion)?,
        };
        if is_committed {
            (change.apply)(self.shared);
        } else {
            (change.undo)(self.shared);
        }
        *self.unsettled = None;
        Ok(())
    }

    /// Runs the transaction of a change, and applies the change once it is committed. If the transaction refuses the
    /// change, nothing is changed, and this returns `false`.
    pub(crate) fn commit(
        &mut self,
        change: CatalogChange<Shared>,
        transaction: impl FnOnce(&Catalog) -> Result<bool, CatalogError>,
    ) -> Result<bool, StoreError> {
        assert!(self.unsettled.is_none(), "a turn begins without an unsettled change");
        let change = self.unsettled.insert(change);
        let is_committed = transaction(&self.shared.catalog)?;
        if is_committed {
            (change.apply)(self.shared);
        }
        *self.unsettled = None;
        Ok(is_committed)
    }

    /// Retires live buckets: they are in no later snapshot, and their objects can be deleted.
    pub(crate) fn retire(&mut self, buckets: Vec<Arc<SealedBucket>>) -> Result<(), StoreError> {
        let numbers: Vec<u64> = buckets.iter().map(|bucket| bucket.row.number).collect();
        let Some(first) = numbers.first() else { return Ok(()) };
        assert!(numbers.is_sorted_by(|before, after| before < after), "a bucket is retired once");
        let change = CatalogChange::new(CommitEvidence::NotLive(*first), move |shared: &Shared| {
            let mut state = shared.state();
            for bucket in &buckets {
                if state.sealed.contains(bucket.row.number) {
                    state.sealed.remove(bucket.row.number);
                    state.retired.push(Arc::clone(bucket));
                }
            }
        });
        self.commit(change, |catalog| catalog.retire(&numbers).map(|()| true)).map(drop)
    }
}
