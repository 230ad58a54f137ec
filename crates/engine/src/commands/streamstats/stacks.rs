//! Totals of a window of `streamstats`, kept in two stacks, because subtracting the rows that leave the window would
//! make the totals inexact.

use quarry_eval::aggregate::moments::Moments;
use quarry_eval::aggregate::running_state::Sums;
use quarry_event::value::parse_exact_number;

use super::row_values::RowValues;

/// A value that can be aggregated with two stacks.
pub(super) trait Foldable: Copy + Default {
    /// The value for one row.
    fn from_values(values: &RowValues) -> Self;
    /// Combines this value with the next value.
    fn combine(self, other: Self) -> Self;
}

impl Foldable for Sums {
    fn from_values(values: &RowValues) -> Sums {
        let mut sums = Sums::default();
        if let RowValues::Number(Some(number)) = values {
            sums.add(*number);
        }
        values.texts().iter().filter_map(|value| parse_exact_number(value)).for_each(|number| sums.add(number));
        sums
    }

    fn combine(mut self, other: Sums) -> Sums {
        self.merge(other);
        self
    }
}

impl Foldable for Moments {
    fn from_values(values: &RowValues) -> Moments {
        let mut moments = Moments::default();
        moments.add_texts(values.texts());
        moments
    }

    fn combine(mut self, other: Moments) -> Moments {
        self.merge(&other);
        self
    }
}

/// A queue that maintains the total of its elements. Elements leave `older`, which has a total for each element; when
/// it is empty, it takes over the elements of `newer`.
#[derive(Default)]
pub(super) struct Stacks<T> {
    /// For each older element, the total of this element and of those in `older` that arrived after it. The oldest
    /// element is at the end.
    older: Vec<T>,
    newer: Vec<T>,
    /// Total of the newer elements.
    newest: T,
}

impl<T: Foldable> Stacks<T> {
    pub(super) fn push(&mut self, values: &RowValues) {
        let part = T::from_values(values);
        self.newest = self.newest.combine(part);
        self.newer.push(part);
    }

    pub(super) fn pop(&mut self) {
        if self.older.is_empty() {
            let mut total = T::default();
            self.older.reserve_exact(self.newer.len());
            while let Some(part) = self.newer.pop() {
                total = part.combine(total);
                self.older.push(total);
            }
            self.newest = T::default();
        }
        self.older.pop();
    }

    pub(super) fn total(&self) -> T {
        self.older.last().map_or(self.newest, |older| older.combine(self.newest))
    }

    pub(super) fn bytes(&self) -> usize {
        (self.older.capacity() + self.newer.capacity()) * size_of::<T>()
    }
}
