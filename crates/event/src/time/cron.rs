//! Cron schedules (five fields): the next run, and the interval between runs.
//!
//! The interval is the shortest time between two runs of a day; it determines the lifetime of results that are kept for
//! a number of periods. With a single run a day, the interval is a day; it is a week if the schedule names weekdays,
//! and a month if it names days or months. Nothing is executed here.

use super::TimeNs;
use jiff::ToSpan;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

/// Minutes of a day, a week and the longest month.
const DAY_MINUTES: u32 = 24 * 60;
const WEEK_MINUTES: u32 = 7 * DAY_MINUTES;
const MONTH_MINUTES: u32 = 31 * DAY_MINUTES;
/// Seconds of a minute.
const MINUTE_SECS: i64 = 60;

/// Maximum number of hours by which a clock change sets the local time back.
const CLOCK_CHANGE_HOURS_MAX: u32 = 3;
/// Number of days searched for the next run; every such period includes a 29th of February.
const SEARCHED_DAYS_MAX: usize = 9 * 366;
/// Names of months, whose numbers start at 1, and of weekdays, whose numbers start at 0.
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Schedule of a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: Vec<u32>,
    hours: Vec<u32>,
    /// Days of the month; `None` means every day.
    days: Option<Vec<u32>>,
    months: Vec<u32>,
    /// Weekdays, 0 = Sunday; `None` means every weekday.
    weekdays: Option<Vec<u32>>,
}

impl Cron {
    /// Parses `minute hour day month weekday`.
    pub fn parse(schedule: &str) -> Option<Cron> {
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return None };
        let chosen = |field: &str, first, end| {
            let all = parse_values_from(field, first, end);
            if field == "*" { all.map(|_| None) } else { all.map(Some) }
        };
        let mut weekdays = chosen(&replace_names(weekday, &WEEKDAYS, 0), 0, 8)?;
        weekdays.iter_mut().flatten().for_each(|day| *day %= 7);
        Some(Cron {
            minutes: parse_values_from(minute, 0, 60)?,
            hours: parse_values_from(hour, 0, 24)?,
            days: chosen(day, 1, 32)?,
            months: parse_values_from(&replace_names(month, &MONTHS, 1), 1, 13)?,
            weekdays,
        })
    }

    /// The first minute after `now` at which the schedule runs; `None` if it never runs, as on a 30th of February.
    pub fn next_after(&self, now: TimeNs, zone: &TimeZone) -> Option<TimeNs> {
        let now = jiff::Timestamp::from_nanosecond(i128::from(now)).ok()?;
        let local = now.to_zoned(zone.clone());
        let mut date = local.date();
        // Earlier hours of the first day are over, and their conversion to UTC would take most of the time.
        let mut first_hour = u32::try_from(local.hour()).ok()?.saturating_sub(CLOCK_CHANGE_HOURS_MAX);
        for _ in 0..SEARCHED_DAYS_MAX {
            if self.matches_date(date) {
                let hours = self.hours.iter().filter(|hour| **hour >= first_hour);
                for time in hours.flat_map(|hour| self.minutes.iter().map(move |minute| (*hour, *minute))) {
                    let time = Time::new(i8::try_from(time.0).ok()?, i8::try_from(time.1).ok()?, 0, 0).ok()?;
                    let run = date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp();
                    if run > now {
                        return i64::try_from(run.as_nanosecond()).ok();
                    }
                }
            }
            first_hour = 0;
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    fn matches_date(&self, date: Date) -> bool {
        let has = |values: &[u32], value: i8| u32::try_from(value).is_ok_and(|value| values.contains(&value));
        let by_day = self.days.as_ref().map(|days| has(days, date.day()));
        let weekday = date.weekday().to_sunday_zero_offset();
        let by_weekday = self.weekdays.as_ref().map(|days| has(days, weekday));
        // If both days and weekdays are given, one of them suffices.
        let takes_day = match (by_day, by_weekday) {
            (Some(day), Some(weekday)) => day || weekday,
            (one, other) => one.or(other).unwrap_or(true),
        };
        has(&self.months, date.month()) && takes_day
    }
}

/// A field of the expression, with names replaced by their numbers.
fn replace_names(field: &str, names: &[&str], first: usize) -> String {
    let mut field = field.to_ascii_lowercase();
    for (at, name) in names.iter().enumerate() {
        field = field.replace(name, &(at + first).to_string());
    }
    field
}

/// Seconds between two runs, the minimum if the runs of a day are not evenly spaced; `None` for an invalid schedule.
pub fn period_seconds(schedule: &str) -> Option<i64> {
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else { return None };
    let minutes = parse_values(minute, 60)?;
    let hours = parse_values(hour, 24)?;
    let mut runs: Vec<u32> =
        hours.iter().flat_map(|hour| minutes.iter().map(move |minute| hour * 60 + minute)).collect();
    runs.sort_unstable();
    let round = runs.first()? + DAY_MINUTES;
    let shortest = runs.iter().zip(runs.iter().skip(1).chain([&round])).map(|(run, next)| next - run).min()?;
    let period = match (day, month, weekday) {
        _ if runs.len() > 1 => shortest,
        ("*", "*", "*") => DAY_MINUTES,
        ("*", "*", _) => WEEK_MINUTES,
        _ => MONTH_MINUTES,
    };
    Some(i64::from(period) * MINUTE_SECS)
}

/// The values of a field below `end`.
fn parse_values(field: &str, end: u32) -> Option<Vec<u32>> {
    parse_values_from(field, 0, end)
}

/// The values that a field selects, at least `least` and below `end`. The field has items such as `*`, `5` or `1-5`,
/// each with an optional `/step`, separated by commas.
fn parse_values_from(field: &str, least: u32, end: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in field.split(',') {
        let (range, step) =
            part.split_once('/').map_or(Some((part, 1)), |(range, step)| Some((range, step.parse().ok()?)))?;
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (least, end - 1),
            Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
            None => {
                let only: u32 = range.parse().ok()?;
                (only, if part.contains('/') { end - 1 } else { only })
            }
        };
        if step == 0 || last >= end || first < least {
            return None;
        }
        all.extend((first..=last).step_by(step as usize));
    }
    all.sort_unstable();
    all.dedup();
    Some(all).filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::{Cron, period_seconds};

    #[test]
    fn next_after_returns_the_next_scheduled_minute() {
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        for (schedule, next) in [
            ("* * * * *", "2026-11-20T10:01:00Z"),
            ("0 10 * * *", "2026-11-21T10:00:00Z"),
            ("*/20 * * * *", "2026-11-20T10:20:00Z"),
            ("30 3 1 * *", "2026-12-01T03:30:00Z"),
            ("0 0 * * 7", "2026-11-22T00:00:00Z"),
            ("0 0 * * Mon-Tue", "2026-11-23T00:00:00Z"),
            ("0 0 13 * 6", "2026-11-21T00:00:00Z"),
            ("0 0 29 feb *", "2028-02-29T00:00:00Z"),
            ("0 0 */2 * *", "2026-11-21T00:00:00Z"),
            ("59 3,6-10 * * *", "2026-11-20T10:59:00Z"),
            ("0 3 * * *", "2026-11-21T03:00:00Z"),
        ] {
            let now = i64::try_from(at("2026-11-20T10:00:20Z").as_nanosecond()).unwrap();
            let found = Cron::parse(schedule).unwrap().next_after(now, &TimeZone::UTC);
            assert_eq!(found.map(i128::from), Some(at(next).as_nanosecond()), "{schedule}");
        }
        assert_eq!(Cron::parse("0 0 30 2 *").unwrap().next_after(0, &TimeZone::UTC), None);
        for faulty in ["60", "0 0 0 * *", "0 0 * 13 *", "0 0 * * 8", "a b c d e"] {
            assert_eq!(Cron::parse(faulty), None, "{faulty}");
        }
    }

    #[test]
    fn period_is_the_time_between_two_runs() {
        for (schedule, minutes) in [
            ("* * * * *", 1),
            ("*/5 * * * *", 5),
            ("7 * * * *", 60),
            ("0,10,40 * * * *", 10),
            ("30 3 * * *", 24 * 60),
            ("0 6-18/4 * * *", 4 * 60),
            ("0 6 * * 1", 7 * 24 * 60),
            ("0 6 1 * *", 31 * 24 * 60),
        ] {
            assert_eq!(period_seconds(schedule), Some(minutes * 60), "{schedule}");
        }
        for faulty in ["", "daily", "* * * *", "61 * * * *", "*/0 * * * *", "x * * * *"] {
            assert_eq!(period_seconds(faulty), None, "{faulty}");
        }
    }
}
