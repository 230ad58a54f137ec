//! The events found by a deleting search, by bucket and row, and the current location of those rows.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::row_set::{Ranks, RowSet};

/// Memory limit in bytes for the rows of one deletion, beyond which the search fails. A row takes one bit if all rows
/// around it are deleted too, and up to 576 bytes if it is isolated.
pub const DELETION_BYTES_MAX: usize = 256 << 20;

/// Reference count of a bucket's objects, and the location of its events after a merge.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Number of the bucket.
    pub(crate) bucket: u64,
    /// Set when the bucket is merged.
    pub(crate) moved: OnceLock<MergedRows>,
}

/// Location of a bucket's rows after it was merged.
#[derive(Debug)]
pub(crate) struct MergedRows {
    /// The merged bucket.
    pub(crate) to: Arc<Hold>,
    /// Row of the merged bucket at which the events of the old bucket begin.
    pub(crate) first_row: u64,
    /// Rows of the old bucket that had been deleted before the merge, which omitted them.
    pub(crate) dropped: Option<Arc<RowSet>>,
}

impl MergedRows {
    /// The same rows as numbered in the merged bucket.
    fn rows(&self, rows: &RowSet) -> RowSet {
        let mut there = RowSet::default();
        match &self.dropped {
            None => rows.iter().for_each(|row| there.insert(self.first_row + row)),
            Some(dropped) => {
                let ranks = Ranks::new(dropped);
                let kept = rows.iter().filter(|row| !dropped.contains(*row));
                kept.for_each(|row| there.insert(self.first_row + row - ranks.before(row)));
            }
        }
        there
    }
}

/// Events to be deleted together.
#[derive(Debug, Default)]
pub struct Deletion {
    buckets: BTreeMap<u64, (Arc<Hold>, RowSet)>,
    bytes: usize,
}

impl Deletion {
    /// Adds rows of a bucket; duplicates are counted once.
    pub(crate) fn add(&mut self, bucket: &Arc<Hold>, rows: impl Iterator<Item = u64>) {
        let (_, set) = self.buckets.entry(bucket.bucket).or_insert_with(|| (Arc::clone(bucket), RowSet::default()));
        let before = set.bytes();
        rows.for_each(|row| set.insert(row));
        self.bytes += set.bytes() - before;
    }

    /// Number of events.
    pub fn events(&self) -> u64 {
        self.buckets.values().map(|(_, rows)| rows.len()).sum()
    }

    /// Approximate memory use; the limit is [`DELETION_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The found rows, grouped by the bucket that contains them now.
    pub(crate) fn rows_by_bucket(&self) -> BTreeMap<u64, RowSet> {
        let mut found: BTreeMap<u64, RowSet> = BTreeMap::new();
        for (bucket, rows) in self.buckets.values() {
            let (mut bucket, mut rows) = (Arc::clone(bucket), rows.clone());
            while let Some(moved) = bucket.moved.get() {
                rows = moved.rows(&rows);
                bucket = Arc::clone(&moved.to);
            }
            match found.get_mut(&bucket.bucket) {
                Some(known) => known.add(&rows),
                None => drop(found.insert(bucket.bucket, rows)),
            }
        }
        found
    }
}
