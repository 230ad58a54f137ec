//! Rows of buckets that stay in the catalog until something needs them.
//!
//! After a start, a store with many buckets has only sums in memory for its largest indexes ([`UnloadedIndex`]). Code
//! that needs the buckets of such an index gets the state from [`Shared::state_with`], which reads their rows. An
//! index whose rows are not in memory does not change, because every change loads its rows first and no other process
//! has the catalog open for writing. A search therefore finds either the rows of an index, or sums that show whether
//! it needs the rows.
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
        // Another thread may have loaded the rows while this one waited.
        let Some(unloaded) = self.state().sealed.unloaded(index) else { return Ok(()) };
        let read = read_index(&self.catalog, index, &unloaded, &mut BTreeMap::new())?;
        self.state().sealed.load(index, read);
        // There may be something to compact now.
        self.seal_done.notify_all();
        Ok(())
    }

    /// While more rows are in memory than a start would keep, drops the rows of indexes that nothing has used for
    /// `idle_rounds` calls.
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
        // While these locks are held, only code that holds a reference to a bucket can change it, and no rows are
        // loaded.
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
            // Open buckets are closed first, because they share `copies` with their rows, and rows that are read
            // again have new `copies`.
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

    /// Whether no code holds a bucket, or looks for it without naming its index.
    fn may_unload(&self, bucket: &Arc<SealedBucket>) -> bool {
        let is_held = !SealedBucket::is_free(bucket) || Arc::strong_count(&bucket.copies) > 1;
        !is_held && !is_in_motion(bucket, self.options.remote.is_some())
    }
}

/// Reads the live buckets of an index; fails if their sums differ from `unloaded`. `deletions` contains the deleted
/// rows of buckets, by number.
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
