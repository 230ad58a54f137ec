//! Commits a deletion, first in the catalog and then in the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_catalog::{DeletionCommit, DeletionRow};

use super::found_rows::Deletion;
use super::row_set::RowSet;
use crate::sealed_buckets::SealedBucket;
use crate::state::{Shared, State};
use crate::unsettled_commit::UnsettledCommit;
use crate::{Store, StoreError};

impl Store {
    /// Deletes events; returns the number of deleted events of each index. Events already gone, by retention or another
    /// deletion, are not counted.
    ///
    /// After an error, searches still find the events. If the error came from the catalog, its commit may nevertheless
    /// have succeeded; the next change of sealed buckets finds that out, and the events are then gone.
    pub fn delete(&self, deletion: &Deletion) -> Result<BTreeMap<String, u64>, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let deleted = self.shared.delete(deletion)?;
        self.shared.delete_retired();
        Ok(deleted)
    }
}

impl Shared {
    fn delete(&self, deletion: &Deletion) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut commit = self.begin_commit()?;
        let changes = changed_buckets(deletion, &self.state());
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let (mut deletions, mut emptied) = (Vec::new(), Vec::new());
        for (bucket, rows) in &changes {
            *counts.entry(bucket.row.index.to_string()).or_default() += rows.len() - bucket.deleted_events();
            let number = bucket.row.number;
            match rows.len() < bucket.row.events {
                true => deletions.push(DeletionRow { bucket: number, rows: rows.encode() }),
                false => emptied.push(number),
            }
        }
        if changes.is_empty() {
            return Ok(counts);
        }
        match self.catalog.commit_deletion(&DeletionCommit { deletions: &deletions, emptied: &emptied }) {
            Ok(true) => {}
            Ok(false) => {
                let reason = "not all buckets are live in the catalog; run `quarry bucket verify`".to_owned();
                return Err(StoreError::Corrupt { bucket: "catalog".to_owned(), reason });
            }
            Err(error) => {
                *commit = Some(UnsettledCommit::Deletion(changes));
                return Err(error.into());
            }
        }
        replace_deleted(self, changes);
        Ok(counts)
    }
}

/// Shows a deletion that the catalog has committed to all later searches: each bucket gets all its deleted rows.
pub(crate) fn replace_deleted(shared: &Shared, changes: Vec<(Arc<SealedBucket>, RowSet)>) {
    let mut state = shared.state();
    let mut changed = Vec::new();
    for (bucket, rows) in changes {
        let number = bucket.row.number;
        if rows.len() < bucket.row.events {
            state.sealed.replace(bucket.with_deleted(rows));
            changed.push(number);
        } else {
            state.sealed.remove(number);
            state.retired.push(bucket);
        }
    }
    drop(state);
    if shared.options.remote.is_some() {
        changed.into_iter().for_each(|number| shared.uploads.add(number));
    }
    // Wakes the compaction, because some buckets may now have to be rewritten.
    shared.seal_done.notify_all();
}

/// The live buckets that a deletion changes, each with all its deleted rows after the deletion, including rows deleted
/// earlier.
fn changed_buckets(deletion: &Deletion, state: &State) -> Vec<(Arc<SealedBucket>, RowSet)> {
    let with_live =
        deletion.rows_by_bucket().into_iter().filter_map(|(number, rows)| Some((state.sealed.get(number)?, rows)));
    let changed = with_live.filter_map(|(bucket, mut rows)| {
        if let Some(deleted) = &bucket.deleted {
            rows.add(deleted);
        }
        (rows.len() > bucket.deleted_events()).then(|| (Arc::clone(bucket), rows))
    });
    changed.collect()
}
