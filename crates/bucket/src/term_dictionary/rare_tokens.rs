//! Rare tokens: the tokens of columns of numbers and of short texts in template slabs. They seldom repeat, and are only
//! hashed, for the term filter.
//!
//! A term dictionary of unique ids takes more space than the ids. The tokens of such columns are therefore only in the
//! filter, and the pages with a token are found by reading the column (`super::scan`). Numbers from a small range,
//! which repeat, are recorded in a bitmap first, so that each is hashed once.
//!
//! Not here: tokens that go to the term dictionary (`super::template_terms`).

use quarry_event::segment;
use quarry_event::template::{Column, ColumnKind, NumberFormat, TimeLayout, ValueTraits};
use quarry_stdx::number::low_u32;

use crate::term_dictionary::digits::{hash_decimal, hash_hex};
use crate::term_dictionary::table::hash_token;

/// Maximum length of the values of a rare text column. Part of the format, because a reader searches only the rare
/// columns.
pub(crate) const MAX_RARE_TEXT_BYTES: u32 = 64;
/// Size of a range of numbers below which a bitmap is always used.
const BITMAP_RANGE_ALWAYS: u64 = 1 << 16;
/// Maximum number of bits per value of a bitmap for a range of at least `BITMAP_RANGE_ALWAYS`; if it would need more
/// bits, no bitmap is used.
const BITMAP_BITS_PER_VALUE: u64 = 8;
/// Size of a range of numbers from which a bitmap is never used.
const BITMAP_RANGE_MAX: u64 = 1 << 22;

/// Number of slots for the hashes of texts that were appended last; a power of two. They fit the first-level cache.
const RECENT_HASHES: usize = 512;

/// A locator omits a number column with at least this many values per number of its range.
const LOCATED_VALUES_PER_NUMBER: u64 = 8;

const NS_PER_SEC: i64 = 1_000_000_000;
const SECS_PER_HOUR: i64 = 3_600;
const NS_PER_HOUR: i64 = SECS_PER_HOUR * NS_PER_SEC;

/// Whether the texts of a column with these traits are omitted from the term dictionary.
pub(crate) fn are_texts_rare(traits: &ValueTraits) -> bool {
    traits.max_len <= MAX_RARE_TEXT_BYTES
}

/// Whether the term dictionary omits the tokens of a column.
pub(crate) fn is_rare_column(column: &Column) -> bool {
    match column.kind {
        ColumnKind::Numbers { .. } => true,
        ColumnKind::Texts => are_texts_rare(&column.traits),
        ColumnKind::Templates(_) | ColumnKind::Dictionary { .. } => false,
    }
}

/// Whether a locator covers the tokens of a number column. Not if the range is so small that most numbers occur in many
/// pages, because a lookup of such a number would exclude hardly any page, and never for addresses and times. Part of
/// the format, because a reader searches the columns that a locator does not cover.
pub(crate) fn are_numbers_located(format: NumberFormat, min: i64, max: i64, values: u64) -> bool {
    let range = match format {
        NumberFormat::Integer | NumberFormat::Padded { .. } | NumberFormat::Hex { .. } => max.abs_diff(min),
        // Fractions have few distinct values, so only the part before the point can be rare.
        NumberFormat::Decimal { digits } | NumberFormat::Shortest { digits } => {
            max.abs_diff(min) / 10u64.pow(u32::from(digits.min(18)))
        }
        NumberFormat::Ip4 | NumberFormat::Time(_) => 0,
    };
    range > values / LOCATED_VALUES_PER_NUMBER
}

/// Appends the hashes of all tokens of these texts, each at least once. Most repetitions are skipped: words such as
/// `http` are in most values of a column, and every hash that is appended is sorted or looked up later.
pub(crate) fn add_text_hashes<'a>(texts: impl Iterator<Item = &'a [u8]>, rare: &mut Vec<u64>) {
    let mut scratch = Vec::new();
    // A slot is empty as long as its content belongs to another slot.
    let mut recent: [u64; RECENT_HASHES] = std::array::from_fn(|slot| !(slot as u64));
    for text in texts {
        segment::for_each_token(text, |token| {
            let hash = hash_token(token, &mut scratch);
            let known = &mut recent[hash as usize % RECENT_HASHES];
            if *known != hash {
                *known = hash;
                rare.push(hash);
            }
        });
    }
}

/// Collects the distinct tokens of a number column.
#[derive(Debug)]
pub(crate) enum RareNumbers {
    /// Numbers that are one token each. The flag tells whether the token is the number without its sign.
    Whole(NumberSet, bool),
    /// Numbers of two tokens: the digits before the point and those after it.
    Decimal { unit: u64, wholes: NumberSet, fractions: NumberSet },
    /// Like `Decimal`, without redundant zeros after the point; the fractions by their number of digits, from one.
    Shortest { unit: u64, wholes: NumberSet, fractions: Vec<NumberSet> },
    /// IP addresses. Their four parts are among the same 256 tokens.
    Ip4(Box<[bool; 256]>),
    /// Times.
    Time(TimeTokens),
}

impl RareNumbers {
    /// A collector, still empty, for a column with `values` numbers from `min` to `max`.
    pub(crate) fn new(format: NumberFormat, min: i64, max: i64, values: u64) -> RareNumbers {
        let top = min.unsigned_abs().max(max.unsigned_abs());
        match format {
            NumberFormat::Integer => RareNumbers::Whole(NumberSet::for_magnitudes(min, max, values), true),
            NumberFormat::Padded { digits } => {
                let mut set = NumberSet::for_magnitudes(min, max, values);
                set.least = usize::from(digits);
                RareNumbers::Whole(set, true)
            }
            NumberFormat::Hex { digits } => {
                let (low, high) = if min < 0 { (0, u64::MAX) } else { (min.cast_unsigned(), max.cast_unsigned()) };
                let mut set = NumberSet::new(low, high, values);
                set.hex_digits = usize::from(digits);
                RareNumbers::Whole(set, false)
            }
            NumberFormat::Decimal { digits } => {
                let unit = 10u64.pow(u32::from(digits.min(18)));
                let mut fractions = NumberSet::new(0, unit - 1, values);
                fractions.least = usize::from(digits);
                RareNumbers::Decimal { unit, wholes: NumberSet::new(0, top / unit, values), fractions }
            }
            NumberFormat::Shortest { digits } => {
                let unit = 10u64.pow(u32::from(digits.min(18)));
                let fractions = (1..=digits.min(18)).map(|digits| {
                    let mut fractions = NumberSet::new(0, 10u64.pow(u32::from(digits)) - 1, values);
                    fractions.least = usize::from(digits);
                    fractions
                });
                let wholes = NumberSet::new(0, top / unit, values);
                RareNumbers::Shortest { unit, wholes, fractions: fractions.collect() }
            }
            NumberFormat::Ip4 => RareNumbers::Ip4(Box::new([false; 256])),
            NumberFormat::Time(layout) => RareNumbers::Time(TimeTokens::new(layout, values)),
        }
    }

    /// Adds values. The hashes of tokens for which no bitmap is kept are appended to `rare` immediately.
    pub(crate) fn add(&mut self, numbers: &[i64], rare: &mut Vec<u64>) {
        match self {
            RareNumbers::Whole(set, true) => numbers.iter().for_each(|number| set.add(number.unsigned_abs(), rare)),
            RareNumbers::Whole(set, false) => numbers.iter().for_each(|number| set.add(number.cast_unsigned(), rare)),
            RareNumbers::Decimal { unit, wholes, fractions } => {
                for number in numbers {
                    let magnitude = number.unsigned_abs();
                    wholes.add(magnitude / *unit, rare);
                    fractions.add(magnitude % *unit, rare);
                }
            }
            RareNumbers::Shortest { unit, wholes, fractions } => {
                for number in numbers {
                    let magnitude = number.unsigned_abs();
                    wholes.add(magnitude / *unit, rare);
                    let (mut fraction, mut digits) = (magnitude % *unit, fractions.len());
                    while fraction % 10 == 0 && digits > 0 {
                        (fraction, digits) = (fraction / 10, digits - 1);
                    }
                    if let Some(fractions) = digits.checked_sub(1).and_then(|at| fractions.get_mut(at)) {
                        fractions.add(fraction, rare);
                    }
                }
            }
            RareNumbers::Ip4(seen) => {
                for part in numbers.iter().flat_map(|number| low_u32(*number).to_be_bytes()) {
                    seen[usize::from(part)] = true;
                }
            }
            RareNumbers::Time(times) => times.add(numbers, rare),
        }
    }

    /// Appends the hashes of the recorded tokens.
    pub(crate) fn finish(self, rare: &mut Vec<u64>) {
        match self {
            RareNumbers::Whole(set, _) => set.finish(rare),
            RareNumbers::Decimal { wholes, fractions, .. } => {
                wholes.finish(rare);
                fractions.finish(rare);
            }
            RareNumbers::Shortest { wholes, fractions, .. } => {
                wholes.finish(rare);
                fractions.into_iter().for_each(|fractions| fractions.finish(rare));
            }
            RareNumbers::Ip4(seen) => {
                rare.extend(
                    (0u64..).zip(seen.iter()).filter(|(_, seen)| **seen).map(|(part, _)| hash_decimal(part, 1, 0)),
                );
            }
            RareNumbers::Time(times) => times.finish(rare),
        }
    }
}

/// Numbers of one format, each hashed once if their range is small enough for a bitmap.
#[derive(Debug)]
pub(crate) struct NumberSet {
    low: u64,
    /// One bit per number from `low`; empty if the range is too large.
    bits: Vec<u64>,
    /// Minimum number of decimal digits, reached by leading zeros.
    least: usize,
    /// Number of hexadecimal digits; 0 for decimal.
    hex_digits: usize,
    /// Byte after the digits, or 0.
    suffix: u8,
}

impl NumberSet {
    fn new(low: u64, high: u64, values: u64) -> NumberSet {
        let range = high.saturating_sub(low);
        let wide =
            range >= BITMAP_RANGE_MAX || (range >= BITMAP_RANGE_ALWAYS && range / BITMAP_BITS_PER_VALUE >= values);
        let words = if wide { 0 } else { range / u64::from(u64::BITS) + 1 };
        NumberSet { low, bits: vec![0; words as usize], least: 1, hex_digits: 0, suffix: 0 }
    }

    /// A set, still empty, for the magnitudes of numbers from `min` to `max`.
    fn for_magnitudes(min: i64, max: i64, values: u64) -> NumberSet {
        let (a, b) = (min.unsigned_abs(), max.unsigned_abs());
        let low = if min < 0 && max >= 0 { 0 } else { a.min(b) };
        NumberSet::new(low, a.max(b), values)
    }

    #[inline]
    fn add(&mut self, number: u64, rare: &mut Vec<u64>) {
        let at = number.wrapping_sub(self.low);
        match self.bits.get_mut((at / u64::from(u64::BITS)) as usize) {
            Some(word) => *word |= 1 << (at % u64::from(u64::BITS)),
            None => rare.push(self.hash(number)),
        }
    }

    #[inline]
    fn hash(&self, number: u64) -> u64 {
        if self.hex_digits > 0 {
            hash_hex(number, self.hex_digits)
        } else {
            hash_decimal(number, self.least, self.suffix)
        }
    }

    fn finish(self, rare: &mut Vec<u64>) {
        for (at, word) in self.bits.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                rare.push(self.hash(self.low + at as u64 * u64::from(u64::BITS) + u64::from(left.trailing_zeros())));
                left &= left - 1;
            }
        }
    }
}

/// The parts of times, recorded separately: hours since 1970, minute and second within the hour, and the fraction. Only
/// the fraction has many distinct tokens.
#[derive(Debug)]
pub(crate) struct TimeTokens {
    layout: TimeLayout,
    /// Hours that occurred; the last entry is the hour of the value added last.
    hours: Vec<i64>,
    /// Minute and second within the hour.
    seconds: Vec<bool>,
    fractions: Option<(NumberSet, u64)>,
}

impl TimeTokens {
    fn new(layout: TimeLayout, values: u64) -> TimeTokens {
        let fractions = match layout {
            TimeLayout::Iso { digits: digits @ 1.., zulu, .. } => {
                let digits = u32::from(digits.min(9));
                let mut set = NumberSet::new(0, 10u64.pow(digits) - 1, values);
                set.least = digits as usize;
                set.suffix = if zulu { b'z' } else { 0 };
                Some((set, 10u64.pow(9 - digits)))
            }
            _ => None,
        };
        TimeTokens { layout, hours: Vec::new(), seconds: vec![false; SECS_PER_HOUR as usize], fractions }
    }

    fn add(&mut self, numbers: &[i64], rare: &mut Vec<u64>) {
        let mut hour_start = i64::MIN;
        for number in numbers {
            // Times mostly ascend, so the hour seldom changes.
            let mut within = number.wrapping_sub(hour_start);
            if !(0..NS_PER_HOUR).contains(&within) {
                let hour = number.div_euclid(NS_PER_HOUR);
                within = number.rem_euclid(NS_PER_HOUR);
                hour_start = number.wrapping_sub(within);
                if self.hours.last() != Some(&hour) {
                    self.hours.push(hour);
                }
            }
            let within = within.cast_unsigned();
            let second = within / NS_PER_SEC.cast_unsigned();
            self.seconds[second as usize] = true;
            if let Some((fractions, unit)) = &mut self.fractions {
                fractions.add((within - second * NS_PER_SEC.cast_unsigned()) / *unit, rare);
            }
        }
    }

    fn finish(mut self, rare: &mut Vec<u64>) {
        self.hours.sort_unstable();
        self.hours.dedup();
        let (mut text, mut scratch) = (Vec::new(), Vec::new());
        for hour in self.hours {
            text.clear();
            NumberFormat::Time(self.layout).write(hour.saturating_mul(NS_PER_HOUR), &mut text);
            let mut left = tokens_up_to_hour(self.layout);
            segment::for_each_token(&text, |token| {
                if left > 0 {
                    rare.push(hash_token(token, &mut scratch));
                    left -= 1;
                }
            });
        }
        let suffix = match self.layout {
            TimeLayout::Iso { digits: 0, zulu: true, .. } => b'z',
            _ => 0,
        };
        let seen = self.seconds.iter().enumerate().filter(|(_, seen)| **seen);
        for second in seen.map(|(second, _)| second as u64) {
            rare.push(hash_decimal(second / 60, 2, 0));
            rare.push(hash_decimal(second % 60, 2, suffix));
        }
        if let Some((fractions, _)) = self.fractions {
            fractions.finish(rare);
        }
    }
}

/// Number of tokens of a written time up to and including the hour. `T` is not a breaker, so day and hour are one
/// token.
fn tokens_up_to_hour(layout: TimeLayout) -> usize {
    match layout {
        TimeLayout::Iso { between: b'T', .. } => 3,
        TimeLayout::Iso { .. } | TimeLayout::Common => 4,
        TimeLayout::Clock => 1,
    }
}

#[cfg(test)]
pub(crate) mod tests;
