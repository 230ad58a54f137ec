//! Fields of a parsed timestamp, and the instant they represent.

use jiff::tz::TimeZone;

use crate::time::civil::{Civil, SECS_PER_DAY, date_from_days, days_from_date, days_in_month, is_leap, iso_year_start};
use crate::time::{NS_PER_SEC, TimeNs};

/// Maximum distance into the future of a timestamp without a year: two days. Beyond it, the timestamp is assigned to
/// the previous year.
pub const YEARLESS_FUTURE_NS_MAX: i64 = 2 * SECS_PER_DAY * NS_PER_SEC;
/// Maximum number of years between two years with a 29 February.
const LEAP_GAP_YEARS_MAX: i64 = 8;

/// Fields of a timestamp; fields that the text does not contain are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateTimeParts {
    /// Full year.
    pub year: Option<i16>,
    /// 1 to 12.
    pub month: Option<u8>,
    /// 1 to 31.
    pub day: Option<u8>,
    /// 1 to 366.
    pub day_of_year: Option<u16>,
    /// ISO week-numbering year.
    pub iso_year: Option<i16>,
    /// ISO week, 1 to 53.
    pub iso_week: Option<u8>,
    /// 0 = Sunday; used with `iso_week` only.
    pub weekday: Option<u8>,
    /// 0 to 23, or 1 to 12 when `afternoon` is set.
    pub hour: Option<u8>,
    /// Whether the text says PM; `None` without AM or PM.
    pub afternoon: Option<bool>,
    /// 0 to 59.
    pub minute: Option<u8>,
    /// 0 to 60; a leap second counts as the start of the next minute.
    pub second: Option<u8>,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Seconds east of UTC.
    pub offset: Option<i32>,
    /// Position of a zone name in the text (start, end), whether known or not; through it, `TZ_ALIAS` can override
    /// `offset`.
    pub zone_name: Option<(u32, u32)>,
    /// Seconds since the epoch; overrides everything except `nanos`.
    pub epoch: Option<i64>,
    /// Whether the epoch has a minus sign, so that `nanos` count backwards from it: -0.5 is half a second before 1970.
    pub is_before_epoch: bool,
}

/// Defaults for missing parts of a timestamp.
#[derive(Clone, Copy, Debug)]
pub struct ResolveContext<'a> {
    /// The current time.
    pub now: TimeNs,
    /// Time zone of texts that name no zone.
    pub tz: &'a TimeZone,
    /// Last accepted timestamp of the same source; supplies the date for a text without a date. If `last` is absent,
    /// `now` supplies the date.
    pub last: Option<TimeNs>,
}

impl DateTimeParts {
    /// Whether the text alone determines the date.
    pub fn has_full_date(&self) -> bool {
        self.epoch.is_some()
            || (self.year.is_some() && self.has_day_of_year())
            || (self.iso_year.is_some() && self.iso_week.is_some())
    }

    /// Whether the text determines the day, possibly without the year.
    pub fn has_day(&self) -> bool {
        self.has_full_date() || self.has_day_of_year()
    }

    fn has_day_of_year(&self) -> bool {
        (self.month.is_some() && self.day.is_some()) || self.day_of_year.is_some()
    }

    /// Whether the text contains a time of day or an epoch.
    pub fn has_clock(&self) -> bool {
        self.hour.is_some() || self.epoch.is_some()
    }

    /// The instant. A missing zone is taken from the context. A missing year is the latest year for which the instant
    /// is at most two days after now. A missing date is taken from the last timestamp or, if there is none, from now.
    /// `None` for an invalid or incomplete date, or an instant outside the range of [`TimeNs`].
    #[inline]
    pub fn resolve(&self, context: &ResolveContext<'_>) -> Option<TimeNs> {
        let nanos = i64::from(self.nanos);
        if let Some(epoch) = self.epoch {
            let nanos = if self.is_before_epoch { -nanos } else { nanos };
            return epoch.checked_mul(NS_PER_SEC)?.checked_add(nanos);
        }
        let second_of_day = self.second_of_day()?;
        let at = |days: i64| self.instant(Civil { days, second_of_day, nanos }, context);
        match (self.year, self.month, self.day) {
            (Some(year), Some(month), Some(day)) => at(day_number(i64::from(year), month, day)?),
            (None, Some(month), Some(day)) => {
                let year = infer_year(month, day, context.now, at)?;
                at(day_number(year, month, day)?)
            }
            _ => self.resolve_without_calendar_date(context, at),
        }
    }

    /// The instant for a day of the year, an ISO week, or a text without any date.
    #[cold]
    fn resolve_without_calendar_date(
        &self,
        context: &ResolveContext<'_>,
        at: impl Fn(i64) -> Option<TimeNs>,
    ) -> Option<TimeNs> {
        if let Some(day) = self.day_of_year {
            let day_in = |year: i64| {
                let length = if is_leap(year) { 366 } else { 365 };
                (day <= length).then(|| days_from_date(year, 1, 1) + i64::from(day) - 1)
            };
            let year = match self.year {
                Some(year) => i64::from(year),
                None => latest_year(day_in, context.now, &at)?,
            };
            return at(day_in(year)?);
        }
        if let (Some(year), Some(week)) = (self.iso_year.or(self.year), self.iso_week) {
            let weekday = (i64::from(self.weekday.unwrap_or(1)) + 6) % 7;
            return at(iso_year_start(i64::from(year)) + (i64::from(week) - 1) * 7 + weekday);
        }
        let half_a_date = self.year.or(self.iso_year).is_some() || self.month.or(self.day).or(self.iso_week).is_some();
        if half_a_date || self.hour.is_none() {
            return None;
        }
        let last = context.last.unwrap_or(context.now);
        let today = match self.offset {
            Some(offset) => Civil::with_offset(last, i64::from(offset)),
            None => Civil::at(last, context.tz),
        };
        at(today.days)
    }

    #[inline]
    fn second_of_day(&self) -> Option<i64> {
        let mut hour = i64::from(self.hour.unwrap_or(0));
        if let Some(afternoon) = self.afternoon {
            if hour > 12 {
                return None;
            }
            hour = hour % 12 + if afternoon { 12 } else { 0 };
        }
        Some(hour * 3600 + i64::from(self.minute.unwrap_or(0)) * 60 + i64::from(self.second.unwrap_or(0)))
    }

    #[inline]
    fn instant(&self, mut local: Civil, context: &ResolveContext<'_>) -> Option<TimeNs> {
        if local.second_of_day >= SECS_PER_DAY {
            // 23:59:60 is midnight of the next day.
            local.days += 1;
            local.second_of_day -= SECS_PER_DAY;
        }
        match self.offset {
            Some(offset) => local.to_instant_at(i64::from(offset)),
            None => local.to_instant(context.tz),
        }
    }
}

/// Day number of a date; `None` if the date is invalid.
#[inline]
fn day_number(year: i64, month: u8, day: u8) -> Option<i64> {
    let (month, day) = (i64::from(month), i64::from(day));
    if day > 28 && day > days_in_month(year, month) {
        return None;
    }
    Some(days_from_date(year, month, day))
}

/// Year of a timestamp without a year: the latest year in which `month` and `day` exist and the instant is at most
/// [`YEARLESS_FUTURE_NS_MAX`] after `now`. `instant_of` returns the instant for a day number.
pub fn infer_year(month: u8, day: u8, now: TimeNs, instant_of: impl Fn(i64) -> Option<TimeNs>) -> Option<i64> {
    latest_year(|year| day_number(year, month, day), now, instant_of)
}

/// The latest year that has the day `day_in` (a day number) and whose instant is at most [`YEARLESS_FUTURE_NS_MAX`]
/// after `now`.
fn latest_year(
    day_in: impl Fn(i64) -> Option<i64>,
    now: TimeNs,
    instant_of: impl Fn(i64) -> Option<TimeNs>,
) -> Option<i64> {
    let latest = now.saturating_add(YEARLESS_FUTURE_NS_MAX);
    // In another time zone, the date may be a day later than in UTC.
    let (newest, _, _) = date_from_days(latest.div_euclid(NS_PER_SEC * SECS_PER_DAY) + 1);
    (newest - LEAP_GAP_YEARS_MAX..=newest).rev().find(|year| {
        let time = day_in(*year).and_then(&instant_of);
        time.is_some_and(|time| time <= latest)
    })
}
