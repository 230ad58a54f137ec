//! Time functions. A time is a number of seconds, or a value of a time column, in nanoseconds.

use quarry_event::TimeNs;
use quarry_event::time::{
    Format, NS_PER_SEC, ResolveContext, apply_modifier, parse_epoch, strftime as format_time, strftime_out_of_range,
};
use quarry_event::value::Number;
use quarry_stdx::Fault;
use quarry_stdx::number::{f64_of, integer_part};

use super::call::{Call, FunctionImpl, Prepared, map_texts, take};
use crate::rows::Value;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("now", now),
    ("time", |_, call| Value::Time(call.now)),
    ("relative_time", relative_time),
    ("strftime", strftime),
    ("strptime", strptime),
];

/// The time that a value represents.
pub fn instant(value: &Value<'_>) -> Option<TimeNs> {
    match value {
        Value::Time(time) => Some(*time),
        Value::Int(seconds) => seconds.checked_mul(NS_PER_SEC),
        // A double that represents a decimal is the decimal as written; other doubles are precise to microseconds.
        Value::Float(seconds) => Number::Float(*seconds).to_nanos().or_else(|| from_seconds(*seconds)),
        Value::Text(text) => parse_epoch(text).or_else(|| from_seconds(value.number()?)),
        Value::Null | Value::Bool(_) | Value::Multi(_) => None,
    }
}

/// The time, rounded to microseconds, which is the precision of a double for present times.
fn from_seconds(seconds: f64) -> Option<TimeNs> {
    const MICROS_PER_SEC: f64 = 1e6;
    const NS_PER_MICRO: i64 = 1000;
    let micros = (seconds * MICROS_PER_SEC).round();
    if micros.abs() < f64_of(i64::MAX / NS_PER_MICRO) {
        integer_part::<i64>(micros).checked_mul(NS_PER_MICRO)
    } else {
        None
    }
}

/// A time as seconds: an integer if they are whole, otherwise a time with its fraction.
pub fn seconds<'a>(time: TimeNs) -> Value<'a> {
    if time % NS_PER_SEC == 0 { Value::Int(time / NS_PER_SEC) } else { Value::Time(time) }
}

/// Rejects a modifier that can never be applied.
pub(super) fn check_modifier(modifier: &str) -> Result<(), Fault> {
    match apply_modifier(modifier, 0, &jiff::tz::TimeZone::UTC) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::invalid(format!("relative_time(): {error}"))),
    }
}

fn now<'a>(_: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    Value::Int(call.now.div_euclid(NS_PER_SEC))
}

fn relative_time<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let (time, modifier) = (take(args, 0), take(args, 1));
    let (Some(time), Some(modifier)) = (instant(&time), modifier.text()) else { return Value::Null };
    apply_modifier(&modifier, time, call.zone).map_or(Value::Null, seconds)
}

fn strftime<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let (time, format) = (take(args, 0), take(args, 1));
    let Some(format) = format.text() else { return Value::Null };
    match time {
        Value::Multi(_) => map_texts(time, |text| match instant(&Value::borrowed_text(&text)) {
            Some(time) => format_time(time, &format, call.zone).into(),
            None => text,
        }),
        single => match instant(&single) {
            Some(time) => Value::owned_text(format_time(time, &format, call.zone)),
            None => {
                let far = single.number().and_then(|seconds| strftime_out_of_range(seconds, &format, call.zone));
                far.map_or(Value::Null, Value::owned_text)
            }
        },
    }
}

fn strptime<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let (text, format) = (take(args, 0), take(args, 1));
    if matches!(text, Value::Multi(_)) {
        return Value::Null;
    }
    let Some(text) = text.text() else { return Value::Null };
    // A day without a year is in the latest year that does not put it more than two days into the future; a time
    // without a day is on the current day.
    let context = ResolveContext { now: call.now, tz: call.zone, last: None };
    let read = |format: &Format| {
        let (parts, _) = format.parse_prefix(text.as_bytes())?;
        (parts.has_day() || parts.has_clock()).then(|| parts.resolve(&context)).flatten()
    };
    let time = match call.prepared {
        Prepared::Format(format) => read(format),
        _ => format.text().and_then(|format| read(&Format::new(&format).ok()?)),
    };
    time.map_or(Value::Null, seconds)
}
