//! Sums that depend on the order of their numbers as little as doubles allow.
//!
//! Workers add numbers in the order in which they happen to read pages. In a plain sum, the order affects the last
//! digits, so that the same search would not always return the same result.

use quarry_event::value::Number;
use quarry_event::value::decimal::Decimal;
use quarry_stdx::number::integer_part;

use super::numbers::NO_SCALE;

/// Maximum absolute value of a sum, in units of its last decimal place, that is rounded to that place; a larger sum is
/// returned as its double. Sums of integers have the same limit.
const UNITS_MAX: f64 = 1e30;

/// A compensated sum.
///
/// The error of an addition is itself a double (Knuth, "The Art of Computer Programming" 4.2.2, theorem B).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    /// The sum, rounded to a double.
    pub sum: f64,
    /// Accumulated error, to be added to the sum.
    pub lost: f64,
}

impl Total {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        let part = sum - self.sum;
        self.lost += (self.sum - (sum - part)) + (number - part);
        self.sum = sum;
    }

    /// Adds the square of a number, including the rounding error of the square.
    #[inline]
    pub fn add_square(&mut self, number: f64) {
        let square = number * number;
        self.add(square);
        self.lost += number.mul_add(number, -square);
    }

    /// Adds the square of `number + more`, where `more` is the rounding error of the double `number`.
    #[inline]
    pub fn add_exact_square(&mut self, number: f64, more: f64) {
        self.add_square(number);
        if more != 0.0 {
            // The square of a sum is the square of the first part, twice the product of the parts, and the square of
            // the second part.
            let (twice, product) = (2.0 * number, 2.0 * number * more);
            self.add(product);
            self.lost += twice.mul_add(more, -product) + more * more;
        }
    }

    /// The same sum with the smallest error term.
    pub fn normalize(self) -> Total {
        let mut sum = Total { sum: self.sum, lost: 0.0 };
        sum.add(self.lost);
        if sum.lost.is_nan() { self } else { sum }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Total) {
        self.add(other.sum);
        self.lost += other.lost;
    }

    /// The sum of numbers with at most `scale` decimal places, rounded to that scale.
    ///
    /// A double differs from its decimal by up to half a unit in the last place, so the result is the exact sum of the
    /// decimals as long as their absolute values add up to fewer than sixteen digits; beyond that, the result is
    /// approximately the nearest double.
    pub fn round_to_scale(self, scale: u8) -> Number {
        let unit = 10f64.powi(i32::from(scale));
        let scaled = self.sum * unit;
        if scale == NO_SCALE || !scaled.is_finite() || scaled.abs() > UNITS_MAX {
            return Number::of_float(self.value());
        }
        let whole = scaled.round();
        let missed = self.sum.mul_add(unit, -scaled) + (scaled - whole) + self.lost * unit;
        Decimal { units: integer_part::<i128>(whole) + integer_part::<i128>(missed.round()), scale: u32::from(scale) }
            .to_number()
    }

    /// The sum.
    pub fn value(self) -> f64 {
        let value = self.sum + self.lost;
        // An infinite sum has no error term.
        if value.is_nan() { self.sum } else { value }
    }
}
