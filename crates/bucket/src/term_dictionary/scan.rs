//! Column search: finds the pages with a rare token, which the term dictionary omits, by searching columns of numbers
//! and short texts.
//!
//! For each column, the query is converted into a test of the column's values. A token of digits becomes a number to
//! compare with, so that no value is formatted. Most columns are excluded without being read, because none of their
//! values can contain the token. A test may have false positives, but no false negatives.
//!
//! Not here: reading columns (`crate::columns`), the term dictionary.

use std::ops::RangeInclusive;

use memchr::memmem;
use quarry_event::segment::{PERCENT_MAJOR_BYTES_MAX, for_each_token, is_breaker, lower_token};
use quarry_event::template::{ByteSet, Column, ColumnKind, ColumnValues, NumberFormat, TimeLayout, ValueTraits};
use quarry_stdx::number::{low_u32, u32_of};

use crate::term_dictionary::rare_tokens::is_rare_column;

/// Digits of the largest number.
const DIGITS_MAX: u32 = 20;
const NS_PER_SEC: u64 = 1_000_000_000;
const NS_PER_HOUR: i64 = 3_600_000_000_000;

/// Token or prefix to search for, lower-cased.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TokenPattern<'a> {
    /// A whole token.
    Token(&'a [u8]),
    /// A token prefix.
    Prefix(&'a [u8]),
}

impl<'a> TokenPattern<'a> {
    /// The wanted token or prefix.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            TokenPattern::Token(bytes) | TokenPattern::Prefix(bytes) => bytes,
        }
    }

    /// The pattern for the values of a column: a prefix as long as the longest value matches only whole tokens. The
    /// lower case of a text outside ASCII may have more bytes than the text.
    pub(crate) fn in_column(self, column: &Column) -> TokenPattern<'a> {
        let traits = &column.traits;
        match self {
            TokenPattern::Prefix(prefix)
                if prefix.len() >= traits.max_len as usize && !traits.bytes.intersects(NON_ASCII) =>
            {
                TokenPattern::Token(prefix)
            }
            wanted => wanted,
        }
    }

    fn matches(self, token: &[u8]) -> bool {
        match self {
            TokenPattern::Token(bytes) => token == bytes,
            TokenPattern::Prefix(bytes) => token.starts_with(bytes),
        }
    }
}

/// A test that decides whether a value of a column may contain the wanted token or prefix.
#[derive(Debug)]
pub(crate) enum RareTest<'a> {
    /// No value of the column can match, or the term dictionary covers the column.
    Never,
    /// Values may match, usually in nearly every page, so that testing them does not pay off.
    Always,
    Numbers(NumberTest),
    Texts(Box<TextTest<'a>>),
}

impl<'a> RareTest<'a> {
    /// The test for this column.
    pub(crate) fn of(column: &Column, wanted: TokenPattern<'a>) -> RareTest<'a> {
        let bytes = wanted.bytes();
        if !is_rare_column(column) || column.values == 0 {
            return RareTest::Never;
        }
        if bytes.is_empty() {
            return RareTest::Always;
        }
        if !may_contain(wanted, &column.traits) {
            return RareTest::Never;
        }
        match column.kind {
            ColumnKind::Numbers { format, min, max } => number_test(format, wanted, min, max),
            _ => RareTest::Texts(Box::new(TextTest::new(wanted, &column.traits))),
        }
    }

    /// The two numbers that pass, if the test accepts only two.
    pub(crate) fn numbers(&self) -> Option<[i64; 2]> {
        match self {
            RareTest::Numbers(NumberTest::Either(one, other)) => Some([*one, *other]),
            _ => None,
        }
    }

    /// Whether any of these values passes.
    pub(crate) fn any_passes(&self, values: &ColumnValues) -> bool {
        match (self, values) {
            (RareTest::Never, _) => false,
            (RareTest::Numbers(test), ColumnValues::Numbers(numbers)) => test.any_passes(numbers),
            (RareTest::Texts(test), ColumnValues::Texts { bytes, ends }) => test.any_matches(bytes, ends),
            // Values of an unexpected kind: a false positive is the safe answer.
            _ => true,
        }
    }
}

const NON_ASCII: ByteSet = ByteSet::from_words([0, 0, u64::MAX, u64::MAX]);

/// Whether a value may contain the wanted token although the bytes of the token, in any mixture of ASCII capitals and
/// small letters, do not occur in the value. Tokens are compared in lower case, and the token may have letters outside
/// ASCII. Only two characters outside ASCII have ASCII letters in their lower case: `\u{130}` (`i` and a combining dot)
/// and the Kelvin sign (`k`).
fn may_have_other_bytes(wanted: TokenPattern<'_>, traits: &ValueTraits) -> bool {
    traits.bytes.intersects(NON_ASCII) && wanted.bytes().iter().any(|byte| matches!(byte, b'i' | b'k' | 0x80..))
}

/// Whether the column's values can contain the wanted token or prefix, judging by their bytes and lengths.
fn may_contain(wanted: TokenPattern<'_>, traits: &ValueTraits) -> bool {
    if may_have_other_bytes(wanted, traits) {
        return true;
    }
    let is_in = |set: ByteSet, byte: u8| set.contains(byte) || set.contains(byte.to_ascii_uppercase());
    let bytes = wanted.bytes();
    if bytes.len() > traits.max_len as usize || !bytes.iter().all(|byte| is_in(traits.bytes, *byte)) {
        return false;
    }
    if traits.bytes.iter().any(is_breaker) {
        return true;
    }
    // Every value is a single token.
    let begins = bytes.first().is_none_or(|byte| is_in(traits.firsts, *byte));
    match wanted {
        TokenPattern::Prefix(_) => begins,
        TokenPattern::Token(_) => {
            begins
                && bytes.len() >= traits.min_len as usize
                && bytes.last().is_none_or(|byte| is_in(traits.lasts, *byte))
        }
    }
}

/// A test on numbers.
#[derive(Debug)]
pub(crate) enum NumberTest {
    /// The number is one of these two.
    Either(i64, i64),
    /// The magnitude lies in one of these ranges.
    Magnitudes(Vec<RangeInclusive<u64>>),
    /// The bits from `shift` on equal `bits`.
    Bits { shift: u32, bits: u64 },
    /// The magnitude lies in one of these ranges, or its remainder modulo `unit` lies in `rest`.
    Decimal { wholes: Vec<RangeInclusive<u64>>, unit: u64, rest: Option<RangeInclusive<u64>> },
    /// One of the four bytes of the address is marked.
    Ip4(Box<[bool; 256]>),
    /// The nanoseconds within the second lie in this range.
    Fraction(RangeInclusive<u64>),
    /// The hour of the day is this; the day of the month is not tested.
    Hour(i64),
}

impl NumberTest {
    /// Whether any of these numbers passes.
    pub(crate) fn any_passes(&self, numbers: &[i64]) -> bool {
        let within = |ranges: &[RangeInclusive<u64>], number: u64| ranges.iter().any(|range| range.contains(&number));
        match self {
            // A chunk is compared without an early exit, so that the compiler vectorises the loop.
            NumberTest::Either(one, other) => numbers
                .chunks(256)
                .any(|chunk| chunk.iter().fold(false, |found, number| found | (number == one) | (number == other))),
            NumberTest::Bits { shift, bits } => numbers.chunks(256).any(|chunk| {
                chunk.iter().fold(false, |found, number| found | (number.cast_unsigned() >> shift == *bits))
            }),
            NumberTest::Magnitudes(ranges) => numbers.iter().any(|number| within(ranges, number.unsigned_abs())),
            NumberTest::Decimal { wholes, unit, rest } => numbers.iter().any(|number| {
                let magnitude = number.unsigned_abs();
                within(wholes, magnitude) || rest.as_ref().is_some_and(|rest| rest.contains(&(magnitude % unit)))
            }),
            NumberTest::Ip4(marked) => numbers
                .iter()
                .any(|number| low_u32(*number).to_be_bytes().iter().any(|part| marked[usize::from(*part)])),
            NumberTest::Fraction(range) => numbers
                .iter()
                .any(|number| range.contains(&number.rem_euclid(NS_PER_SEC.cast_signed()).cast_unsigned())),
            NumberTest::Hour(hour) => {
                numbers.iter().any(|number| number.div_euclid(NS_PER_HOUR).rem_euclid(24) == *hour)
            }
        }
    }
}

/// The test for a number column with values between `min` and `max`.
fn number_test(format: NumberFormat, wanted: TokenPattern<'_>, min: i64, max: i64) -> RareTest<'static> {
    let top = min.unsigned_abs().max(max.unsigned_abs());
    match format {
        NumberFormat::Integer => magnitude_test(whole_number_ranges(wanted, top), min, max),
        NumberFormat::Padded { digits } => match padded_number_range(wanted, digits) {
            Some(range) => magnitude_test(vec![range], min, max),
            None => RareTest::Never,
        },
        NumberFormat::Hex { digits } => hex_test(wanted, digits, min, max),
        NumberFormat::Decimal { digits } | NumberFormat::Shortest { digits } => {
            let unit = 10u64.pow(u32::from(digits.min(18)));
            let scaled = |range: &RangeInclusive<u64>| {
                range.start().saturating_mul(unit)..=range.end().saturating_mul(unit).saturating_add(unit - 1)
            };
            let fits = |range: &RangeInclusive<u64>| *range.start() <= top;
            let wholes: Vec<_> = whole_number_ranges(wanted, top / unit).iter().map(scaled).filter(fits).collect();
            let rest = match format {
                NumberFormat::Shortest { .. } => shortest_fraction_range(wanted, digits),
                _ => padded_number_range(wanted, digits),
            };
            match wholes.is_empty() && rest.is_none() {
                true => RareTest::Never,
                false => RareTest::Numbers(NumberTest::Decimal { wholes, unit, rest }),
            }
        }
        NumberFormat::Ip4 => {
            let marked: Vec<bool> = (0..=u8::MAX).map(|part| wanted.matches(part.to_string().as_bytes())).collect();
            match <Box<[bool; 256]>>::try_from(marked.into_boxed_slice()) {
                Ok(marked) if marked.contains(&true) => RareTest::Numbers(NumberTest::Ip4(marked)),
                _ => RareTest::Never,
            }
        }
        NumberFormat::Time(layout) => time_test(layout, wanted),
    }
}

fn magnitude_test(ranges: Vec<RangeInclusive<u64>>, min: i64, max: i64) -> RareTest<'static> {
    let top = min.unsigned_abs().max(max.unsigned_abs());
    let low = if min <= 0 && max >= 0 { 0 } else { min.unsigned_abs().min(max.unsigned_abs()) };
    let ranges: Vec<_> = ranges.into_iter().filter(|range| *range.start() <= top && *range.end() >= low).collect();
    match &ranges[..] {
        [] => RareTest::Never,
        [one] if one.start() == one.end() && i64::try_from(*one.start()).is_ok() => {
            let number = one.start().cast_signed();
            RareTest::Numbers(NumberTest::Either(number, -number))
        }
        _ => RareTest::Numbers(NumberTest::Magnitudes(ranges)),
    }
}

/// The number that a text of decimal digits represents; `None` if the text has other characters or the number exceeds
/// 64 bits.
fn parse_digits(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

/// Ranges of the numbers up to `top` whose decimal text, without leading zeros, matches `wanted`.
fn whole_number_ranges(wanted: TokenPattern<'_>, top: u64) -> Vec<RangeInclusive<u64>> {
    let bytes = wanted.bytes();
    let Some(number) = parse_digits(bytes).filter(|_| bytes == b"0" || !bytes.starts_with(b"0")) else {
        return Vec::new();
    };
    if matches!(wanted, TokenPattern::Token(_)) || number == 0 {
        return vec![number..=number];
    }
    // One range for each number of digits: as many as the prefix has, one more, and so on.
    let mut ranges = Vec::new();
    let (mut low, mut high) = (number, number);
    for _ in 0..DIGITS_MAX {
        if low > top {
            break;
        }
        ranges.push(low..=high);
        let Some(next) = low.checked_mul(10) else {
            break;
        };
        (low, high) = (next, high.saturating_mul(10).saturating_add(9));
    }
    ranges
}

/// Range of the numbers whose text, padded to this many digits, matches `wanted`.
fn padded_number_range(wanted: TokenPattern<'_>, digits: u8) -> Option<RangeInclusive<u64>> {
    let bytes = wanted.bytes();
    let number = parse_digits(bytes)?;
    match wanted {
        TokenPattern::Token(_) => (bytes.len() == usize::from(digits)).then_some(number..=number),
        TokenPattern::Prefix(_) => {
            let missing = usize::from(digits).checked_sub(bytes.len())?;
            let unit = 10u64.checked_pow(u32_of(missing))?;
            let low = number.checked_mul(unit)?;
            Some(low..=low.saturating_add(unit - 1))
        }
    }
}

/// Range of fractions, in units of 10^-`digits`, that match `wanted` when written without trailing zeros.
fn shortest_fraction_range(wanted: TokenPattern<'_>, digits: u8) -> Option<RangeInclusive<u64>> {
    match wanted {
        TokenPattern::Token(text) => {
            let fraction = NumberFormat::Shortest { digits }.parse_fraction(text)?;
            Some(fraction..=fraction)
        }
        TokenPattern::Prefix(text) => {
            let (low, high) = padded_number_range(wanted, digits)?.into_inner();
            // The lowest fraction is the prefix itself, written without the zeros at its end.
            let low = low + u64::from(text.last() == Some(&b'0'));
            (low <= high).then_some(low..=high)
        }
    }
}

fn hex_test(wanted: TokenPattern<'_>, digits: u8, min: i64, max: i64) -> RareTest<'static> {
    let (bytes, digits) = (wanted.bytes(), usize::from(digits));
    let complete = match wanted {
        TokenPattern::Token(_) => bytes.len() == digits,
        TokenPattern::Prefix(_) => bytes.len() <= digits,
    };
    let is_hex = bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let bits = std::str::from_utf8(bytes).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    let (true, true, Some(bits)) = (complete, is_hex, bits) else {
        return RareTest::Never;
    };
    if bytes.len() == digits {
        let number = bits.cast_signed();
        return match (min..=max).contains(&number) {
            true => RareTest::Numbers(NumberTest::Either(number, number)),
            false => RareTest::Never,
        };
    }
    RareTest::Numbers(NumberTest::Bits { shift: 4 * u32_of(digits - bytes.len()), bits })
}

/// The test for a column of times. Years and tokens of two digits occur in nearly every page; any other token is a day
/// joined to its hour (`20t14`), or a fraction.
fn time_test(layout: TimeLayout, wanted: TokenPattern<'_>) -> RareTest<'static> {
    let bytes = wanted.bytes();
    let TimeLayout::Iso { between, digits, zulu, .. } = layout else {
        return if may_be_time_token(layout, wanted) { RareTest::Always } else { RareTest::Never };
    };
    let TokenPattern::Token(_) = wanted else {
        return RareTest::Always;
    };
    let fraction = match bytes.split_last() {
        Some((b'z', rest)) if zulu => Some(rest),
        _ if zulu => None,
        _ => Some(bytes),
    };
    let is_fraction = |bytes: &&[u8]| digits > 0 && bytes.len() == usize::from(digits);
    let number = fraction.filter(is_fraction).and_then(parse_digits);
    // Without a `z`, a fraction of two or four digits cannot be told from a year or another part of the time.
    if let Some(number) = number.filter(|_| zulu || !matches!(digits, 2 | 4)) {
        let unit = 10u64.pow(9 - u32::from(digits.min(9)));
        return RareTest::Numbers(NumberTest::Fraction(number * unit..=number * unit + (unit - 1)));
    }
    if let ([_, _, b't', hour @ ..], b'T') = (bytes, between) {
        return match parse_digits(hour) {
            Some(hour @ 0..24) => RareTest::Numbers(NumberTest::Hour(hour.cast_signed())),
            _ => RareTest::Never,
        };
    }
    // A year, month, day, hour, minute or second.
    let is_part = bytes.len() == 2 || bytes.len() == 4 || (bytes.len() == 3 && zulu && digits == 0);
    if is_part { RareTest::Always } else { RareTest::Never }
}

/// Whether a time in a layout without fractions may contain a token. The tokens of such a time are numbers of two
/// digits and, in a layout with a date, the name of the month and the year.
fn may_be_time_token(layout: TimeLayout, wanted: TokenPattern<'_>) -> bool {
    let bytes = wanted.bytes();
    let may_have = |len: usize, is_of: fn(&u8) -> bool| match wanted {
        TokenPattern::Token(_) => bytes.len() == len && bytes.iter().all(is_of),
        TokenPattern::Prefix(_) => bytes.len() <= len && bytes.iter().all(is_of),
    };
    let is_date = !matches!(layout, TimeLayout::Clock);
    may_have(2, u8::is_ascii_digit)
        || (is_date && (may_have(3, u8::is_ascii_lowercase) || may_have(4, u8::is_ascii_digit)))
}

/// A test of short texts.
#[derive(Debug)]
pub(crate) struct TextTest<'a> {
    wanted: TokenPattern<'a>,
    /// Finds the wanted bytes; `None` if texts may contain the token in other bytes, so that they must be tokenised.
    finder: Option<memmem::Finder<'a>>,
    /// Whether the texts contain capital letters.
    folds: bool,
}

impl<'a> TextTest<'a> {
    fn new(wanted: TokenPattern<'a>, traits: &ValueTraits) -> TextTest<'a> {
        let finder = (!may_have_other_bytes(wanted, traits)).then(|| memmem::Finder::new(wanted.bytes()));
        TextTest { wanted, finder, folds: traits.bytes.iter().any(|byte| byte.is_ascii_uppercase()) }
    }

    fn any_matches(&self, bytes: &[u8], ends: &[u32]) -> bool {
        let Some(finder) = &self.finder else {
            return self.matches_tokens(bytes, ends);
        };
        if !self.folds {
            return self.matches_bytes(finder, bytes, ends);
        }
        self.matches_bytes(finder, &bytes.to_ascii_lowercase(), ends)
    }

    /// Whether the wanted bytes occur between breakers or the ends of a text.
    fn matches_bytes(&self, finder: &memmem::Finder<'_>, bytes: &[u8], ends: &[u32]) -> bool {
        let wanted = self.wanted.bytes().len();
        let mut from = 0;
        while let Some(found) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
            let (start, end) = (from + found, from + found + wanted);
            // The text in which the match starts; the match counts only if it ends in the same text.
            let text = ends.partition_point(|end| *end as usize <= start);
            let text_start = text.checked_sub(1).map_or(0, |before| ends[before] as usize);
            let text_end = ends.get(text).map_or(bytes.len(), |end| *end as usize);
            let before = &bytes[text_start.max(start.saturating_sub(PERCENT_MAJOR_BYTES_MAX))..start];
            let starts = before.last().is_none_or(|byte| is_breaker(*byte));
            let is_over = || end == text_end || bytes.get(end).is_none_or(|byte| is_breaker(*byte));
            let is_found = if before.contains(&b'%') {
                // The match may be part of a breaker of several bytes, or begin after it.
                self.matches_tokens(&bytes[text_start..text_end], &[u32_of(text_end - text_start)])
            } else {
                starts && end <= text_end && (matches!(self.wanted, TokenPattern::Prefix(_)) || is_over())
            };
            if is_found {
                return true;
            }
            from = start + 1;
        }
        false
    }

    fn matches_tokens(&self, bytes: &[u8], ends: &[u32]) -> bool {
        let (mut start, mut found, mut lower) = (0, false, Vec::new());
        for end in ends {
            let text = bytes.get(start..*end as usize).unwrap_or_default();
            start = *end as usize;
            for_each_token(text, |token| {
                lower_token(token, &mut lower);
                found |= self.wanted.matches(&lower);
            });
        }
        found
    }
}

#[cfg(test)]
mod tests;
