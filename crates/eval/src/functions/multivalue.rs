//! Multivalue functions. A plain value counts as one value, null as no value.

use std::borrow::Cow;

use hashbrown::HashSet;
use quarry_event::time::apply_modifier;
use quarry_stdx::number::f64_of;

use super::call::{Call, FunctionImpl, Prepared, VALUES_MAX, integer, take};
use super::time::instant;
use crate::messages::{Loss, TEXT_BYTES_MAX, record_loss};
use crate::pattern::Regex;
use crate::rows::Value;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("mvindex", mvindex),
    ("mvjoin", mvjoin),
    ("mvappend", mvappend),
    ("mvcount", mvcount),
    ("mvdedup", mvdedup),
    ("mvfind", mvfind),
    ("mvrange", mvrange),
    ("mvreverse", mvreverse),
    ("mvsort", mvsort),
    ("mvzip", mvzip),
];

fn mvcount<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    match args.first() {
        None | Some(Value::Null) => Value::Null,
        Some(Value::Multi(values)) => Value::Int(values.len() as i64),
        Some(_) => Value::Int(1),
    }
}

/// `mvindex`: positions are zero-based; negative positions count from the end. A range is limited to the existing
/// positions; the result is null if the range covers no position.
fn mvindex<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let start = integer(args, 1);
    let end = if args.len() > 2 { integer(args, 2) } else { start };
    let (Some(start), Some(end)) = (start, end) else { return Value::Null };
    let value = take(args, 0);
    let count = if let Value::Multi(values) = &value { values.len() as i64 } else { 1 };
    let position = |index: i64| if index < 0 { index + count } else { index };
    let (first, last) = (position(start), position(end));
    let is_range = args.len() > 2;
    if last < first || first >= count || last < 0 || (!is_range && first < 0) {
        return Value::Null;
    }
    let Value::Multi(mut values) = value else { return value };
    values.truncate((last.min(count - 1) + 1) as usize);
    values.drain(..first.max(0) as usize);
    Value::multi(values)
}

fn mvjoin<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let (value, delimiter) = (take(args, 0), take(args, 1));
    let Some(delimiter) = delimiter.text() else { return Value::Null };
    match value {
        Value::Multi(values) => {
            let delimiters = delimiter.len().saturating_mul(values.len().saturating_sub(1));
            if bytes_of(&values).saturating_add(delimiters) > TEXT_BYTES_MAX {
                record_loss(Loss::Text);
                return Value::Null;
            }
            Value::owned_text(values.join(&delimiter))
        }
        single => single.into_text().map_or(Value::Null, Value::Text),
    }
}

fn bytes_of(values: &[Cow<'_, str>]) -> usize {
    values.iter().map(|text| text.len()).sum()
}

fn mvappend<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let mut present = args.iter_mut().filter(|value| !value.is_null());
    match (present.next(), present.next()) {
        (None, _) => return Value::Null,
        (Some(only), None) => return std::mem::replace(only, Value::Null),
        _ => {}
    }
    let values = call.collect_limited((0..args.len()).flat_map(|at| take(args, at).into_values()));
    // Nested calls double their values, so the count alone does not limit the bytes.
    if call.state.allows(values.len(), bytes_of(&values)) { Value::multi(values) } else { Value::Null }
}

fn mvdedup<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    /// Number of values up to which comparing all values is faster than hashing.
    const LINEAR_VALUES_MAX: usize = 16;
    let values = match take(args, 0) {
        Value::Multi(values) => values,
        single => return single,
    };
    let mut kept: Vec<Cow<'a, str>> = Vec::with_capacity(values.len());
    if values.len() <= LINEAR_VALUES_MAX {
        for value in values {
            if !kept.contains(&value) {
                kept.push(value);
            }
        }
    } else {
        let mut seen: HashSet<Cow<'a, str>, foldhash::fast::FixedState> = HashSet::default();
        kept.extend(values.into_iter().filter(|value| seen.insert(value.clone())));
    }
    Value::multi(kept)
}

fn mvfind<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let (value, pattern) = (take(args, 0), take(args, 1));
    let find = |regex: &Regex| value.values().iter().position(|text| regex.is_match(text));
    let found = match call.prepared {
        Prepared::Regex(regex) => find(regex),
        _ => pattern.text().and_then(|pattern| Regex::new(&pattern).ok()).and_then(|regex| find(&regex)),
    };
    found.map_or(Value::Null, |at| Value::Int(at as i64))
}

/// `mvrange`: numbers from the first argument up to, but not including, the second; the step may be a time span such
/// as `1d`.
fn mvrange<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let step = if args.len() > 2 { take(args, 2) } else { Value::Int(1) };
    let (start, end) = (take(args, 0), take(args, 1));
    let (Some(first), Some(last)) = (start.number(), end.number()) else { return Value::Null };
    let Some(width) = step.number() else { return time_range(&start, &end, &step, call) };
    if width == 0.0 {
        return Value::Null;
    }
    let beyond = |value: f64| if width > 0.0 { value >= last } else { value <= last };
    // The step is multiplied rather than accumulated, so that errors do not grow.
    let numbers = (0..u64::MAX).map(|at| first + f64_of(at) * width).take_while(|value| !beyond(*value));
    Value::multi(call.collect_limited(numbers.filter_map(|value| Value::from_f64(value).into_text())))
}

/// Times from `start` up to, but not including, `end`.
fn time_range<'a>(start: &Value<'a>, end: &Value<'a>, step: &Value<'a>, call: &Call<'_>) -> Value<'a> {
    let (Some(mut time), Some(end), Some(step)) = (instant(start), instant(end), step.text()) else {
        return Value::Null;
    };
    let step = if step.starts_with(['+', '-']) { step.into_owned() } else { format!("+{step}") };
    let mut values: Vec<Cow<'a, str>> = Vec::new();
    // The loop collects one value more than allowed, so that the limit is noticed.
    while values.len() <= VALUES_MAX && time < end {
        values.extend(Value::Time(time).into_text());
        match apply_modifier(&step, time, call.zone) {
            Ok(next) if next > time => time = next,
            _ => break,
        }
    }
    Value::multi(call.collect_limited(values.into_iter()))
}

fn mvreverse<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    match take(args, 0) {
        Value::Multi(mut values) => {
            values.reverse();
            Value::Multi(values)
        }
        single => single,
    }
}

fn mvsort<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    match take(args, 0) {
        Value::Multi(mut values) => {
            values.sort_unstable();
            Value::Multi(values)
        }
        single => single,
    }
}

fn mvzip<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let delimiter = if args.len() > 2 { take(args, 2).into_text() } else { Some(Cow::Borrowed(",")) };
    let (left, right) = (take(args, 0).into_values(), take(args, 1).into_values());
    let Some(delimiter) = delimiter else { return Value::Null };
    let pairs = left.iter().zip(&right);
    let bytes = pairs.clone().map(|(a, b)| a.len() + delimiter.len() + b.len()).sum();
    if !call.state.allows(pairs.len(), bytes) {
        return Value::Null;
    }
    Value::multi(pairs.map(|(a, b)| Cow::Owned(format!("{a}{delimiter}{b}"))).collect())
}
