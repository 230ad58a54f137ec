//! Rows of buckets that stay in the catalog until something needs them.
//!
//! After a start, a store with many buckets has only sums in memory for its older ones, by ranges of arrival
//! ([`UnloadedRange`]). Code that needs the buckets of such a range gets the state from [`Shared::state_with`], which
//! reads their rows. A range whose rows are not in memory does not change: every change loads the rows of its range
//! first, and no other process has the catalog open for writing. New buckets arrive after all ranges, except the bucket
//! of a slab that is sealed late: its seal first reads all later ranges ([`Shared::state_for_seal`]). A search
//! therefore finds either the rows of a range, or sums that show whether it needs the rows.
//!
//! Not here: which rows stay in the catalog (`live_buckets::loading`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, MutexGuard};

use quarry_catalog::{BucketRow, Catalog};

use crate::StoreError;
use crate::deletion::RowSet;
use crate::live_buckets::UnloadedRange;
use crate::remote::is_in_motion;
use crate::sealed_buckets::SealedBucket;
use crate::state::{Shared, State};
use crate::sync::lock;

/// Number of retention rounds without use after which rows leave memory; on a server, an hour.
pub(crate) const IDLE_ROUNDS: u32 = 60;

impl Shared {
    /// The state, once the rows of all ranges that `wanted` selects by index and sums are in memory.
    pub(crate) fn state_with(
        &self,
        wanted: impl Fn(&str, &UnloadedRange) -> bool,
    ) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state_without(|state| state.sealed.find_unloaded(&wanted))
    }

    /// The state, once `find` returns no range in it; loads the rows of each range that `find` returns.
    fn state_without(
        &self,
        find: impl Fn(&State) -> Option<(Arc<str>, UnloadedRange)>,
    ) -> Result<MutexGuard<'_, State>, StoreError> {
        loop {
            let state = self.state();
            let Some((index, range)) = find(&state) else { return Ok(state) };
            drop(state);
            self.load_rows(&index, &range)?;
        }
    }

    /// The state for a commit of sealed buckets. Two kinds of rows of the buckets' indexes are then in memory: the
    /// newest rows, because the sealed buckets may be merged with the buckets of these rows, and the rows of all
    /// buckets that arrived after an unsealed slab, because the position of the index depends on them.
    pub(crate) fn state_for_seal(&self, rows: &[BucketRow]) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state_without(|state| {
            rows.iter().find_map(|row| {
                let first_unsealed = state.unsealed_of(&row.index).min().unwrap_or(u64::MAX);
                state.sealed.unloaded_end(&row.index, first_unsealed)
            })
        })
    }

    /// The state, with the row of a bucket in memory if the bucket is live.
    pub(crate) fn state_with_bucket(&self, index: &str, number: u64) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state_with(|name, range| name == index && range.numbers().contains(&number))
    }

    /// The state, with the rows of one index in memory.
    pub(crate) fn state_with_index(&self, index: &str) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state_with(|name, _| name == index)
    }

    /// The state, with the rows of all indexes in memory.
    pub(crate) fn state_with_all(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state_with(|_, _| true)
    }

    /// Reads the rows of a range. Appends do not wait for this, nor do searches that do not need the rows.
    pub(crate) fn load_rows(&self, index: &Arc<str>, range: &UnloadedRange) -> Result<(), StoreError> {
        let _turn = lock(&self.rows_loading);
        // Another thread may have loaded the rows while this thread waited.
        if !self.state().sealed.is_unloaded(index, range) {
            return Ok(());
        }
        let read = read_range(&self.catalog, index, range, &mut BTreeMap::new())?;
        self.state().sealed.load(index, range, read);
        // There may be something to compact now.
        self.seal_done.notify_all();
        Ok(())
    }

    /// While more rows are in memory than a start would keep, drops the rows of cells (ranges of arrival) that nothing
    /// has used for `idle_rounds` calls.
    pub(crate) fn unload_idle(&self, idle_rounds: u32) {
        let idle = {
            let state = self.state();
            if state.sealed.rows() <= self.options.rows_at_start {
                return;
            }
            state.sealed.idle_cells(idle_rounds, self.options.compaction.has_background_merges())
        };
        if idle.is_empty() {
            return;
        }
        // While these locks are held, only code that holds a reference to a bucket can change it, and no rows are
        // loaded.
        let Ok(_commit) = self.begin_commit() else { return };
        let Ok(_turn) = self.rows_loading.try_lock() else { return };
        let has_failed = self.catalog.has_failed();
        if has_failed && self.catalog.settle().is_err() {
            return;
        }
        for (index, origins) in idle {
            // After a failed commit, the copies of some buckets in memory may differ from the catalog.
            if has_failed && self.read_all_copies(&index, &origins).is_err() {
                return;
            }
            let open = |bucket: &&Arc<SealedBucket>| Arc::strong_count(&bucket.copies) > 1;
            let open: Vec<u64> = {
                let state = self.state();
                if state.sealed.rows() <= self.options.rows_at_start {
                    return;
                }
                let of_cell = state.sealed.arrived_between(&index, *origins.start(), *origins.end());
                of_cell.filter(open).map(|bucket| bucket.row.number).collect()
            };
            // Open buckets are closed first, because they share `copies` with their rows, and rows that are read
            // again have new `copies`.
            open.into_iter().for_each(|number| self.readers.close(number));
            let mut state = self.state();
            if state.compaction_requests > 0 {
                return;
            }
            let left = state.sealed.unload(&index, &origins, |bucket| self.may_unload(bucket));
            drop(state);
            drop(left);
        }
    }

    /// Updates the `Copies` of the buckets in a range of first origins from the catalog. The caller holds `commit`.
    fn read_all_copies(&self, index: &str, origins: &RangeInclusive<u64>) -> Result<(), StoreError> {
        let buckets: BTreeMap<u64, Arc<SealedBucket>> = {
            let state = self.state();
            let of_cell = state.sealed.arrived_between(index, *origins.start(), *origins.end());
            of_cell.map(|bucket| (bucket.row.number, Arc::clone(bucket))).collect()
        };
        let (Some(first), Some(last)) = (buckets.keys().next(), buckets.keys().next_back()) else { return Ok(()) };
        let mut pages = self.catalog.read_live(index, *first..=*last);
        while let Some(page) = pages.next_page()? {
            let mut state = self.state();
            for row in page {
                if let Some(bucket) = buckets.get(&row.number) {
                    bucket.copies.set(row.remote, row.other);
                    state.sealed.recount(bucket);
                }
            }
        }
        Ok(())
    }

    /// Whether the row of a bucket may leave memory: no code holds the bucket, and no code looks for it without knowing
    /// its index.
    fn may_unload(&self, bucket: &Arc<SealedBucket>) -> bool {
        let is_held = !SealedBucket::is_free(bucket) || Arc::strong_count(&bucket.copies) > 1;
        !is_held && !is_in_motion(bucket, self.options.remote.is_some())
    }
}

/// Reads the live buckets of a range; fails if their sums differ from those in memory. `deletions` contains the deleted
/// rows of buckets, by number.
pub(crate) fn read_range(
    catalog: &Catalog,
    index: &str,
    range: &UnloadedRange,
    deletions: &mut BTreeMap<u64, RowSet>,
) -> Result<Vec<SealedBucket>, StoreError> {
    let (mut read, mut sums) = (Vec::new(), UnloadedRange::default());
    let mut pages = catalog.read_live(index, range.numbers());
    while let Some(page) = pages.next_page()? {
        // A merged bucket has a larger number than its origins, so buckets of other ranges may have numbers in between.
        for bucket in page.into_iter().map(SealedBucket::new) {
            if range.origins().contains(&bucket.first_origin()) {
                let bucket = match deletions.remove(&bucket.row.number) {
                    Some(deleted) => bucket.with_deleted(deleted),
                    None => bucket,
                };
                sums.add(&bucket);
                read.push(bucket);
            }
        }
    }
    if sums != *range {
        let reason = format!("its rows of index {index} differ from the sums in memory; run `quarry bucket verify`");
        return Err(StoreError::Corrupt { bucket: "catalog".to_owned(), reason });
    }
    Ok(read)
}
