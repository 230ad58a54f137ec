//! Selection of the smallest of many items.

use std::cmp::Ordering;

/// The `most` smallest items, in order. Only a few items are held and sorted, because there may be millions.
pub(super) fn smallest<T: Copy>(
    items: impl Iterator<Item = T>,
    most: usize,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Vec<T> {
    let (mut kept, mut bound): (Vec<T>, Option<T>) = (Vec::new(), None);
    for item in items {
        if bound.is_none_or(|bound| compare(&item, &bound).is_lt()) {
            kept.push(item);
        }
        if most > 0 && kept.len() > most.saturating_mul(2) {
            bound = Some(*kept.select_nth_unstable_by(most - 1, &compare).1);
            kept.truncate(most);
        }
    }
    kept.sort_unstable_by(&compare);
    kept.truncate(most);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_items_do_not_depend_on_the_order() {
        let shuffled: Vec<i64> = (0..1_000_i64).map(|at| (at * 389) % 1_000 / 3).collect();
        let mut sorted = shuffled.clone();
        sorted.sort_unstable();
        for most in [0, 1, 2, 3, 10, 499, 500, 999, 1_000, 1_001, usize::MAX] {
            let expected = &sorted[..most.min(sorted.len())];
            assert_eq!(smallest(shuffled.iter().copied(), most, Ord::cmp), expected, "{most}");
            assert_eq!(smallest(sorted.iter().rev().copied(), most, Ord::cmp), expected, "{most}");
        }
    }
}
