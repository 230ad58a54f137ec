//! The live buckets of a store, with sums and sets over them, so that no step has to look at all buckets.
//!
//! A store may have a million buckets, and appends and searches wait for the lock of its state. Totals are therefore
//! kept as sums, and sets of bucket numbers find the buckets for one purpose: those of a time range, the oldest ones,
//! those with deleted events, those whose local copy may be evicted.
//!
//! The rows of large indexes may still be in the catalog; of those, only the sums are here ([`UnloadedIndex`]).
//!
//! Not here: retention, merges and evictions themselves.

mod loading;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_catalog::RemoteState;
use quarry_event::TimeRange;

use crate::merge_places::MergePlaces;
use crate::remote::copies::Counted;
use crate::sealed_buckets::SealedBucket;
use crate::spans::Spans;

pub(crate) use self::loading::Loading;

/// The live buckets.
#[derive(Debug, Default)]
pub(crate) struct LiveBuckets {
    buckets: BTreeMap<u64, Arc<SealedBucket>>,
    /// Live buckets by index; an index without buckets has no entry.
    indexes: BTreeMap<Arc<str>, IndexBuckets>,
    /// Indexes with buckets whose rows are not in memory.
    unloaded: BTreeMap<Arc<str>, UnloadedIndex>,
    /// Numbers of buckets with deleted events.
    with_deletions: BTreeSet<u64>,
    /// Numbers of thawed buckets.
    thawed: BTreeSet<u64>,
    copies: CopyTotals,
    /// Places the background thread has not examined for merges.
    pub(crate) unexamined: MergePlaces,
    /// Places no request has examined for merges.
    pub(crate) unrequested: MergePlaces,
}

/// Buckets with remote copies.
#[derive(Debug, Default)]
struct CopyTotals {
    /// Numbers of uploaded buckets whose local copy may be evicted.
    evictable: BTreeSet<u64>,
    evictable_bytes: u64,
    /// Numbers of buckets that have moved and still have objects at their old place.
    leaving: BTreeSet<u64>,
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
    /// Number of retention rounds since the last search or change of the buckets.
    idle: Cell<u32>,
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

/// Sums of an index whose rows are only in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnloadedIndex {
    pub(crate) totals: Totals,
    /// Smallest and largest `_time`.
    pub(crate) times: (i64, i64),
    /// Largest `_time` of the bucket that ends first.
    pub(crate) first_end: i64,
    /// The largest number among the sealed buckets from which events came.
    pub(crate) last_origin: u64,
    /// Bytes of local copies of uploaded buckets.
    pub(crate) local_bytes: u64,
    /// Bytes of buckets that are on volumes.
    pub(crate) remote_bytes: u64,
}

impl Default for UnloadedIndex {
    fn default() -> UnloadedIndex {
        let times = (i64::MAX, i64::MIN);
        UnloadedIndex {
            totals: Totals::default(),
            times,
            first_end: i64::MAX,
            last_origin: 0,
            local_bytes: 0,
            remote_bytes: 0,
        }
    }
}

impl UnloadedIndex {
    pub(crate) fn add(&mut self, bucket: &SealedBucket) {
        let (row, state) = (&bucket.row, bucket.copies.state());
        self.totals.add(bucket);
        self.times = (self.times.0.min(row.time_min), self.times.1.max(row.time_max));
        self.first_end = self.first_end.min(row.time_max);
        self.last_origin = self.last_origin.max(bucket.origin_of(row.events));
        if state == Some(RemoteState::Uploaded) {
            self.local_bytes = self.local_bytes.wrapping_add(row.stored_bytes());
        }
        if state.is_some_and(RemoteState::is_remote_complete) {
            self.remote_bytes = self.remote_bytes.wrapping_add(row.stored_bytes());
        }
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
        self.buckets.len() as u64 + self.unloaded.values().map(|unloaded| unloaded.totals.buckets).sum::<u64>()
    }

    /// Sums of an index whose rows are not in memory.
    pub(crate) fn unloaded(&self, index: &str) -> Option<UnloadedIndex> {
        self.unloaded.get(index).copied()
    }

    /// The first index whose rows are not in memory and that `wanted` selects.
    pub(crate) fn find_unloaded(&self, wanted: impl Fn(&str, &UnloadedIndex) -> bool) -> Option<&Arc<str>> {
        self.unloaded.iter().find(|(index, unloaded)| wanted(index, unloaded)).map(|(index, _)| index)
    }

    /// Adds the rows of an index that were not in memory.
    pub(crate) fn load(&mut self, index: &str, read: LiveBuckets) {
        let LiveBuckets { mut buckets, indexes, unloaded, mut with_deletions, mut thawed, mut copies, .. } = read;
        assert!(self.unloaded.remove(index).is_some() && unloaded.is_empty(), "rows are loaded once");
        assert!(indexes.keys().all(|name| **name == *index), "all rows are of one index");
        let count = self.buckets.len() + buckets.len();
        // `append` rebuilds the whole map.
        match buckets.len() > self.buckets.len() {
            true => self.buckets.append(&mut buckets),
            false => self.buckets.extend(buckets),
        }
        assert_eq!(self.buckets.len(), count, "a bucket is added once");
        for name in indexes.keys() {
            self.unexamined.add_all(name);
            self.unrequested.add_all(name);
        }
        self.indexes.extend(indexes);
        self.with_deletions.append(&mut with_deletions);
        self.thawed.append(&mut thawed);
        self.copies.evictable.append(&mut copies.evictable);
        self.copies.leaving.append(&mut copies.leaving);
        for (sum, part) in [
            (&mut self.copies.evictable_bytes, copies.evictable_bytes),
            (&mut self.copies.local_bytes, copies.local_bytes),
            (&mut self.copies.remote_bytes, copies.remote_bytes),
        ] {
            *sum = sum.wrapping_add(part);
        }
    }

    /// Number of rows in memory.
    pub(crate) fn rows(&self) -> usize {
        self.buckets.len()
    }

    /// Counts one more round without use for each index with rows in memory; returns the indexes with at least `rounds`
    /// such rounds. With background merges, indexes with unexamined places are left out.
    pub(crate) fn idle_indexes(&self, rounds: u32, merges: bool) -> Vec<Arc<str>> {
        let mut idle = Vec::new();
        for (name, index) in &self.indexes {
            index.idle.set(index.idle.get().saturating_add(1));
            if index.idle.get() >= rounds && !(merges && self.unexamined.has(name)) {
                idle.push(Arc::clone(name));
            }
        }
        idle
    }

    /// If `may_leave` holds for every bucket of an index, keeps only their sums and returns the buckets; otherwise
    /// returns none.
    pub(crate) fn unload(
        &mut self,
        index: &Arc<str>,
        may_leave: impl Fn(&Arc<SealedBucket>) -> bool,
    ) -> Vec<Arc<SealedBucket>> {
        if !self.of_index(index).all(may_leave) {
            return Vec::new();
        }
        let Some(IndexBuckets { by_arrival, .. }) = self.indexes.remove(index) else { return Vec::new() };
        let left: Vec<_> = by_arrival.iter().filter_map(|(_, number)| self.buckets.remove(number)).collect();
        let mut sums = UnloadedIndex::default();
        for bucket in &left {
            sums.add(bucket);
            self.update_totals(bucket, bucket.copies.uncount(), Counted::default());
        }
        self.unloaded.insert(Arc::clone(index), sums);
        left
    }

    /// The buckets whose rows are in memory, by number, for lists and for actions on each of them.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.buckets.values()
    }

    /// Adds a bucket.
    pub(crate) fn add(&mut self, mut bucket: SealedBucket) -> Arc<SealedBucket> {
        // All buckets of an index share its name.
        if let Some((index, _)) = self.indexes.get_key_value(&bucket.row.index) {
            bucket.row.index = Arc::clone(index);
        }
        assert!(!self.unloaded.contains_key(&bucket.row.index), "the rows of an index are in memory before it changes");
        let (number, bucket) = (bucket.row.number, Arc::new(bucket));
        let index = self.indexes.entry(Arc::clone(&bucket.row.index)).or_default();
        let is_new = index.by_arrival.insert((bucket.first_origin(), number));
        assert!(is_new && !self.buckets.contains_key(&number), "a bucket is added once");
        index.spans.insert(number, bucket.row.time_min, bucket.row.time_max);
        index.idle.set(0);
        index.totals.add(&bucket);
        self.add_to_sets(&bucket);
        self.buckets.insert(number, Arc::clone(&bucket));
        self.recount(&bucket);
        self.examine(&bucket);
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

    /// Replaces a bucket by a version with more deleted events.
    pub(crate) fn replace(&mut self, bucket: SealedBucket) {
        let number = bucket.row.number;
        let Some(known) = self.buckets.get_mut(&number) else { return };
        assert!(Arc::ptr_eq(&known.copies, &bucket.copies), "both are versions of one bucket");
        if let Some(index) = self.indexes.get_mut(&bucket.row.index) {
            index.idle.set(0);
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
        let row = &bucket.row;
        let Some(index) = self.indexes.get_mut(&row.index) else { return };
        let is_known = index.by_arrival.remove(&(bucket.first_origin(), number));
        let has_times = index.spans.remove(number, row.time_min, row.time_max);
        assert!(is_known && has_times, "an index knows its buckets");
        index.totals.subtract(&bucket);
        index.idle.set(0);
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
        self.indexes.keys().for_each(|index| self.unrequested.add_all(index));
    }

    /// Names of the indexes with buckets.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.indexes.keys().chain(self.unloaded.keys())
    }

    /// Whether an event of an index came from a sealed bucket with a larger number.
    pub(crate) fn has_later(&self, index: &str, number: u64) -> bool {
        let is_later = |bucket: &Arc<SealedBucket>| bucket.origin_of(bucket.row.events) > number;
        match self.unloaded.get(index) {
            Some(unloaded) => unloaded.last_origin > number,
            None => self.of_index(index).rev().any(is_later),
        }
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

    /// First origin of the bucket that arrived `steps` buckets before `place`; 0 if there are fewer.
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

    /// Buckets that overlap `range`, of the indexes that are selected.
    pub(crate) fn overlapping<'a>(
        &'a self,
        is_selected: impl Fn(&str) -> bool,
        range: &'a TimeRange,
    ) -> impl Iterator<Item = &'a Arc<SealedBucket>> {
        let selected = self.indexes.iter().filter(move |(index, _)| is_selected(index));
        let found = selected.flat_map(|(_, it)| {
            let mut found = it.spans.may_overlap(range).peekable();
            if found.peek().is_some() {
                it.idle.set(0);
            }
            found
        });
        let buckets = found.filter_map(|number| self.buckets.get(&number));
        buckets.filter(|bucket| range.overlaps(bucket.row.time_min, bucket.row.time_max))
    }

    /// Buckets with deleted events, by number.
    pub(crate) fn with_deletions(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.with_deletions.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Thawed buckets, by number.
    pub(crate) fn thawed(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.thawed.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Sums of an index.
    pub(crate) fn totals_of(&self, index: &str) -> Totals {
        let in_memory = self.indexes.get(index).map(|it| it.totals);
        in_memory.or_else(|| self.unloaded.get(index).map(|unloaded| unloaded.totals)).unwrap_or_default()
    }

    /// Every index with its sums and its first and last time.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (&Arc<str>, Totals, (i64, i64))> {
        let in_memory = self.indexes.iter().filter_map(|(index, it)| {
            let times = it.spans.bounds(|number| self.end_of(number))?;
            Some((index, it.totals, times))
        });
        in_memory.chain(self.unloaded.iter().map(|(index, unloaded)| (index, unloaded.totals, unloaded.times)))
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
        for (numbers, is) in [(&mut totals.evictable, now.evictable), (&mut totals.leaving, now.leaving)] {
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
        self.unloaded.values().fold(self.copies.evictable_bytes, |sum, unloaded| sum.wrapping_add(unloaded.local_bytes))
    }

    /// Buckets whose objects at their old place are to be deleted, by number.
    pub(crate) fn with_old_copies(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.copies.leaving.iter().filter_map(|number| self.buckets.get(number))
    }

    /// Bytes of the local copies of uploaded buckets, and bytes of the buckets on volumes.
    pub(crate) fn copy_bytes(&self) -> (u64, u64) {
        let sums = (self.copies.local_bytes, self.copies.remote_bytes);
        self.unloaded.values().fold(sums, |(local, remote), unloaded| {
            (local.wrapping_add(unloaded.local_bytes), remote.wrapping_add(unloaded.remote_bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use quarry_catalog::{BucketRow, BucketState, Origin, OtherCopy, RemoteCopy};

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
            assert!(self.unloaded.keys().all(|index| !self.indexes.contains_key(index)));
            let kept: BTreeMap<_, _> = self
                .totals()
                .filter(|(index, ..)| self.indexes.contains_key(*index))
                .map(|(index, sums, times)| (index.clone(), (sums, times)))
                .collect();
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
