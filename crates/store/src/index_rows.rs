//! Rows of buckets that stay in the catalog until something needs them.
//!
//! After a start, a store with many buckets has only the sums of its largest indexes in memory ([`Away`]). Whoever needs
//! the buckets of an index takes the state by [`Shared::state_with`], which reads their rows. An index whose rows are
//! not in memory does not change: whoever changes it needs its rows, and nobody else has the catalog open for writing.
//! A search therefore finds either the rows of an index, or sums that say whether it needs them.
//!
//! Not here: which rows stay in the catalog (`live_buckets::loading`).

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use quarry_catalog::Catalog;

use crate::StoreError;
use crate::deletion::RowSet;
use crate::live_buckets::{Away, LiveBuckets, Loading};
use crate::sealed_buckets::SealedBucket;
use crate::state::{Shared, State};
use crate::sync::lock;

impl Shared {
    /// The state, with the rows of all indexes in memory that `wanted` selects by name and sums.
    pub(crate) fn state_with(&self, wanted: impl Fn(&str, &Away) -> bool) -> Result<MutexGuard<'_, State>, StoreError> {
        loop {
            let state = self.state();
            let Some(index) = state.sealed.find_away(&wanted).cloned() else { return Ok(state) };
            drop(state);
            self.bring(&index)?;
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

    /// Reads the rows of an index. Appends and searches of other indexes go on meanwhile.
    fn bring(&self, index: &Arc<str>) -> Result<(), StoreError> {
        let _turn = lock(&self.bringing);
        // Another thread may have brought them while this one waited.
        let Some(away) = self.state().sealed.away(index) else { return Ok(()) };
        let read = read_index(&self.catalog, index, &away, &mut BTreeMap::new())?;
        self.state().sealed.bring(index, read);
        // There may be something to compact now.
        self.seal_done.notify_all();
        Ok(())
    }
}

/// The live buckets of an index, which must have these sums; `deletions` are the deleted rows of buckets.
pub(crate) fn read_index(
    catalog: &Catalog,
    index: &str,
    away: &Away,
    deletions: &mut BTreeMap<u64, RowSet>,
) -> Result<LiveBuckets, StoreError> {
    let (mut loading, mut sums) = (Loading::new(usize::MAX), Away::default());
    let mut pages = catalog.read_live(index);
    while let Some(page) = pages.next_page()? {
        for row in page {
            let bucket = SealedBucket::new(row);
            let bucket = match deletions.remove(&bucket.row.number) {
                Some(deleted) => bucket.without(deleted),
                None => bucket,
            };
            sums.add(&bucket);
            loading.add(bucket, false);
        }
    }
    if sums != *away {
        let reason = format!("its rows of index {index} have changed since the start; run `quarry bucket verify`");
        return Err(StoreError::Corrupt { bucket: "catalog".to_owned(), reason });
    }
    Ok(loading.into_live().0)
}
