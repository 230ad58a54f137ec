//! The live buckets of a store that starts, or of one index, while their rows are read from the catalog.
//!
//! If a store has many buckets, the rows of its largest indexes do not stay in memory: only their sums do, until
//! something needs the rows ([`crate::index_rows`]). Each set is built from a list in one step: adding buckets one
//! after the other takes longer and leaves the nodes of the set half empty.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{IndexBuckets, LiveBuckets, UnloadedIndex};
use crate::sealed_buckets::SealedBucket;
use crate::spans::Spans;

/// Buckets that were read so far.
#[derive(Debug)]
pub(crate) struct Loading {
    /// Number of rows beyond which those of the largest indexes are left in the catalog.
    rows_max: usize,
    /// Number of rows in memory.
    rows: usize,
    indexes: BTreeMap<Arc<str>, LoadingIndex>,
}

/// Buckets of one index that were read so far.
#[derive(Debug, Default)]
struct LoadingIndex {
    /// The buckets; `None` if their rows are left in the catalog.
    buckets: Option<Vec<Arc<SealedBucket>>>,
    sums: UnloadedIndex,
    /// Whether one of the buckets is in motion (`is_in_motion`).
    in_motion: bool,
}

impl Loading {
    pub(crate) fn new(rows_max: usize) -> Loading {
        Loading { rows_max, rows: 0, indexes: BTreeMap::new() }
    }

    /// Adds a bucket. If it is in motion, some step of the store looks for it without naming its index, so the rows of
    /// the index must be in memory.
    pub(crate) fn add(&mut self, mut bucket: SealedBucket, in_motion: bool) {
        // All buckets of an index share its name.
        match self.indexes.get_key_value(&bucket.row.index) {
            Some((index, _)) => bucket.row.index = Arc::clone(index),
            None => {
                let index = LoadingIndex { buckets: Some(Vec::new()), ..LoadingIndex::default() };
                self.indexes.insert(Arc::clone(&bucket.row.index), index);
            }
        }
        let Some(index) = self.indexes.get_mut(&bucket.row.index) else { return };
        index.sums.add(&bucket);
        index.in_motion |= in_motion;
        if let Some(buckets) = &mut index.buckets {
            buckets.push(Arc::new(bucket));
            self.rows += 1;
        }
        if self.rows > self.rows_max {
            self.unload_largest();
        }
    }

    /// Leaves the rows of the largest indexes in the catalog, until half of the limit is free.
    fn unload_largest(&mut self) {
        let has_rows = |index: &&mut LoadingIndex| !index.in_motion && index.buckets.is_some();
        let mut largest: Vec<&mut LoadingIndex> = self.indexes.values_mut().filter(has_rows).collect();
        largest.sort_by_key(|index| Reverse(index.buckets.as_ref().map_or(0, Vec::len)));
        for index in largest {
            if self.rows <= self.rows_max / 2 {
                return;
            }
            self.rows -= index.buckets.take().map_or(0, |buckets| buckets.len());
        }
        // All other indexes have buckets in motion. The limit is raised, so that this function is not called again
        // for every further row.
        self.rows_max = self.rows_max.max(self.rows.saturating_mul(2));
    }

    /// The buckets, none of which has been examined for merges, and the names of the indexes that must be in memory,
    /// but are not.
    pub(crate) fn into_live(self) -> (LiveBuckets, Vec<Arc<str>>) {
        let (mut live, mut missing) = (LiveBuckets::default(), Vec::new());
        let mut all = Vec::with_capacity(self.rows);
        for (name, index) in self.indexes {
            let Some(buckets) = index.buckets else {
                if index.in_motion {
                    missing.push(Arc::clone(&name));
                }
                live.unloaded.insert(name, index.sums);
                continue;
            };
            live.unexamined.add_all(&name);
            live.unrequested.add_all(&name);
            let by_arrival = buckets.iter().map(|bucket| (bucket.first_origin(), bucket.row.number)).collect();
            let spans = buckets.iter().map(|bucket| (bucket.row.number, bucket.row.time_min, bucket.row.time_max));
            let (spans, totals) = (Spans::of(spans), index.sums.totals);
            let of_index = IndexBuckets { by_arrival, spans, totals, ..IndexBuckets::default() };
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

#[cfg(test)]
mod tests {
    use quarry_catalog::BucketRow;

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

    fn loaded(rows_max: usize, in_motion: impl Fn(&SealedBucket) -> bool) -> (LiveBuckets, Vec<String>) {
        let mut loading = Loading::new(rows_max);
        buckets().for_each(|bucket| {
            let in_motion = in_motion(&bucket);
            loading.add(bucket, in_motion);
        });
        let (live, missing) = loading.into_live();
        (live, missing.into_iter().map(|index| index.to_string()).collect())
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
    fn beyond_the_limit_only_sums_of_the_largest_indexes_are_kept() {
        let (whole, _) = loaded(1_000, |_| false);
        for rows_max in [0, 1, 400, 700, 999] {
            let (mut live, missing) = loaded(rows_max, |_| false);
            assert!(!live.unloaded.is_empty() && live.buckets.len() <= rows_max, "{rows_max}: {}", live.buckets.len());
            assert!(missing.is_empty());
            let sums = |live: &LiveBuckets| {
                let mut totals: Vec<_> =
                    live.totals().map(|(index, sums, times)| (index.clone(), sums, times)).collect();
                totals.sort_by(|one, other| one.0.cmp(&other.0));
                (totals, live.len(), live.copy_bytes())
            };
            assert_eq!(sums(&live), sums(&whole));
            for (name, unloaded) in std::mem::take(&mut live.unloaded) {
                let of_index = || whole.of_index(&name);
                assert_eq!(Some(unloaded.first_end), whole.by_end(&name).next().map(|bucket| bucket.row.time_max));
                assert_eq!(Some(unloaded.last_origin), of_index().map(|it| it.origin_of(it.row.events)).max());
                assert_eq!(unloaded.totals.buckets, of_index().count() as u64);
            }
        }
    }

    #[test]
    fn an_index_with_a_bucket_in_motion_is_named_if_its_rows_are_not_in_memory() {
        // The rows of an index stay in memory once one of its buckets is known to be in motion. If they were left in
        // the catalog before, the index is named.
        for (number, named) in [(1, false), (1_000, true)] {
            let (live, missing) = loaded(10, |bucket| bucket.row.number == number);
            let index = buckets().find(|bucket| bucket.row.number == number).map(|bucket| bucket.row.index).unwrap();
            assert_eq!(live.unloaded(&index).is_some(), named);
            assert_eq!(missing, if named { vec![index.to_string()] } else { Vec::new() });
        }
    }
}
