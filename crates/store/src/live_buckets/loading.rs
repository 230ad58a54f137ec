//! The live buckets of a store that starts, while their rows are read from the catalog.
//!
//! If a store has many buckets, the rows of the oldest ones do not stay in memory: only the sums of their [`Cells`] do,
//! until something needs the rows ([`crate::index_rows`]). Each set of buckets is built from a list in one step: adding
//! buckets one after the other takes longer and leaves the nodes of the set (a B-tree) half empty.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cells, IndexBuckets, LiveBuckets, UnloadedRange, UnloadedRanges};
use crate::sealed_buckets::SealedBucket;
use crate::spans::Spans;

/// Buckets that were read so far.
#[derive(Debug)]
pub(crate) struct Loading {
    /// Number of rows beyond which those of the oldest cells are left in the catalog.
    rows_max: usize,
    cells: Cells,
    /// Number of rows in memory.
    rows: usize,
    indexes: BTreeMap<Arc<str>, LoadingIndex>,
}

/// Buckets of one index that were read so far, by the first cell of each range.
type LoadingIndex = BTreeMap<u64, LoadingRange>;

/// A cell, or several cells whose rows are left in the catalog.
#[derive(Debug)]
struct LoadingRange {
    last_cell: u64,
    /// The buckets; `None` if their rows are left in the catalog.
    buckets: Option<Vec<Arc<SealedBucket>>>,
    sums: UnloadedRange,
    /// Whether the rows must stay in memory because of one of the buckets (`is_in_motion`).
    in_motion: bool,
}

impl LoadingRange {
    fn new(cell: u64) -> LoadingRange {
        LoadingRange { last_cell: cell, buckets: Some(Vec::new()), sums: UnloadedRange::default(), in_motion: false }
    }

    /// Whether both ranges can be one range whose rows are left in the catalog.
    fn may_join(&self, next: &LoadingRange, buckets_max: u64) -> bool {
        let is_left = |range: &LoadingRange| range.buckets.is_none() && !range.in_motion;
        let buckets = self.sums.totals.buckets.saturating_add(next.sums.totals.buckets);
        is_left(self) && is_left(next) && buckets <= buckets_max
    }
}

impl Loading {
    pub(crate) fn new(rows_max: usize, cells: Cells) -> Loading {
        Loading { rows_max, cells, rows: 0, indexes: BTreeMap::new() }
    }

    /// Adds a bucket. If `in_motion` is true, some step of the store looks for the bucket without naming its index; its
    /// row and the other rows of its cell must then be in memory.
    pub(crate) fn add(&mut self, mut bucket: SealedBucket, in_motion: bool) {
        // All buckets of an index share one allocation of the index's name.
        match self.indexes.get_key_value(&bucket.row.index) {
            Some((index, _)) => bucket.row.index = Arc::clone(index),
            None => drop(self.indexes.insert(Arc::clone(&bucket.row.index), LoadingIndex::new())),
        }
        let Some(index) = self.indexes.get_mut(&bucket.row.index) else { return };
        let cell = self.cells.of(bucket.first_origin());
        let before = index.range(..=cell).next_back().filter(|(_, range)| range.last_cell >= cell);
        let first_cell = before.map_or(cell, |(first, _)| *first);
        let range = index.entry(first_cell).or_insert_with(|| LoadingRange::new(cell));
        range.sums.add(&bucket);
        range.in_motion |= in_motion;
        if let Some(buckets) = &mut range.buckets {
            buckets.push(Arc::new(bucket));
            self.rows += 1;
        }
        if self.rows > self.rows_max {
            self.unload_oldest();
        }
    }

    /// Leaves the rows of the oldest cells in the catalog until half of the limit is free. Among equally old cells,
    /// those with the most rows come first.
    fn unload_oldest(&mut self) {
        let ranges = self.indexes.values_mut().flatten();
        let mut oldest: Vec<_> = ranges.filter(|(_, range)| !range.in_motion && range.buckets.is_some()).collect();
        oldest.sort_by_key(|(cell, range)| (**cell, Reverse(range.buckets.as_ref().map_or(0, Vec::len))));
        for (_, range) in oldest {
            if self.rows <= self.rows_max / 2 {
                break;
            }
            self.rows -= range.buckets.take().map_or(0, |buckets| buckets.len());
        }
        self.indexes.values_mut().for_each(|index| join_neighbours(index, self.cells.origins));
        if self.rows > self.rows_max / 2 {
            // The rows of all cells still in memory must stay there (`is_in_motion`). The limit is raised, so that this
            // function is not called again for every further row.
            self.rows_max = self.rows_max.max(self.rows.saturating_mul(2));
        }
    }

    /// Returns the live buckets, none of which has been examined for merges, and a list of index names and ranges that
    /// must be in memory but are not.
    pub(crate) fn into_live(self) -> (LiveBuckets, Vec<(Arc<str>, UnloadedRange)>) {
        let (mut live, mut missing) = (LiveBuckets { cells: self.cells, ..LiveBuckets::default() }, Vec::new());
        let mut all = Vec::with_capacity(self.rows);
        for (name, mut ranges) in self.indexes {
            join_neighbours(&mut ranges, self.cells.origins);
            let (mut of_index, mut buckets, mut unloaded) =
                (IndexBuckets::default(), Vec::new(), UnloadedRanges::default());
            for (cell, range) in ranges {
                match range.buckets {
                    Some(of_cell) => {
                        of_index.totals.combine(&range.sums.totals, u64::wrapping_add);
                        of_index.note_change(cell);
                        buckets.extend(of_cell);
                    }
                    None => {
                        // Neighbours are joined already.
                        unloaded.insert(range.sums, 0, |_, _| true);
                        missing.extend(range.in_motion.then(|| (Arc::clone(&name), range.sums)));
                    }
                }
            }
            if unloaded.iter().next().is_some() {
                live.unloaded.insert(Arc::clone(&name), unloaded);
            }
            if buckets.is_empty() {
                continue;
            }
            live.unexamined.add_all(&name);
            live.unrequested.add_all(&name);
            of_index.by_arrival = buckets.iter().map(|bucket| (bucket.first_origin(), bucket.row.number)).collect();
            let spans = buckets.iter().map(|bucket| (bucket.row.number, bucket.row.time_min, bucket.row.time_max));
            of_index.spans = Spans::of(spans);
            live.indexes.insert(name, of_index);
            for bucket in buckets {
                live.add_to_sets(&bucket);
                let (before, now) = bucket.copies.recount();
                live.update_totals(&bucket, before, now);
                all.push((bucket.row.number, bucket));
            }
        }
        let count = all.len();
        live.buckets = all.into_iter().collect();
        assert_eq!(live.buckets.len(), count, "a bucket is added once");
        (live, missing)
    }
}

/// Joins neighbouring ranges whose rows are left in the catalog, up to `buckets_max` buckets each.
fn join_neighbours(index: &mut LoadingIndex, buckets_max: u64) {
    let mut joined = LoadingIndex::new();
    for (cell, range) in std::mem::take(index) {
        match joined.last_entry() {
            Some(mut last) if last.get().may_join(&range, buckets_max) => {
                let last = last.get_mut();
                (last.last_cell, last.sums) = (range.last_cell, last.sums.join(range.sums));
            }
            _ => drop(joined.insert(cell, range)),
        }
    }
    *index = joined;
}

#[cfg(test)]
mod tests {
    use quarry_catalog::BucketRow;

    use super::super::Totals;
    use super::super::tests::{RandomNumbers, changed_copies, row};
    use super::*;
    use crate::deletion::RowSet;

    /// A thousand buckets in three indexes.
    fn buckets() -> impl Iterator<Item = SealedBucket> {
        let mut numbers = RandomNumbers(3);
        (1..=1_000).map(move |number| {
            let (row, (remote, other)) = (row(number, &mut numbers), changed_copies(&mut numbers));
            let bucket = SealedBucket::new(BucketRow { remote, other, ..row });
            let mut deleted = RowSet::default();
            (0..=numbers.below(20)).for_each(|row| deleted.insert(row));
            if number % 7 == 0 { bucket.with_deleted(deleted) } else { bucket }
        })
    }

    /// The buckets loaded with cells of `origins` numbers, and the names of indexes with ranges that must be in memory
    /// but are not.
    fn loaded_in(
        origins: u64,
        rows_max: usize,
        in_motion: impl Fn(&SealedBucket) -> bool,
    ) -> (LiveBuckets, Vec<String>) {
        let mut loading = Loading::new(rows_max, Cells { origins });
        buckets().for_each(|bucket| {
            let in_motion = in_motion(&bucket);
            loading.add(bucket, in_motion);
        });
        let (live, missing) = loading.into_live();
        live.check_sums();
        (live, missing.into_iter().map(|(index, _)| index.to_string()).collect())
    }

    fn loaded(rows_max: usize, in_motion: impl Fn(&SealedBucket) -> bool) -> (LiveBuckets, Vec<String>) {
        loaded_in(4_096, rows_max, in_motion)
    }

    /// The sets and sums as text, to compare buckets that were loaded with buckets that were added.
    fn contents(live: &LiveBuckets) -> String {
        let numbers: Vec<u64> = live.buckets.keys().copied().collect();
        format!("{numbers:?} {:?} {:?} {:?} {:?}", live.indexes, live.with_deletions, live.thawed, live.copies)
    }

    #[test]
    fn buckets_that_are_loaded_are_those_that_are_added() {
        let mut live = LiveBuckets::default();
        buckets().for_each(|bucket| drop(live.add(bucket)));
        let (loaded, missing) = loaded(1_000, |_| true);
        assert!(!live.with_deletions.is_empty() && !live.thawed.is_empty() && !live.copies.leaving.is_empty());
        assert_eq!((contents(&loaded), missing), (contents(&live), Vec::new()));
        let shares = |name: &Arc<str>| loaded.values().any(|bucket| Arc::ptr_eq(&bucket.row.index, name));
        assert!(loaded.indexes.len() == 3 && loaded.indexes.keys().all(shares));
    }

    #[test]
    fn beyond_the_limit_only_sums_of_the_oldest_cells_are_kept() {
        let (whole, _) = loaded(1_000, |_| false);
        for (origins, rows_max) in [0, 1, 400, 700, 999].into_iter().flat_map(|most| [(4_096, most), (50, most)]) {
            let (live, missing) = loaded_in(origins, rows_max, |_| false);
            assert!(!live.unloaded.is_empty() && live.buckets.len() <= rows_max, "{rows_max}: {}", live.buckets.len());
            assert!(missing.is_empty());
            let sums = |live: &LiveBuckets| {
                let mut all: BTreeMap<Arc<str>, (Totals, (i64, i64))> = BTreeMap::new();
                for (index, totals, times) in live.totals() {
                    let (sum, (first, last)) =
                        all.entry(Arc::clone(index)).or_insert((Totals::default(), (i64::MAX, i64::MIN)));
                    sum.combine(&totals, u64::wrapping_add);
                    (*first, *last) = (times.0.min(*first), times.1.max(*last));
                }
                (all, live.len(), live.copy_bytes())
            };
            assert_eq!(sums(&live), sums(&whole));
            for (name, ranges) in &live.unloaded {
                for range in ranges.iter() {
                    let of_range = || whole.arrived_between(name, *range.origins().start(), *range.origins().end());
                    assert_eq!(range.totals.buckets, of_range().count() as u64);
                    assert!(of_range().all(|bucket| range.numbers().contains(&bucket.row.number)));
                    assert_eq!(Some(range.first_end), of_range().map(|it| it.row.time_max).min());
                    assert_eq!(Some(range.last_origin), of_range().map(|it| it.origin_of(it.row.events)).max());
                    let unmerged = of_range().filter(|it| it.row.is_from_log()).map(|it| it.row.number).max();
                    assert_eq!(range.last_unmerged, unmerged.unwrap_or(0));
                }
                let newest = ranges.iter().next_back().map(|range| *range.origins().end());
                let in_memory = live.of_index(name).next().map(|bucket| bucket.first_origin());
                assert!(in_memory.is_none_or(|first| Some(first) > newest), "the newest rows stay");
            }
        }
    }

    #[test]
    fn ranges_that_leave_memory_have_the_sums_of_their_buckets_and_can_be_loaded_again() {
        let (whole, _) = loaded(1_000, |_| false);
        let mut numbers = RandomNumbers(11);
        let (mut live, _) = loaded_in(20, 1_000, |_| false);
        for round in 0..600 {
            let name: Arc<str> = format!("index{}", numbers.below(3)).into();
            if numbers.below(3) > 0 {
                let origins = live.cells.origins_of(numbers.below(50));
                live.unload(&name, &origins, |_| true);
            } else if let Some((index, range)) = live.find_unloaded(|index, _| *index == *name) {
                let numbers: Vec<u64> = whole
                    .arrived_between(&index, *range.origins().start(), *range.origins().end())
                    .map(|bucket| bucket.row.number)
                    .collect();
                let read: Vec<SealedBucket> = buckets().filter(|bucket| numbers.contains(&bucket.row.number)).collect();
                assert_eq!(read.len() as u64, range.totals.buckets);
                live.load(&index, &range, read);
            }
            live.check_sums();
            assert_eq!((live.len(), live.copy_bytes()), (whole.len(), whole.copy_bytes()), "{round}");
            for index in whole.indexes() {
                assert_eq!(live.totals_of(index), whole.totals_of(index), "{round}");
                assert!(live.unloaded_of(index).all(|range| range.totals.buckets <= 40));
            }
        }
    }

    #[test]
    fn an_index_with_a_bucket_in_motion_is_named_if_its_rows_are_not_in_memory() {
        // The rows of an index stay in memory once one of its buckets is known to be in motion. If they had been left
        // in the catalog before that, `missing` contains the index.
        for (number, named) in [(1, false), (1_000, true)] {
            let (live, missing) = loaded(10, |bucket| bucket.row.number == number);
            let index = buckets().find(|bucket| bucket.row.number == number).map(|bucket| bucket.row.index).unwrap();
            assert_eq!(live.unloaded_of(&index).next().is_some(), named);
            assert_eq!(missing, if named { vec![index.to_string()] } else { Vec::new() });
        }
    }
}
