//! Sums that depend as little on the order of their numbers as doubles allow.
//!
//! Workers add numbers in whatever order they read pages. A plain sum would show that in its last digits, so that the
//! same search would not always give the same answer.

use quarry_event::value::Number;
use quarry_event::value::decimal::Decimal;

use super::numbers::NO_SCALE;

/// Units of a sum's last digit up to which it is rounded to that digit: as many as a sum of integers may have.
const UNITS_MAX: f64 = 1e30;

/// A sum with what rounding has cost it so far.
///
/// The error of an addition is itself a double (Knuth, "The Art of Computer Programming" 4.2.2, theorem B).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    /// The sum as rounded.
    pub sum: f64,
    /// What is to be added to it.
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

    /// Adds the square of a number, its own error included.
    #[inline]
    pub fn add_square(&mut self, number: f64) {
        let square = number * number;
        self.add(square);
        self.lost += number.mul_add(number, -square);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Total) {
        self.add(other.sum);
        self.lost += other.lost;
    }

    /// The sum of numbers with so many digits after the point at most, rounded to them.
    ///
    /// Their doubles are off by half a unit in the last place each, so this is the sum of the decimals as long as all
    /// digits of the numbers, added without their signs, are fewer than sixteen; else it is the next double, about.
    pub fn rounded(self, scale: u8) -> Number {
        let unit = 10f64.powi(i32::from(scale));
        let scaled = self.sum * unit;
        if scale == NO_SCALE || !scaled.is_finite() || scaled.abs() > UNITS_MAX {
            return Number::of_float(self.value());
        }
        let whole = scaled.round();
        let missed = self.sum.mul_add(unit, -scaled) + (scaled - whole) + self.lost * unit;
        Decimal { units: whole as i128 + missed.round() as i128, scale: u32::from(scale) }.number()
    }

    /// The sum.
    pub fn value(self) -> f64 {
        let value = self.sum + self.lost;
        // Infinite sums have no error.
        if value.is_nan() { self.sum } else { value }
    }
}
