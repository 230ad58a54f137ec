//! Functions on numbers. What is no number, and what has no result, is null.

use std::sync::atomic::{AtomicU64, Ordering};

use quarry_event::value::{Number, exact_number};

use super::{Call, Function, MANY, Prepared, integer, number, take};
use crate::expr::order_values;
use crate::rows::Value;

/// Most decimals `round` keeps.
const ROUND_DIGITS_MAX: i64 = 15;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("round", 1, 2, round),
    Function::new("abs", 1, 1, abs),
    Function::new("ceil", 1, 1, |args, _| whole(args, f64::ceil)),
    Function::new("ceiling", 1, 1, |args, _| whole(args, f64::ceil)),
    Function::new("floor", 1, 1, |args, _| whole(args, f64::floor)),
    Function::new("toint", 1, 1, |args, _| whole(args, f64::floor)),
    Function::new("min", 1, MANY, |args, _| extreme(args, std::cmp::Ordering::Less)),
    Function::new("max", 1, MANY, |args, _| extreme(args, std::cmp::Ordering::Greater)),
    Function::new("sum", 1, MANY, sum),
    Function::new("avg", 1, MANY, avg),
    Function::new("exact", 1, 1, |args, _| as_number(args)),
    Function::new("sigfig", 1, 1, |args, call| match call.prepared {
        Prepared::Figures(figures) => figures.rounded(args),
        _ => as_number(args),
    }),
    Function::new("todouble", 1, 1, |args, _| as_number(args)),
    Function::new("sqrt", 1, 1, |args, _| of_one(args, f64::sqrt)),
    Function::new("exp", 1, 1, |args, _| of_one(args, f64::exp)),
    Function::new("ln", 1, 1, |args, _| of_one(args, f64::ln)),
    Function::new("log", 1, 2, log),
    Function::new("pow", 2, 2, |args, _| of_two(args, f64::powf)),
    Function::new("pi", 0, 0, |_, _| Value::Float(std::f64::consts::PI)),
    Function::changing("rand", 0, 0, random),
    Function::changing("random", 0, 0, random),
    Function::new("sin", 1, 1, |args, _| of_one(args, f64::sin)),
    Function::new("cos", 1, 1, |args, _| of_one(args, f64::cos)),
    Function::new("tan", 1, 1, |args, _| of_one(args, f64::tan)),
    Function::new("asin", 1, 1, |args, _| of_one(args, f64::asin)),
    Function::new("acos", 1, 1, |args, _| of_one(args, f64::acos)),
    Function::new("atan", 1, 1, |args, _| of_one(args, f64::atan)),
    Function::new("atan2", 2, 2, |args, _| of_two(args, f64::atan2)),
    Function::new("hypot", 2, 2, |args, _| of_two(args, f64::hypot)),
    Function::new("sinh", 1, 1, |args, _| of_one(args, f64::sinh)),
    Function::new("cosh", 1, 1, |args, _| of_one(args, f64::cosh)),
    Function::new("tanh", 1, 1, |args, _| of_one(args, f64::tanh)),
    Function::new("asinh", 1, 1, |args, _| of_one(args, f64::asinh)),
    Function::new("acosh", 1, 1, |args, _| of_one(args, f64::acosh)),
    Function::new("atanh", 1, 1, |args, _| of_one(args, f64::atanh)),
    Function::new("bit_and", 2, MANY, |args, _| bits(args, |a, b| a & b)),
    Function::new("bit_or", 2, MANY, |args, _| bits(args, |a, b| a | b)),
    Function::new("bit_xor", 2, MANY, |args, _| bits(args, |a, b| a ^ b)),
    Function::new("bit_not", 1, 2, bit_not),
    Function::new("bit_shift_left", 2, 2, |args, _| bits(args, |a, b| a.checked_shl(b as u32).unwrap_or(0))),
    Function::new("bit_shift_right", 2, 2, |args, _| bits(args, |a, b| a.checked_shr(b as u32).unwrap_or(0))),
];

/// A result that is no number is null; infinity stays.
pub(super) fn result<'a>(value: f64) -> Value<'a> {
    if value.is_nan() { Value::Null } else { Value::number_of(value) }
}

fn of_one<'a>(args: &[Value<'a>], function: fn(f64) -> f64) -> Value<'a> {
    match number(args, 0).map(function) {
        Some(value) if value.is_finite() => result(value),
        _ => Value::Null,
    }
}

fn of_two<'a>(args: &[Value<'a>], function: fn(f64, f64) -> f64) -> Value<'a> {
    match (number(args, 0), number(args, 1)) {
        (Some(a), Some(b)) => result(function(a, b)),
        _ => Value::Null,
    }
}

fn log<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let base = if args.len() > 1 { number(args, 1) } else { Some(10.0) };
    let (Some(value), Some(base)) = (number(args, 0), base) else { return Value::Null };
    if value <= 0.0 || base <= 0.0 || base == 1.0 {
        return Value::Null;
    }
    // Exact for whole powers of ten and two, which a quotient of logarithms is not.
    if base == 10.0 {
        result(value.log10())
    } else if base == 2.0 {
        result(value.log2())
    } else {
        result(value.ln() / base.ln())
    }
}

/// The value, as a number.
fn as_number<'a>(args: &mut [Value<'a>]) -> Value<'a> {
    match take(args, 0) {
        Value::Text(text) => from_exact(exact_number(&text)),
        value @ (Value::Int(_) | Value::Float(_) | Value::Time(_)) => value,
        _ => Value::Null,
    }
}

fn from_exact<'a>(number: Option<Number>) -> Value<'a> {
    number.map_or(Value::Null, Value::of_number)
}

fn abs<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    match args.first().and_then(Value::exact_number) {
        Some(number) if number.as_f64() < 0.0 => Value::of_number(number.negated()),
        number => from_exact(number),
    }
}

fn whole<'a>(args: &[Value<'a>], function: fn(f64) -> f64) -> Value<'a> {
    match args.first().and_then(Value::exact_number) {
        Some(Number::Int(value)) => Value::Int(value),
        Some(number) => result(function(number.as_f64())),
        None => Value::Null,
    }
}

/// Half away from zero. With decimals asked for, all of them show, zeros too.
fn round<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let digits = if args.len() > 1 { integer(args, 1) } else { Some(0) };
    let Some(digits) = digits.filter(|digits| *digits >= 0) else { return Value::Null };
    if digits == 0 {
        return whole(args, f64::round);
    }
    let Some(value) = number(args, 0) else { return Value::Null };
    if !value.is_finite() {
        return Value::Float(value);
    }
    let digits = digits.min(ROUND_DIGITS_MAX) as usize;
    let rounded = round_to(value, digits);
    let text = format!("{rounded:.digits$}");
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    Value::owned(if is_zero { text.trim_start_matches('-').to_owned() } else { text })
}

/// Rounds the decimal a user sees, so that 1.005 gives 1.01 although the double lies below it.
fn round_to(value: f64, digits: usize) -> f64 {
    let scale = 10f64.powi(digits as i32);
    let scaled = value * scale;
    if !scaled.is_finite() {
        return value;
    }
    // The product of a short decimal and a power of ten is off by an ulp or two at most.
    let nudged = scaled + scaled.signum() * scaled.abs() * f64::EPSILON * 2.0;
    nudged.round() / scale
}

/// The smallest or largest of all values; texts are larger than numbers.
fn extreme<'a>(args: &mut [Value<'a>], wanted: std::cmp::Ordering) -> Value<'a> {
    let mut best = Value::Null;
    for at in 0..args.len() {
        match take(args, at) {
            Value::Multi(values) => {
                for text in values {
                    best = better(best, Value::Text(text), wanted);
                }
            }
            value => best = better(best, value, wanted),
        }
    }
    if let Value::Text(text) = &best
        && let number @ Some(_) = exact_number(text)
    {
        return from_exact(number);
    }
    best
}

fn better<'a>(best: Value<'a>, value: Value<'a>, wanted: std::cmp::Ordering) -> Value<'a> {
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
            Value::Multi(values) => values.iter().filter_map(|text| exact_number(text)).for_each(&mut each),
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

/// 0 to 2^31 - 1, from a counter mixed well: the same search at the same time gives the same numbers.
fn random<'a>(_: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    /// The golden ratio in 64 bits: steps of it visit every state.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let state: &AtomicU64 = &call.state.random;
    let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    Value::Int(((mixed ^ (mixed >> 31)) >> 33) as i64)
}

/// The bits of a mask that are not set; without a mask those of the whole numbers that a double holds.
fn bit_not<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    const EXACT_BITS: u64 = (1 << f64::MANTISSA_DIGITS) - 1;
    let whole = |at: usize| integer(args, at).and_then(|value| u64::try_from(value).ok());
    let mask = if args.len() > 1 { whole(1) } else { Some(EXACT_BITS) };
    let combined = whole(0).zip(mask).and_then(|(value, mask)| i64::try_from(!value & mask).ok());
    combined.map_or(Value::Null, Value::Int)
}

fn bits<'a>(args: &[Value<'a>], combine: fn(u64, u64) -> u64) -> Value<'a> {
    let mut combined: Option<u64> = None;
    for at in 0..args.len() {
        let Some(value) = integer(args, at).and_then(|value| u64::try_from(value).ok()) else { return Value::Null };
        combined = Some(combined.map_or(value, |so_far| combine(so_far, value)));
    }
    combined.and_then(|value| i64::try_from(value).ok()).map_or(Value::Null, Value::Int)
}
