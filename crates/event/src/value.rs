//! Values in SPL: parsing numbers, formatting numbers, ordering values.
//!
//! A field keeps its text until an operation needs a number. Only these functions define which texts are numbers and
//! how results are formatted, so that typed columns and text columns always yield the same results. Arithmetic is in
//! [`decimal`], other spellings of a number in [`spelling`]. Not here: multivalue rules, `printf`.

pub mod decimal;
pub mod spelling;

use std::cmp::Ordering;

use quarry_stdx::number::{f64_of, integer_part, low_u8, u32_of};

use self::decimal::Decimal;

/// Largest magnitude up to which every integer is exact in a double.
pub const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// Number of billionths in 1.
pub(crate) const NANOS_PER_UNIT: i64 = 1_000_000_000;
/// Number of digits up to which any decimal is recovered from its double.
const SAFE_DIGITS_MAX: usize = 15;
/// Smallest decimal exponent for which floats are formatted in scientific notation because they are large.
const SCIENTIFIC_EXPONENT_MIN: i64 = 16;
/// Bound below which a double without a fraction is formatted as an integer with all its digits. It is also an integer
/// in arithmetic, so that the result does not depend on whether a number was formatted and parsed before.
const PLAIN_INTEGER_BOUND: f64 = 1e16;
const _: () = assert!(SCIENTIFIC_EXPONENT_MIN == 16 && PLAIN_INTEGER_BOUND == 1e16);
/// Decimal exponent below which floats are formatted in scientific notation because they are small.
const PLAIN_EXPONENT_MIN: i64 = -4;

/// A parsed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An exact integer.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A number in billionths that has more digits than a double can hold, such as a time in seconds with
    /// nanoseconds.
    Nanos(i64),
}

impl Number {
    /// The value as a double; integers beyond 2^53 are rounded, and times are rounded to about a quarter of a
    /// microsecond.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => f64_of(value),
            Number::Float(value) => value,
            Number::Nanos(ns) => {
                let (whole, rest) = (ns.div_euclid(NANOS_PER_UNIT), ns.rem_euclid(NANOS_PER_UNIT));
                f64_of(whole) + f64_of(rest) / f64_of(NANOS_PER_UNIT)
            }
        }
    }

    /// Total order by exact value; NaN is last.
    pub fn total_cmp(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) | (Number::Nanos(a), Number::Nanos(b)) => a.cmp(&b),
            (Number::Nanos(_), _) | (_, Number::Nanos(_)) => match (self.to_nanos(), other.to_nanos()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => total_cmp_floats(self.as_f64(), other.as_f64()),
            },
            _ => total_cmp_floats(self.as_f64(), other.as_f64())
                .then_with(|| self.exact_integer().cmp(&other.exact_integer())),
        }
    }

    /// The exact integer, which breaks a tie between an integer beyond 2^53 and a nearby double.
    fn exact_integer(self) -> i128 {
        match self {
            Number::Int(value) => i128::from(value),
            Number::Float(value) => integer_part(value),
            Number::Nanos(ns) => i128::from(ns / NANOS_PER_UNIT),
        }
    }
}

fn total_cmp_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Formats a number as SPL displays it: integers below 10^16 without a fraction, other numbers with the fewest digits,
/// at most 17, that distinguish the double from its neighbours. Rounding errors after a short decimal are ignored.
pub fn format_number(value: f64) -> String {
    let mut out = String::new();
    write_number(value, &mut out);
    out
}

/// Like [`format_number`], but appends the text to `out`.
pub fn write_number(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("nan");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "inf" } else { "-inf" });
    } else if value.fract() == 0.0 && value.abs() < PLAIN_INTEGER_BOUND {
        write_integer(integer_part(value), out);
    } else {
        write_float(value, out);
    }
}

/// Appends an integer.
pub fn write_integer(value: i64, out: &mut String) {
    /// Number of digits of the largest magnitude, 2^63.
    const DIGITS_MAX: usize = 19;
    let mut digits = [0u8; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + low_u8(rest % 10);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push('-');
    }
    out.extend(digits[at..].iter().map(|digit| *digit as char));
}

/// Appends billionths as a number with as many digits as needed: `1732060800.123`.
pub fn write_nanos(ns: i64, out: &mut String) {
    /// Number of digits of a fraction in billionths.
    const FRACTION_DIGITS: usize = 9;
    let magnitude = ns.unsigned_abs();
    let (whole, rest) = (magnitude / NANOS_PER_UNIT.cast_unsigned(), magnitude % NANOS_PER_UNIT.cast_unsigned());
    if ns < 0 {
        out.push('-');
    }
    write_integer(whole.cast_signed(), out);
    if rest == 0 {
        return;
    }
    let digits = format!("{rest:0width$}", width = FRACTION_DIGITS);
    out.push('.');
    out.push_str(digits.trim_end_matches('0'));
}

/// Appends the digits of the decimal that the double represents or, if there is none, the shortest representation of
/// the double. Outside the usual range, the notation is scientific.
fn write_float(value: f64, out: &mut String) {
    let (digits, exponent) = match Decimal::of_float(value) {
        Some(decimal) => {
            let digits = decimal.units.unsigned_abs().to_string();
            let exponent = digits.len() as i64 - 1 - i64::from(decimal.scale);
            (digits, exponent)
        }
        None => {
            let scientific = format!("{:e}", value.abs());
            let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific.as_str(), "0"));
            (mantissa.chars().filter(char::is_ascii_digit).collect(), exponent.parse().unwrap_or(0))
        }
    };
    if value < 0.0 {
        out.push('-');
    }
    if (PLAIN_EXPONENT_MIN..SCIENTIFIC_EXPONENT_MIN).contains(&exponent) {
        write_plain(&digits, exponent, out);
        return;
    }
    out.push_str(&digits[..1]);
    if digits.len() > 1 {
        out.push('.');
        out.push_str(&digits[1..]);
    }
    out.push_str(if exponent < 0 { "e-" } else { "e+" });
    if exponent.abs() < 10 {
        out.push('0');
    }
    write_integer(exponent.abs(), out);
}

/// Appends `digits` with the decimal point in its place; the first digit has weight 10^`exponent`.
fn write_plain(digits: &str, exponent: i64, out: &mut String) {
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.push_str(digits);
        out.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
}

/// Parses decimal integers, floats and exponents. Surrounding blanks, hexadecimal, `inf`, `nan` and overflow are
/// rejected.
pub fn parse_number(text: &str) -> Option<f64> {
    match parse_short_number(text.as_bytes()) {
        // An integer has no negative zero, a double does.
        None | Some(Number::Int(0)) => {}
        Some(number) => return Some(number.as_f64()),
    }
    if !looks_numeric(text.as_bytes()) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Quickly rejects most texts, including words that Rust's parser would accept.
fn looks_numeric(text: &[u8]) -> bool {
    let Some(first) = text.first() else { return false };
    (first.is_ascii_digit() || matches!(first, b'-' | b'+' | b'.'))
        && text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'))
}

/// A number with at most [`SAFE_DIGITS_MAX`] digits and no exponent, as nearly all numbers are: `-12`, `3.50`. The
/// digits and the power of ten are exact doubles, so their quotient is the double nearest to the text. `None` if the
/// text has a different form, even if it is a number.
#[inline]
fn parse_short_number(text: &[u8]) -> Option<Number> {
    const POWERS: [f64; SAFE_DIGITS_MAX] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !(1..=SAFE_DIGITS_MAX).contains(&digits.len()) {
        return None;
    }
    let (mut units, mut point) = (0i64, None);
    for (at, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => units = units * 10 + i64::from(byte - b'0'),
            b'.' if point.is_none() && at > 0 => point = Some(at),
            _ => return None,
        }
    }
    let is_negative = digits.len() < text.len();
    let Some(point) = point else { return Some(Number::Int(if is_negative { -units } else { units })) };
    let value = Number::Int(units).as_f64() / POWERS.get(digits.len() - 1 - point)?;
    Some(Number::Float(if is_negative { -value } else { value }))
}

/// Parses a number, keeping as many digits as possible.
#[inline]
pub fn parse_exact_number(text: &str) -> Option<Number> {
    parse_short_number(text.as_bytes()).or_else(|| parse_any_number(text))
}

/// Parses any number, without the fast path of [`parse_short_number`].
fn parse_any_number(text: &str) -> Option<Number> {
    if !looks_numeric(text.as_bytes()) {
        return None;
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(Number::Int(value));
    }
    if text.len() > SAFE_DIGITS_MAX
        && let Some(ns) = parse_nanos(text)
    {
        return Some(Number::Nanos(ns));
    }
    text.parse().ok().filter(|value: &f64| value.is_finite()).map(Number::Float)
}

/// Parses a time that has more digits than a double can distinguish: ten digits, a point and six to nine more digits.
pub(crate) fn parse_nanos(text: &str) -> Option<i64> {
    const WHOLE_DIGITS: usize = 10;
    const FRACTION_DIGITS: usize = 9;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.')?;
    let fraction = fraction.trim_end_matches('0');
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = whole.len() == WHOLE_DIGITS && !whole.starts_with('0') && fraction.len() <= FRACTION_DIGITS;
    if !fits || whole.len() + fraction.len() <= SAFE_DIGITS_MAX || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let padding = 10i64.pow(u32_of(FRACTION_DIGITS - fraction.len()));
    let nanos = whole.parse::<i64>().ok()?.checked_mul(NANOS_PER_UNIT)?;
    let nanos = nanos.checked_add(fraction.parse::<i64>().ok()?.checked_mul(padding)?)?;
    Some(if text.starts_with('-') { -nanos } else { nanos })
}

/// The number of a text, but only if formatting it restores exactly this text, as for `200`, but not for `007`, `1.0`,
/// `+1` and `1e3`. Every `i64` qualifies, because integer columns are formatted exactly.
pub fn parse_canonical_number(text: &str) -> Option<Number> {
    let bytes = text.as_bytes();
    let unsigned = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let first = *unsigned.first()?;
    if !first.is_ascii_digit() {
        return None;
    }
    let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if whole > 1 && first == b'0' {
        return None;
    }
    if whole == unsigned.len() {
        let negative_zero = first == b'0' && unsigned.len() < bytes.len();
        return if negative_zero { None } else { text.parse().ok().map(Number::Int) };
    }
    let value = parse_number(text)?;
    let plain = unsigned[whole] == b'.' && unsigned[whole + 1..].iter().all(u8::is_ascii_digit);
    // A plain decimal is recovered digit for digit if it is this short and has no leading zero, or if it became a
    // [`Number::Nanos`]; any other number is formatted and compared.
    if plain && unsigned.len() <= SAFE_DIGITS_MAX && first != b'0' {
        return (unsigned.len() > whole + 1 && unsigned.last() != Some(&b'0')).then_some(Number::Float(value));
    }
    if plain && let Some(ns) = parse_nanos(text) {
        return (unsigned.last() != Some(&b'0')).then_some(Number::Nanos(ns));
    }
    (format_number(value) == text).then_some(Number::Float(value))
}

/// SPL comparison: numerically if both are numbers, otherwise by bytes (case-sensitive). This is not a total order over
/// a mix of numbers and texts; sort with [`SortKey`].
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse_exact_number(a), parse_exact_number(b)) {
        (Some(a), Some(b)) => a.total_cmp(b),
        _ => a.as_bytes().cmp(b.as_bytes()),
    }
}

/// Key of the automatic order of the `sort` command: numbers, then IPv4 addresses, then texts.
#[derive(Clone, Copy, Debug)]
pub enum SortKey<'a> {
    /// A number, by value.
    Number(Number),
    /// A dotted IPv4 address, by its octets.
    Address(u32),
    /// Any other text, by bytes.
    Text(&'a str),
}

impl PartialEq for SortKey<'_> {
    /// Numbers are equal by value: `2` equals `2.0`.
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortKey<'_> {}

impl PartialOrd for SortKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SortKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (SortKey::Number(a), SortKey::Number(b)) => a.total_cmp(*b),
            (SortKey::Address(a), SortKey::Address(b)) => a.cmp(b),
            (SortKey::Text(a), SortKey::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            _ => self.class_rank().cmp(&other.class_rank()),
        }
    }
}

impl SortKey<'_> {
    /// A number that preserves the order of keys: if the numbers of two keys differ, they order the keys; if the
    /// numbers are equal, the keys must be compared. Most comparisons of a large sort need only this number and read no
    /// text. All keys that are texts must begin with the same `prefix` bytes, which are skipped. `has_fractions` also
    /// orders fractions, and is permitted if none of the keys is [`Number::Nanos`].
    pub fn order_prefix_after(&self, prefix: usize, has_fractions: bool) -> u64 {
        const CLASS_BITS: u32 = 2;
        let within = match self {
            SortKey::Number(number) if has_fractions => to_ordered_bits(number.as_f64()) >> CLASS_BITS,
            // The fraction is dropped, because [`Number::Nanos`] rounds it differently.
            SortKey::Number(number) => to_ordered_bits(number.as_f64().floor()) >> CLASS_BITS,
            SortKey::Address(address) => u64::from(*address),
            SortKey::Text(text) => {
                let mut first = [0; 8];
                let tail = text.as_bytes().get(prefix..).unwrap_or_default();
                let len = tail.len().min(first.len());
                first[..len].copy_from_slice(&tail[..len]);
                u64::from_be_bytes(first) >> CLASS_BITS
            }
        };
        u64::from(self.class_rank()) << (u64::BITS - CLASS_BITS) | within
    }

    fn class_rank(&self) -> u8 {
        match self {
            SortKey::Number(_) => 0,
            SortKey::Address(_) => 1,
            SortKey::Text(_) => 2,
        }
    }
}

/// Bits that, as unsigned numbers, have the order of the finite doubles; both zeros have the same bits.
fn to_ordered_bits(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = (value + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The automatic sort key of a text.
pub fn sort_key(text: &str) -> SortKey<'_> {
    if let Some(number) = parse_exact_number(text) {
        return SortKey::Number(number);
    }
    parse_ipv4(text).map_or(SortKey::Text(text), SortKey::Address)
}

/// Parses a dotted IPv4 address as a big-endian number.
pub fn parse_ipv4(text: &str) -> Option<u32> {
    if !text.as_bytes().first()?.is_ascii_digit() {
        return None;
    }
    text.parse::<std::net::Ipv4Addr>().ok().map(u32::from)
}

#[cfg(test)]
mod tests;
