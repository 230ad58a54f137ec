//! Calendar arithmetic in the proleptic Gregorian calendar, and conversion between timestamps and local clock fields.
//!
//! Hot paths (event timestamps, day spans) use these integer operations instead of a general date type; only time zone
//! rules come from jiff.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{NS_PER_SEC, TimeNs};

/// Seconds of a day without a clock change.
pub(crate) const SECS_PER_DAY: i64 = 86_400;
pub(crate) const MONTHS_PER_YEAR: i64 = 12;
/// Weekday number (0 = Sunday) of 1970-01-01.
const EPOCH_WEEKDAY: i64 = 4;

/// Date and time on a local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    /// Days since 1970-01-01.
    pub(crate) days: i64,
    /// Seconds since midnight.
    pub(crate) second_of_day: i64,
    /// Nanoseconds within the second.
    pub(crate) nanos: i64,
}

/// Days since 1970-01-01 of a date; `month` and `day` count from 1.
pub(crate) fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    // Counting years from March puts the leap day last, so that month lengths follow one formula.
    let march_year = if month <= 2 { year - 1 } else { year };
    let march_month = (month + 9) % 12;
    let leaps = march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    let day_of_march_year = (153 * march_month + 2) / 5 + day - 1;
    march_year * 365 + leaps + day_of_march_year - DAYS_TO_EPOCH
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;
/// Days in 400 years.
const DAYS_PER_ERA: i64 = 146_097;

/// Year, month and day of a day number.
pub(crate) fn date_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + DAYS_TO_EPOCH;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Weekday of a day number, 0 = Sunday.
pub(crate) fn weekday(days: i64) -> i64 {
    (days + EPOCH_WEEKDAY).rem_euclid(7)
}

/// Whether February has 29 days.
pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month; `month` counts from 1.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Day number of the Monday on which ISO week 1 of a year starts.
pub(crate) fn iso_year_start(year: i64) -> i64 {
    let january_4 = days_from_date(year, 1, 4);
    january_4 - (weekday(january_4) + 6) % 7
}

/// Seconds east of UTC at an instant.
pub(crate) fn offset_at(time: TimeNs, tz: &TimeZone) -> i64 {
    i64::from(utc_offset_secs(time, tz))
}

/// Offset of a time zone at an instant, in seconds east of UTC.
pub fn utc_offset_secs(time: TimeNs, tz: &TimeZone) -> i32 {
    tz.to_fixed_offset().unwrap_or_else(|_| tz.to_offset(timestamp(time))).seconds()
}

/// Converts an instant to jiff's type; every `TimeNs` is within its range.
pub(crate) fn timestamp(time: TimeNs) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(time)).unwrap_or_default()
}

impl Civil {
    /// Local fields of an instant.
    pub(crate) fn at(time: TimeNs, tz: &TimeZone) -> Civil {
        Civil::with_offset(time, offset_at(time, tz))
    }

    /// Clock fields of an instant on a clock `offset` seconds east of UTC.
    pub(crate) fn with_offset(time: TimeNs, offset: i64) -> Civil {
        let seconds = time.div_euclid(NS_PER_SEC) + offset;
        Civil {
            days: seconds.div_euclid(SECS_PER_DAY),
            second_of_day: seconds.rem_euclid(SECS_PER_DAY),
            nanos: time.rem_euclid(NS_PER_SEC),
        }
    }

    /// Midnight of a day.
    pub(crate) fn midnight(days: i64) -> Civil {
        Civil { days, second_of_day: 0, nanos: 0 }
    }

    /// The instant on a clock `offset` seconds east of UTC; `None` outside the range of [`TimeNs`].
    pub(crate) fn to_instant_at(self, offset: i64) -> Option<TimeNs> {
        let seconds = self.days.checked_mul(SECS_PER_DAY)?.checked_add(self.second_of_day - offset)?;
        seconds.checked_mul(NS_PER_SEC)?.checked_add(self.nanos)
    }

    /// The instant in a time zone. A local time skipped by a clock change is moved forward by the gap; for an
    /// ambiguous local time, the first instant is used.
    pub(crate) fn to_instant(self, tz: &TimeZone) -> Option<TimeNs> {
        if let Ok(offset) = tz.to_fixed_offset() {
            return self.to_instant_at(i64::from(offset.seconds()));
        }
        let timestamp = tz.to_ambiguous_timestamp(self.to_jiff()?).compatible().ok()?;
        i64::try_from(timestamp.as_nanosecond()).ok()
    }

    fn to_jiff(self) -> Option<DateTime> {
        let (year, month, day) = date_from_days(self.days);
        let clock = self.second_of_day;
        let small = |number: i64| i8::try_from(number).ok();
        DateTime::new(
            i16::try_from(year).ok()?,
            small(month)?,
            small(day)?,
            small(clock / 3600)?,
            small(clock / 60 % 60)?,
            small(clock % 60)?,
            i32::try_from(self.nanos).ok()?,
        )
        .ok()
    }

    /// The same time of day `months` later; the day is limited to the length of the month.
    pub(crate) fn add_months(self, months: i64) -> Option<Civil> {
        let (year, month, day) = date_from_days(self.days);
        let total = year.checked_mul(MONTHS_PER_YEAR)?.checked_add(month - 1)?.checked_add(months)?;
        let (year, month) = (total.div_euclid(MONTHS_PER_YEAR), total.rem_euclid(MONTHS_PER_YEAR) + 1);
        if i16::try_from(year).is_err() {
            return None;
        }
        Some(Civil { days: days_from_date(year, month, day.min(days_in_month(year, month))), ..self })
    }
}
