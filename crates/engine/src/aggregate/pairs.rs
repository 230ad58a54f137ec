//! Pairs of two numbers, numbered in order of first appearance: combinations of two fields, values of a group.
//!
//! Both numbers are dense, so few of each make a small table with a cell per pair; more are hashed.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::integers::NONE;

/// Cells of the table at most: 4 MiB.
const CELLS_MAX: usize = 1 << 20;

/// Distinct pairs.
#[derive(Default)]
pub(crate) struct PairTable {
    /// Bits of the second number in a cell's place.
    right_bits: u32,
    cells: Vec<u32>,
    hashed: Option<HashTable<u32>>,
    pairs: Vec<(u32, u32)>,
}

fn hash_of(pair: (u32, u32)) -> u64 {
    FixedState::default().hash_one(u64::from(pair.0) << 32 | u64::from(pair.1))
}

impl PairTable {
    /// The pairs by number.
    pub(crate) fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// Makes room for first numbers below `lefts` and second ones below `rights`. To be called before numbers that
    /// large are asked for.
    pub(crate) fn reserve(&mut self, lefts: usize, rights: usize) {
        let fits = rights <= 1 << self.right_bits && lefts << self.right_bits <= self.cells.len();
        if self.hashed.is_some() || (fits && !self.cells.is_empty()) {
            return;
        }
        let right_bits = rights.max(1).next_power_of_two().trailing_zeros().max(self.right_bits);
        let lefts = lefts.max(self.cells.len() >> self.right_bits).max(1).next_power_of_two();
        match lefts.checked_shl(right_bits).filter(|cells| *cells <= CELLS_MAX && right_bits < 32) {
            Some(cells) => {
                self.right_bits = right_bits;
                self.cells = vec![NONE; cells];
                for (pair, number) in self.pairs.iter().zip(0..) {
                    self.cells[(pair.0 as usize) << right_bits | pair.1 as usize] = number;
                }
            }
            None => {
                let mut hashed = HashTable::with_capacity(self.pairs.len());
                let pairs = &self.pairs;
                for (pair, number) in pairs.iter().zip(0u32..) {
                    hashed.insert_unique(hash_of(*pair), number, |number| hash_of(pairs[*number as usize]));
                }
                (self.hashed, self.cells) = (Some(hashed), Vec::new());
            }
        }
    }

    /// The number of a pair, new or known; room for it must be reserved.
    #[inline]
    pub(crate) fn number(&mut self, left: u32, right: u32) -> u32 {
        if self.hashed.is_some() {
            return self.hashed_number((left, right));
        }
        let cell = &mut self.cells[(left as usize) << self.right_bits | right as usize];
        if *cell == NONE {
            *cell = self.pairs.len() as u32;
            self.pairs.push((left, right));
        }
        *cell
    }

    fn hashed_number(&mut self, pair: (u32, u32)) -> u32 {
        let PairTable { hashed: Some(hashed), pairs, .. } = self else { return NONE };
        let hash = hash_of(pair);
        if let Some(number) = hashed.find(hash, |number| pairs[*number as usize] == pair) {
            return *number;
        }
        let number = pairs.len() as u32;
        pairs.push(pair);
        hashed.insert_unique(hash, number, |number| hash_of(pairs[*number as usize]));
        number
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let hashed = self.hashed.as_ref().map_or(0, |hashed| hashed.capacity() * (size_of::<u32>() + 1));
        self.cells.capacity() * size_of::<u32>() + self.pairs.capacity() * size_of::<(u32, u32)>() + hashed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_numbers_while_the_table_grows() {
        let mut table = PairTable::default();
        let mut known = Vec::new();
        for size in [1usize, 2, 3, 10, 100, 5_000] {
            table.reserve(size, size * 3);
            for at in 0..size as u32 {
                known.push(((at, at * 2 % (size as u32 * 3)), table.number(at, at * 2 % (size as u32 * 3))));
            }
        }
        for ((left, right), number) in known {
            assert_eq!(table.number(left, right), number);
            assert_eq!(table.pairs()[number as usize], (left, right));
        }
        assert!(table.hashed.is_some());
    }
}
