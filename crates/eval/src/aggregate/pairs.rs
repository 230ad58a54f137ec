//! Maps pairs of numbers to dense numbers: combinations of two fields, or values of a group.
//!
//! Both numbers are dense. If both ranges are small, a table has a cell per pair; otherwise pairs are hashed.

use quarry_stdx::number::u32_of;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::integers::UNSET;

/// Maximum number of cells of the table: 4 MiB. Beyond it, pairs are hashed.
const CELLS_MAX: usize = 1 << 20;

/// Distinct pairs.
#[derive(Clone, Default)]
pub(crate) struct PairTable {
    /// Bits of the second number in a cell's index.
    right_bits: u32,
    cells: Vec<u32>,
    /// Number of each pair.
    hashed: Option<HashTable<((u32, u32), u32)>>,
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

    /// Reserves space for first numbers below `lefts` and second numbers below `rights`. Must be called before
    /// [`PairTable::number`] with such numbers.
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
                self.cells = vec![UNSET; cells];
                for (pair, number) in self.pairs.iter().zip(0..) {
                    self.cells[(pair.0 as usize) << right_bits | pair.1 as usize] = number;
                }
            }
            None => {
                let mut hashed = HashTable::with_capacity(self.pairs.len());
                for (pair, number) in self.pairs.iter().zip(0u32..) {
                    hashed.insert_unique(hash_of(*pair), (*pair, number), |(pair, _)| hash_of(*pair));
                }
                (self.hashed, self.cells) = (Some(hashed), Vec::new());
            }
        }
    }

    /// The number of a pair, which is added if new; space must be reserved.
    #[inline]
    pub(crate) fn number(&mut self, left: u32, right: u32) -> u32 {
        if self.hashed.is_some() {
            return self.hashed_number((left, right));
        }
        let cell = &mut self.cells[(left as usize) << self.right_bits | right as usize];
        if *cell == UNSET {
            *cell = u32_of(self.pairs.len());
            self.pairs.push((left, right));
        }
        *cell
    }

    fn hashed_number(&mut self, pair: (u32, u32)) -> u32 {
        let PairTable { hashed: Some(hashed), pairs, .. } = self else { return UNSET };
        let hash = hash_of(pair);
        if let Some((_, number)) = hashed.find(hash, |(known, _)| *known == pair) {
            return *number;
        }
        let number = u32_of(pairs.len());
        pairs.push(pair);
        hashed.insert_unique(hash, (pair, number), |(pair, _)| hash_of(*pair));
        number
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let hashed = self.hashed.as_ref().map_or(0, |hashed| hashed.capacity() * (size_of::<((u32, u32), u32)>() + 1));
        self.cells.capacity() * size_of::<u32>() + self.pairs.capacity() * size_of::<(u32, u32)>() + hashed
    }
}

/// A set of pairs: one bit per pair as long as that takes little memory.
#[derive(Clone, Default)]
pub(crate) struct PairSet {
    bits: Vec<Vec<u64>>,
    words: usize,
    hashed: Option<PairTable>,
}

/// Maximum number of words of a [`PairSet`]: 32 MiB. Beyond it, pairs are hashed.
const WORDS_MAX: usize = 4 << 20;

impl PairSet {
    /// Reserves space for first numbers below `lefts` and, if hashed, second numbers below `rights`.
    pub(crate) fn reserve(&mut self, lefts: usize, rights: usize) {
        if self.bits.len() < lefts {
            self.bits.resize(lefts, Vec::new());
        }
        if let Some(hashed) = &mut self.hashed {
            hashed.reserve(lefts, rights);
        }
    }

    /// Adds a pair; space must be reserved.
    #[inline]
    pub(crate) fn insert(&mut self, left: u32, right: u32) {
        if let Some(hashed) = &mut self.hashed {
            hashed.number(left, right);
            return;
        }
        let word = right as usize >> 6;
        if word >= self.bits[left as usize].len() {
            return self.insert_outside_bitmap(left, right);
        }
        self.bits[left as usize][word] |= 1 << (right & 63);
    }

    #[cold]
    fn insert_outside_bitmap(&mut self, left: u32, right: u32) {
        let bits = &mut self.bits[left as usize];
        let grown = ((right as usize >> 6) + 1).next_power_of_two();
        self.words += grown - bits.len();
        if self.words <= WORDS_MAX {
            bits.resize(grown, 0);
            return self.insert(left, right);
        }
        let mut hashed = PairTable { hashed: Some(HashTable::new()), ..PairTable::default() };
        self.for_each(|left, right| {
            hashed.number(left, right);
        });
        hashed.number(left, right);
        self.bits.iter_mut().for_each(|bits| *bits = Vec::new());
        (self.words, self.hashed) = (0, Some(hashed));
    }

    /// Calls `found` for each pair.
    pub(crate) fn for_each(&self, mut found: impl FnMut(u32, u32)) {
        for (bits, left) in self.bits.iter().zip(0..) {
            for (word, start) in bits.iter().zip((0u32..).step_by(64)) {
                let mut rest = *word;
                while rest != 0 {
                    found(left, start + rest.trailing_zeros());
                    rest &= rest - 1;
                }
            }
        }
        self.hashed.iter().flat_map(|hashed| &hashed.pairs).for_each(|(left, right)| found(*left, *right));
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let bits = self.words * size_of::<u64>() + self.bits.capacity() * size_of::<Vec<u64>>();
        bits + self.hashed.as_ref().map_or(0, PairTable::bytes)
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

    #[test]
    fn pair_sets_are_equal_as_bitmap_and_hash_set() {
        let mut set = PairSet::default();
        let mut expected = std::collections::BTreeSet::new();
        // The last groups have few values with large numbers, for which a bit per pair would waste memory.
        let pairs = (0..2_000u32).map(|at| (at % 7, at % 300)).chain((7..600).map(|at| (at, at * 5_000)));
        for (left, right) in pairs {
            set.reserve(left as usize + 1, right as usize + 1);
            set.insert(left, right);
            expected.insert((left, right));
        }
        assert!(set.hashed.is_some());
        let mut found = std::collections::BTreeSet::new();
        set.for_each(|left, right| assert!(found.insert((left, right))));
        assert_eq!(found, expected);
    }
}
