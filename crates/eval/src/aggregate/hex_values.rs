//! Texts that consist of hexadecimal digits, as numbers: the ids of sessions, requests and traces, and hashes.
//!
//! Nearly every row of such a field has another value, so that a set of them is large: a number takes less memory than
//! a text, and comparing and hashing it costs less.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::integers::IntegerSet;

/// Maximum number of digits.
const DIGITS_MAX: usize = 16;
/// Bits of a digit.
const DIGIT_BITS: u32 = 4;
/// Numbers of at most this many digits are kept in sets of integers, which take a bit per possible number.
const DENSE_DIGITS_MAX: u8 = 4;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Stands for a byte that is no digit.
const NO_DIGIT: u8 = 0xf0;

/// The digit of each byte.
const DIGIT_OF: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < DIGITS.len() {
        digits[DIGITS[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

/// Number of digits and number of a text of at most 16 digits in lower case.
#[inline]
pub(super) fn parse_hex(text: &[u8]) -> Option<(u8, u64)> {
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    let (mut number, mut all) = (0, 0);
    for byte in text {
        let digit = DIGIT_OF[usize::from(*byte)];
        all |= digit;
        number = number << DIGIT_BITS | u64::from(digit);
    }
    // The length is at most 16.
    (all & NO_DIGIT == 0).then_some((text.len() as u8, number))
}

/// Appends a number with this many digits.
pub(super) fn write_hex(digits: u8, number: u64, out: &mut String) {
    for at in (0..u32::from(digits)).rev() {
        let digit = number >> (at * DIGIT_BITS) & 0xf;
        out.push(char::from(DIGITS[digit as usize]));
    }
}

fn hash_of(number: u64) -> u64 {
    FixedState::default().hash_one(number)
}

/// A set of numbers with the same number of digits.
#[derive(Clone, Default)]
pub(super) struct HexSet {
    dense: IntegerSet,
    hashed: HashTable<u64>,
}

impl HexSet {
    /// Adds a number with this many digits.
    #[inline]
    pub(super) fn insert(&mut self, digits: u8, number: u64) {
        match i64::try_from(number) {
            Ok(number) if digits <= DENSE_DIGITS_MAX => self.dense.insert(number),
            _ => self.insert_hashed(number),
        }
    }

    #[inline]
    fn insert_hashed(&mut self, number: u64) {
        let slot = self.hashed.entry(hash_of(number), |known| *known == number, |known| hash_of(*known));
        if let Entry::Vacant(slot) = slot {
            slot.insert(number);
        }
    }

    /// Number of values.
    pub(super) fn len(&self) -> usize {
        self.dense.len() + self.hashed.len()
    }

    /// Calls `found` for each value.
    pub(super) fn for_each(&self, mut found: impl FnMut(u64)) {
        self.dense.for_each(|number| found(number.unsigned_abs()));
        self.hashed.iter().for_each(|number| found(*number));
    }

    /// Adds the values of another set.
    pub(super) fn absorb(&mut self, other: &HexSet) {
        self.dense.absorb(&other.dense);
        other.hashed.iter().for_each(|number| self.insert_hashed(*number));
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.dense.bytes() + self.hashed.capacity() * (size_of::<u64>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn digits_in_lower_case_are_numbers() {
        for text in ["0", "00", "beef", "0000beef", "ffffffffffffffff", "8000000000000000", "57e9a1b81b22232e"] {
            let (digits, number) = parse_hex(text.as_bytes()).unwrap();
            let mut written = String::new();
            write_hex(digits, number, &mut written);
            assert_eq!(written, text);
        }
        for text in ["", "0000000000000000f", "BEEF", "be ef", "0x12", "12-34", "caf\u{e9}", "g"] {
            assert_eq!(parse_hex(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn sets_tell_numbers_apart() {
        for digits in [1, 4, 5, 15, 16] {
            let numbers: Vec<u64> = (0..9_000u64)
                .map(|at| (at % 5_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 4 * u32::from(digits)))
                .collect();
            let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
            let (mut left, mut right) = (HexSet::default(), HexSet::default());
            for (at, number) in numbers.iter().enumerate() {
                if at % 3 == 0 { left.insert(digits, *number) } else { right.insert(digits, *number) }
            }
            left.absorb(&right);
            let mut found = BTreeSet::new();
            left.for_each(|number| assert!(found.insert(number)));
            assert_eq!(left.len(), distinct.len());
            assert_eq!(found, distinct);
        }
    }
}
