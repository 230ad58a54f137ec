//! Rows of buckets that stay in the catalog until something needs them.
//!
//! After a start, a store with many buckets has only the sums of its largest indexes in memory ([`UnloadedIndex`]).
//! Whoever needs the buckets of an index takes the state by [`Shared::state_with`], which reads their rows. An index
//! whose rows are not in memory does not change: whoever changes it needs its rows, and nobody else has the catalog
//! open for writing. A search therefore finds either the rows of an index, or sums that say whether it needs them.
//!
//! Not here: which rows stay in the catalog (`live_buckets::loading`).

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use quarry_catalog::Catalog;

use crate::StoreError;
use crate::deletion::RowSet;
use crate::live_buckets::{LiveBuckets, Loading, UnloadedIndex};
use crate::remote::is_in_motion;
use crate::sealed_buckets::SealedBucket;
use crate::state::{Shared, State};
use crate::sync::lock;

/// Number of retention rounds without use after which the rows of an index leave memory; on a server, an hour.
pub(crate) const IDLE_ROUNDS: u32 = 60;

impl Shared {
    /// The state, once the rows of all indexes that `wanted` selects by name and sums are in memory.
    pub(crate) fn state_with(
        &self,
        wanted: impl Fn(&str, &UnloadedIndex) -> bool,
    ) -> Result<MutexGuard<'_, State>, StoreError> {
        loop {
            let state = self.state();
            let Some(index) = state.sealed.find_unloaded(&wanted).cloned() else { return Ok(state) };
            drop(state);
            self.load_rows(&index)?;
        }
    }

    /// The state, with the rows of one index in memory.
    pub(crate) fn state_with_index(&self, index: &str) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state_with(|name, _| name == index)
    }

    /// The state, with the rows of all indexes in memory.
    pub(crate) fn state_with_all(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state_with(|_, _| true)
    }

    /// Reads the rows of an index. Appends, and searches of other indexes, do not wait for this.
    fn load_rows(&self, index: &Arc<str>) -> Result<(), StoreError> {
        let _turn = lock(&self.rows_loading);
        // Another thread may have loaded them while this one waited.
        let Some(unloaded) = self.state().sealed.unloaded(index) else { return Ok(()) };
        let read = read_index(&self.catalog, index, &unloaded, &mut BTreeMap::new())?;
        self.state().sealed.load(index, read);
        // There may be something to compact now.
        self.seal_done.notify_all();
        Ok(())
    }

    /// While there are more rows in memory than a start would keep, drops those of indexes that nothing has needed for
    /// this many calls.
    pub(crate) fn unload_idle(&self, idle_rounds: u32) {
        let idle = {
            let state = self.state();
            if state.sealed.rows() <= self.options.rows_at_start {
                return;
            }
            state.sealed.idle_indexes(idle_rounds, self.options.compaction.has_background_merges())
        };
        if idle.is_empty() {
            return;
        }
        // Under these locks, nobody changes a bucket without holding it, and nobody reads rows.
        let _commit = lock(&self.commit);
        let Ok(_turn) = self.rows_loading.try_lock() else { return };
        // If it is unknown whether a commit succeeded, the sums in memory may not be those of the catalog.
        if self.catalog.has_failed() {
            return;
        }
        for index in idle {
            let open = |bucket: &&Arc<SealedBucket>| Arc::strong_count(&bucket.copies) > 1;
            let open: Vec<u64> = {
                let state = self.state();
                if state.sealed.rows() <= self.options.rows_at_start {
                    return;
                }
                state.sealed.of_index(&index).filter(open).map(|bucket| bucket.row.number).collect()
            };
            // An open bucket shares `copies` with its row; a row read again from the catalog would have its own.
            open.into_iter().for_each(|number| self.readers.close(number));
            let mut state = self.state();
            if state.compaction_requests > 0 {
                return;
            }
            let left = state.sealed.unload(&index, |bucket| self.may_unload(bucket));
            drop(state);
            drop(left);
        }
    }

    /// Whether nothing holds a bucket, and nothing looks for it without naming its index.
    fn may_unload(&self, bucket: &Arc<SealedBucket>) -> bool {
        let is_held = !SealedBucket::is_free(bucket) || Arc::strong_count(&bucket.copies) > 1;
        !is_held && !is_in_motion(bucket, self.options.remote.is_some())
    }
}

/// The live buckets of an index, which must have these sums; `deletions` are the deleted rows of buckets.
pub(crate) fn read_index(
    catalog: &Catalog,
    index: &str,
    unloaded: &UnloadedIndex,
    deletions: &mut BTreeMap<u64, RowSet>,
) -> Result<LiveBuckets, StoreError> {
    let (mut loading, mut sums) = (Loading::new(usize::MAX), UnloadedIndex::default());
    let mut pages = catalog.read_live(index);
    while let Some(page) = pages.next_page()? {
        for row in page {
            let bucket = SealedBucket::new(row);
            let bucket = match deletions.remove(&bucket.row.number) {
                Some(deleted) => bucket.with_deleted(deleted),
                None => bucket,
            };
            sums.add(&bucket);
            loading.add(bucket, false);
        }
    }
    if sums != *unloaded {
        let reason = format!("its rows of index {index} have changed since the start; run `quarry bucket verify`");
        return Err(StoreError::Corrupt { bucket: "catalog".to_owned(), reason });
    }
    Ok(loading.into_live().0)
}
