//! Seeded random numbers: SplitMix64 (Steele, Lea, Flood 2014), good enough for sample data and the same on every
//! machine.

/// A stream of pseudo-random numbers.
pub struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Number in `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability 1/`n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Picks one of `choices`, earlier ones more often.
    pub(crate) fn skewed<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let unit = self.unit();
        &choices[(unit * unit * choices.len() as f64) as usize]
    }

    /// Picks one of `choices` uniformly.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Number distributed like a duration: mostly near `typical`, with a long tail.
    pub(crate) fn tail(&mut self, typical: f64) -> f64 {
        let unit = self.unit();
        typical * (0.4 + unit + 9.0 * unit.powi(12))
    }
}
