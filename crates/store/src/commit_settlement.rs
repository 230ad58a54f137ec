//! Determines the outcome of commits of the catalog that failed ([`crate::unsettled_commit`]).
//!
//! If a transaction of the catalog fails, it may have been committed nevertheless, for example because the answer to
//! its `COMMIT` was lost. Memory then keeps the buckets as they were before it. A change of the same buckets must not
//! build on that: it would be refused, or an index would be removed without a merged bucket that memory does not know
//! and that the next start brings back. Therefore the outcome is determined before the next transaction that changes
//! live buckets, and memory adopts it.
//!
//! Not here: copies of buckets on volumes, whose state is read from the catalog after each change
//! (`remote/upload.rs`); seals, which only add buckets and are repeated under the same numbers.

use std::sync::Arc;

use quarry_catalog::BucketState;

use crate::StoreError;
use crate::compaction::{delete_output, replace_inputs};
use crate::deletion::replace_deleted;
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::unsettled_commit::{CommitGuard, UnsettledCommit};

impl Shared {
    /// Takes the commit lock for a change of live buckets. Fails if the outcome of an earlier change cannot be
    /// determined now.
    pub(crate) fn begin_commit(&self) -> Result<CommitGuard<'_>, StoreError> {
        let mut commit = lock(&self.commit);
        if let Some(unsettled) = &*commit {
            let is_committed = self.is_committed(unsettled)?;
            if let Some(settled) = commit.take() {
                self.adopt(settled, is_committed);
            }
        }
        Ok(commit)
    }

    fn is_committed(&self, unsettled: &UnsettledCommit) -> Result<bool, StoreError> {
        self.catalog.settle()?;
        let is_live = |number: u64| -> Result<bool, StoreError> {
            Ok(self.catalog.bucket(number)?.is_some_and(|row| row.state == BucketState::Live))
        };
        // A transaction is committed completely or not at all, so one of its buckets shows the outcome.
        match unsettled {
            UnsettledCommit::Merge { output, .. } | UnsettledCommit::Thaw(output) => is_live(output.number),
            UnsettledCommit::Deletion(changes) => {
                let Some((bucket, rows)) = changes.first() else { return Ok(false) };
                if rows.len() == bucket.row.events {
                    return Ok(!is_live(bucket.row.number)?);
                }
                let deleted = self.catalog.deletions()?.into_iter().find(|row| row.bucket == bucket.row.number);
                Ok(deleted.is_some_and(|row| row.rows == rows.encode()))
            }
            UnsettledCommit::Retirement(buckets) => {
                let Some(bucket) = buckets.first() else { return Ok(false) };
                Ok(!is_live(bucket.row.number)?)
            }
        }
    }

    fn adopt(&self, settled: UnsettledCommit, is_committed: bool) {
        match settled {
            UnsettledCommit::Merge { output, inputs } if is_committed => replace_inputs(self, output, &inputs),
            UnsettledCommit::Merge { output, .. } => delete_output(self, &output),
            UnsettledCommit::Deletion(changes) if is_committed => replace_deleted(self, changes),
            UnsettledCommit::Retirement(buckets) if is_committed => self.drop_retired(buckets),
            UnsettledCommit::Thaw(row) if is_committed => {
                self.state().add_sealed(SealedBucket::new(row));
            }
            UnsettledCommit::Deletion(_) | UnsettledCommit::Retirement(_) | UnsettledCommit::Thaw(_) => {}
        }
    }

    /// Retires live buckets, in the catalog and in memory.
    pub(crate) fn retire_buckets(
        &self,
        mut commit: CommitGuard<'_>,
        buckets: Vec<Arc<SealedBucket>>,
    ) -> Result<(), StoreError> {
        let numbers: Vec<u64> = buckets.iter().map(|bucket| bucket.row.number).collect();
        if let Err(error) = self.catalog.retire(&numbers) {
            *commit = Some(UnsettledCommit::Retirement(buckets));
            return Err(error.into());
        }
        self.drop_retired(buckets);
        Ok(())
    }

    /// Removes buckets that the catalog has retired from all later searches.
    fn drop_retired(&self, buckets: Vec<Arc<SealedBucket>>) {
        let mut state = self.state();
        buckets.iter().for_each(|bucket| state.sealed.remove(bucket.row.number));
        state.retired.extend(buckets);
    }
}

#[cfg(test)]
mod tests {
    use quarry_catalog::{BucketRow, CompactionCommit, DeletionCommit, DeletionRow, Origin};
    use tempfile::tempdir;

    use super::*;
    use crate::Store;
    use crate::deletion::RowSet;
    use crate::tests::compaction::objects;
    use crate::tests::{all, append, expected, open, small, texts};

    /// A store with three sealed buckets of five events.
    fn three_buckets(dir: &std::path::Path) -> Arc<Store> {
        let store = open(&small(dir));
        for first in [0, 5, 10] {
            append(&store, "main", first, 5);
            store.seal_all().unwrap();
        }
        drop(store.shared.state_with_all().unwrap());
        store
    }

    fn live(store: &Store, number: u64) -> Arc<SealedBucket> {
        store.shared.state().sealed.get(number).cloned().unwrap()
    }

    /// A merge of the first two buckets whose objects are stored and whose commit has no answer.
    fn merge_without_answer(store: &Store, is_committed: bool) {
        let inputs = vec![live(store, 1), live(store, 2)];
        let catalog = &store.shared.catalog;
        let row = catalog.bucket(1).unwrap().unwrap();
        let output = BucketRow {
            number: store.shared.state().take_number(),
            state: BucketState::Sealing,
            object: "main/0000000009.bucket".to_owned(),
            filter: "main/0000000009.filter".to_owned(),
            level: 1,
            origins: vec![Origin { first_row: 0, number: 1 }],
            ..row
        };
        catalog.begin_seal(&output).unwrap();
        for (from, to) in [(inputs[0].row.object(), &output.object), (inputs[0].row.filter(), &output.filter)] {
            let blobs = store.shared.readers.blobs();
            let object = blobs.open(&from).unwrap();
            blobs.put(to, &object.read_at(0, object.len() as usize).unwrap()).unwrap();
        }
        if is_committed {
            let bucket = BucketRow { state: BucketState::Live, ..output.clone() };
            assert!(catalog.commit_compaction(&CompactionCommit { bucket: &bucket, inputs: &[1, 2] }).unwrap());
        }
        *lock(&store.shared.commit) = Some(UnsettledCommit::Merge { output, inputs });
    }

    #[test]
    fn events_of_a_merge_without_an_answer_do_not_return_after_the_removal_of_their_index() {
        for is_committed in [true, false] {
            let dir = tempdir().unwrap();
            let store = three_buckets(dir.path());
            merge_without_answer(&store, is_committed);
            let removed = store.remove_events_of("main").unwrap();
            assert_eq!(removed.len(), if is_committed { 2 } else { 3 });
            assert!(lock(&store.shared.commit).is_none());
            assert_eq!(texts(&all(&store)), [""; 0]);
            assert_eq!(objects(&store), [""; 0], "no objects are left");
            drop(store);
            let store = open(&small(dir.path()));
            assert_eq!(texts(&all(&store)), [""; 0], "committed: {is_committed}");
        }
    }

    #[test]
    fn a_thawed_bucket_without_an_answer_is_added_once() {
        for is_committed in [true, false] {
            let (dir, archive) = (tempdir().unwrap(), tempdir().unwrap());
            let store = three_buckets(dir.path());
            let folder = archive.path().join("main_1");
            std::fs::create_dir(&folder).unwrap();
            for ending in ["bucket", "filter"] {
                let name = format!("0000000001.{ending}");
                std::fs::copy(dir.path().join("db/main").join(&name), folder.join(&name)).unwrap();
            }
            let id = store.thaw("main", &folder).unwrap();
            let number = store.shared.state().sealed.thawed().next().unwrap().row.number;
            let row = store.shared.catalog.bucket(number).unwrap().unwrap();
            // Memory does not know the bucket, as after a commit without an answer.
            drop(store.shared.begin_commit().unwrap());
            store.shared.state().sealed.remove(number);
            if !is_committed {
                store.shared.catalog.retire(&[number]).unwrap();
                store.shared.catalog.remove_bucket(number).unwrap();
            }
            *lock(&store.shared.commit) = Some(UnsettledCommit::Thaw(row));
            let found = store.scan_thawed().unwrap();
            assert_eq!(found.added.len(), usize::from(!is_committed), "{id}");
            assert_eq!(all(&store).segments.len(), 4);
        }
    }

    #[test]
    fn retired_buckets_without_an_answer_are_not_searched_once_the_outcome_is_known() {
        for is_committed in [true, false] {
            let dir = tempdir().unwrap();
            let store = three_buckets(dir.path());
            if is_committed {
                store.shared.catalog.retire(&[1]).unwrap();
            }
            *lock(&store.shared.commit) = Some(UnsettledCommit::Retirement(vec![live(&store, 1)]));
            drop(store.shared.begin_commit().unwrap());
            store.shared.delete_retired();
            let first = if is_committed { 5 } else { 0 };
            assert_eq!(texts(&all(&store)), expected("main", first..15));
        }
    }

    #[test]
    fn a_deletion_without_an_answer_can_be_repeated() {
        for is_committed in [true, false] {
            let dir = tempdir().unwrap();
            let store = three_buckets(dir.path());
            let mut some = RowSet::default();
            some.insert(0);
            let mut whole = RowSet::default();
            (0..5).for_each(|row| whole.insert(row));
            if is_committed {
                let deletions = [DeletionRow { bucket: 1, rows: some.encode() }];
                let commit = DeletionCommit { deletions: &deletions, emptied: &[2] };
                assert!(store.shared.catalog.commit_deletion(&commit).unwrap());
            }
            let changes = vec![(live(&store, 1), some), (live(&store, 2), whole)];
            *lock(&store.shared.commit) = Some(UnsettledCommit::Deletion(changes));
            drop(store.shared.begin_commit().unwrap());
            let left = if is_committed {
                [expected("main", 1..5), expected("main", 10..15)].concat()
            } else {
                expected("main", 0..15)
            };
            assert_eq!(texts(&all(&store)), left);
        }
    }
}
