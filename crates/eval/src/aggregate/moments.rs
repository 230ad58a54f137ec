//! Variance from compensated sums of the numbers and of their squares.
//!
//! The textbook formula, mean of squares minus square of the mean, loses all digits in doubles. With the rounding
//! errors kept, precision is doubled, so that the result is as precise as the input and does not depend on the order of
//! numbers.

use super::total::Total;

/// Moments of a set of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    count: f64,
    sum: Total,
    squares: Total,
    low: f64,
    high: f64,
}

impl Default for Moments {
    fn default() -> Moments {
        let none = Total::default();
        Moments { count: 0.0, sum: none, squares: none, low: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl Moments {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum.add(value);
        self.squares.add_square(value);
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    /// Adds the numbers of another set.
    pub fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum.merge(other.sum);
        self.squares.merge(other.squares);
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    /// Variance; the sample variance if `sample`, which a single number does not have.
    pub fn variance(&self, sample: bool) -> Option<f64> {
        let divisor = if sample { self.count - 1.0 } else { self.count };
        if self.count == 0.0 {
            return None;
        }
        // The variance of equal numbers is exactly 0, without rounding error.
        let has_none = divisor <= 0.0 || self.low == self.high;
        Some(if has_none { 0.0 } else { (self.distances() / divisor).max(0.0) })
    }

    /// Sum of squared deviations from the mean.
    fn distances(&self) -> f64 {
        let (sum, lost) = (self.sum.sum, self.sum.lost);
        let square = sum * sum;
        let square_lost = sum.mul_add(sum, -square) + 2.0 * sum * lost;
        let share = square / self.count;
        let share_lost = ((-share).mul_add(self.count, square) + square_lost) / self.count;
        let mut left = self.squares;
        left.add(-share);
        left.lost -= share_lost;
        left.value()
    }

    /// As state.
    pub fn to_state(self) -> [f64; 7] {
        let Moments { count, sum, squares, low, high } = self;
        [count, sum.sum, sum.lost, squares.sum, squares.lost, low, high]
    }

    /// From a state; a malformed one is the empty set.
    pub fn from_state(state: &[f64]) -> Moments {
        match *state {
            [count, sum, sum_lost, squares, squares_lost, low, high] => Moments {
                count,
                sum: Total { sum, lost: sum_lost },
                squares: Total { sum: squares, lost: squares_lost },
                low,
                high,
            },
            _ => Moments::default(),
        }
    }
}

#[cfg(test)]
mod tests {
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
}
