//! `printf(format, values...)`.
//!
//! Conversions `d i u o x X c s f F e E g G a A %` with the flags `- + space # 0 '`, width and precision (also `*`). A
//! missing or unsuitable value prints as empty for `s` and `c` and as 0 for numbers. `c` prints the character of a code
//! point, or the first character of a text.

use std::borrow::Cow;

use quarry_event::time::NS_PER_SEC;
use quarry_event::value::Number;
use quarry_event::value::decimal::Decimal;
use quarry_stdx::number::{integer_part, u32_of};

use super::call::{Call, PRINTF_WIDTH_MAX};
use super::text::null_if_too_long;
use crate::messages::TEXT_BYTES_MAX;
use crate::rows::Value;

/// Number of decimals if no precision is specified.
const DEFAULT_PRECISION: usize = 6;

/// One conversion (`%...`) of a format.
#[derive(Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    commas: bool,
    width: usize,
    precision: Option<usize>,
}

pub(super) fn printf<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let Some(format) = args.first().and_then(Value::text).map(Cow::into_owned) else { return Value::Null };
    let mut values = args[1..].iter();
    let mut out = String::with_capacity(format.len() + 16);
    let mut rest = format.as_str();
    // A text beyond its limit becomes null, so the rest of it is not needed.
    while let Some(at) = rest.find('%').filter(|_| out.len() <= TEXT_BYTES_MAX) {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let mut conversion = Conversion::default();
        let after = conversion.read(rest, &mut values);
        let Some(kind) = after.chars().next() else {
            out.push('%');
            out.push_str(rest);
            rest = "";
            break;
        };
        rest = &after[kind.len_utf8()..];
        conversion.write(kind, &mut values, &mut out);
    }
    out.push_str(rest);
    null_if_too_long(Value::owned_text(out))
}

impl Conversion {
    /// Parses flags, width and precision; returns the text after them.
    fn read<'f, 'v, 'a: 'v>(&mut self, format: &'f str, values: &mut impl Iterator<Item = &'v Value<'a>>) -> &'f str {
        let mut rest = format;
        while let Some(flag) = rest.chars().next() {
            match flag {
                '-' => self.left = true,
                '+' => self.plus = true,
                ' ' => self.space = true,
                '#' => self.alternate = true,
                '0' => self.zero = true,
                '\'' => self.commas = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        let (width, after) = read_size(rest, values);
        rest = after;
        if let Some(width) = width {
            self.left |= width < 0;
            self.width = size(width.saturating_abs());
        }
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = read_size(after, values);
            self.precision = Some(size(precision.unwrap_or(0)));
            rest = after;
        }
        rest.trim_start_matches(['l', 'h', 'q', 'j', 'z', 't', 'L'])
    }

    fn write<'v, 'a: 'v>(&self, kind: char, values: &mut impl Iterator<Item = &'v Value<'a>>, out: &mut String) {
        let value = values.next();
        let number = value.and_then(Value::number).unwrap_or(0.0);
        let exact = match value.and_then(Value::exact_number) {
            Some(Number::Int(value)) => value,
            Some(Number::Nanos(ns)) => ns / NS_PER_SEC,
            _ => integer_part(number),
        };
        match kind {
            'd' | 'i' => self.write_integer(exact < 0, &exact.unsigned_abs().to_string(), "", out),
            'u' => self.write_integer(false, &exact.cast_unsigned().to_string(), "", out),
            'o' => self.write_integer(false, &format!("{:o}", exact.cast_unsigned()), "0", out),
            'x' => self.write_integer(false, &format!("{:x}", exact.cast_unsigned()), "0x", out),
            'X' => self.write_integer(false, &format!("{:X}", exact.cast_unsigned()), "0X", out),
            'c' => {
                let text = value.and_then(Value::text).unwrap_or_default();
                let code_point = value.and_then(Value::exact_number).and_then(|_| u32::try_from(exact).ok());
                let character = code_point.and_then(char::from_u32).or_else(|| text.chars().next());
                self.pad("", character.map(String::from).as_deref().unwrap_or_default(), false, out);
            }
            's' => {
                let text = value.and_then(Value::text).unwrap_or_default();
                let end = self.precision.and_then(|count| text.char_indices().nth(count)).map(|(at, _)| at);
                self.pad("", &text[..end.unwrap_or(text.len())], false, out);
            }
            'f' | 'F' => {
                let digits = value.and_then(Value::exact_number).and_then(|number| self.digits_of_instant(number));
                self.write_float(kind, number, digits, out);
            }
            'e' | 'E' | 'g' | 'G' | 'a' | 'A' => self.write_float(kind, number, None, out),
            // An unknown conversion is output as written.
            other => {
                out.push('%');
                out.push(other);
            }
        }
    }

    fn write_integer(&self, negative: bool, digits: &str, prefix: &str, out: &mut String) {
        let mut digits = digits.to_owned();
        if let Some(least) = self.precision {
            digits = format!("{digits:0>least$}");
        }
        if self.commas {
            digits = group_digits(&digits);
        }
        let mut sign = self.sign(negative).to_owned();
        if self.alternate && digits.bytes().any(|digit| digit != b'0') {
            sign.push_str(prefix);
        }
        self.pad(&sign, &digits, self.zero && self.precision.is_none(), out);
    }

    /// The digits of a time whose precision exceeds that of a double.
    fn digits_of_instant(&self, number: Number) -> Option<String> {
        let precision = self.precision.unwrap_or(DEFAULT_PRECISION);
        let decimal = Decimal::of(number).filter(|_| matches!(number, Number::Nanos(_)))?;
        Some(decimal.to_fixed(u32::try_from(precision).ok()?)?.trim_start_matches('-').to_owned())
    }

    /// Writes a number in format `kind`; `digits` is its text in format `f` if the double lacks precision.
    fn write_float(&self, kind: char, number: f64, digits: Option<String>, out: &mut String) {
        let magnitude = number.abs();
        let precision = self.precision.unwrap_or(DEFAULT_PRECISION);
        let mut text = match kind.to_ascii_lowercase() {
            'f' if digits.is_some() => digits.unwrap_or_default(),
            _ if !number.is_finite() => if number.is_nan() { "nan" } else { "inf" }.to_owned(),
            'f' => format!("{magnitude:.precision$}"),
            'e' => scientific(magnitude, precision),
            'g' => shortest_notation(magnitude, precision.max(1), self.alternate),
            _ => hexadecimal(magnitude, self.precision),
        };
        if self.commas && kind.eq_ignore_ascii_case(&'f') {
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            text =
                if fraction.is_empty() { group_digits(whole) } else { format!("{}.{fraction}", group_digits(whole)) };
        }
        if kind.is_ascii_uppercase() {
            text = text.to_ascii_uppercase();
        }
        self.pad(self.sign(number.is_sign_negative()), &text, self.zero && number.is_finite(), out);
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn pad(&self, sign: &str, text: &str, zeros: bool, out: &mut String) {
        let missing = self.width.saturating_sub(sign.len() + text.chars().count());
        let fill = |character: char, out: &mut String| out.extend(std::iter::repeat_n(character, missing));
        match (self.left, zeros) {
            (true, _) => {
                out.push_str(sign);
                out.push_str(text);
                fill(' ', out);
            }
            (false, true) => {
                out.push_str(sign);
                fill('0', out);
                out.push_str(text);
            }
            (false, false) => {
                fill(' ', out);
                out.push_str(sign);
                out.push_str(text);
            }
        }
    }
}

fn size(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0).min(PRINTF_WIDTH_MAX)
}

/// Parses a number; a `*` takes the next value instead.
fn read_size<'f, 'v, 'a: 'v>(
    format: &'f str,
    values: &mut impl Iterator<Item = &'v Value<'a>>,
) -> (Option<i64>, &'f str) {
    if let Some(after) = format.strip_prefix('*') {
        return (values.next().and_then(Value::number).map(integer_part), after);
    }
    let digits = format.bytes().take_while(u8::is_ascii_digit).count();
    (format[..digits].parse().ok(), &format[digits..])
}

fn group_digits(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Scientific notation, such as `1.500000e+03`.
fn scientific(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// The shorter of plain and scientific notation with this many significant digits.
fn shortest_notation(magnitude: f64, digits: usize, keep_zeros: bool) -> String {
    /// Exponent below which scientific notation is shorter.
    const PLAIN_FROM: i64 = -4;
    let text = scientific(magnitude, digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        let keep = keep_zeros || !text.contains('.');
        if keep { text.to_owned() } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
    };
    if exponent < PLAIN_FROM || exponent >= digits as i64 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits as i64 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{magnitude:.decimals$}"))
}

/// Hexadecimal notation, such as `0x1.8p+1`.
fn hexadecimal(magnitude: f64, precision: Option<usize>) -> String {
    const MANTISSA_BITS: u32 = 52;
    const MANTISSA_DIGITS: usize = 13;
    const BIAS: i64 = 1023;
    let bits = magnitude.to_bits();
    let (raw, mut fraction) = ((bits >> MANTISSA_BITS).cast_signed(), bits & ((1 << MANTISSA_BITS) - 1));
    if bits == 0 {
        return "0x0p+0".to_owned();
    }
    let (mut lead, exponent) = if raw == 0 { (0u64, 1 - BIAS) } else { (1, raw - BIAS) };
    let digits = precision.filter(|digits| *digits < MANTISSA_DIGITS);
    if let Some(digits) = digits {
        let dropped = u32_of(MANTISSA_DIGITS - digits) * 4;
        let rounded = ((lead << MANTISSA_BITS) | fraction) + (1 << (dropped - 1));
        lead = rounded >> MANTISSA_BITS;
        fraction = (rounded & ((1 << MANTISSA_BITS) - 1)) >> dropped << dropped;
    }
    let all = format!("{fraction:013x}");
    let shown = digits.map_or_else(|| all.trim_end_matches('0'), |digits| &all[..digits]);
    let point = if shown.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{shown}p{exponent:+}")
}
