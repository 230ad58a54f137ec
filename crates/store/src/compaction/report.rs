//! Report of a compaction.

use crate::Damage;
use crate::state::State;

/// One merge of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Id of the new bucket.
    pub bucket: String,
    /// Ids of the buckets that the new bucket replaces, in order of arrival.
    pub inputs: Vec<String>,
    /// Number of events.
    pub events: u64,
    /// Total bytes of the inputs' objects.
    pub bytes_before: u64,
    /// Total bytes of the new bucket's objects.
    pub bytes_after: u64,
}

/// Result of [`crate::Store::compact_all`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionReport {
    /// Number of sealed buckets before.
    pub buckets_before: u64,
    /// Number of sealed buckets after.
    pub buckets_after: u64,
    /// Total bytes of the buckets' objects before.
    pub bytes_before: u64,
    /// Total bytes of the buckets' objects after.
    pub bytes_after: u64,
    /// The merges, in the order they were done.
    pub merges: Vec<Merge>,
    /// Buckets that were skipped, with the reason; the bucket's name is empty if the reason concerns several buckets
    /// together.
    pub skipped: Vec<Damage>,
}

impl CompactionReport {
    pub(crate) fn begin(state: &State) -> CompactionReport {
        let (buckets_before, bytes_before) = totals(state);
        CompactionReport { buckets_before, bytes_before, ..CompactionReport::default() }
    }

    pub(crate) fn end(&mut self, state: &State) {
        (self.buckets_after, self.bytes_after) = totals(state);
    }
}

fn totals(state: &State) -> (u64, u64) {
    let stored_bytes = state.sealed.totals().map(|(_, totals, _)| totals.stored_bytes).sum();
    (state.sealed.len(), stored_bytes)
}
