//! A seeded random number generator: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
//! 2014).

use quarry_stdx::number::f64_of;

/// A sequence of numbers determined by its seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The sequence for a seed.
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A whole number below `limit`, which is at least 1.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// A number from 0 up to, but not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        f64_of(self.next() >> 11) / f64_of(1u64 << 53)
    }
}

/// A random sample of `count` rows, in order, without replacement (Knuth: "The Art of Computer Programming", 3.4.2, S).
pub fn sample(rows: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = Rng::new(seed);
    let mut drawn = Vec::with_capacity(count.min(rows));
    for row in 0..rows {
        if rng.below(rows - row) < count.min(rows) - drawn.len() {
            drawn.push(row);
        }
    }
    drawn
}
