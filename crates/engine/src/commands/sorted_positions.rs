//! Cancellable merge sort, for commands that hold all rows in memory.
//!
//! A sort of the standard library cannot be interrupted, and for millions of texts it takes seconds. Here, runs are
//! sorted one by one and merged in pairs, and a cancelled search ends at the next run.
//!
//! Not here: sorts that spill ([`quarry_eval::rows::sort_rows`]).

use std::cmp::Ordering;

use quarry_eval::EngineError;
use quarry_eval::context::Stop;

/// Number of positions in a run, and merged between two checks for cancellation.
const RUN_POSITIONS: usize = 4_096;

/// The positions `0..count` in the order of `compare`; equal ones in ascending order.
pub(super) fn sorted_positions(
    count: usize,
    compare: impl Fn(usize, usize) -> Ordering,
    stop: &Stop,
) -> Result<Vec<usize>, EngineError> {
    let order = |a: &usize, b: &usize| compare(*a, *b).then(a.cmp(b));
    let mut sorted: Vec<usize> = (0..count).collect();
    for run in sorted.chunks_mut(RUN_POSITIONS) {
        stop.check_cancelled()?;
        run.sort_unstable_by(order);
    }
    let (mut length, mut merged) = (RUN_POSITIONS, Vec::with_capacity(count));
    while length < count {
        for pair in sorted.chunks(2 * length) {
            let (first, second) = pair.split_at(length.min(pair.len()));
            merge(first, second, &order, stop, &mut merged)?;
        }
        std::mem::swap(&mut sorted, &mut merged);
        merged.clear();
        length *= 2;
    }
    Ok(sorted)
}

/// Appends two sorted runs to `merged` as one.
fn merge(
    mut first: &[usize],
    mut second: &[usize],
    order: &impl Fn(&usize, &usize) -> Ordering,
    stop: &Stop,
    merged: &mut Vec<usize>,
) -> Result<(), EngineError> {
    while let ([one, rest_of_first @ ..], [other, rest_of_second @ ..]) = (first, second) {
        if merged.len().is_multiple_of(RUN_POSITIONS) {
            stop.check_cancelled()?;
        }
        match order(one, other) {
            Ordering::Greater => {
                merged.push(*other);
                second = rest_of_second;
            }
            _ => {
                merged.push(*one);
                first = rest_of_first;
            }
        }
    }
    merged.extend_from_slice(first);
    merged.extend_from_slice(second);
    Ok(())
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

    #[test]
    fn places_are_sorted_as_by_a_stable_sort() {
        for count in
            [0, 1, 2, RUN_POSITIONS - 1, RUN_POSITIONS, RUN_POSITIONS + 1, 2 * RUN_POSITIONS, 5 * RUN_POSITIONS + 17]
        {
            let numbers = numbers(count);
            let mut expected: Vec<usize> = (0..count).collect();
            expected.sort_by_key(|at| numbers[*at]);
            let sorted = sorted_positions(count, |a, b| numbers[a].cmp(&numbers[b]), &Stop::default()).unwrap();
            assert_eq!(sorted, expected, "{count}");
        }
    }

    #[test]
    fn a_cancelled_sort_compares_at_most_one_more_run() {
        let numbers = numbers(20 * RUN_POSITIONS);
        let whole = Cell::new(0);
        let counted = |a: usize, b: usize, seen: &Cell<usize>| {
            seen.set(seen.get() + 1);
            numbers[a].cmp(&numbers[b])
        };
        sorted_positions(numbers.len(), |a, b| counted(a, b, &whole), &Stop::default()).unwrap();
        // Comparisons of a run are fewer than its places times twice their logarithm.
        let most = RUN_POSITIONS * 2 * RUN_POSITIONS.ilog2() as usize;
        for cancelled_at in (1..whole.get()).step_by(whole.get() / 50) {
            let (stop, seen) = (Stop::default(), Cell::new(0));
            let compare = |a: usize, b: usize| {
                if seen.get() == cancelled_at {
                    stop.cancel();
                }
                counted(a, b, &seen)
            };
            let sorted = sorted_positions(numbers.len(), compare, &stop);
            let further = seen.get() - cancelled_at;
            assert!(further <= most, "{further} comparisons after {cancelled_at}");
            assert!(sorted.is_err() || further < RUN_POSITIONS, "{cancelled_at}");
        }
    }
}
