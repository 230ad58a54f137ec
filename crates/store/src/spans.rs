//! The live buckets of one index by time, for searches of a time range.
//!
//! Buckets are grouped into classes by the length of their time span, and sorted within a class by their first time.
//! All spans of a class are shorter than the limit of the class, so a bucket that overlaps a range begins at most that
//! limit before the range. The catalog finds its rows the same way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use quarry_event::TimeRange;

/// Spans of class `i` are shorter than two to the power of `FIRST_BITS + CLASS_BITS * i` nanoseconds. The limit is 8.6
/// s for class 0 and grows eightfold with each class.
const FIRST_BITS: u32 = 33;
const CLASS_BITS: u32 = 3;

/// Buckets by time.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// First time and number of each bucket, by class; without empty classes.
    classes: BTreeMap<u32, BTreeSet<(i64, u64)>>,
}

impl Spans {
    /// The spans of buckets, given by number, first and last time.
    pub(crate) fn of(buckets: impl Iterator<Item = (u64, i64, i64)>) -> Spans {
        let mut lists: BTreeMap<u32, Vec<(i64, u64)>> = BTreeMap::new();
        for (number, time_min, time_max) in buckets {
            lists.entry(class_of(time_min, time_max)).or_default().push((time_min, number));
        }
        Spans { classes: lists.into_iter().map(|(class, buckets)| (class, buckets.into_iter().collect())).collect() }
    }

    pub(crate) fn insert(&mut self, number: u64, time_min: i64, time_max: i64) {
        self.classes.entry(class_of(time_min, time_max)).or_default().insert((time_min, number));
    }

    /// Removes a bucket; returns `false` if it was not there.
    pub(crate) fn remove(&mut self, number: u64, time_min: i64, time_max: i64) -> bool {
        let class = class_of(time_min, time_max);
        let Some(buckets) = self.classes.get_mut(&class) else { return false };
        let removed = buckets.remove(&(time_min, number));
        if buckets.is_empty() {
            self.classes.remove(&class);
        }
        removed
    }

    /// Numbers of all buckets that overlap `range`, and of some that end before it.
    pub(crate) fn may_overlap(&self, range: &TimeRange) -> impl Iterator<Item = u64> {
        let through = range.latest.map_or(Some(i64::MAX), |latest| latest.checked_sub(1));
        let from = range.earliest.unwrap_or(i64::MIN);
        let of_class = move |(class, buckets): (&u32, &'_ BTreeSet<(i64, u64)>)| {
            let first = (from.saturating_sub_unsigned(limit_of(*class)), 0);
            let last = through.map(|through| (through, u64::MAX)).filter(|last| first <= *last);
            last.map(|last| buckets.range(first..=last).map(|(_, number)| *number).collect::<Vec<_>>())
        };
        self.classes.iter().filter_map(of_class).flatten()
    }

    /// Numbers of all buckets, ordered by last time, as given by `end_of`, and then by number. A caller that takes only
    /// the first few buckets reads little more than their entries.
    pub(crate) fn by_end<'a>(&'a self, end_of: impl Fn(u64) -> i64 + 'a) -> impl Iterator<Item = u64> + 'a {
        let mut classes: Vec<_> = self.classes.values().map(|buckets| buckets.iter().peekable()).collect();
        let mut read = BinaryHeap::new();
        std::iter::from_fn(move || {
            loop {
                let firsts = classes.iter_mut().enumerate();
                let firsts = firsts.filter_map(|(class, buckets)| buckets.peek().map(|(first, _)| (*first, class)));
                let unread = firsts.min();
                if let Some(Reverse((end, number))) = read.peek().copied()
                    // Every unread bucket begins, and therefore ends, later.
                    && unread.is_none_or(|(first, _)| end < first)
                {
                    read.pop();
                    return Some(number);
                }
                let (_, number) = classes[unread?.1].next()?;
                read.push(Reverse((end_of(*number), *number)));
            }
        })
    }

    /// First and last time of all buckets; `end_of` returns the last time of a bucket by number.
    pub(crate) fn bounds(&self, end_of: impl Fn(u64) -> i64) -> Option<(i64, i64)> {
        let first = self.classes.values().filter_map(|buckets| buckets.first()).map(|(first, _)| *first).min()?;
        let mut last = first;
        for (class, buckets) in &self.classes {
            for (first, number) in buckets.iter().rev() {
                if first.saturating_add_unsigned(limit_of(*class)) <= last {
                    break;
                }
                last = last.max(end_of(*number));
            }
        }
        Some((first, last))
    }
}

fn class_of(time_min: i64, time_max: i64) -> u32 {
    let bits = u64::BITS - time_max.abs_diff(time_min).leading_zeros();
    bits.saturating_sub(FIRST_BITS).div_ceil(CLASS_BITS)
}

/// Maximum length of the spans of a class, in nanoseconds.
fn limit_of(class: u32) -> u64 {
    1_u64.checked_shl(FIRST_BITS + CLASS_BITS * class).map_or(u64::MAX, |limit| limit - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_limit_covers_its_longest_span() {
        for span in (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1]) {
            let class = class_of(i64::MIN, i64::MIN.wrapping_add_unsigned(span));
            assert!(span <= limit_of(class), "{span} in class {class}");
            assert!(class == 0 || span > limit_of(class - 1), "{span} in class {class}");
        }
        assert_eq!(class_of(i64::MIN, i64::MAX), 11);
    }

    #[test]
    fn range_queries_return_all_matching_buckets_and_few_others() {
        let mut spans = Spans::default();
        let buckets: Vec<(u64, i64, i64)> = (0..20_000_u64)
            .map(|number| {
                let first = number.cast_signed().wrapping_mul(0x5851_f42d_4c95_7f2d) >> (number % 40);
                let span = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (1 + number % 63);
                (number, first, first.saturating_add_unsigned(span))
            })
            .collect();
        buckets.iter().for_each(|(number, first, last)| spans.insert(*number, *first, *last));
        let ends = [None, Some(i64::MIN), Some(-(1 << 50)), Some(-1), Some(0), Some(1 << 40), Some(i64::MAX)];
        for (earliest, latest) in ends.into_iter().flat_map(|from| ends.map(|to| (from, to))) {
            let range = TimeRange { earliest, latest };
            let overlapping = buckets.iter().filter(|(_, first, last)| range.overlaps(*first, *last));
            let expected: BTreeSet<u64> = overlapping.map(|(number, ..)| *number).collect();
            let found: BTreeSet<u64> = spans.may_overlap(&range).collect();
            assert!(expected.is_subset(&found), "{range:?}");
        }
        let ends: BTreeMap<u64, i64> = buckets.iter().map(|(number, _, last)| (*number, *last)).collect();
        let mut expected: Vec<(i64, u64)> = ends.iter().map(|(number, end)| (*end, *number)).collect();
        expected.sort_unstable();
        let found: Vec<(i64, u64)> =
            spans.by_end(|number| ends[&number]).map(|number| (ends[&number], number)).collect();
        assert_eq!(found, expected);
        let first = buckets.iter().map(|(_, first, _)| *first).min().unwrap();
        assert_eq!(spans.bounds(|number| ends[&number]), Some((first, expected.last().unwrap().0)));
        assert_eq!(Spans::default().bounds(|_| 0), None);
    }

    #[test]
    fn small_results_examine_few_buckets() {
        let hour = 3_600_000_000_000;
        let mut spans = Spans::default();
        (0..1_000)
            .for_each(|number| spans.insert(number, number.cast_signed() * hour, (number.cast_signed() + 1) * hour));
        let range = TimeRange { earliest: Some(500 * hour), latest: Some(501 * hour) };
        assert!(spans.may_overlap(&range).count() < 5);
        let read = std::cell::Cell::new(0);
        let end_of = |number: u64| {
            read.set(read.get() + 1);
            (number.cast_signed() + 1) * hour
        };
        assert_eq!(spans.by_end(end_of).take(10).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert_eq!(spans.bounds(end_of), Some((0, 1_000 * hour)));
        assert!(read.get() < 30, "{} were read", read.get());
        assert!(spans.remove(500, 500 * hour, 501 * hour) && !spans.remove(500, 500 * hour, 501 * hour));
        assert!(spans.may_overlap(&range).all(|number| number != 500));
    }
}
