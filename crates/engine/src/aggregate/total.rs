//! Sums that depend as little on the order of their numbers as doubles allow.
//!
//! Workers add numbers in whatever order they read pages. A plain sum would show that in its last digits, so that the
//! same search would not always give the same answer.

/// A sum with what rounding has cost it so far.
///
/// The error of an addition is itself a double (Knuth, "The Art of Computer Programming" 4.2.2, theorem B).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Total {
    /// The sum as rounded.
    pub sum: f64,
    /// What is to be added to it.
    pub lost: f64,
}

impl Total {
    /// Adds a number.
    #[inline]
    pub(crate) fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        let part = sum - self.sum;
        self.lost += (self.sum - (sum - part)) + (number - part);
        self.sum = sum;
    }

    /// Adds the square of a number, its own error included.
    #[inline]
    pub(crate) fn add_square(&mut self, number: f64) {
        let square = number * number;
        self.add(square);
        self.lost += number.mul_add(number, -square);
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: Total) {
        self.add(other.sum);
        self.lost += other.lost;
    }

    /// The sum.
    pub(crate) fn value(self) -> f64 {
        let value = self.sum + self.lost;
        // Infinite sums have no error.
        if value.is_nan() { self.sum } else { value }
    }
}
