//! Variance from compensated sums of the numbers and of their squares.
//!
//! The textbook formula, mean of squares minus square of the mean, loses all digits in doubles. Keeping the rounding
//! errors doubles the precision, so that the result is as precise as the input and does not depend on the order of
//! numbers. The squares of very large numbers need even more digits; such numbers are added as distances from the
//! first number.

use quarry_event::value::parse_exact_number;

use super::numbers::NumberParts;
use super::total::Total;

/// Numbers from this size on are added as their distance from the first number, because a sum of their squares would
/// need more digits than [`Total`] keeps.
const LARGE_NUMBER_MIN: f64 = 1e12;

/// Moments of a set of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: f64,
    /// Sum of the distances from the origin.
    sum: Total,
    /// Sum of the squared distances.
    squares: Total,
    /// The first number: its double, and the remainder that the double lacks.
    first: (f64, f64),
    /// Whether another number differs from the first number.
    differ: bool,
}

impl Moments {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.add_number(value, 0.0);
    }

    /// Adds a number with the digits that its double lacks.
    pub fn add_number_parts(&mut self, figure: NumberParts) {
        self.add_number(figure.value, figure.rest_as_double());
    }

    /// Adds the texts that are numbers.
    pub fn add_texts(&mut self, texts: &[String]) {
        let numbers = texts.iter().filter_map(|text| parse_exact_number(text));
        numbers.for_each(|number| self.add_number_parts(NumberParts::without_scale(number)));
    }

    #[inline]
    fn add_number(&mut self, value: f64, more: f64) {
        self.compare_with_first((value, more), false);
        self.count += 1.0;
        let origin = self.origin();
        if origin == 0.0 && more == 0.0 {
            self.sum.add(value);
            self.squares.add_square(value);
        } else {
            let distance = difference(value, origin);
            let lost = distance.lost + more;
            self.sum.merge(Total { lost, ..distance });
            self.squares.add_exact_square(distance.sum, lost);
        }
    }

    /// Origin of the distances: the first number if it is large, else 0.
    #[inline]
    fn origin(&self) -> f64 {
        let (first, _) = self.first;
        if first.abs() >= LARGE_NUMBER_MIN && first.is_finite() { first } else { 0.0 }
    }

    /// Compares a number with the first number; `differ` is true if it is the first of numbers that differ.
    #[inline]
    fn compare_with_first(&mut self, one: (f64, f64), differ: bool) {
        match self.count > 0.0 {
            true => self.differ |= differ || self.first != one,
            false => (self.first, self.differ) = (one, differ),
        }
    }

    /// Adds the numbers of another set.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0.0 {
            return;
        }
        self.compare_with_first(other.first, other.differ);
        self.count += other.count;
        let shift = difference(other.origin(), self.origin());
        let (mut sum, mut squares) = (other.sum, other.squares);
        if shift != Total::default() {
            let count = Total { sum: other.count, lost: 0.0 };
            let twice = Total { sum: 2.0 * shift.sum, lost: 2.0 * shift.lost };
            squares.merge(product(twice, sum));
            squares.merge(product(product(shift, shift), count));
            sum.merge(product(shift, count));
        }
        self.sum.merge(sum);
        self.squares.merge(squares);
    }

    /// The population variance or, if `sample`, the sample variance; 0 for a single number, `None` without numbers.
    pub fn variance(&self, sample: bool) -> Option<f64> {
        let divisor = if sample { self.count - 1.0 } else { self.count };
        if self.count == 0.0 {
            return None;
        }
        // The variance of equal numbers is exactly 0, without a rounding error.
        let has_none = divisor <= 0.0 || !self.differ;
        Some(if has_none { 0.0 } else { (self.squared_deviations() / divisor).max(0.0) })
    }

    /// Sum of squared deviations from the mean, which does not depend on the origin.
    fn squared_deviations(&self) -> f64 {
        // The rounding error of a sum of distances may be as large as the sum.
        let Total { sum, lost } = self.sum.normalize();
        let square = sum * sum;
        let square_lost = sum.mul_add(sum, -square) + 2.0 * sum * lost;
        let share = square / self.count;
        let share_lost = ((-share).mul_add(self.count, square) + square_lost) / self.count;
        let mut left = self.squares;
        left.add(-share);
        left.lost -= share_lost;
        left.value()
    }

    /// The state as numbers.
    pub fn to_state(self) -> [f64; 8] {
        let Moments { count, sum, squares, first, differ } = self;
        [count, sum.sum, sum.lost, squares.sum, squares.lost, first.0, first.1, f64::from(u8::from(differ))]
    }

    /// Reads a state; a malformed state becomes the empty set.
    pub fn from_state(state: &[f64]) -> Moments {
        match *state {
            [count, sum, sum_lost, squares, squares_lost, first, more, differ] => Moments {
                count,
                sum: Total { sum, lost: sum_lost },
                squares: Total { sum: squares, lost: squares_lost },
                first: (first, more),
                differ: differ != 0.0,
            },
            _ => Moments::default(),
        }
    }
}

/// A difference, with its rounding error.
#[inline]
fn difference(left: f64, right: f64) -> Total {
    let mut difference = Total { sum: left, lost: 0.0 };
    difference.add(-right);
    difference
}

/// A product, with its rounding error.
fn product(left: Total, right: Total) -> Total {
    let product = left.sum * right.sum;
    let lost =
        left.sum.mul_add(right.sum, -product) + left.sum * right.lost + left.lost * right.sum + left.lost * right.lost;
    Total { sum: product, lost }
}

#[cfg(test)]
mod tests {
    use quarry_event::value::Number;

    use super::*;

    fn of(numbers: impl IntoIterator<Item = f64>) -> Moments {
        let mut moments = Moments::default();
        numbers.into_iter().for_each(|number| moments.add(number));
        moments
    }

    #[test]
    fn order_and_partition_change_nothing() {
        let numbers: Vec<f64> = (0..1_000).map(|at| f64::from(at * 7_919 % 1_000) / 10.0 + 0.3).collect();
        let whole = of(numbers.iter().copied());
        let backwards = of(numbers.iter().rev().copied());
        let mut parts = Moments::default();
        numbers
            .chunks(7)
            .rev()
            .for_each(|chunk| parts.merge(&Moments::from_state(&of(chunk.iter().copied()).to_state())));
        for sample in [true, false] {
            assert_eq!(whole.variance(sample), backwards.variance(sample));
            assert_eq!(whole.variance(sample), parts.variance(sample));
        }
    }

    #[test]
    fn small_differences_of_large_numbers_are_kept() {
        let instants = of((0..10).map(|at| 1_790_000_000.0 + f64::from(at) / 8.0));
        assert_eq!(instants.variance(false), Some(0.128_906_25));
        assert_eq!(of([0.1; 10]).variance(true), Some(0.0));
        assert_eq!(of([5.0]).variance(true), Some(0.0));
        assert_eq!(of([]).variance(true), None);
        assert_eq!(of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).variance(false), Some(4.0));
    }

    #[test]
    fn integers_beyond_a_double_keep_their_digits() {
        let moments = |integers: &[i64]| {
            let mut moments = Moments::default();
            integers.iter().for_each(|integer| moments.add_number_parts(NumberParts::of(Number::Int(*integer))));
            moments
        };
        const LARGE: i64 = 9_007_199_254_740_993;
        assert_eq!(moments(&[LARGE, LARGE + 2, LARGE + 4]).variance(true), Some(4.0));
        // Both numbers have the same double.
        assert_eq!(moments(&[LARGE - 1, LARGE]).variance(true), Some(0.5));
        assert_eq!(moments(&[LARGE; 3]).variance(true), Some(0.0));
        // A set of small numbers has a different origin.
        let mut mixed = moments(&[1, 3]);
        mixed.merge(&moments(&[LARGE, LARGE + 2]));
        assert_eq!(mixed.variance(false), moments(&[LARGE + 2, LARGE, 3, 1]).variance(false));
        let mut merged = moments(&[LARGE; 2]);
        merged.merge(&Moments::from_state(&moments(&[LARGE + 3]).to_state()));
        assert_eq!(merged.variance(true), Some(3.0));
    }
}
