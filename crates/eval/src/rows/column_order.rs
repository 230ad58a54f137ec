//! The order of the columns of batches that have different columns.
//!
//! Events of different pages have different fields. Their columns are sorted by name in each batch, so the columns of
//! all batches have to be sorted as well, whichever batch comes first. Columns that a command named keep its order.
//!
//! Columns of reports, such as those that `append` joins, are in order of first appearance.

use std::hash::Hash;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::field_names::METADATA_FIELDS;

/// Whether rows with these columns are events, and not the result of a report.
pub(crate) fn are_of_events<'n>(names: impl Iterator<Item = &'n str> + Clone) -> bool {
    let has = |wanted: &str| names.clone().any(|name| name == wanted);
    has("_time") || has("_raw") || METADATA_FIELDS.into_iter().all(has)
}

/// Adds the new columns of a batch of events to the known ones. A new column follows the columns that precede it in the
/// batch, and then those that are not in the batch and have smaller names.
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
    use super::{are_of_events, merge_columns};

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
    fn rows_with_the_metadata_of_events_are_events() {
        assert!(are_of_events(["a", "_time"].into_iter()));
        assert!(are_of_events(["index", "host", "a", "source", "sourcetype"].into_iter()));
        assert!(!are_of_events(["host", "count"].into_iter()));
    }

    #[test]
    fn columns_keep_the_order_of_their_batch() {
        assert_eq!(merged(&[&["c", "a"], &["c", "b", "a"]]), "c b a");
        // `b1` was added to the rows of both batches, after the fields of the events.
        assert_eq!(merged(&[&["a", "d", "b1"], &["c", "b1"]]), "a c d b1");
        assert_eq!(merged(&[&["b", "a"], &["a", "b", "c"]]), "b a c");
    }
}
