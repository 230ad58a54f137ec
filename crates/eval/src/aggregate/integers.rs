//! Maps and sets of integers: arrays or bitmaps while values are close together, hash tables otherwise.
//!
//! Status codes, sizes, user ids and addresses of one network have small ranges, for which an array entry (or bit) per
//! possible value is both smaller and faster than a hash table. The array grows with the range; a range beyond its
//! limit moves everything to a hash table permanently.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Maximum number of entries of an array: 16 MiB. A wider range needs a hash table.
const DIRECT_ENTRIES_MAX: usize = 4 << 20;
/// Maximum number of bits of a set: 32 MiB. A wider range needs a hash table.
const BITS_MAX: usize = 256 << 20;
/// Minimum initial length of an array.
const ENTRIES_MIN: usize = 1_024;

/// An unset entry.
pub(crate) const UNSET: u32 = u32::MAX;

/// Smallest and largest value.
pub(crate) fn bounds<T: Copy + Ord + Into<i64>>(values: &[T]) -> Option<(i64, i64)> {
    /// Number of values compared in parallel, so that no comparison waits for the previous one.
    const LANES: usize = 4;
    let first = *values.first()?;
    let (mut low, mut high) = ([first; LANES], [first; LANES]);
    let chunks = values.chunks_exact(LANES);
    for value in chunks.remainder() {
        (low[0], high[0]) = (low[0].min(*value), high[0].max(*value));
    }
    for chunk in chunks {
        for lane in 0..LANES {
            low[lane] = low[lane].min(chunk[lane]);
            high[lane] = high[lane].max(chunk[lane]);
        }
    }
    Some((low.into_iter().min()?.into(), high.into_iter().max()?.into()))
}

/// First value and length of an array that covers the existing range (`base`, `len`) and `low..=high`, with room to
/// grow in the same direction; `None` if it would exceed `most` entries.
fn covering_range(base: i64, len: usize, low: i64, high: i64, most: usize) -> Option<(i64, usize)> {
    let (from, to) = match len {
        0 => (low, high),
        _ => (base.min(low), high.max(base + (len as i64 - 1))),
    };
    let needed = usize::try_from(to.checked_sub(from)?).ok()?.checked_add(1).filter(|needed| *needed <= most)?;
    let grown = needed.max(ENTRIES_MIN).checked_next_power_of_two()?.min(most);
    let room = (grown - needed) as i64;
    Some(if len > 0 && low < base { (from.checked_sub(room)?, grown) } else { (from, grown) })
}

fn hash_of(value: i64) -> u64 {
    FixedState::default().hash_one(value)
}

/// A map from integers to numbers.
#[derive(Clone, Default)]
pub(crate) struct IntegerTable {
    base: i64,
    direct: Vec<u32>,
    hashed: Option<HashTable<(i64, u32)>>,
}

impl IntegerTable {
    /// Appends the number of each value, all within `range`; `number` assigns numbers to new values.
    pub(crate) fn entries<T: Copy + Into<i64>>(
        &mut self,
        values: &[T],
        range: (i64, i64),
        out: &mut Vec<u32>,
        mut number: impl FnMut(i64) -> u32,
    ) {
        self.cover(range.0, range.1);
        if let Some(hashed) = &mut self.hashed {
            out.extend(values.iter().map(|value| entry_of(hashed, (*value).into(), &mut number)));
            return;
        }
        let (direct, base) = (self.direct.as_mut_slice(), self.base);
        out.extend(values.iter().map(|value| {
            let value: i64 = (*value).into();
            let slot = &mut direct[(value - base) as usize];
            if *slot == UNSET {
                *slot = number(value);
            }
            *slot
        }));
    }

    /// The number of one value; `number` assigns it if the value is new.
    #[inline]
    pub(crate) fn entry(&mut self, value: i64, mut number: impl FnMut(i64) -> u32) -> u32 {
        self.cover(value, value);
        match &mut self.hashed {
            Some(hashed) => entry_of(hashed, value, &mut number),
            None => {
                let slot = &mut self.direct[(value - self.base) as usize];
                if *slot == UNSET {
                    *slot = number(value);
                }
                *slot
            }
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let hashed = self.hashed.as_ref().map_or(0, |hashed| hashed.capacity() * (size_of::<(i64, u32)>() + 1));
        self.direct.capacity() * size_of::<u32>() + hashed
    }

    /// Extends the array to this range.
    #[inline]
    fn cover(&mut self, low: i64, high: i64) {
        let inside = low >= self.base && high.abs_diff(self.base) < self.direct.len() as u64;
        if self.hashed.is_none() && !inside {
            self.extend(low, high);
        }
    }

    #[cold]
    fn extend(&mut self, low: i64, high: i64) {
        let set = self.direct.iter().zip(self.base..).filter(|(number, _)| **number != UNSET);
        match covering_range(self.base, self.direct.len(), low, high, DIRECT_ENTRIES_MAX) {
            Some((base, len)) => {
                let mut direct = vec![UNSET; len];
                if !self.direct.is_empty() {
                    let start = (self.base - base) as usize;
                    direct[start..start + self.direct.len()].copy_from_slice(&self.direct);
                }
                (self.base, self.direct) = (base, direct);
            }
            None => {
                let mut hashed = HashTable::new();
                for (number, value) in set {
                    hashed.insert_unique(hash_of(value), (value, *number), |(value, _)| hash_of(*value));
                }
                (self.hashed, self.direct) = (Some(hashed), Vec::new());
            }
        }
    }
}

#[inline]
fn entry_of(hashed: &mut HashTable<(i64, u32)>, value: i64, number: &mut impl FnMut(i64) -> u32) -> u32 {
    let hash = hash_of(value);
    if let Some((_, known)) = hashed.find(hash, |(known, _)| *known == value) {
        return *known;
    }
    let new = number(value);
    hashed.insert_unique(hash, (value, new), |(value, _)| hash_of(*value));
    new
}

#[derive(Clone, Default)]
pub(crate) struct IntegerSet {
    base: i64,
    bits: Vec<u64>,
    hashed: Option<HashTable<i64>>,
}

impl IntegerSet {
    /// Adds values.
    pub(crate) fn extend_from(&mut self, values: &[i64]) {
        if let Some(range) = bounds(values) {
            self.extend_within(values, range);
        }
    }

    /// Adds values that all lie within `range`.
    pub(crate) fn extend_within(&mut self, values: &[i64], range: (i64, i64)) {
        self.cover(range.0, range.1);
        match &mut self.hashed {
            Some(hashed) => values.iter().for_each(|value| insert(hashed, *value)),
            None => {
                let (bits, base) = (self.bits.as_mut_slice(), self.base);
                for value in values {
                    let bit = (value - base) as usize;
                    bits[bit >> 6] |= 1 << (bit & 63);
                }
            }
        }
    }

    /// Adds a value.
    pub(crate) fn insert(&mut self, value: i64) {
        self.extend_from(&[value]);
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.hashed.as_ref().map_or(0, HashTable::len)
            + self.bits.iter().map(|word| word.count_ones() as usize).sum::<usize>()
    }

    /// Calls `found` for each value.
    pub(crate) fn for_each(&self, mut found: impl FnMut(i64)) {
        for (word, start) in self.bits.iter().zip((self.base..).step_by(64)) {
            let mut left = *word;
            while left != 0 {
                found(start + i64::from(left.trailing_zeros()));
                left &= left - 1;
            }
        }
        self.hashed.iter().flatten().for_each(|value| found(*value));
    }

    /// Adds the values of another set.
    pub(crate) fn absorb(&mut self, other: &IntegerSet) {
        if self.hashed.is_none()
            && other.hashed.is_none()
            && self.base == other.base
            && self.bits.len() == other.bits.len()
        {
            self.bits.iter_mut().zip(&other.bits).for_each(|(word, other)| *word |= other);
            return;
        }
        let mut values = Vec::new();
        other.for_each(|value| values.push(value));
        self.extend_from(&values);
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let hashed = self.hashed.as_ref().map_or(0, |hashed| hashed.capacity() * (size_of::<i64>() + 1));
        self.bits.capacity() * size_of::<u64>() + hashed
    }

    /// Extends the bitmap to this range.
    fn cover(&mut self, low: i64, high: i64) {
        let len = self.bits.len() * 64;
        let inside = len > 0 && low >= self.base && high.abs_diff(self.base) < len as u64;
        if self.hashed.is_some() || inside {
            return;
        }
        match covering_range(self.base, len, low, high, BITS_MAX) {
            Some((base, len)) => {
                // The new base is a whole number of words below the old one.
                let shift = if self.bits.is_empty() { 0 } else { (self.base - base).div_euclid(64) };
                let base = if self.bits.is_empty() { base } else { self.base - shift * 64 };
                let base = if base > low { base - 64 } else { base };
                let start = if self.bits.is_empty() { 0 } else { ((self.base - base) / 64) as usize };
                let mut bits = vec![0; len / 64 + 1];
                bits[start..start + self.bits.len()].copy_from_slice(&self.bits);
                (self.base, self.bits) = (base, bits);
            }
            None => {
                let mut hashed = HashTable::new();
                self.for_each(|value| insert(&mut hashed, value));
                (self.hashed, self.bits) = (Some(hashed), Vec::new());
            }
        }
    }
}

fn insert(hashed: &mut HashTable<i64>, value: i64) {
    let hash = hash_of(value);
    if hashed.find(hash, |known| *known == value).is_none() {
        hashed.insert_unique(hash, value, |value| hash_of(*value));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn check(values: &[i64]) {
        let (mut table, mut numbers, mut next) = (IntegerTable::default(), Vec::new(), 0);
        let mut set = IntegerSet::default();
        for part in values.chunks(3) {
            table.entries(part, bounds(part).unwrap(), &mut numbers, |_| {
                next += 1;
                next - 1
            });
            set.extend_from(part);
        }
        let distinct: BTreeSet<i64> = values.iter().copied().collect();
        assert_eq!(next as usize, distinct.len());
        for (value, number) in values.iter().zip(&numbers) {
            let same = values.iter().zip(&numbers).filter(|(other, _)| *other == value);
            assert!(same.into_iter().all(|(_, other)| other == number), "{value}");
        }
        let mut found = BTreeSet::new();
        set.for_each(|value| assert!(found.insert(value)));
        assert_eq!((set.len(), found), (distinct.len(), distinct));
    }

    #[test]
    fn close_distant_and_descending_integers_get_distinct_numbers() {
        check(&[5, 6, 5, 7, 1_000, -3, 5]);
        check(&(0..5_000).rev().step_by(7).collect::<Vec<_>>());
        check(&(-5_000..5_000).step_by(63).chain([3, 2, 1]).collect::<Vec<_>>());
        check(&[1, 999_999_999_999_999_999, -999_999_999_999_999_999, 1, 2, 0]);
        check(&[1, 300_000_000, 1, 100, 600_000_000, 7, -600_000_000]);
        check(&[200_000_000, 1, 100_000_000, 200_000_063, 64, 63]);
        // The array ends below the smallest integer of a text, so that the distance of the largest exceeds 63 bits.
        let (low, high) = (-4_611_686_018_427_387_000, 4_611_686_018_427_387_900);
        check(&[low, low + 1, low + 2, low - 900, low - 899, low - 898, high, high, high]);
    }

    #[test]
    fn sets_of_different_ranges_merge() {
        let (mut left, mut right) = (IntegerSet::default(), IntegerSet::default());
        left.extend_from(&[1, 2, 3]);
        right.extend_from(&[3, -70, 5_000]);
        left.absorb(&right);
        assert_eq!(left.len(), 5);
        right.extend_from(&[900_000_000_000]);
        left.absorb(&right);
        assert_eq!(left.len(), 6);
    }
}
