//! Count, mean and squared distances: the numerically stable way to a variance that merges.
//!
//! Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).

/// What is known of a set of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    /// Numbers.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// Sum of squared distances from the mean.
    pub squares: f64,
}

impl Moments {
    /// Adds a number.
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }

    /// Adds the numbers of another set.
    pub(crate) fn merge(&mut self, other: &Moments) {
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        self.mean += distance * other.count / count;
        self.squares += other.squares + distance * distance * self.count * other.count / count;
        self.count = count;
    }

    /// Variance; of a sample when `sample`, where one number has none.
    pub(crate) fn variance(&self, sample: bool) -> Option<f64> {
        let divisor = if sample { self.count - 1.0 } else { self.count };
        if self.count == 0.0 {
            return None;
        }
        Some(if divisor <= 0.0 { 0.0 } else { (self.squares / divisor).max(0.0) })
    }

    /// As state.
    pub(crate) fn to_state(self) -> [f64; 3] {
        [self.count, self.mean, self.squares]
    }

    /// From state; anything malformed is the empty set.
    pub(crate) fn from_state(state: &[f64]) -> Moments {
        match state {
            [count, mean, squares] => Moments { count: *count, mean: *mean, squares: *squares },
            _ => Moments::default(),
        }
    }
}
