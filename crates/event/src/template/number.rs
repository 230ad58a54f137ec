//! Number formats: lossless conversion between text and number.
//!
//! A number column stores at most 64 bits per value instead of text. This is allowed only if the text can be restored
//! exactly, so each format rejects texts that it would write differently: `007` is not an integer, and `1.50` is not a
//! decimal with one decimal place.

use quarry_stdx::number::{low_u8, low_u32, u8_of};

use super::address::{ip4_at_start, ip4_text};
use crate::time::civil::{date_from_days, days_from_date};

/// Number of digits that always fit an i64.
const DIGITS_MAX: u8 = 18;
/// Number of digits of the longest integers.
const INTEGER_DIGITS_MAX: usize = 19;
/// Integers have a magnitude below this bound, so that the sum and the difference of any two fit an i64.
const INTEGER_BOUND: i64 = 1 << 62;
/// Number of hexadecimal digits that fit 64 bits.
const HEX_DIGITS_MAX: u8 = 16;
/// Number of digits that a double always distinguishes.
const DOUBLE_DIGITS_MAX: usize = 15;
/// Number of decimal places of the smallest number that is formatted without an exponent, 0.0001.
const EXACT_PLACES: u8 = 4;
const POWERS_OF_TEN: [i64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
const EIGHT_DIGITS: i64 = 100_000_000;
/// Eight digits `0`.
const ZEROES: u64 = 0x3030_3030_3030_3030;
const NS_PER_SEC: i64 = 1_000_000_000;
const SECS_PER_DAY: i64 = 86_400;
/// Years in which nanoseconds since 1970 always fit 64 bits.
const NANOSECOND_YEARS: std::ops::RangeInclusive<i64> = 1700..=2250;
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Format of the numbers of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberFormat {
    /// `-12`: no leading zeros, no plus sign, a magnitude below 2^62; stored as the number itself.
    Integer,
    /// `007`: a fixed number of decimal digits, no sign; stored as the number itself.
    Padded {
        /// 1 to 18.
        digits: u8,
    },
    /// `8.70`: a fixed number of decimal places, no redundant leading zeros; stored as the number without its point.
    Decimal {
        /// 1 to 9.
        digits: u8,
    },
    /// `8.7`, `12` or `0.25`: at most this many decimal places, without redundant zeros, as most JSON writers print
    /// doubles; stored as the number multiplied by ten to the power of `digits`. The double nearest to the number is
    /// formatted as the same text, so numbers below 0.0001 (written with an exponent) and of more than 15 digits are
    /// excluded.
    Shortest {
        /// 1 to 9.
        digits: u8,
    },
    /// `00ff`: a fixed number of lower-case hexadecimal digits; stored as the bits of the number.
    Hex {
        /// 1 to 16.
        digits: u8,
    },
    /// `10.0.0.1`: stored as the 32 bits of the address, first octet highest.
    Ip4,
    /// A date and time; stored as nanoseconds since 1970, as if the clock showed UTC.
    Time(TimeLayout),
}

/// Layout of a written time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeLayout {
    /// `2026-11-20T00:00:00.021Z` and variants.
    Iso {
        /// Byte between date and time, `T` or a blank.
        between: u8,
        /// Byte before the fraction, `.` or `,`; 0 without a fraction.
        point: u8,
        /// Number of digits of the fraction, 0 to 9.
        digits: u8,
        /// Whether a `Z` follows.
        zulu: bool,
    },
    /// `20/Nov/2026:00:00:00`.
    Common,
    /// `15:16:01`, time without a date.
    Clock,
}

impl NumberFormat {
    /// The probable format of a text; [`NumberFormat::parse`] shows whether it fits other values of the column. If
    /// several formats fit, it is the first of integer, decimal, address, time, padded, hexadecimal.
    pub fn guess(text: &[u8]) -> Option<NumberFormat> {
        let candidates = [
            NumberFormat::Integer,
            NumberFormat::Decimal { digits: count_fraction_digits(text) },
            NumberFormat::Ip4,
            NumberFormat::Time(TimeLayout::guess(text)),
            NumberFormat::Padded { digits: digit_count(text) },
            NumberFormat::Hex { digits: digit_count(text) },
        ];
        candidates.into_iter().find(|format| format.is_valid() && format.parse(text).is_some())
    }

    /// The [`NumberFormat::Shortest`] with the fewest decimal places that suffice for these texts, if all of them are
    /// integers or decimals without redundant zeros; [`NumberFormat::parse`] shows whether it fits each text.
    pub fn shortest<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Option<NumberFormat> {
        let mut digits = 0;
        for text in texts {
            let is_number = matches!(text, [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..]);
            let fraction = count_fraction_digits(text);
            if !is_number || (fraction > 0 && text.last() == Some(&b'0')) {
                return None;
            }
            digits = digits.max(fraction);
        }
        Some(NumberFormat::Shortest { digits }).filter(|format| format.is_valid())
    }

    /// The fraction of a number in this format whose digits after the point are this text, in units of the last decimal
    /// place. `None` if no number of the format has this fraction.
    pub fn parse_fraction(self, text: &[u8]) -> Option<u64> {
        let (digits, padding) = match self {
            NumberFormat::Decimal { digits } => (digits, 0),
            NumberFormat::Shortest { digits } if text.last() != Some(&b'0') => {
                (digits, usize::from(digits).checked_sub(text.len())?)
            }
            _ => return None,
        };
        let fits = text.len() + padding == usize::from(digits);
        let number = fits.then(|| parse_digits(text)).flatten()?;
        Some((number * POWERS_OF_TEN.get(padding)?).unsigned_abs())
    }

    /// Whether the format's digit counts are within bounds; a format read from disk may be invalid.
    pub fn is_valid(self) -> bool {
        match self {
            NumberFormat::Integer | NumberFormat::Ip4 => true,
            NumberFormat::Padded { digits } => (1..=DIGITS_MAX).contains(&digits),
            NumberFormat::Decimal { digits } | NumberFormat::Shortest { digits } => (1..=9).contains(&digits),
            NumberFormat::Hex { digits } => (1..=HEX_DIGITS_MAX).contains(&digits),
            NumberFormat::Time(TimeLayout::Iso { between, point, digits, .. }) => {
                matches!(between, b'T' | b' ')
                    && if digits == 0 { point == 0 } else { digits <= 9 && matches!(point, b'.' | b',') }
            }
            NumberFormat::Time(_) => true,
        }
    }

    /// The number of a text in exactly this format, so that [`NumberFormat::write`] restores the same text; otherwise
    /// `None`.
    #[inline]
    pub fn parse(self, text: &[u8]) -> Option<i64> {
        match self {
            NumberFormat::Integer => parse_integer(text),
            NumberFormat::Padded { digits } => {
                (text.len() == usize::from(digits)).then(|| parse_digits(text)).flatten()
            }
            NumberFormat::Decimal { digits } => parse_decimal(text, digits),
            NumberFormat::Shortest { digits } => parse_shortest(text, digits),
            NumberFormat::Hex { digits } => parse_hex(text, usize::from(digits)),
            NumberFormat::Ip4 => parse_ip4(text),
            NumberFormat::Time(layout) => layout.parse(text),
        }
    }

    /// Appends the text of a number. Numbers without a text (from damaged data) produce arbitrary output.
    #[inline]
    pub fn write(self, number: i64, out: &mut Vec<u8>) {
        match self {
            NumberFormat::Integer => {
                if number < 0 {
                    out.push(b'-');
                }
                write_digits(number.unsigned_abs(), 1, out);
            }
            NumberFormat::Padded { digits } => write_digits(number.unsigned_abs(), usize::from(digits), out),
            NumberFormat::Decimal { digits } => {
                if number < 0 {
                    out.push(b'-');
                }
                let unit = 10u64.pow(u32::from(digits));
                let magnitude = number.unsigned_abs();
                write_digits(magnitude / unit, 1, out);
                out.push(b'.');
                write_digits(magnitude % unit, usize::from(digits), out);
            }
            NumberFormat::Shortest { digits } => {
                let start = out.len();
                NumberFormat::Decimal { digits }.write(number, out);
                let zeros = out[start..].iter().rev().take_while(|byte| **byte == b'0').count();
                out.truncate(out.len() - zeros.min(usize::from(digits)));
                if out.last() == Some(&b'.') {
                    out.pop();
                }
            }
            NumberFormat::Hex { digits } => {
                let start = out.len();
                out.resize(start + usize::from(digits), b'0');
                let mut left = number.cast_unsigned();
                for place in out[start..].iter_mut().rev() {
                    *place = HEX[(left & 15) as usize];
                    left >>= 4;
                }
            }
            NumberFormat::Ip4 => {
                let (text, len) = ip4_text(low_u32(number));
                out.extend_from_slice(&text[..len]);
            }
            NumberFormat::Time(layout) => layout.write(number, out),
        }
    }
}

fn digit_count(text: &[u8]) -> u8 {
    u8::try_from(text.len()).unwrap_or(u8::MAX)
}

fn count_fraction_digits(text: &[u8]) -> u8 {
    memchr::memchr(b'.', text).map_or(0, |point| digit_count(&text[point + 1..]))
}

#[inline]
fn parse_digits(text: &[u8]) -> Option<i64> {
    match text.len() {
        0 => None,
        1..=8 => parse_eight_digits(load_right_aligned(text)),
        9..=16 => {
            let (head, tail) = text.split_at(text.len() - 8);
            Some(
                parse_eight_digits(load_right_aligned(head))? * EIGHT_DIGITS
                    + parse_eight_digits(load_right_aligned(tail))?,
            )
        }
        len if len <= usize::from(DIGITS_MAX) => {
            let (head, tail) = text.split_at(len - 16);
            Some(parse_digits(head)? * EIGHT_DIGITS * EIGHT_DIGITS + parse_digits(tail)?)
        }
        _ => None,
    }
}

/// A word with the text's one to eight bytes, the last in the highest byte, preceded by digits `0`.
#[inline(always)]
fn load_right_aligned(text: &[u8]) -> u64 {
    let len = text.len();
    if let Some(eight) = text.first_chunk::<8>() {
        return u64::from_le_bytes(*eight);
    }
    let zeroes = ZEROES >> (8 * len);
    if let (Some(head), Some(tail)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // The first four and the last four of four to seven bytes overlap.
        let head = u64::from(u32::from_le_bytes(*head)) << (8 * (8 - len));
        return zeroes | head | u64::from(u32::from_le_bytes(*tail)) << 32;
    }
    // First, middle and last of up to three bytes cover all of them, with overlap.
    let byte = |at: usize| u64::from(text[at]) << (8 * (8 - len + at));
    zeroes | byte(0) | byte(len / 2) | byte(len - 1)
}

/// The number that eight digits represent, the first in the lowest byte; `None` if a byte is not a digit.
#[inline(always)]
fn parse_eight_digits(word: u64) -> Option<i64> {
    let digits = word ^ ZEROES;
    // A value above 9 has its highest bit set, or sets it by the addition.
    if (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    // Digits are combined into pairs, pairs into groups of four, and these into eight: each step multiplies the more
    // significant part and adds the other.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some(((fours * 10_000 + (fours >> 32)) & 0xffff_ffff).cast_signed())
}

#[inline]
fn parse_integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', b'0', ..] => None,
        [b'-', digits @ ..] => parse_unsigned(digits).map(|number| -number),
        digits => parse_unsigned(digits),
    }
}

/// The number of digits without a redundant leading zero.
#[inline]
fn parse_unsigned(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'0', ..] => None,
        digits if digits.len() == INTEGER_DIGITS_MAX => {
            let (head, last) = digits.split_at(INTEGER_DIGITS_MAX - 1);
            let number = parse_digits(head)?.checked_mul(10)?.checked_add(parse_digits(last)?)?;
            (number < INTEGER_BOUND).then_some(number)
        }
        digits => parse_digits(digits),
    }
}

fn parse_decimal(text: &[u8], digits: u8) -> Option<i64> {
    let (negative, body) = match text {
        [b'-', rest @ ..] => (true, rest),
        all => (false, all),
    };
    let point = body.len().checked_sub(usize::from(digits) + 1)?;
    if body[point] != b'.' || body.len() - 1 > usize::from(DIGITS_MAX) {
        return None;
    }
    let whole = parse_integer(&body[..point]).filter(|whole| *whole >= 0)?;
    let number = whole * 10i64.pow(u32::from(digits)) + parse_digits(&body[point + 1..])?;
    match negative {
        true if number == 0 => None,
        true => Some(-number),
        false => Some(number),
    }
}

#[inline]
fn parse_shortest(text: &[u8], digits: u8) -> Option<i64> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let point = memchr::memchr(b'.', unsigned).unwrap_or(unsigned.len());
    let (whole, fraction) = (&unsigned[..point], unsigned.get(point + 1..).unwrap_or_default());
    let has_point = point < unsigned.len();
    let missing = usize::from(digits).checked_sub(fraction.len())?;
    if (has_point && matches!(fraction, [] | [.., b'0'])) || whole.len() + usize::from(digits) > DOUBLE_DIGITS_MAX {
        return None;
    }
    let fraction = if has_point { parse_digits(fraction)? } else { 0 };
    let number = parse_unsigned(whole)? * POWERS_OF_TEN[usize::from(digits)] + fraction * POWERS_OF_TEN[missing];
    let is_negative = unsigned.len() < text.len();
    // Zero has no sign, and the smallest number without an exponent is 0.0001.
    let smallest = POWERS_OF_TEN[usize::from(digits.saturating_sub(EXACT_PLACES))];
    match number {
        0 if is_negative => None,
        0 => Some(0),
        number if number < smallest => None,
        number => Some(if is_negative { -number } else { number }),
    }
}

#[inline]
fn parse_hex(text: &[u8], digits: usize) -> Option<i64> {
    if text.len() != digits || digits > usize::from(HEX_DIGITS_MAX) {
        return None;
    }
    let mut number = 0u64;
    let mut wrong = 0u8;
    for byte in text {
        let value = HEX_VALUE[usize::from(*byte)];
        wrong |= value;
        number = number << 4 | u64::from(value & 15);
    }
    (wrong < 16).then_some(number.cast_signed())
}

static HEX_VALUE: [u8; 256] = {
    let mut values = [255u8; 256];
    let mut at = 0;
    while at < 16 {
        values[HEX[at] as usize] = u8_of(at);
        at += 1;
    }
    values
};

fn parse_ip4(text: &[u8]) -> Option<i64> {
    ip4_at_start(text).filter(|(_, length)| *length == text.len()).map(|(number, _)| i64::from(number))
}

/// Appends a number with at least `least` digits.
#[inline]
fn write_digits(number: u64, least: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    let mut left = number;
    while left > 0 {
        start -= 1;
        digits[start] = b'0' + low_u8(left % 10);
        left /= 10;
    }
    let start = start.min(digits.len() - least.min(digits.len()));
    out.extend_from_slice(&digits[start..]);
}

impl TimeLayout {
    /// The layout of a text that is assumed to be a time.
    fn guess(text: &[u8]) -> TimeLayout {
        match text {
            [_, _, b':', ..] => TimeLayout::Clock,
            [_, _, b'/', ..] => TimeLayout::Common,
            _ => {
                let zulu = text.last() == Some(&b'Z');
                let point = text.get(19).copied().filter(|point| matches!(point, b'.' | b',')).unwrap_or(0);
                let digits = if point == 0 { 0 } else { text.len().saturating_sub(20 + usize::from(zulu)).min(200) };
                TimeLayout::Iso { between: text.get(10).copied().unwrap_or(0), point, digits: u8_of(digits), zulu }
            }
        }
    }

    fn parse(self, text: &[u8]) -> Option<i64> {
        match self {
            TimeLayout::Iso { between, point, digits, zulu } => {
                let fraction = usize::from(digits) + usize::from(digits > 0);
                if text.len() != 19 + fraction + usize::from(zulu)
                    || [text[4], text[7], text[10]] != [b'-', b'-', between]
                    || (zulu && text[text.len() - 1] != b'Z')
                {
                    return None;
                }
                let (year, month, day) = (parse_digits(&text[..4])?, two_digits(text, 5)?, two_digits(text, 8)?);
                let mut nanos = midnight_ns(year, month, day)? + parse_clock_ns(&text[11..19])?;
                if digits > 0 {
                    if text[19] != point {
                        return None;
                    }
                    nanos += parse_digits(&text[20..19 + fraction])? * 10i64.pow(9 - u32::from(digits));
                }
                Some(nanos)
            }
            TimeLayout::Common => {
                if text.len() != 20 || [text[2], text[6], text[11]] != [b'/', b'/', b':'] {
                    return None;
                }
                let month = MONTHS.iter().position(|name| **name == text[3..6])? as i64 + 1;
                Some(
                    midnight_ns(parse_digits(&text[7..11])?, month, two_digits(text, 0)?)?
                        + parse_clock_ns(&text[12..])?,
                )
            }
            TimeLayout::Clock => parse_clock_ns(text),
        }
    }

    fn write(self, nanos: i64, out: &mut Vec<u8>) {
        let seconds = nanos.div_euclid(NS_PER_SEC);
        let (days, second) = (seconds.div_euclid(SECS_PER_DAY), seconds.rem_euclid(SECS_PER_DAY).cast_unsigned());
        match self {
            TimeLayout::Iso { between, point, digits, zulu } => {
                let (year, month, day) = date_from_days(days);
                write_digits(year.unsigned_abs(), 4, out);
                out.push(b'-');
                write_two_digits(month.cast_unsigned(), out);
                out.push(b'-');
                write_two_digits(day.cast_unsigned(), out);
                out.push(between);
                write_clock(second, out);
                if digits > 0 {
                    out.push(point);
                    let fraction =
                        nanos.rem_euclid(NS_PER_SEC).cast_unsigned() / 10u64.pow(9 - u32::from(digits.min(9)));
                    write_digits(fraction, usize::from(digits), out);
                }
                if zulu {
                    out.push(b'Z');
                }
            }
            TimeLayout::Common => {
                let (year, month, day) = date_from_days(days);
                write_two_digits(day.cast_unsigned(), out);
                out.push(b'/');
                out.extend_from_slice(MONTHS[(month as usize - 1) % 12]);
                out.push(b'/');
                write_digits(year.unsigned_abs(), 4, out);
                out.push(b':');
                write_clock(second, out);
            }
            TimeLayout::Clock => write_clock(second, out),
        }
    }
}

#[inline]
fn two_digits(text: &[u8], at: usize) -> Option<i64> {
    parse_digits(&text[at..at + 2])
}

/// Midnight of a date, in nanoseconds since 1970; `None` if the date is invalid.
fn midnight_ns(year: i64, month: i64, day: i64) -> Option<i64> {
    if !NANOSECOND_YEARS.contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_from_date(year, month, day);
    // The last days of short months are validated by converting back.
    (day <= 28 || date_from_days(days) == (year, month, day)).then_some(days * SECS_PER_DAY * NS_PER_SEC)
}

/// Time of day `HH:MM:SS` in nanoseconds, without leap seconds.
fn parse_clock_ns(text: &[u8]) -> Option<i64> {
    if text.len() != 8 || text[2] != b':' || text[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (two_digits(text, 0)?, two_digits(text, 3)?, two_digits(text, 6)?);
    (hour < 24 && minute < 60 && second < 60).then_some(((hour * 60 + minute) * 60 + second) * NS_PER_SEC)
}

#[inline]
fn write_two_digits(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + low_u8(number / 10 % 10), b'0' + low_u8(number % 10)]);
}

fn write_clock(second: u64, out: &mut Vec<u8>) {
    write_two_digits(second / 3_600, out);
    out.push(b':');
    write_two_digits(second / 60 % 60, out);
    out.push(b':');
    write_two_digits(second % 60, out);
}
