//! Commits a deletion, first in the catalog and then in the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_catalog::{DeletionCommit, DeletionRow};

use super::found_rows::Deletion;
use super::row_set::RowSet;
use crate::catalog_change::{CatalogChange, CommitEvidence};
use crate::sealed_buckets::SealedBucket;
use crate::state::{Shared, State};
use crate::{Store, StoreError};

impl Store {
    /// Deletes events; returns the number of deleted events of each index. Events already gone, by retention or another
    /// deletion, are not counted.
    ///
    /// After an error, searches still find the events. If the error came from the catalog, its commit may nevertheless
    /// have succeeded; the events are then gone after the next commit or start.
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
        let mut turn = self.begin_commit()?;
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
        let evidence = match (deletions.first(), emptied.first()) {
            (Some(deletion), _) => CommitEvidence::Deleted(deletion.clone()),
            (None, Some(number)) => CommitEvidence::NotLive(*number),
            (None, None) => return Ok(counts),
        };
        let change = CatalogChange::new(evidence, move |shared: &Shared| publish(shared, &changes));
        let commit = DeletionCommit { deletions: &deletions, emptied: &emptied };
        if !turn.commit(change, |catalog| catalog.commit_deletion(&commit))? {
            let reason = "not all buckets are live in the catalog; run `quarry bucket verify`".to_owned();
            return Err(StoreError::Corrupt { bucket: "catalog".to_owned(), reason });
        }
        Ok(counts)
    }
}

/// Lets searches see the buckets without their deleted rows.
fn publish(shared: &Shared, changes: &[(Arc<SealedBucket>, RowSet)]) {
    let mut state = shared.state();
    for (bucket, rows) in changes {
        let number = bucket.row.number;
        if !state.sealed.get(number).is_some_and(|live| Arc::ptr_eq(live, bucket)) {
            continue;
        }
        if rows.len() < bucket.row.events {
            state.sealed.replace(bucket.with_deleted(rows.clone()));
        } else {
            state.sealed.remove(number);
            state.retired.push(Arc::clone(bucket));
        }
    }
    drop(state);
    if shared.options.remote.is_some() {
        let deleted = changes.iter().filter(|(bucket, rows)| rows.len() < bucket.row.events);
        deleted.for_each(|(bucket, _)| shared.uploads.add(bucket.row.number));
    }
    // The compaction thread is woken, because some buckets may now have to be rewritten.
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
