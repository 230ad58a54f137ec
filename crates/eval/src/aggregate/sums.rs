//! Folds of numbers that return as many digits as they read: sums, minimum and maximum.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use quarry_event::value::Number;
use quarry_stdx::number::{f64_of, integer_part};

use super::fold::{Fold, Input, downcast, each_number_list, grow, number_lists};
use super::groups::Members;
use super::numbers::NumberParts;
use super::state::number_item;
use super::total::Total;

/// Sums, or sums of squares.
#[derive(Clone)]
pub(super) struct SumFold {
    squares: bool,
    sums: Vec<Total>,
    /// For each group, the largest scale of its numbers.
    scales: Vec<u8>,
}

impl SumFold {
    /// A fold without groups.
    pub(super) fn new(squares: bool) -> SumFold {
        SumFold { squares, sums: Vec::new(), scales: Vec::new() }
    }

    fn grow(&mut self, groups: usize) {
        grow(&mut self.sums, groups, Total::default());
        grow(&mut self.scales, groups, 0);
    }

    fn merge(&mut self, group: usize, sum: Total, scale: u8) {
        debug_assert_eq!(self.sums.len(), self.scales.len(), "each sum has a scale");
        self.sums[group].merge(sum);
        self.scales[group] = self.scales[group].max(scale);
    }
}

/// Scale of the square of a number.
fn squared_scale(scale: u8) -> u8 {
    scale.saturating_mul(2)
}

impl Fold for SumFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        self.grow(members.groups);
        let (sums, scales) = (self.sums.as_mut_slice(), self.scales.as_mut_slice());
        let mut add = |group: usize, figure: NumberParts| {
            sums[group].add(figure.value);
            sums[group].lost += figure.rest_as_double();
            scales[group] = scales[group].max(figure.scale);
        };
        match (self.squares, input.numbers.and_then(|numbers| numbers.plain())) {
            (true, _) => input.for_each_number_parts(members, |group, figure| {
                sums[group].add_exact_square(figure.value, figure.rest_as_double());
                scales[group] = scales[group].max(squared_scale(figure.scale));
            }),
            (false, Some((_, scale))) => input.for_each_number(members, |_, group, number| {
                sums[group].add(number);
                scales[group] = scales[group].max(scale);
            }),
            (false, None) => input.for_each_number_parts(members, &mut add),
        }
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        self.grow(total);
        let Some(other) = downcast::<SumFold>(other) else { return };
        for (group, (sum, scale)) in groups.iter().zip(other.sums.into_iter().zip(other.scales)) {
            self.merge(*group as usize, sum, scale);
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        self.grow(total);
        each_number_list(states, groups, |group, state| {
            if let [sum, lost, scale] = *state {
                self.merge(group, Total { sum, lost }, integer_part(scale));
            }
        });
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        const PARTS: usize = 3;
        self.grow(groups);
        let states = self.sums.iter().zip(&self.scales).take(groups);
        let numbers = states.flat_map(|(total, scale)| [total.sum, total.lost, f64::from(*scale)]);
        let numbers = Arc::new(Float64Array::from_iter_values(numbers));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(PARTS, groups));
        Arc::new(ListArray::new(number_item(), offsets, numbers, None))
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Total>() + self.scales.capacity()
    }
}

/// The smallest or largest number of each group; NaN if a group has no number.
#[derive(Clone)]
pub(super) struct ExtremeFold<const LARGEST: bool> {
    numbers: Vec<f64>,
    /// Excess over each double, in billionths; empty while all are 0.
    rests: Vec<i64>,
}

impl<const LARGEST: bool> ExtremeFold<LARGEST> {
    /// A fold without groups.
    pub(super) fn new() -> ExtremeFold<LARGEST> {
        ExtremeFold { numbers: Vec::new(), rests: Vec::new() }
    }

    #[inline]
    fn pick_extreme(known: f64, number: f64) -> f64 {
        if LARGEST { known.max(number) } else { known.min(number) }
    }

    /// Compares a number including its rest; `rests` must be allocated.
    fn merge_exact(&mut self, group: usize, number: f64, rest: i64) {
        debug_assert_eq!(self.numbers.len(), self.rests.len(), "each number has a rest");
        let (known, known_rest) = (&mut self.numbers[group], &mut self.rests[group]);
        let is_better = match (LARGEST, known.is_nan()) {
            (_, true) => true,
            (true, _) => number > *known || (number == *known && rest > *known_rest),
            (false, _) => number < *known || (number == *known && rest < *known_rest),
        };
        if is_better {
            (*known, *known_rest) = (number, rest);
        }
    }

    fn grow(&mut self, groups: usize, exactly: bool) {
        grow(&mut self.numbers, groups, f64::NAN);
        if exactly || !self.rests.is_empty() {
            let groups = self.numbers.len();
            grow(&mut self.rests, groups, 0);
        }
    }
}

impl<const LARGEST: bool> Fold for ExtremeFold<LARGEST> {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        let exactly = input.numbers.is_none_or(|numbers| numbers.has_rests());
        self.grow(members.groups, exactly);
        if self.rests.is_empty() {
            let known = self.numbers.as_mut_slice();
            input.for_each_number(members, |_, group, number| known[group] = Self::pick_extreme(known[group], number));
        } else {
            input.for_each_number_parts(members, |group, figure| self.merge_exact(group, figure.value, figure.rest));
        }
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        let Some(other) = downcast::<ExtremeFold<LARGEST>>(other) else { return self.grow(total, false) };
        self.grow(total, !other.rests.is_empty());
        for (at, (group, number)) in groups.iter().zip(other.numbers).enumerate() {
            let group = *group as usize;
            match self.rests.is_empty() {
                true => self.numbers[group] = Self::pick_extreme(self.numbers[group], number),
                false if number.is_nan() => {}
                false => self.merge_exact(group, number, other.rests.get(at).copied().unwrap_or(0)),
            }
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        self.grow(total, true);
        each_number_list(states, groups, |group, state| {
            if let [number, rest] = *state {
                self.merge_exact(group, number, integer_part(rest));
            }
        });
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.grow(groups, false);
        // A group without a number has an empty state, which changes nothing in a merge.
        let states = self.numbers.iter().take(groups).enumerate().map(|(at, number)| match number.is_nan() {
            true => Vec::new(),
            false => vec![*number, f64_of(self.rests.get(at).copied().unwrap_or(0))],
        });
        number_lists(states, groups)
    }

    fn bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<f64>() + self.rests.capacity() * size_of::<i64>()
    }
}

/// The number in the state of an [`ExtremeFold`].
pub(super) fn extreme_of(state: &[f64]) -> Option<Number> {
    match *state {
        [value, rest] => Some(NumberParts { value, rest: integer_part(rest), scale: 0 }.number()),
        _ => None,
    }
}

/// The sum in the state of a [`SumFold`].
pub(super) fn sum_of(state: &[f64]) -> Option<Number> {
    match *state {
        [sum, lost, scale] => Some(Total { sum, lost }.round_to_scale(integer_part(scale))),
        _ => None,
    }
}
