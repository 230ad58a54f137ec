//! Time modifiers in searches: `-1d@d+8h`, `@w1`, `now`, epochs and absolute dates.
//!
//! A relative modifier is a chain of offsets and snaps applied to "now" from left to right. Seconds, minutes and hours
//! are exact durations; days and longer units keep the local time of day. Snaps always round down. Not here: real-time
//! windows (`rt-5m`), which are arguments of a search job and rejected inside a search.

use jiff::tz::TimeZone;
use quarry_stdx::{ErrorKind, HasKind};
use thiserror::Error;

use super::civil::{Civil, date_from_days, days_from_date, weekday};
use super::span::SpanUnit;
use super::strptime::{Format, ResolveContext};
use super::{NS_PER_SEC, TimeNs, seconds_text, strftime};

/// Error in a time modifier or span.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModifierError {
    /// A time is missing.
    #[error("a time is missing: write for example -24h@h, now, an epoch or 11/21/2026:08:00:00")]
    Empty,
    /// `rt` in a search text.
    #[error("\"{text}\" is a real-time window, which is allowed for a search job but not in the search text")]
    RealTime {
        /// The whole modifier.
        text: String,
    },
    /// An unknown unit.
    #[error("\"{unit}\" in \"{text}\" is not a time unit: use s, m, h, d, w, mon, q or y")]
    Unit {
        /// The text in place of a unit.
        unit: String,
        /// The whole modifier.
        text: String,
    },
    /// The result is not within the years 1678 to 2261, or an amount is 0 or too large.
    #[error("\"{text}\" lies outside the years 1678 to 2261 or has an amount that is 0 or too large")]
    OutOfRange {
        /// The whole modifier.
        text: String,
    },
    /// The text is neither a relative nor an absolute time.
    #[error("cannot read \"{text}\" as a time: write for example -24h@h, now, an epoch or 11/21/2026:08:00:00")]
    Unreadable {
        /// The whole modifier.
        text: String,
    },
}

impl HasKind for ModifierError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Unit to which `@` rounds down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Snap {
    /// Unit, from second to year.
    pub unit: SpanUnit,
    /// First day of the week for `@w`, 0 = Sunday; otherwise 0.
    pub weekday: u8,
}

/// Formats of absolute times, tried in order.
const ABSOLUTE_FORMATS: &[&str] = &[
    "%m/%d/%Y:%H:%M:%S.%9N",
    "%m/%d/%Y:%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%9N%z",
    "%Y-%m-%dT%H:%M:%S.%9N",
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M%z",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S.%9N",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%m/%d/%Y",
];

/// Parses a relative modifier, an epoch (optionally with a fraction), `now`, or a date with or without a time of day,
/// such as `11/21/2026:08:00:00` or a date in ISO 8601.
pub fn parse_time(text: &str, now: TimeNs, tz: &TimeZone) -> Result<TimeNs, ModifierError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ModifierError::Empty);
    }
    let bytes = text.as_bytes();
    // Two dots indicate a date in an unsupported notation.
    let is_date = text.matches('.').count() > 1;
    let is_number = bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    if bytes[0].is_ascii_digit() && is_number && !is_date {
        return parse_epoch(text).ok_or_else(|| ModifierError::OutOfRange { text: text.to_owned() });
    }
    if bytes[0].is_ascii_digit()
        && let Some(time) = parse_absolute(text, now, tz)
    {
        return Ok(time);
    }
    if let Some(rest) = text.strip_prefix("rt")
        && (rest.is_empty() || rest.starts_with(['+', '-', '@', 'n']))
    {
        return Err(ModifierError::RealTime { text: text.to_owned() });
    }
    if bytes[0].is_ascii_digit() && is_date {
        return Err(ModifierError::Unreadable { text: text.to_owned() });
    }
    apply_chain(text, now, tz)
}

/// Applies a relative modifier to an instant, as `relative_time()` does; epochs and dates are rejected. An amount with
/// a unit but without a sign is added, as in [`parse_time`].
pub fn apply_modifier(text: &str, from: TimeNs, tz: &TimeZone) -> Result<TimeNs, ModifierError> {
    let text = text.trim();
    if text.is_empty() { Err(ModifierError::Empty) } else { apply_chain(text, from, tz) }
}

/// The time modifier for an instant: [`parse_time`] reads it as exactly this instant. An instant before 1970 is written
/// as a date, because a number with a minus is an offset from now.
pub fn modifier_text(time: TimeNs) -> String {
    match time {
        0.. => seconds_text(time),
        _ => strftime(time, "%Y-%m-%dT%H:%M:%S.%9N%z", &TimeZone::UTC),
    }
}

/// Converts seconds with an optional fraction to nanoseconds, without rounding to a double.
pub fn parse_epoch(text: &str) -> Option<TimeNs> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let fraction = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = fraction.fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0'));
    let time = whole.parse::<i64>().ok()?.checked_mul(NS_PER_SEC)?.checked_add(nanos)?;
    Some(if negative { -time } else { time })
}

fn parse_absolute(text: &str, now: TimeNs, tz: &TimeZone) -> Option<TimeNs> {
    let context = ResolveContext { now, tz, last: None };
    ABSOLUTE_FORMATS.iter().find_map(|format| {
        let (parts, consumed) = Format::new(format).ok()?.parse_prefix(text.as_bytes())?;
        if consumed < text.len() { None } else { parts.resolve(&context) }
    })
}

fn apply_chain(text: &str, from: TimeNs, tz: &TimeZone) -> Result<TimeNs, ModifierError> {
    let mut rest = text;
    let mut time = from;
    for word in ["now()", "now"] {
        if let Some(after) = rest.strip_prefix(word) {
            rest = after;
            break;
        }
    }
    while let Some(first) = rest.chars().next() {
        let body = &rest[first.len_utf8()..];
        let end = body.find(['+', '-', '@']).unwrap_or(body.len());
        let (step, after) = body.split_at(end);
        let outcome = match first {
            '@' => snap(time, Snap::parse(step, text)?, tz),
            '+' => offset(time, 1, step, text, tz)?,
            '-' => offset(time, -1, step, text, tz)?,
            _ if rest.len() == text.len() && first.is_ascii_digit() => {
                // A first offset without a sign is added, but it must have a unit: `2026-13-01` is an invalid date,
                // not a chain of seconds.
                let end = rest.find(['+', '-', '@']).unwrap_or(rest.len());
                if rest.as_bytes()[end - 1].is_ascii_digit() {
                    return Err(ModifierError::Unreadable { text: text.to_owned() });
                }
                let moved = offset(time, 1, &rest[..end], text, tz)?;
                time = moved.ok_or_else(|| ModifierError::OutOfRange { text: text.to_owned() })?;
                rest = &rest[end..];
                continue;
            }
            _ => return Err(ModifierError::Unreadable { text: text.to_owned() }),
        };
        time = outcome.ok_or_else(|| ModifierError::OutOfRange { text: text.to_owned() })?;
        rest = after;
    }
    Ok(time)
}

/// Adds or subtracts `step`, for example `5m`; the inner `None` means an overflow.
fn offset(time: TimeNs, sign: i64, step: &str, text: &str, tz: &TimeZone) -> Result<Option<TimeNs>, ModifierError> {
    let digits = step.bytes().take_while(u8::is_ascii_digit).count();
    let (amount, name) = step.split_at(digits);
    if step.is_empty() {
        return Err(ModifierError::Unreadable { text: text.to_owned() });
    }
    let amount = if amount.is_empty() { Ok(1) } else { amount.parse::<i64>() };
    let unit = if name.is_empty() { SpanUnit::Second } else { unit_of(name, text)? };
    Ok(amount.ok().and_then(|amount| shift(time, sign * amount, unit, tz)))
}

/// Adds a number of units to an instant; `None` on overflow.
pub fn shift(time: TimeNs, amount: i64, unit: SpanUnit, tz: &TimeZone) -> Option<TimeNs> {
    if let Some(length) = unit.fixed_ns() {
        return time.checked_add(length.checked_mul(amount)?);
    }
    let local = Civil::at(time, tz);
    let days = |days: Option<i64>| Some(Civil { days: local.days.checked_add(days?)?, ..local });
    let moved = match unit {
        SpanUnit::Day => days(Some(amount)),
        SpanUnit::Week => days(amount.checked_mul(7)),
        SpanUnit::Month => local.add_months(amount),
        SpanUnit::Quarter => local.add_months(amount.checked_mul(3)?),
        _ => local.add_months(amount.checked_mul(12)?),
    };
    moved?.to_instant(tz)
}

/// Rounds an instant down; `None` on overflow.
pub fn snap(time: TimeNs, snap: Snap, tz: &TimeZone) -> Option<TimeNs> {
    let local = Civil::at(time, tz);
    let (year, month, _) = date_from_days(local.days);
    let length = match snap.unit {
        SpanUnit::Minute => 60,
        SpanUnit::Hour => 3_600,
        _ => 1,
    };
    let day = match snap.unit {
        SpanUnit::Day => local.days,
        SpanUnit::Week => local.days - (weekday(local.days) - i64::from(snap.weekday)).rem_euclid(7),
        SpanUnit::Month => days_from_date(year, month, 1),
        SpanUnit::Quarter => days_from_date(year, (month - 1) / 3 * 3 + 1, 1),
        SpanUnit::Year => days_from_date(year, 1, 1),
        // For units below a day, the instant is moved and not the clock time, so that a repeated hour is handled
        // correctly.
        _ => return time.checked_sub(local.second_of_day % length * NS_PER_SEC + local.nanos),
    };
    Civil::midnight(day).to_instant(tz)
}

impl Snap {
    /// Parses the text after `@` in `text`.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Snap, ModifierError> {
        if let Some(digit) = name.strip_prefix('w').and_then(|rest| rest.parse::<u8>().ok())
            && name.len() == 2
            && digit <= 7
        {
            return Ok(Snap { unit: SpanUnit::Week, weekday: digit % 7 });
        }
        Ok(Snap { unit: unit_of(name, text)?, weekday: 0 })
    }
}

/// Unit by short or long name.
pub(crate) fn unit_of(name: &str, text: &str) -> Result<SpanUnit, ModifierError> {
    Ok(match name {
        "s" | "sec" | "secs" | "second" | "seconds" => SpanUnit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => SpanUnit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => SpanUnit::Hour,
        "d" | "day" | "days" => SpanUnit::Day,
        "w" | "week" | "weeks" => SpanUnit::Week,
        "mon" | "month" | "months" => SpanUnit::Month,
        "q" | "qtr" | "qtrs" | "quarter" | "quarters" => SpanUnit::Quarter,
        "y" | "yr" | "yrs" | "year" | "years" => SpanUnit::Year,
        _ => return Err(ModifierError::Unit { unit: name.to_owned(), text: text.to_owned() }),
    })
}

#[cfg(test)]
mod tests;
