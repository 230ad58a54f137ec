//! The order of the columns of batches that have different columns.
//!
//! Events of different pages have different fields. Their columns are sorted by name in each batch, so the columns of
//! all batches have to be sorted as well, whichever batch comes first. Columns that a command named keep its order.

use std::hash::Hash;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

/// Adds the new columns of a batch to the known ones. A new column follows the columns that precede it in the batch,
/// and then those that are not in the batch and have smaller names.
pub(crate) fn merge_columns<T: Copy + Eq + Hash>(
    known: &[T],
    batch: &[T],
    is_smaller: impl Fn(T, T) -> bool,
) -> Vec<T> {
    let old: HashSet<T, FixedState> = known.iter().copied().collect();
    let present: HashSet<T, FixedState> = batch.iter().copied().collect();
    let mut placed: HashSet<T, FixedState> = HashSet::default();
    let mut merged = Vec::with_capacity(known.len() + batch.len());
    let mut rest = known.iter().copied().peekable();
    for column in batch.iter().copied() {
        if placed.contains(&column) {
            continue;
        }
        let precedes = |other: &T| match old.contains(&column) {
            true => *other != column,
            false => !present.contains(other) && is_smaller(*other, column),
        };
        while let Some(other) = rest.next_if(precedes) {
            placed.insert(other);
            merged.push(other);
        }
        // A known column that no other column brought along comes next.
        rest.next_if_eq(&column);
        placed.insert(column);
        merged.push(column);
    }
    merged.extend(rest);
    debug_assert!(merged.len() >= known.len(), "no column is lost");
    merged
}

#[cfg(test)]
mod tests {
    use super::merge_columns;

    fn merged(batches: &[&[&'static str]]) -> String {
        let none: Vec<&'static str> = Vec::new();
        batches.iter().fold(none, |known, batch| merge_columns(&known, batch, |a, b| a < b)).join(" ")
    }

    #[test]
    fn columns_of_sorted_batches_are_sorted() {
        let batches: [&[&'static str]; 4] = [&["a", "c", "z"], &["m"], &["b", "c", "n"], &[]];
        for first in 0..4 {
            for second in 0..4 {
                let order = [batches[first], batches[second], batches[0], batches[3], batches[2], batches[1]];
                assert_eq!(merged(&order), "a b c m n z");
            }
        }
        assert_eq!(merged(&[&["_time", "host", "b"], &["_time", "host", "a", "c"]]), "_time host a b c");
    }

    #[test]
    fn columns_keep_the_order_of_their_batch() {
        assert_eq!(merged(&[&["c", "a"], &["c", "b", "a"]]), "c b a");
        // `b1` was added to the rows of both batches, after the fields of the events.
        assert_eq!(merged(&[&["a", "d", "b1"], &["c", "b1"]]), "a c d b1");
        assert_eq!(merged(&[&["b", "a"], &["a", "b", "c"]]), "b a c");
    }
}
