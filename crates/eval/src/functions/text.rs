//! Text functions. Functions from one text to one text are applied to each value of a multivalue.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::{memchr_iter, memmem};
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::{Number, parse_exact_number};
use quarry_stdx::number::integer_part;

use super::call::{Call, FunctionImpl, Prepared, integer, map_texts, part_of, take};
use super::math::format_fixed;
use super::printf;
use crate::messages::{Loss, TEXT_BYTES_MAX, record_loss};
use crate::pattern::{Regex, Replacement};
use crate::rows::Value;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("len", len),
    ("lower", lower),
    ("upper", upper),
    ("substr", substr),
    ("trim", trim),
    ("ltrim", ltrim),
    ("rtrim", rtrim),
    ("replace", replace),
    ("split", split),
    ("urldecode", urldecode),
    ("printf", printf::printf),
    ("tostring", tostring),
    ("tonumber", tonumber),
    ("commands", commands),
];

fn len<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    match args.first() {
        None | Some(Value::Null | Value::Multi(_)) => Value::Null,
        Some(value) => value.text().map_or(Value::Null, |text| Value::Int(text.chars().count() as i64)),
    }
}

fn lower<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    map_texts(take(args, 0), |text| {
        if text.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
            Cow::Owned(text.to_lowercase())
        } else {
            text
        }
    })
}

fn upper<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    map_texts(take(args, 0), |text| {
        if text.bytes().any(|byte| byte.is_ascii_lowercase() || !byte.is_ascii()) {
            Cow::Owned(text.to_uppercase())
        } else {
            text
        }
    })
}

fn substr<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let Some(start) = integer(args, 1) else { return Value::Null };
    let length = match args.len() {
        0..=2 => i64::MAX,
        _ => match integer(args, 2) {
            Some(length) => length,
            None => return Value::Null,
        },
    };
    map_texts(take(args, 0), |text| part_of(text, |text| substring(text, start, length)))
}

/// Substring from the one-based `start`, counted from the end if negative.
fn substring(text: &str, start: i64, length: i64) -> &str {
    if length <= 0 {
        return &text[..0];
    }
    let first = match start {
        ..0 => {
            let count = if text.is_ascii() { text.len() } else { text.chars().count() };
            (count as i64).saturating_add(start).max(0)
        }
        0 => 0,
        _ => start - 1,
    };
    let offset = |text: &str, count: i64| {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if text.is_ascii() {
            return count.min(text.len());
        }
        text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
    };
    let rest = &text[offset(text, first)..];
    &rest[..offset(rest, length)]
}

fn trim<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    trim_with(args, |text, set| text.trim_matches(|character| set.contains(character)))
}

fn ltrim<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    trim_with(args, |text, set| text.trim_start_matches(|character| set.contains(character)))
}

fn rtrim<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    trim_with(args, |text, set| text.trim_end_matches(|character| set.contains(character)))
}

fn trim_with<'a>(args: &mut [Value<'a>], trimmed: for<'t> fn(&'t str, &str) -> &'t str) -> Value<'a> {
    /// Characters that are trimmed by default.
    const BLANKS: &str = " \t";
    let set = match args.len() {
        0 | 1 => Cow::Borrowed(BLANKS),
        _ => match take(args, 1).into_text() {
            Some(set) => set,
            None => return Value::Null,
        },
    };
    map_texts(take(args, 0), |text| part_of(text, |text| trimmed(text, &set)))
}

/// The value; null if a text exceeds [`TEXT_BYTES_MAX`].
pub(super) fn null_if_too_long(value: Value<'_>) -> Value<'_> {
    let has_exceeded_limit = match &value {
        Value::Text(text) => text.len() > TEXT_BYTES_MAX,
        Value::Multi(values) => values.iter().any(|text| text.len() > TEXT_BYTES_MAX),
        _ => false,
    };
    if has_exceeded_limit {
        record_loss(Loss::Text);
        return Value::Null;
    }
    value
}

fn replace<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let changed = |regex: &Regex, replacement: &Replacement, args: &mut [Value<'a>]| {
        null_if_too_long(map_texts(take(args, 0), |text| {
            regex.replace_all(&text, replacement).map_or(text, Cow::Owned)
        }))
    };
    if let Prepared::Replace(regex, replacement) = call.prepared {
        return changed(regex, replacement, args);
    }
    let (pattern, with) = (take(args, 1).into_text(), take(args, 2).into_text());
    let (Some(pattern), Some(with)) = (pattern, with) else { return Value::Null };
    match call.prepared {
        Prepared::Regex(regex) => changed(regex, &Replacement::new(&with, regex), args),
        _ => match Regex::new(&pattern) {
            Ok(regex) => changed(&regex, &Replacement::new(&with, &regex), args),
            Err(_) => Value::Null,
        },
    }
}

fn split<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let (text, delimiter) = (take(args, 0).into_text(), take(args, 1).into_text());
    let (Some(text), Some(delimiter)) = (text, delimiter) else { return Value::Null };
    match text {
        Cow::Borrowed(text) => Value::multi(call.collect_limited(split_pieces(text, &delimiter).map(Cow::Borrowed))),
        Cow::Owned(text) => {
            let pieces = split_pieces(&text, &delimiter);
            Value::multi(call.collect_limited(pieces.map(|piece| Cow::Owned(piece.to_owned()))))
        }
    }
}

/// The parts between delimiters; single characters if the delimiter is empty.
fn split_pieces<'t: 'd, 'd>(text: &'t str, delimiter: &'d str) -> Box<dyn Iterator<Item = &'t str> + 'd> {
    match delimiter.as_bytes() {
        [] => Box::new(text.char_indices().map(|(at, character)| &text[at..at + character.len_utf8()])),
        [byte] => Box::new(pieces_between(text, memchr_iter(*byte, text.as_bytes()), 1)),
        bytes => Box::new(pieces_between(text, memmem::find_iter(text.as_bytes(), bytes), bytes.len())),
    }
}

/// The parts between delimiters of this length at these positions.
fn pieces_between(text: &str, places: impl Iterator<Item = usize>, len: usize) -> impl Iterator<Item = &str> {
    let mut start = 0;
    places.chain([text.len()]).map(move |end| {
        let piece = &text[start..end];
        start = end + len;
        piece
    })
}

fn urldecode<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    map_texts(take(args, 0), |text| if text.contains('%') { Cow::Owned(percent_decode(&text)) } else { text })
}

/// Decodes `%XX`; invalid UTF-8 becomes replacement characters.
pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).filter(|code| bytes[at] == b'%' && code.iter().all(u8::is_ascii_hexdigit));
        let byte =
            code.and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn tostring<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let format = args.get(1).and_then(Value::text).map(Cow::into_owned);
    let value = take(args, 0);
    let Some(format) = format else {
        return match value {
            multi @ Value::Multi(_) => multi,
            single => single.into_text().map_or(Value::Null, Value::Text),
        };
    };
    let Some(number) = value.exact_number() else { return value.into_text().map_or(Value::Null, Value::Text) };
    match format.as_str() {
        "hex" => Value::owned_text(format_with_sign(number, |whole| format!("0x{whole:X}"))),
        "binary" => Value::owned_text(format_with_sign(number, |whole| format!("{whole:b}"))),
        "commas" => Value::owned_text(format_with_commas(&value, number)),
        "duration" => Value::owned_text(duration(number.as_f64())),
        _ => value.into_text().map_or(Value::Null, Value::Text),
    }
}

/// The number's sign, followed by its whole part as `write` formats it; zero has no sign.
fn format_with_sign(number: Number, write: impl Fn(u64) -> String) -> String {
    let whole = match number {
        Number::Int(integer) => integer.unsigned_abs(),
        // The nearest double of the time may already be the next integer.
        Number::Nanos(ns) => (ns / NS_PER_SEC).unsigned_abs(),
        Number::Float(value) => integer_part(value.abs()),
    };
    format!("{}{}", if number.as_f64() < 0.0 && whole > 0 { "-" } else { "" }, write(whole))
}

/// A number with thousands separators, and with two decimals if there is a fraction.
fn format_with_commas(value: &Value<'_>, number: Number) -> String {
    let is_whole = matches!(number, Number::Int(_)) || number.as_f64().fract() == 0.0;
    // `round` rounds in the same way.
    let text = format_fixed(value, number, if is_whole { 0 } else { 2 });
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |text| ("-", text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut out = String::with_capacity(text.len() + text.len() / 3 + 1);
    out.push_str(sign);
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Seconds as `[D+]HH:MM:SS`, with microseconds if there is a fraction.
fn duration(number: f64) -> String {
    let micros: u64 = integer_part((number.abs() * 1e6).round());
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let mut out = String::new();
    if number < 0.0 && (seconds, micros) != (0, 0) {
        out.push('-');
    }
    let days = seconds / 86_400;
    if days > 0 {
        // Writing to a String cannot fail.
        let _ignored = write!(out, "{days}+");
    }
    let _ignored = write!(out, "{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    if micros > 0 {
        let _ignored = write!(out, ".{micros:06}");
    }
    out
}

fn tonumber<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let base = if args.len() > 1 { integer(args, 1) } else { Some(10) };
    let base = base.and_then(|base| u32::try_from(base).ok());
    let Some(base) = base.filter(|base| (2..=36).contains(base)) else { return Value::Null };
    let value = take(args, 0);
    if base == 10 {
        return match value {
            Value::Int(_) | Value::Float(_) | Value::Time(_) => value,
            Value::Text(text) => parse_exact_number(&text).map_or(Value::Null, Value::from_number),
            _ => Value::Null,
        };
    }
    let Some(text) = value.into_text() else { return Value::Null };
    let after_prefix = text.strip_prefix("0x").or(text.strip_prefix("0X")).filter(|_| base == 16);
    if after_prefix.is_some_and(|digits| digits.starts_with(['+', '-'])) {
        return Value::Null;
    }
    i64::from_str_radix(after_prefix.unwrap_or(&text), base).map_or(Value::Null, Value::Int)
}

/// `commands`: names of the commands of a search text. Pipes in quotes and subsearches do not count.
fn commands<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let Some(text) = take(args, 0).into_text() else { return Value::Null };
    let (mut quoted, mut escaped, mut depth, mut start) = (false, false, 0usize, 0);
    let mut stages = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => {
                stages.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    stages.push(&text[start..]);
    let names = stages.iter().enumerate().filter_map(|(at, stage)| match (at, stage.trim()) {
        (_, "") => None,
        // A search that does not start with a pipe starts with the search command.
        (0, _) => Some("search"),
        (_, stage) => stage.split(|character: char| !character.is_alphanumeric() && character != '_').next(),
    });
    Value::multi(names.map(|name| Cow::Owned(name.to_owned())).collect())
}
