//! Sort that a cancelled search can interrupt, for commands that hold all rows in memory.
//!
//! A sort of the standard library cannot be interrupted, and for millions of texts it takes seconds. Here, items are
//! divided by pivots until the parts are small, and the parts are sorted with the standard library. The sort of the
//! library divides, too, so this sort takes about as long; a merge of sorted parts was measured at up to twice the
//! time.
//!
//! Not here: sorts that spill ([`super::sort_rows`]).

use std::cmp::Ordering;

use crate::EngineError;

/// Number of items that are sorted or divided between two checks for cancellation.
const PART_ITEMS: usize = 32_768;
/// Size of the sample of a part; the sample's median divides the part.
const SAMPLE_ITEMS: usize = 63;
/// Maximum number of divisions of a part; each usually halves the part. Parts that are still large afterwards are
/// sorted without checks; only contrived orders and many equal items lead to such parts.
const DIVISIONS_MAX: u32 = 64;

/// Sorts items by `compare`, which should tell any two items apart: the order of equal items is not defined. Fails as
/// soon as `check` does; the items are then in any order.
pub fn sort_cancellable<T: Copy>(
    items: &mut [T],
    compare: impl Fn(&T, &T) -> Ordering,
    check: impl Fn() -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    sort_parts(items, compare, check, || false).map(drop)
}

/// Sorts items as [`sort_cancellable`] does, until `should_end` is true. Returns the number of items at the front that
/// are sorted then; all other items come after them.
fn sort_parts<T: Copy>(
    items: &mut [T],
    compare: impl Fn(&T, &T) -> Ordering,
    check: impl Fn() -> Result<(), EngineError>,
    should_end: impl Fn() -> bool,
) -> Result<usize, EngineError> {
    if items.len() > PART_ITEMS {
        if is_in_order(items, |one, next| compare(one, next).is_le(), &check)? {
            return Ok(items.len());
        }
        if is_in_order(items, |one, next| compare(one, next).is_gt(), &check)? {
            items.reverse();
            return Ok(items.len());
        }
    }
    let mut parts = vec![(0..items.len(), 0)];
    while let Some((range, divisions)) = parts.pop() {
        check()?;
        // Parts are sorted from front to back.
        if range.start > 0 && should_end() {
            return Ok(range.start);
        }
        let part = &mut items[range.clone()];
        if part.len() <= PART_ITEMS || divisions == DIVISIONS_MAX {
            part.sort_unstable_by(&compare);
            continue;
        }
        let middle = range.start + divide(part, &compare, &check)?;
        parts.push((middle..range.end, divisions + 1));
        parts.push((range.start..middle, divisions + 1));
    }
    Ok(items.len())
}

/// Sorts items as [`sort_cancellable`] does and keeps the first `count`. If `count` is small, this takes linear time.
pub fn sort_first<T: Copy>(
    items: &mut Vec<T>,
    count: usize,
    compare: impl Fn(&T, &T) -> Ordering,
    check: impl Fn() -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    sort_first_until(items, count, compare, check, || false)
}

/// Like [`sort_first`], until `should_end` is true; keeps the first items, as many as are sorted then.
pub(super) fn sort_first_until<T: Copy>(
    items: &mut Vec<T>,
    count: usize,
    compare: impl Fn(&T, &T) -> Ordering,
    check: impl Fn() -> Result<(), EngineError>,
    should_end: impl Fn() -> bool,
) -> Result<(), EngineError> {
    // The items before this part are among the first `count`; the items after it are not.
    let (mut part, mut divisions) = (0..items.len(), 0);
    while count < part.end && part.len() > PART_ITEMS && divisions < DIVISIONS_MAX {
        let middle = part.start + divide(&mut items[part.clone()], &compare, &check)?;
        if count < middle {
            part.end = middle;
        } else {
            part.start = middle;
        }
        divisions += 1;
    }
    check()?;
    if (part.start..part.end).contains(&count) {
        items[part.clone()].select_nth_unstable_by(count - part.start, &compare);
    }
    items.truncate(count);
    let sorted = sort_parts(items, compare, check, should_end)?;
    items.truncate(sorted);
    Ok(())
}

/// Whether `holds` is true for each pair of neighbouring items.
fn is_in_order<T>(
    items: &[T],
    holds: impl Fn(&T, &T) -> bool,
    check: &impl Fn() -> Result<(), EngineError>,
) -> Result<bool, EngineError> {
    for start in (0..items.len()).step_by(PART_ITEMS) {
        check()?;
        // The last item of a part is compared with the first item of the next part.
        let end = items.len().min(start + PART_ITEMS + 1);
        if !items[start..end].is_sorted_by(&holds) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves the items that are less than the median of a sample to the front; returns their number.
fn divide<T: Copy>(
    items: &mut [T],
    compare: &impl Fn(&T, &T) -> Ordering,
    check: &impl Fn() -> Result<(), EngineError>,
) -> Result<usize, EngineError> {
    let step = items.len() / SAMPLE_ITEMS;
    let mut sample: [T; SAMPLE_ITEMS] = std::array::from_fn(|at| items[at * step]);
    sample.sort_unstable_by(compare);
    let pivot = sample[SAMPLE_ITEMS / 2];
    let mut less = 0;
    for start in (0..items.len()).step_by(PART_ITEMS) {
        check()?;
        for at in start..items.len().min(start + PART_ITEMS) {
            // There is no branch here: it would be mispredicted for every second item.
            let is_less = compare(&items[at], &pivot).is_lt();
            items.swap(less, at);
            less += usize::from(is_less);
        }
    }
    Ok(less)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Numbers without an apparent order, with repetitions.
    fn numbers(count: usize) -> Vec<u64> {
        (0..count as u64).map(|at| at.wrapping_mul(2_654_435_761) % 5_003).collect()
    }

    /// Numbers with their positions, which tell equal numbers apart.
    fn numbered(numbers: Vec<u64>) -> Vec<(u64, usize)> {
        numbers.into_iter().zip(0..).collect()
    }

    fn assert_sorted(items: &[(u64, usize)], name: &str) {
        let (mut sorted, mut expected) = (items.to_vec(), items.to_vec());
        sort_cancellable(&mut sorted, Ord::cmp, || Ok(())).unwrap();
        expected.sort_unstable();
        assert!(sorted == expected, "{name} with {} items", items.len());
    }

    #[test]
    fn items_are_sorted_whatever_their_order() {
        for count in [0, 1, 2, PART_ITEMS - 1, PART_ITEMS, PART_ITEMS + 1, 2 * PART_ITEMS, 5 * PART_ITEMS + 17] {
            let ascending = 0..count as u64;
            let mut nearly: Vec<u64> = ascending.clone().collect();
            if count > 2 {
                nearly.swap(count / 3, count - 1);
            }
            assert_sorted(&numbered(numbers(count)), "mixed");
            assert_sorted(&numbered(ascending.clone().collect()), "ascending");
            assert_sorted(&numbered(ascending.clone().rev().collect()), "descending");
            assert_sorted(&numbered(nearly), "nearly ascending");
            assert_sorted(&numbered(ascending.clone().map(|at| at % 1_000).collect()), "repeating");
            assert_sorted(&numbered(ascending.clone().map(|at| at.min(count as u64 - at)).collect()), "up and down");
            assert_sorted(&numbered(vec![7; count]), "equal numbers");
            assert_sorted(&vec![(7, 7); count], "equal items");
        }
    }

    #[test]
    fn the_first_items_are_those_of_the_sorted_ones() {
        for (size, repeated) in [(0, 1), (10, 1), (3 * PART_ITEMS, 1), (3 * PART_ITEMS, 2 * PART_ITEMS)] {
            // The last items of the second list are equal.
            let items: Vec<(u64, usize)> =
                numbered(numbers(size)).into_iter().map(|(one, at)| (one, at / repeated)).collect();
            let mut sorted = items.clone();
            sorted.sort_unstable();
            for count in [0, 1, 9, 10, 11, PART_ITEMS, 2 * PART_ITEMS, 3 * PART_ITEMS - 1, 3 * PART_ITEMS, 1 << 20] {
                let mut first = items.clone();
                sort_first(&mut first, count, Ord::cmp, || Ok(())).unwrap();
                assert!(first == sorted[..count.min(size)], "{count} of {size}");
            }
        }
        let cancelled = || Err(EngineError::invalid("the search is cancelled"));
        assert!(sort_first(&mut numbered(numbers(10)), 1, Ord::cmp, cancelled).is_err());
    }

    #[test]
    fn a_sort_that_ends_early_keeps_the_first_items() {
        let items = numbered(numbers(20 * PART_ITEMS));
        let mut sorted = items.clone();
        sorted.sort_unstable();
        for (ends_at, count) in [(0, usize::MAX), (3, usize::MAX), (3, 10 * PART_ITEMS), (usize::MAX, 9)] {
            let (asked, mut first) = (Cell::new(0), items.clone());
            let should_end = || asked.replace(asked.get() + 1) >= ends_at;
            sort_first_until(&mut first, count, Ord::cmp, || Ok(()), should_end).unwrap();
            assert!(!first.is_empty() && first == sorted[..first.len()], "{ends_at}");
            assert_eq!(first.len() < count.min(items.len()), ends_at < usize::MAX, "{ends_at}");
        }
    }

    #[test]
    fn orders_that_defeat_the_sample_are_sorted() {
        // All items in the sample are greater than all other items.
        let count = 4 * PART_ITEMS;
        let mut items = numbers(count);
        (0..SAMPLE_ITEMS).for_each(|at| items[at * (count / SAMPLE_ITEMS)] = u64::MAX - at as u64);
        assert_sorted(&numbered(items), "defeated sample");
        // All items but two are equal, and nothing tells the equal items apart.
        let mut items = vec![(7, 0); count];
        (items[5], items[count - 9]) = ((9, 0), (1, 0));
        assert_sorted(&items, "equal items but two");
    }

    #[test]
    fn a_cancelled_sort_compares_at_most_one_more_part() {
        let count = 20 * PART_ITEMS;
        for items in [numbered(numbers(count)), numbered((0..count as u64).collect())] {
            // Number of comparisons, and whether the sort came to its end.
            let run = |cancelled_at: usize| {
                let (seen, mut items) = (Cell::new(0), items.clone());
                let compare = |a: &(u64, usize), b: &(u64, usize)| {
                    seen.set(seen.get() + 1);
                    a.cmp(b)
                };
                let check = || match seen.get() >= cancelled_at {
                    true => Err(EngineError::invalid("the search is cancelled")),
                    false => Ok(()),
                };
                let is_complete = sort_cancellable(&mut items, compare, check).is_ok();
                (seen.get(), is_complete)
            };
            let (whole, is_complete) = run(usize::MAX);
            assert!(is_complete);
            // A part of n items takes fewer than 2·n·log n comparisons.
            let most = PART_ITEMS * 2 * PART_ITEMS.ilog2() as usize;
            for cancelled_at in (1..whole).step_by(whole.div_ceil(50)) {
                let (seen, is_complete) = run(cancelled_at);
                let further = seen - cancelled_at;
                assert!(further <= most, "{further} comparisons after {cancelled_at}");
                assert!(!is_complete || seen == whole, "{cancelled_at}");
            }
        }
    }
}
