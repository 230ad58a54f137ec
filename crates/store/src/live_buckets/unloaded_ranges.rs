//! Ranges of buckets of an index whose rows are only in the catalog, not in memory; with sums over each range.
//!
//! A range contains all live buckets of an index whose first origins are between two numbers, so the range can be read
//! again without a list of its buckets. Neighbouring ranges are joined, because many small ranges would take more memory
//! than the rows.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use quarry_catalog::RemoteState;

use super::Totals;
use crate::sealed_buckets::SealedBucket;

/// Sums of the live buckets of an index whose first origins are in a range and whose rows are only in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnloadedRange {
    pub(crate) totals: Totals,
    /// Smallest and largest `_time`.
    pub(crate) times: (i64, i64),
    /// Smallest among the largest `_time`s of the buckets.
    pub(crate) first_end: i64,
    /// Smallest and largest first origin.
    origins: (u64, u64),
    /// Smallest and largest number of a bucket.
    numbers: (u64, u64),
    /// The largest origin of an event.
    pub(crate) last_origin: u64,
    /// Largest number of a bucket that was sealed from the log and not merged; 0 if there is none.
    pub(crate) last_unmerged: u64,
    /// Bytes of local copies of uploaded buckets.
    pub(crate) local_bytes: u64,
    /// Bytes of buckets that are on volumes.
    pub(crate) remote_bytes: u64,
}

impl Default for UnloadedRange {
    fn default() -> UnloadedRange {
        UnloadedRange {
            totals: Totals::default(),
            times: (i64::MAX, i64::MIN),
            first_end: i64::MAX,
            origins: (u64::MAX, 0),
            numbers: (u64::MAX, 0),
            last_origin: 0,
            last_unmerged: 0,
            local_bytes: 0,
            remote_bytes: 0,
        }
    }
}

impl UnloadedRange {
    fn of(bucket: &SealedBucket) -> UnloadedRange {
        let (row, state, origin) = (&bucket.row, bucket.copies.state(), bucket.first_origin());
        let bytes_if = |is: bool| if is { row.stored_bytes() } else { 0 };
        UnloadedRange {
            totals: Totals::of(bucket),
            times: (row.time_min, row.time_max),
            first_end: row.time_max,
            origins: (origin, origin),
            numbers: (row.number, row.number),
            last_origin: bucket.origin_of(row.events),
            last_unmerged: if row.is_from_log() { row.number } else { 0 },
            local_bytes: bytes_if(state == Some(RemoteState::Uploaded)),
            remote_bytes: bytes_if(state.is_some_and(RemoteState::is_remote_complete)),
        }
    }

    pub(crate) fn add(&mut self, bucket: &SealedBucket) {
        *self = self.join(UnloadedRange::of(bucket));
    }

    /// The sums of two ranges together.
    pub(crate) fn join(mut self, other: UnloadedRange) -> UnloadedRange {
        let widest = |one: (u64, u64), other: (u64, u64)| (one.0.min(other.0), one.1.max(other.1));
        self.totals.combine(&other.totals, u64::wrapping_add);
        UnloadedRange {
            totals: self.totals,
            times: (self.times.0.min(other.times.0), self.times.1.max(other.times.1)),
            first_end: self.first_end.min(other.first_end),
            origins: widest(self.origins, other.origins),
            numbers: widest(self.numbers, other.numbers),
            last_origin: self.last_origin.max(other.last_origin),
            last_unmerged: self.last_unmerged.max(other.last_unmerged),
            local_bytes: self.local_bytes.wrapping_add(other.local_bytes),
            remote_bytes: self.remote_bytes.wrapping_add(other.remote_bytes),
        }
    }

    /// First origins from the first to the last bucket of the range; no other bucket of the index lies between.
    pub(crate) fn origins(&self) -> RangeInclusive<u64> {
        self.origins.0..=self.origins.1
    }

    /// A range of numbers that includes those of all buckets.
    pub(crate) fn numbers(&self) -> RangeInclusive<u64> {
        self.numbers.0..=self.numbers.1
    }
}

/// Ranges of one index, which do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct UnloadedRanges(BTreeMap<u64, UnloadedRange>);

impl UnloadedRanges {
    /// The ranges in the order of arrival.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &UnloadedRange> {
        self.0.values()
    }

    /// Adds a range. Joins it with its neighbours, if together they have at most `buckets_max` buckets and `in_memory`
    /// finds no row with a first origin between the two given origins.
    pub(super) fn insert(&mut self, mut range: UnloadedRange, buckets_max: u64, in_memory: impl Fn(u64, u64) -> bool) {
        let may_join = |one: &UnloadedRange, other: &UnloadedRange| {
            one.totals.buckets.saturating_add(other.totals.buckets) <= buckets_max
                && !in_memory(one.origins.1, other.origins.0)
        };
        let before = self.0.range(..range.origins.0).next_back().map(|(_, before)| *before);
        if let Some(before) = before.filter(|before| may_join(before, &range)) {
            self.0.remove(&before.origins.0);
            range = before.join(range);
        }
        let after = self.0.range(range.origins.1..).next().map(|(_, after)| *after);
        if let Some(after) = after.filter(|after| may_join(&range, after)) {
            self.0.remove(&after.origins.0);
            range = range.join(after);
        }
        self.0.insert(range.origins.0, range);
    }

    /// Removes a range; returns `false` if it was not there.
    pub(super) fn remove(&mut self, range: &UnloadedRange) -> bool {
        self.0.get(&range.origins.0) == Some(range) && self.0.remove(&range.origins.0).is_some()
    }

    /// Whether the bucket with this first origin belongs to a range.
    pub(super) fn contains(&self, origin: u64) -> bool {
        self.0.range(..=origin).next_back().is_some_and(|(_, range)| range.origins.1 >= origin)
    }

    /// Whether the first origin of a range is at least `after` and less than `before`.
    pub(super) fn has_between(&self, after: u64, before: u64) -> bool {
        after < before && self.0.range(after..before).next().is_some()
    }
}
