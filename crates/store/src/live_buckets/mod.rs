//! The live buckets of a store, with sums and sets over them, so that no step has to look at all buckets.
//!
//! A store may have a million buckets, and appends and searches wait for the lock of its state. Totals are therefore
//! kept as sums. A set of bucket numbers exists for each purpose: buckets of a time range, the oldest buckets, buckets
//! with deleted events, buckets whose local copy may be evicted.
//!
//! Rows of many buckets may be in the catalog only. An index is therefore divided into ranges of arrival: for each
//! range, either all rows are in memory or only their sums ([`UnloadedRange`]).
//!
//! Not here: retention, merges and evictions themselves.

mod loading;
mod unloaded_ranges;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use quarry_event::TimeRange;

use crate::merge_positions::MergePositions;
use crate::options::MERGE_COUNT_MAX;
use crate::remote::copies::Counted;
use crate::sealed_buckets::SealedBucket;
use crate::spans::Spans;

pub(crate) use self::loading::Loading;
pub(crate) use self::unloaded_ranges::UnloadedRange;
use self::unloaded_ranges::UnloadedRanges;

/// Number of newest rows that stay in memory while buckets are added to their index, because later buckets may be
/// merged with them. It covers several levels of merges.
const NEWEST_ROWS: usize = 4 * MERGE_COUNT_MAX;

/// Division of the numbers of sealed buckets into *cells*, which are ranges of equal length. A bucket belongs to the
/// cell of its first origin. The rows of a cell leave memory together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells {
    /// Count of numbers in a cell. Adjacent unloaded cells form one range of up to this many buckets.
    pub(crate) origins: u64,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells { origins: 4_096 }
    }
}

impl Cells {
    fn of(self, origin: u64) -> u64 {
        origin / self.origins.max(1)
    }

    /// The range of first origins that a cell contains.
    fn origins_of(self, cell: u64) -> RangeInclusive<u64> {
        let first = cell.saturating_mul(self.origins.max(1));
        first..=first.saturating_add(self.origins.max(1) - 1)
    }
}

/// The live buckets of all indexes, with the sums and sets that searches and background work need.
#[derive(Debug, Default)]
pub(crate) struct LiveBuckets {
    buckets: BTreeMap<u64, Arc<SealedBucket>>,
    /// Live buckets by index; an index without buckets has no entry.
    indexes: BTreeMap<Arc<str>, IndexBuckets>,
    /// Indexes with buckets whose rows are not in memory.
    unloaded: BTreeMap<Arc<str>, UnloadedRanges>,
    cells: Cells,
    /// Numbers of buckets with deleted events.
    with_deletions: BTreeSet<u64>,
    /// Numbers of thawed buckets.
    thawed: BTreeSet<u64>,
    copies: CopyTotals,
    /// Positions the background thread has not examined for merges.
    pub(crate) unexamined: MergePositions,
    /// Positions no request has examined for merges.
    pub(crate) unrequested: MergePositions,
    /// Number of the first bucket for which no request has examined whether search-time fields should be stored.
    pub(crate) unasked: u64,
}

/// Buckets with remote copies.
#[derive(Debug, Default)]
struct CopyTotals {
    /// Numbers of uploaded buckets whose local copy may be evicted.
    evictable: BTreeSet<u64>,
    evictable_bytes: u64,
    /// Numbers of buckets that have moved and still have objects at their old location.
    leaving: BTreeSet<u64>,
    /// Numbers of buckets whose local copy is being evicted or restored.
    evicting: BTreeSet<u64>,
    /// Bytes of local copies of uploaded buckets.
    local_bytes: u64,
    /// Bytes of buckets that are on volumes.
    remote_bytes: u64,
}

/// Live buckets of one index.
#[derive(Debug, Default)]
struct IndexBuckets {
    /// First origin and number of each bucket.
    by_arrival: BTreeSet<(u64, u64)>,
    spans: Spans,
    totals: Totals,
    /// Number of retention rounds since the last change of the buckets.
    unchanged: Cell<u32>,
    /// Number of retention rounds since the last search or change of the buckets of a cell.
    idle: BTreeMap<u64, Cell<u32>>,
}

impl IndexBuckets {
    /// Notes that a bucket of this cell was added, changed or removed.
    fn note_change(&mut self, cell: u64) {
        self.unchanged.set(0);
        self.idle.entry(cell).or_default().set(0);
    }

    /// Notes that a search uses a bucket of this cell.
    fn note_use(&self, cell: u64) {
        self.idle.get(&cell).into_iter().for_each(|idle| idle.set(0));
    }
}

/// Sums of the live buckets of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) buckets: u64,
    /// Events that are not deleted.
    pub(crate) events: u64,
    pub(crate) deleted: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
    /// Number and bytes of the thawed buckets.
    pub(crate) thawed: u64,
    pub(crate) thawed_bytes: u64,
    /// Bytes of the events of thawed buckets.
    pub(crate) thawed_raw_bytes: u64,
}

impl Totals {
    fn of(bucket: &SealedBucket) -> Totals {
        let (deleted, stored_bytes) = (bucket.deleted_events(), bucket.row.stored_bytes());
        let thawed = u64::from(bucket.row.thawed);
        Totals {
            buckets: 1,
            events: bucket.row.events - deleted,
            deleted,
            raw_bytes: bucket.row.raw_bytes,
            stored_bytes,
            thawed,
            thawed_bytes: thawed * stored_bytes,
            thawed_raw_bytes: thawed * bucket.row.raw_bytes,
        }
    }

    fn combine(&mut self, other: &Totals, change: impl Fn(u64, u64) -> u64) {
        for (sum, part) in [
            (&mut self.buckets, other.buckets),
            (&mut self.events, other.events),
            (&mut self.deleted, other.deleted),
            (&mut self.raw_bytes, other.raw_bytes),
            (&mut self.stored_bytes, other.stored_bytes),
            (&mut self.thawed, other.thawed),
            (&mut self.thawed_bytes, other.thawed_bytes),
            (&mut self.thawed_raw_bytes, other.thawed_raw_bytes),
        ] {
            *sum = change(*sum, part);
        }
    }

    fn add(&mut self, bucket: &SealedBucket) {
        // Sizes are read from the catalog. If damaged rows make a sum overflow, the store must not stop.
        self.combine(&Totals::of(bucket), u64::wrapping_add);
    }

    fn subtract(&mut self, bucket: &SealedBucket) {
        self.combine(&Totals::of(bucket), u64::wrapping_sub);
    }
}

impl LiveBuckets {
    pub(crate) fn get(&self, number: u64) -> Option<&Arc<SealedBucket>> {
        self.buckets.get(&number)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.buckets.contains_key(&number)
    }

    /// Number of buckets, including those whose rows are not in memory.
    pub(crate) fn len(&self) -> u64 {
        let unloaded = self.unloaded.values().flat_map(UnloadedRanges::iter).map(|range| range.totals.buckets);
        self.buckets.len() as u64 + unloaded.sum::<u64>()
    }

    /// Ranges of an index whose rows are not in memory, in the order of arrival.
    pub(crate) fn unloaded_of(&self, index: &str) -> impl DoubleEndedIterator<Item = &UnloadedRange> {
        self.unloaded.get(index).into_iter().flat_map(UnloadedRanges::iter)
    }

    /// The first range whose rows are not in memory and that `wanted` selects, with the name of its index.
    pub(crate) fn find_unloaded(
        &self,
        wanted: impl Fn(&str, &UnloadedRange) -> bool,
    ) -> Option<(Arc<str>, UnloadedRange)> {
        self.unloaded.iter().find_map(|(index, ranges)| {
            let range = ranges.iter().find(|range| wanted(index, range))?;
            Some((Arc::clone(index), *range))
        })
    }

    /// The last range of an index whose rows are not in memory. `None` if all first origins in the range are smaller
    /// than `from` and some bucket with a row in memory arrived later.
    pub(crate) fn unloaded_end(&self, index: &str, from: u64) -> Option<(Arc<str>, UnloadedRange)> {
        let (name, ranges) = self.unloaded.get_key_value(index)?;
        let last = ranges.iter().next_back()?;
        let through = *last.origins().end();
        let is_last = || self.indexes.get(index).is_none_or(|it| it.by_arrival.last() < Some(&(through, 0)));
        (through >= from || is_last()).then(|| (Arc::clone(name), *last))
    }

    /// Whether a range whose rows are not in memory arrived between these positions.
    pub(crate) fn has_unloaded_between(&self, index: &str, after: u64, before: u64) -> bool {
        self.unloaded.get(index).is_some_and(|ranges| ranges.has_between(after, before))
    }

    /// Whether the rows of this range are not in memory.
    pub(crate) fn is_unloaded(&self, index: &str, range: &UnloadedRange) -> bool {
        self.unloaded.get(index).is_some_and(|ranges| ranges.iter().any(|unloaded| unloaded == range))
    }

    /// Adds the rows of a range that were not in memory.
    pub(crate) fn load(&mut self, index: &str, range: &UnloadedRange, read: Vec<SealedBucket>) {
        let Some(ranges) = self.unloaded.get_mut(index) else { return };
        assert!(ranges.remove(range), "rows are loaded once");
        if ranges.iter().next().is_none() {
            self.unloaded.remove(index);
        }
        read.into_iter().for_each(|bucket| drop(self.add(bucket)));
    }

    /// Number of rows in memory.
    pub(crate) fn rows(&self) -> usize {
        self.buckets.len()
    }

    /// Counts one more round without use for each cell with rows in memory; returns the indexes and first origins of the
    /// cells with at least `rounds` such rounds. While an index changes, its newest rows are excluded. With background
    /// merges, cells with unexamined positions are also excluded.
    pub(crate) fn idle_cells(&self, rounds: u32, merges: bool) -> Vec<(Arc<str>, RangeInclusive<u64>)> {
        let count_round = |idle: &Cell<u32>| {
            idle.set(idle.get().saturating_add(1));
            idle.get()
        };
        let mut cells = Vec::new();
        for (name, index) in &self.indexes {
            let newest = match count_round(&index.unchanged) >= rounds {
                true => u64::MAX,
                false => index.by_arrival.iter().nth_back(NEWEST_ROWS - 1).map_or(0, |(first, _)| *first),
            };
            for (cell, idle) in &index.idle {
                let origins = self.cells.origins_of(*cell);
                let is_idle = count_round(idle) >= rounds && *origins.end() < newest;
                if is_idle && !(merges && self.unexamined.has_between(name, &origins)) {
                    cells.push((Arc::clone(name), origins));
                }
            }
        }
        cells
    }

    /// If `may_leave` holds for every bucket of a cell, replaces the buckets with their sums and returns the buckets;
    /// otherwise changes nothing and returns no buckets.
    pub(crate) fn unload(
        &mut self,
        name: &Arc<str>,
        origins: &RangeInclusive<u64>,
        may_leave: impl Fn(&Arc<SealedBucket>) -> bool,
    ) -> Vec<Arc<SealedBucket>> {
        let of_cell = || self.arrived_between(name, *origins.start(), *origins.end());
        if !of_cell().all(may_leave) {
            return Vec::new();
        }
        let numbers: Vec<u64> = of_cell().map(|bucket| bucket.row.number).collect();
        let left: Vec<_> = numbers.iter().filter_map(|number| self.buckets.remove(number)).collect();
        let mut sums = UnloadedRange::default();
        for bucket in &left {
            sums.add(bucket);
            self.remove_from_index(bucket);
            self.update_totals(bucket, bucket.copies.uncount(), Counted::default());
        }
        if let Some(index) = self.indexes.get_mut(name) {
            index.idle.remove(&self.cells.of(*origins.start()));
        }
        if !left.is_empty() {
            let in_memory = |first, last| self.arrived_between(name, first, last).next().is_some();
            let mut ranges = self.unloaded.get(name).cloned().unwrap_or_default();
            ranges.insert(sums, self.cells.origins, in_memory);
            self.unloaded.insert(Arc::clone(name), ranges);
        }
        left
    }

    /// The buckets whose rows are in memory, by number.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.buckets.values()
    }

    /// The buckets whose rows are in memory, from a number on.
    pub(crate) fn numbered_from(&self, number: u64) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.buckets.range(number..).map(|(_, bucket)| bucket)
    }

    pub(crate) fn add(&mut self, mut bucket: SealedBucket) -> Arc<SealedBucket> {
        // All buckets of an index share one allocation of the index's name.
        if let Some((index, _)) = self.indexes.get_key_value(&bucket.row.index) {
            bucket.row.index = Arc::clone(index);
        }
        let ranges = self.unloaded.get(&bucket.row.index);
        let is_in_memory = ranges.is_none_or(|ranges| !ranges.contains(bucket.first_origin()));
        assert!(is_in_memory, "the rows of a range are in memory before it changes");
        let (number, bucket) = (bucket.row.number, Arc::new(bucket));
        let cell = self.cells.of(bucket.first_origin());
        let index = self.indexes.entry(Arc::clone(&bucket.row.index)).or_default();
        let is_new = index.by_arrival.insert((bucket.first_origin(), number));
        assert!(is_new && !self.buckets.contains_key(&number), "a bucket is added once");
        index.spans.insert(number, bucket.row.time_min, bucket.row.time_max);
        index.note_change(cell);
        index.totals.add(&bucket);
        self.add_to_sets(&bucket);
        self.buckets.insert(number, Arc::clone(&bucket));
        self.recount(&bucket);
        self.examine(&bucket);
        self.unasked = self.unasked.min(number);
        bucket
    }

    fn add_to_sets(&mut self, bucket: &SealedBucket) {
        if bucket.row.thawed {
            self.thawed.insert(bucket.row.number);
        }
        if bucket.deleted.is_some() {
            self.with_deletions.insert(bucket.row.number);
        }
    }

    /// Replaces a bucket with a version that has more deleted events.
    pub(crate) fn replace(&mut self, bucket: SealedBucket) {
        let number = bucket.row.number;
        let Some(known) = self.buckets.get_mut(&number) else { return };
        assert!(Arc::ptr_eq(&known.copies, &bucket.copies), "both are versions of one bucket");
        if let Some(index) = self.indexes.get_mut(&bucket.row.index) {
            index.note_change(self.cells.of(bucket.first_origin()));
            index.totals.subtract(known);
            index.totals.add(&bucket);
        }
        *known = Arc::new(bucket);
        self.with_deletions.insert(number);
    }

    /// Removes a bucket that is no longer live.
    pub(crate) fn remove(&mut self, number: u64) {
        let Some(bucket) = self.buckets.remove(&number) else { return };
        self.with_deletions.remove(&number);
        self.thawed.remove(&number);
        self.update_totals(&bucket, bucket.copies.uncount(), Counted::default());
        self.examine(&bucket);
        self.remove_from_index(&bucket);
        if let Some(index) = self.indexes.get_mut(&bucket.row.index) {
            index.note_change(self.cells.of(bucket.first_origin()));
        }
    }

    fn remove_from_index(&mut self, bucket: &SealedBucket) {
        let row = &bucket.row;
        let Some(index) = self.indexes.get_mut(&row.index) else { return };
        let is_known = index.by_arrival.remove(&(bucket.first_origin(), row.number));
        let has_times = index.spans.remove(row.number, row.time_min, row.time_max);
        assert!(is_known && has_times, "an index knows its buckets");
        index.totals.subtract(bucket);
        if index.by_arrival.is_empty() {
            self.indexes.remove(&row.index);
        }
    }

    /// Notes that a merge of this bucket may have become due.
    pub(crate) fn examine(&mut self, bucket: &SealedBucket) {
        for unexamined in [&mut self.unexamined, &mut self.unrequested] {
            unexamined.add(&bucket.row.index, bucket.first_origin());
        }
    }

    /// Records that a request wants all possible merges.
    pub(crate) fn request_all(&mut self) {
        self.unasked = 0;
        self.indexes.keys().for_each(|index| self.unrequested.add_all(index));
    }

    /// Names of the indexes with buckets.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = &Arc<str>> {
        let unloaded = self.unloaded.keys().filter(|index| !self.indexes.contains_key(*index));
        self.indexes.keys().chain(unloaded)
    }

    /// Whether an index has events that were sealed in a bucket with a larger number.
    pub(crate) fn has_later(&self, index: &str, number: u64) -> bool {
        let is_later = |bucket: &Arc<SealedBucket>| bucket.origin_of(bucket.row.events) > number;
        self.unloaded_of(index).any(|range| range.last_origin > number) || self.of_index(index).rev().any(is_later)
    }

    /// Buckets of an index in the order of arrival.
    pub(crate) fn of_index(&self, index: &str) -> impl DoubleEndedIterator<Item = &Arc<SealedBucket>> {
        self.arrived_between(index, 0, u64::MAX)
    }

    /// Buckets of an index whose first origins are from `first` through `last`, in this order.
    pub(crate) fn arrived_between(
        &self,
        index: &str,
        first: u64,
        last: u64,
    ) -> impl DoubleEndedIterator<Item = &Arc<SealedBucket>> {
        let numbers = self.indexes.get(index).filter(|_| first <= last);
        let numbers = numbers.into_iter().flat_map(move |it| it.by_arrival.range((first, 0)..=(last, u64::MAX)));
        numbers.filter_map(|(_, number)| self.buckets.get(number))
    }

    /// First origin of the `steps`-th bucket before `place`, in the order of first origins; 0 if fewer buckets precede
    /// `place`.
    pub(crate) fn place_before(&self, index: &str, place: u64, steps: usize) -> u64 {
        let earlier = self.indexes.get(index).map(|it| it.by_arrival.range(..(place, 0)));
        earlier.and_then(|earlier| earlier.rev().nth(steps.saturating_sub(1))).map_or(0, |(first, _)| *first)
    }

    /// Buckets of an index, ordered by their largest `_time`, then by number.
    pub(crate) fn by_end(&self, index: &str) -> impl Iterator<Item = &Arc<SealedBucket>> {
        let numbers = self.indexes.get(index).into_iter().flat_map(|it| it.spans.by_end(|number| self.end_of(number)));
        numbers.filter_map(|number| self.buckets.get(&number))
    }

    fn end_of(&self, number: u64) -> i64 {
        self.buckets.get(&number).map_or(i64::MAX, |bucket| bucket.row.time_max)
    }

    /// Buckets of the selected indexes that overlap `range`.
    pub(crate) fn overlapping<'a>(
        &'a self,
        is_selected: impl Fn(&str) -> bool,
        range: &'a TimeRange,
    ) -> impl Iterator<Item = &'a Arc<SealedBucket>> {
        let selected = self.indexes.iter().filter(move |(index, _)| is_selected(index));
        selected.flat_map(move |(_, it)| {
            let buckets = it.spans.may_overlap(range).filter_map(move |number| self.buckets.get(&number));
            let found = buckets.filter(move |bucket| range.overlaps(bucket.row.time_min, bucket.row.time_max));
            found.inspect(move |bucket| it.note_use(self.cells.of(bucket.first_origin())))
        })
    }

    /// Buckets with deleted events, by number.
    pub(crate) fn with_deletions(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.with_deletions.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Thawed buckets, by number.
    pub(crate) fn thawed(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.thawed.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Whether a live thawed bucket has this object. The folder of a retired thawed bucket may have been restored, so
    /// that a new bucket has the same objects.
    pub(crate) fn has_thawed_object(&self, object: &str) -> bool {
        self.thawed().any(|bucket| bucket.row.object() == object)
    }

    /// Sums of an index.
    pub(crate) fn totals_of(&self, index: &str) -> Totals {
        let mut totals = self.indexes.get(index).map(|it| it.totals).unwrap_or_default();
        self.unloaded_of(index).for_each(|range| totals.combine(&range.totals, u64::wrapping_add));
        totals
    }

    /// Every index with its sums and its first and last time. An index can appear twice: once for the rows in memory,
    /// once for the rows that are not.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (&Arc<str>, Totals, (i64, i64))> {
        let unloaded = self.unloaded.iter().flat_map(|(index, ranges)| {
            let sums = ranges.iter().copied().reduce(UnloadedRange::join);
            sums.map(|sums| (index, sums.totals, sums.times))
        });
        self.totals_in_memory().chain(unloaded)
    }

    fn totals_in_memory(&self) -> impl Iterator<Item = (&Arc<str>, Totals, (i64, i64))> {
        self.indexes.iter().filter_map(|(index, it)| {
            let times = it.spans.bounds(|number| self.end_of(number))?;
            Some((index, it.totals, times))
        })
    }

    /// Updates the sums and sets after the copies of a bucket have changed.
    pub(crate) fn recount(&mut self, bucket: &SealedBucket) {
        let live = self.buckets.get(&bucket.row.number);
        if live.is_some_and(|live| Arc::ptr_eq(&live.copies, &bucket.copies)) {
            let (before, now) = bucket.copies.recount();
            self.update_totals(bucket, before, now);
        }
    }

    fn update_totals(&mut self, bucket: &SealedBucket, before: Counted, now: Counted) {
        let (number, bytes) = (bucket.row.number, bucket.row.stored_bytes());
        let totals = &mut self.copies;
        for (sum, was, is) in [
            (&mut totals.evictable_bytes, before.evictable, now.evictable),
            (&mut totals.local_bytes, before.local, now.local),
            (&mut totals.remote_bytes, before.remote, now.remote),
        ] {
            *sum = match (was, is) {
                (false, true) => sum.wrapping_add(bytes),
                (true, false) => sum.wrapping_sub(bytes),
                _ => *sum,
            };
        }
        for (numbers, is) in [
            (&mut totals.evictable, now.evictable),
            (&mut totals.leaving, now.leaving),
            (&mut totals.evicting, now.evicting),
        ] {
            match is {
                true => numbers.insert(number),
                false => numbers.remove(&number),
            };
        }
    }

    /// Uploaded buckets whose local copy may be evicted, by number.
    pub(crate) fn evictable(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.copies.evictable.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Bytes of the local copies that may be evicted.
    pub(crate) fn evictable_bytes(&self) -> u64 {
        let unloaded = self.unloaded.values().flat_map(UnloadedRanges::iter);
        unloaded.fold(self.copies.evictable_bytes, |sum, range| sum.wrapping_add(range.local_bytes))
    }

    /// Buckets whose objects at their old location are to be deleted, by number.
    pub(crate) fn with_old_copies(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.copies.leaving.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Buckets whose local copy is being evicted or restored, by number.
    pub(crate) fn evicting(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.copies.evicting.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Bytes of the local copies of uploaded buckets, and bytes of the buckets on volumes.
    pub(crate) fn copy_bytes(&self) -> (u64, u64) {
        let sums = (self.copies.local_bytes, self.copies.remote_bytes);
        self.unloaded.values().flat_map(UnloadedRanges::iter).fold(sums, |(local, remote), range| {
            (local.wrapping_add(range.local_bytes), remote.wrapping_add(range.remote_bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use quarry_catalog::{BucketRow, BucketState, Origin, OtherCopy, RemoteCopy, RemoteState};

    use super::*;
    use crate::deletion::RowSet;

    impl LiveBuckets {
        /// Compares the sums of indexes with their buckets.
        pub(crate) fn check_sums(&self) {
            let mut counted: BTreeMap<Arc<str>, (Totals, (i64, i64))> = BTreeMap::new();
            for bucket in self.values() {
                let none = (Totals::default(), (i64::MAX, i64::MIN));
                let (totals, times) = counted.entry(bucket.row.index.clone()).or_insert(none);
                totals.add(bucket);
                *times = (times.0.min(bucket.row.time_min), times.1.max(bucket.row.time_max));
            }
            for (index, ranges) in &self.unloaded {
                assert!(self.of_index(index).all(|bucket| !ranges.contains(bucket.first_origin())));
            }
            let in_memory = self.totals_in_memory();
            let kept: BTreeMap<_, _> = in_memory.map(|(index, sums, times)| (index.clone(), (sums, times))).collect();
            assert_eq!(kept, counted);
        }

        /// Compares sums and sets about copies with the buckets.
        fn check_copies(&self) {
            let of = |is: &dyn Fn(&SealedBucket) -> bool| -> Vec<u64> {
                self.values().filter(|bucket| is(bucket)).map(|bucket| bucket.row.number).collect()
            };
            let bytes = |numbers: &[u64]| -> u64 {
                numbers.iter().map(|number| self.get(*number).unwrap().row.stored_bytes()).sum()
            };
            let local = of(&|bucket| bucket.copies.state() == Some(RemoteState::Uploaded));
            let moving = of(&|bucket| bucket.copies.other().is_some_and(|other| !other.is_obsolete));
            let evictable: Vec<u64> = local.iter().copied().filter(|number| !moving.contains(number)).collect();
            let remote = of(&|bucket| bucket.copies.state().is_some_and(RemoteState::is_remote_complete));
            assert_eq!(self.copy_bytes(), (bytes(&local), bytes(&remote)));
            assert_eq!(self.evictable_bytes(), bytes(&evictable));
            assert_eq!(self.evictable().map(|bucket| bucket.row.number).collect::<Vec<_>>(), evictable);
            let leaving = of(&|bucket| bucket.copies.other().is_some_and(|other| other.is_obsolete));
            assert_eq!(self.with_old_copies().map(|bucket| bucket.row.number).collect::<Vec<_>>(), leaving);
        }
    }

    /// Numbers that look random.
    pub(super) struct RandomNumbers(pub(super) u64);

    impl RandomNumbers {
        pub(super) fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.0 >> 33) % limit
        }
    }

    pub(super) fn row(number: u64, numbers: &mut RandomNumbers) -> BucketRow {
        let time_min = numbers.below(1 << 30).cast_signed() << numbers.below(20);
        let level = numbers.below(2) as u32;
        BucketRow {
            number,
            index: format!("index{}", numbers.below(3)),
            state: BucketState::Live,
            object: String::new(),
            filter: String::new(),
            slabs: 1,
            time_min,
            time_max: time_min + (numbers.below(1 << 30).cast_signed() << numbers.below(20)),
            events: 100,
            raw_bytes: numbers.below(1_000),
            object_bytes: numbers.below(1_000),
            filter_bytes: numbers.below(1_000),
            created: 0,
            level,
            thawed: level == 0 && numbers.below(9) == 0,
            remote: None,
            other: None,
            stem: None,
            merged_into: None,
            origins: if level > 0 { vec![Origin { first_row: 0, number: number / 2 }] } else { Vec::new() },
        }
    }

    pub(super) fn changed_copies(numbers: &mut RandomNumbers) -> (Option<RemoteCopy>, Option<OtherCopy>) {
        let states = [RemoteState::Uploading, RemoteState::Uploaded, RemoteState::Evicting, RemoteState::Evicted];
        let (volume, folder) = ("far".to_owned(), "db".to_owned());
        let state = states.get(numbers.below(5) as usize);
        let other = OtherCopy { volume: volume.clone(), folder: folder.clone(), is_obsolete: numbers.below(2) == 0 };
        let remote = state.map(|state| RemoteCopy { volume, folder, state: *state, receipt: None });
        (remote, (numbers.below(3) == 0).then_some(other))
    }

    #[test]
    fn sums_and_sets_match_the_buckets() {
        let (mut live, mut numbers) = (LiveBuckets::default(), RandomNumbers(7));
        for number in 1..=1_000 {
            let some = live.values().nth(numbers.below(live.len().max(1)) as usize).cloned();
            match (numbers.below(7), some) {
                (0, Some(bucket)) => live.remove(bucket.row.number),
                (1, Some(bucket)) if bucket.deleted_events() < 90 => {
                    let mut rows = RowSet::default();
                    rows.insert(bucket.deleted_events());
                    bucket.deleted.iter().for_each(|deleted| rows.add(deleted));
                    live.replace(bucket.with_deleted(rows));
                }
                (2, Some(bucket)) => {
                    let (remote, other) = changed_copies(&mut numbers);
                    bucket.copies.set(remote, other);
                    live.recount(&bucket);
                }
                _ => drop(live.add(SealedBucket::new(row(number, &mut numbers)))),
            }
            live.check_sums();
            live.check_copies();
        }
        let with_deletions: Vec<u64> = live.with_deletions().map(|bucket| bucket.row.number).collect();
        let expected: Vec<u64> =
            live.values().filter(|bucket| bucket.deleted.is_some()).map(|bucket| bucket.row.number).collect();
        assert!(!with_deletions.is_empty());
        assert_eq!(with_deletions, expected);
        assert!(live.thawed().count() > 0 && live.thawed().all(|bucket| bucket.row.thawed));
        assert_eq!(live.thawed().count(), live.values().filter(|bucket| bucket.row.thawed).count());
        let all: Vec<u64> = live.values().map(|bucket| bucket.row.number).collect();
        for number in all {
            live.remove(number);
        }
        live.check_copies();
        assert_eq!((live.indexes().count(), live.len(), live.copy_bytes()), (0, 0, (0, 0)));
    }

    #[test]
    fn buckets_are_found_by_arrival_order() {
        let mut live = LiveBuckets::default();
        let mut numbers = RandomNumbers(1);
        for number in 1..=100 {
            let row = BucketRow { index: "main".into(), ..row(number * 10, &mut numbers) };
            live.add(SealedBucket::new(row));
        }
        let places: Vec<u64> = live.of_index("main").map(|bucket| bucket.first_origin()).collect();
        assert!(places.len() == 100 && places.is_sorted());
        let some: Vec<u64> =
            live.arrived_between("main", places[7], places[20]).map(|bucket| bucket.first_origin()).collect();
        assert!(some.first() == Some(&places[7]) && some.last() == Some(&places[20]));
        assert_eq!(live.arrived_between("main", 5, 4).count() + live.arrived_between("other", 0, u64::MAX).count(), 0);
        let place = places.iter().copied().find(|place| *place > places[50]).unwrap();
        let earlier = places.iter().filter(|before| **before < place).count();
        assert_eq!(live.place_before("main", place, 5), places[earlier - 5]);
        assert_eq!([1_000, earlier + 1].map(|steps| live.place_before("main", place, steps)), [0, 0]);
    }
}
