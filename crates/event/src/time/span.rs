//! Time spans: the width of time buckets, as in `span=5m`, and their boundaries.
//!
//! Spans below a day are aligned to the epoch in UTC, and days to local midnight. Weeks begin on the epoch's weekday, a
//! Thursday, unless a snap such as `1w@w1` names a weekday. Months, quarters and years are aligned to January 1970 in
//! the local calendar.

use jiff::tz::TimeZone;

use crate::TimeError;

use super::civil::{Civil, MONTHS_PER_YEAR, date_from_days, days_from_date};
use super::modifier::{Snap, unit_of};
use serde::{Deserialize, Serialize};

use super::{NS_PER_SEC, TimeNs};

/// Unit of a [`Span`] or of a time modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SpanUnit {
    /// `us`.
    Microsecond,
    /// `ms`.
    Millisecond,
    /// `cs`, a hundredth of a second.
    Centisecond,
    /// `ds`, a tenth of a second.
    Decisecond,
    /// `s`.
    Second,
    /// `m`.
    Minute,
    /// `h`.
    Hour,
    /// `d`.
    Day,
    /// `w`.
    Week,
    /// `mon`.
    Month,
    /// `q`.
    Quarter,
    /// `y`.
    Year,
}

impl SpanUnit {
    /// Length in nanoseconds of a unit below a day; `None` for calendar units.
    pub fn fixed_ns(self) -> Option<i64> {
        Some(match self {
            SpanUnit::Microsecond => 1_000,
            SpanUnit::Millisecond => 1_000_000,
            SpanUnit::Centisecond => 10_000_000,
            SpanUnit::Decisecond => 100_000_000,
            SpanUnit::Second => NS_PER_SEC,
            SpanUnit::Minute => 60 * NS_PER_SEC,
            SpanUnit::Hour => 3_600 * NS_PER_SEC,
            _ => return None,
        })
    }

    /// Length in months of a unit of at least a month, otherwise 0.
    fn months(self) -> i64 {
        match self {
            SpanUnit::Month => 1,
            SpanUnit::Quarter => 3,
            SpanUnit::Year => MONTHS_PER_YEAR,
            _ => 0,
        }
    }

    /// Short name as SPL writes it.
    pub fn name(self) -> &'static str {
        match self {
            SpanUnit::Microsecond => "us",
            SpanUnit::Millisecond => "ms",
            SpanUnit::Centisecond => "cs",
            SpanUnit::Decisecond => "ds",
            SpanUnit::Second => "s",
            SpanUnit::Minute => "m",
            SpanUnit::Hour => "h",
            SpanUnit::Day => "d",
            SpanUnit::Week => "w",
            SpanUnit::Month => "mon",
            SpanUnit::Quarter => "q",
            SpanUnit::Year => "y",
        }
    }
}

/// Width of time buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Number of units, at least 1.
    pub amount: u64,
    /// Unit.
    pub unit: SpanUnit,
    /// First day of the week, from a snap such as `@w1`; other snaps have no effect.
    pub snap: Option<Snap>,
}

/// Maximum number of units, so that arithmetic cannot overflow.
pub const SPAN_AMOUNT_MAX: u64 = 1_000_000_000;

impl Span {
    /// A span without snap. The amount is clamped to 1..=[`SPAN_AMOUNT_MAX`].
    pub fn new(amount: u64, unit: SpanUnit) -> Span {
        Span { amount: amount.clamp(1, SPAN_AMOUNT_MAX), unit, snap: None }
    }

    /// Parses `5m`, `h`, `1mon`, `500ms`, `300` (seconds), `1w@w1`.
    pub fn parse(text: &str) -> Result<Span, TimeError> {
        let (width, snap) = match text.split_once('@') {
            Some((width, snap)) => (width, Some(Snap::parse(snap, text)?)),
            None => (text, None),
        };
        let digits = width.bytes().take_while(u8::is_ascii_digit).count();
        let (amount, unit) = width.split_at(digits);
        if width.is_empty() {
            return Err(TimeError::Empty);
        }
        let amount = if amount.is_empty() { Some(1) } else { amount.parse().ok() };
        let amount = amount.filter(|amount| (1..=SPAN_AMOUNT_MAX).contains(amount));
        let Some(amount) = amount else {
            return Err(TimeError::OutOfRange { text: text.to_owned() });
        };
        Ok(Span { amount, unit: span_unit(unit, text)?, snap })
    }

    /// Length in nanoseconds of a span below a day; `None` for calendar spans.
    pub fn fixed_ns(&self) -> Option<i64> {
        self.unit.fixed_ns().and_then(|unit| unit.checked_mul(self.amount.cast_signed()))
    }

    /// Start of the bucket that contains `time`. Saturates at the limits of [`TimeNs`].
    pub fn floor(&self, time: TimeNs, tz: &TimeZone) -> TimeNs {
        self.boundary(time, 0, tz)
    }

    /// Start of the bucket after the bucket of `time`.
    pub fn next(&self, time: TimeNs, tz: &TimeZone) -> TimeNs {
        self.boundary(time, 1, tz)
    }

    /// Start of the bucket `ahead` buckets after the bucket of `time`.
    fn boundary(&self, time: TimeNs, ahead: i64, tz: &TimeZone) -> TimeNs {
        let amount = self.amount.cast_signed();
        let edge = if ahead == 0 { TimeNs::MIN } else { TimeNs::MAX };
        if let Some(unit) = self.unit.fixed_ns() {
            let length = unit.saturating_mul(amount);
            return (time.div_euclid(length) + ahead).checked_mul(length).unwrap_or(edge);
        }
        let days = Civil::at(time, tz).days;
        let start = match self.unit.months() {
            0 => {
                let (length, shift) = if self.unit == SpanUnit::Week { (7, self.week_shift()) } else { (1, 0) };
                let length = length * amount;
                ((days - shift).div_euclid(length) + ahead) * length + shift
            }
            months => {
                let (year, month, _) = date_from_days(days);
                let length = months * amount;
                let index = ((year - 1970) * MONTHS_PER_YEAR + month - 1).div_euclid(length) + ahead;
                let month = index * length;
                days_from_date(1970 + month.div_euclid(MONTHS_PER_YEAR), month.rem_euclid(MONTHS_PER_YEAR) + 1, 1)
            }
        };
        Civil::midnight(start).to_instant(tz).unwrap_or(edge)
    }

    /// Day number of a day on which weeks begin.
    fn week_shift(&self) -> i64 {
        /// Day number of a Sunday: 1970-01-04.
        const SUNDAY: i64 = 3;
        match self.snap {
            Some(Snap { unit: SpanUnit::Week, weekday }) => SUNDAY + i64::from(weekday),
            _ => 0,
        }
    }
}

fn span_unit(name: &str, text: &str) -> Result<SpanUnit, TimeError> {
    Ok(match name {
        "us" => SpanUnit::Microsecond,
        "ms" => SpanUnit::Millisecond,
        "cs" => SpanUnit::Centisecond,
        "ds" => SpanUnit::Decisecond,
        "" => SpanUnit::Second,
        _ => return unit_of(name, text),
    })
}

/// A span with the last bucket cached: consecutive events are usually in the same bucket, and calendar spans require a
/// time zone lookup.
#[derive(Clone, Debug)]
pub struct SpanFloor {
    span: Span,
    tz: TimeZone,
    bucket: std::ops::Range<TimeNs>,
}

impl SpanFloor {
    /// Starts with an empty cache.
    pub fn new(span: Span, tz: TimeZone) -> SpanFloor {
        SpanFloor { span, tz, bucket: 0..0 }
    }

    /// Like [`Span::floor`].
    #[inline]
    pub fn floor(&mut self, time: TimeNs) -> TimeNs {
        if !self.bucket.contains(&time) {
            self.bucket = self.span.floor(time, &self.tz)..self.span.next(time, &self.tz);
        }
        self.bucket.start
    }
}

#[cfg(test)]
mod tests;
