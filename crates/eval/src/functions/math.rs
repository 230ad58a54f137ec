//! Numeric functions. They return null for non-numeric arguments and undefined results.

use std::sync::atomic::{AtomicU64, Ordering};

use quarry_event::time::NS_PER_SEC;
use quarry_event::value::decimal::Decimal;
use quarry_event::value::{Number, parse_exact_number};
use quarry_stdx::number::{f64_of, integer_part, u32_of};

use super::call::{Call, FunctionImpl, Prepared, integer, number, take};
use crate::expr::order_values;
use crate::rows::Value;

/// Maximum number of decimals of `round`; a larger argument has the same result.
const ROUND_DIGITS_MAX: i64 = 15;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("round", round),
    ("abs", abs),
    ("ceil", |args, _| map_to_integer(args, f64::ceil)),
    ("ceiling", |args, _| map_to_integer(args, f64::ceil)),
    ("floor", |args, _| map_to_integer(args, f64::floor)),
    ("toint", |args, _| map_to_integer(args, f64::floor)),
    ("min", |args, _| extreme(args, std::cmp::Ordering::Less)),
    ("max", |args, _| extreme(args, std::cmp::Ordering::Greater)),
    ("sum", sum),
    ("avg", avg),
    ("exact", |args, _| as_number(args)),
    ("sigfig", |args, call| match call.prepared {
        Prepared::Figures(figures) => figures.evaluate_rounded(args),
        _ => as_number(args),
    }),
    ("todouble", |args, _| as_number(args)),
    ("sqrt", |args, _| unary(args, f64::sqrt)),
    ("exp", |args, _| unary(args, f64::exp)),
    ("ln", |args, _| unary(args, f64::ln)),
    ("log", log),
    ("pow", |args, _| binary(args, f64::powf)),
    ("pi", |_, _| Value::Float(std::f64::consts::PI)),
    ("rand", random),
    ("random", random),
    ("sin", |args, _| unary(args, f64::sin)),
    ("cos", |args, _| unary(args, f64::cos)),
    ("tan", |args, _| unary(args, f64::tan)),
    ("asin", |args, _| unary(args, f64::asin)),
    ("acos", |args, _| unary(args, f64::acos)),
    ("atan", |args, _| unary(args, f64::atan)),
    ("atan2", |args, _| binary(args, f64::atan2)),
    ("hypot", |args, _| binary(args, f64::hypot)),
    ("sinh", |args, _| unary(args, f64::sinh)),
    ("cosh", |args, _| unary(args, f64::cosh)),
    ("tanh", |args, _| unary(args, f64::tanh)),
    ("asinh", |args, _| unary(args, f64::asinh)),
    ("acosh", |args, _| unary(args, f64::acosh)),
    ("atanh", |args, _| unary(args, f64::atanh)),
    ("bit_and", |args, _| combine_bits(args, |a, b| a & b)),
    ("bit_or", |args, _| combine_bits(args, |a, b| a | b)),
    ("bit_xor", |args, _| combine_bits(args, |a, b| a ^ b)),
    ("bit_not", bit_not),
    ("bit_shift_left", |args, _| combine_bits(args, |a, b| shift_bits(b, |places| a.checked_shl(places)))),
    ("bit_shift_right", |args, _| combine_bits(args, |a, b| shift_bits(b, |places| a.checked_shr(places)))),
];

/// A result in which NaN becomes null; infinity is kept.
pub(super) fn number_or_null<'a>(value: f64) -> Value<'a> {
    if value.is_nan() { Value::Null } else { Value::from_f64(value) }
}

fn unary<'a>(args: &[Value<'a>], function: fn(f64) -> f64) -> Value<'a> {
    match number(args, 0).map(function) {
        Some(value) if value.is_finite() => number_or_null(value),
        _ => Value::Null,
    }
}

fn binary<'a>(args: &[Value<'a>], function: fn(f64, f64) -> f64) -> Value<'a> {
    match (number(args, 0), number(args, 1)) {
        (Some(a), Some(b)) => number_or_null(function(a, b)),
        _ => Value::Null,
    }
}

fn log<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let base = if args.len() > 1 { number(args, 1) } else { Some(10.0) };
    let (Some(value), Some(base)) = (number(args, 0), base) else { return Value::Null };
    if value <= 0.0 || base <= 0.0 || base == 1.0 {
        return Value::Null;
    }
    // These logarithms are exact for integer powers of ten and two, unlike a quotient of logarithms.
    if base == 10.0 {
        number_or_null(value.log10())
    } else if base == 2.0 {
        number_or_null(value.log2())
    } else {
        number_or_null(value.ln() / base.ln())
    }
}

/// The first argument as a number.
fn as_number<'a>(args: &mut [Value<'a>]) -> Value<'a> {
    match take(args, 0) {
        Value::Text(text) => from_exact(parse_exact_number(&text)),
        value @ (Value::Int(_) | Value::Float(_) | Value::Time(_)) => value,
        _ => Value::Null,
    }
}

fn from_exact<'a>(number: Option<Number>) -> Value<'a> {
    number.map_or(Value::Null, Value::from_number)
}

fn abs<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    match args.first().and_then(Value::exact_number) {
        Some(number) if number.as_f64() < 0.0 => Value::from_number(number.negated()),
        number => from_exact(number),
    }
}

fn map_to_integer<'a>(args: &[Value<'a>], function: fn(f64) -> f64) -> Value<'a> {
    match args.first().and_then(Value::exact_number) {
        Some(Number::Int(value)) => Value::Int(value),
        // The nearest double of the time may already be the next integer.
        Some(Number::Nanos(ns)) => {
            let (whole, rest) = (ns / NS_PER_SEC, ns % NS_PER_SEC);
            Value::Int(whole + integer_part::<i64>(function(f64_of(rest) / f64_of(NS_PER_SEC))))
        }
        Some(number) => number_or_null(function(number.as_f64())),
        None => Value::Null,
    }
}

/// `round`: rounds half away from zero. If decimals are requested, all of them are shown, including zeros.
fn round<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let digits = if args.len() > 1 { integer(args, 1) } else { Some(0) };
    let Some(digits) = digits.filter(|digits| *digits >= 0) else { return Value::Null };
    if digits == 0 {
        return map_to_integer(args, f64::round);
    }
    let Some(exact) = args.first().and_then(Value::exact_number) else { return Value::Null };
    let value = exact.as_f64();
    if !value.is_finite() {
        return Value::Float(value);
    }
    let digits = digits.min(ROUND_DIGITS_MAX) as usize;
    args.first().map_or(Value::Null, |number| Value::owned_text(format_fixed(number, exact, digits)))
}

/// A number with this many decimals. The decimal is rounded as displayed, half away from zero, so that 1.005 becomes
/// 1.01 although its double is slightly smaller; zero has no sign.
pub(super) fn format_fixed(value: &Value<'_>, number: Number, digits: usize) -> String {
    let shown = || Decimal::of_text(&value.text()?);
    let decimal = Decimal::of(number).or_else(shown).and_then(|decimal| decimal.to_fixed(u32_of(digits)));
    let text = decimal.unwrap_or_else(|| format!("{:.digits$}", number.as_f64()));
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// The smallest or largest of all values; texts are larger than numbers.
fn extreme<'a>(args: &mut [Value<'a>], wanted: std::cmp::Ordering) -> Value<'a> {
    let mut best = Value::Null;
    for at in 0..args.len() {
        match take(args, at) {
            Value::Multi(values) => {
                for text in values {
                    best = better_of(best, Value::Text(text), wanted);
                }
            }
            value => best = better_of(best, value, wanted),
        }
    }
    if let Value::Text(text) = &best
        && let number @ Some(_) = parse_exact_number(text)
    {
        return from_exact(number);
    }
    best
}

fn better_of<'a>(best: Value<'a>, value: Value<'a>, wanted: std::cmp::Ordering) -> Value<'a> {
    if best.is_null() || value.is_null() {
        return if best.is_null() { value } else { best };
    }
    let order = match (value.number().is_some(), best.number().is_some()) {
        (true, false) => std::cmp::Ordering::Less,
        (false, true) => std::cmp::Ordering::Greater,
        _ => order_values(&value, &best).unwrap_or(std::cmp::Ordering::Equal),
    };
    if order == wanted { value } else { best }
}

/// Calls `each` with every number among the values.
pub(super) fn for_each_number(args: &[Value<'_>], mut each: impl FnMut(Number)) {
    for value in args {
        match value {
            Value::Multi(values) => values.iter().filter_map(|text| parse_exact_number(text)).for_each(&mut each),
            single => single.exact_number().into_iter().for_each(&mut each),
        }
    }
}

fn sum<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let mut sum: Option<Number> = None;
    for_each_number(args, |number| sum = Some(sum.map_or(number, |sum| sum.plus(number))));
    from_exact(sum)
}

fn avg<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let (mut sum, mut count) = (Number::Int(0), 0i64);
    for_each_number(args, |number| {
        count += 1;
        sum = sum.plus(number);
    });
    from_exact(sum.divided_by(Number::Int(count)))
}

/// `random`: 0 to 2^31 - 1, by the generator SplitMix64 with the start of the search as its seed, so that the same
/// search at the same time returns the same numbers.
fn random<'a>(_: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    /// 2^64 divided by the golden ratio. The number is odd, so that the counter visits every state.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let state: &AtomicU64 = &call.state.random;
    let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    Value::Int(((mixed ^ (mixed >> 31)) >> 33).cast_signed())
}

/// The complement of a value within a mask; the default mask covers the integers that a double represents exactly.
fn bit_not<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    const EXACT_BITS: u64 = (1 << f64::MANTISSA_DIGITS) - 1;
    let whole = |at: usize| integer(args, at).and_then(|value| u64::try_from(value).ok());
    let mask = if args.len() > 1 { whole(1) } else { Some(EXACT_BITS) };
    let combined = whole(0).zip(mask).and_then(|(value, mask)| i64::try_from(!value & mask).ok());
    combined.map_or(Value::Null, Value::Int)
}

/// Shifts bits; the result is 0 if `places` is at least 64.
fn shift_bits(places: u64, shift: impl FnOnce(u32) -> Option<u64>) -> u64 {
    u32::try_from(places).ok().and_then(shift).unwrap_or(0)
}

fn combine_bits<'a>(args: &[Value<'a>], combine: fn(u64, u64) -> u64) -> Value<'a> {
    let mut combined: Option<u64> = None;
    for at in 0..args.len() {
        let Some(value) = integer(args, at).and_then(|value| u64::try_from(value).ok()) else { return Value::Null };
        combined = Some(combined.map_or(value, |so_far| combine(so_far, value)));
    }
    combined.and_then(|value| i64::try_from(value).ok()).map_or(Value::Null, Value::Int)
}
