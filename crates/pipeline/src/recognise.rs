//! Timestamp recognition without a format.
//!
//! Recognisers for the usual ways of writing times are tried from left to right, wherever a number or the name of a
//! weekday or month begins, but not inside a longer word, number or path. The first byte determines which recognisers
//! can match, so that a typical line takes a few comparisons. The result depends on earlier lines only through the
//! preferred order of day and month.
//!
//! The first timestamp with both date and time of day is used. If there is none, the text is searched for other kinds
//! of times, in this order: a lone date, completed by a lone time of day if there is one; a lone time of day; a bare
//! ten-digit number, which may be an epoch. Not here: filling the gaps of a timestamp ([`crate::timestamp`]).

mod clock;
mod epoch;
mod json_key;
mod names;
mod numeric_date;
mod rfc3339;

use std::sync::Arc;

use quarry_event::time::{DateTimeParts, Format, NS_PER_SEC, ResolveContext, TimeNs};
use quarry_stdx::number::low_u8;

/// First plausible year.
pub(crate) const YEAR_MIN: i16 = 1971;
/// Last plausible year.
pub(crate) const YEAR_MAX: i16 = 2099;
/// Maximum difference, in seconds, at which an epoch and another time in the same line count as the same moment, after
/// the offset of a time zone is subtracted. The clocks of the writer and the sender may differ.
const EPOCH_SLACK_SECS: i64 = 300;
const DAY_SECS: i64 = 86_400;
/// Maximum number of seconds that an epoch may be in the future; larger numbers are identifiers.
const EPOCH_AHEAD_SECS_MAX: i64 = 366 * 86_400;
/// Offsets of time zones are multiples of this, a quarter of an hour.
const ZONE_STEP_SECS: i64 = 900;
/// Largest offset of a time zone.
const ZONE_SECS_MAX: i64 = 14 * 3600;

/// A way of writing times. [`crate::timestamp`] finds the one that a source usually uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Configured by `TIME_FORMAT`.
    Configured,
    /// `2015-10-18 18:01:47,978`, `2026-11-20T13:42:07Z`, `2005.06.03-15.42.50`.
    YearFirst,
    /// `20171223-22:15:29:606`, `20171223221529`.
    Compact,
    /// `081109 203615`.
    CompactShortYear,
    /// `10/Oct/2000:13:55:36 -0700`, `10 Oct 2000 13:55:36`.
    DayMonthName,
    /// `11/20/2026 01:42:07 PM`, `20.11.2026 13:42`, `17/06/09 20:10:40`.
    Triple,
    /// `03-17 16:13:38.811`, `10.30 16:49:06`.
    NoYear,
    /// `Jun 14 15:16:01`, `Sun Dec 04 04:47:44 2005`.
    MonthName,
    /// `10:41:22 Oct 9 2005` or a lone time of day.
    ClockFirst,
    /// Seconds since 1970, or smaller units.
    Epoch,
}

impl Form {
    /// Description for users.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Configured => "by TIME_FORMAT",
            Form::YearFirst => "year, month, day, time",
            Form::Compact => "digits without a break",
            Form::CompactShortYear => "six digits each for date and time",
            Form::DayMonthName => "day, name of the month, year, time",
            Form::Triple => "three numbers and a time",
            Form::NoYear => "month and day without a year, time",
            Form::MonthName => "name of the month, day, time",
            Form::ClockFirst => "time of day",
            Form::Epoch => "seconds since 1970",
        }
    }
}

/// Order of the numbers of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateOrder {
    /// `28/11/2026`.
    DayMonthYear,
    /// `11/28/2026`.
    MonthDayYear,
    /// `26/11/28`.
    YearMonthDay,
}

/// The order in which the numbers of a date were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderRead {
    pub(crate) order: DateOrder,
    /// Whether the numbers are a date only in this order.
    pub(crate) is_only: bool,
}

/// The same numbers with month and day exchanged, if the result is a date.
pub(crate) fn swap_day_and_month(parts: &DateTimeParts, order: DateOrder) -> Option<(DateTimeParts, DateOrder)> {
    let other = match order {
        DateOrder::DayMonthYear => DateOrder::MonthDayYear,
        DateOrder::MonthDayYear => DateOrder::DayMonthYear,
        DateOrder::YearMonthDay => return None,
    };
    let (month, day) = day_of_month(u32::from(parts.day?), u32::from(parts.month?))?;
    Some((DateTimeParts { month: Some(month), day: Some(day), ..*parts }, other))
}

/// Completeness of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Date and time of day.
    Full,
    /// A day only.
    Date,
    /// Time of day only.
    Clock,
    /// A number that may be an epoch.
    LooseEpoch,
}

/// A recognised timestamp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) parts: DateTimeParts,
    pub(crate) form: Form,
    pub(crate) rank: Rank,
    /// Whether only punctuation precedes the timestamp.
    pub(crate) leads: bool,
    /// Index of the first byte.
    pub(crate) start: usize,
    /// Index after the last byte.
    pub(crate) end: usize,
    /// The order of the numbers, if the date consists of numbers only.
    pub(crate) order: Option<OrderRead>,
}

impl Stamp {
    fn new(parts: DateTimeParts, form: Form, rank: Rank, end: usize) -> Stamp {
        Stamp { parts, form, rank, leads: false, start: 0, end, order: None }
    }

    /// Whether a line with this timestamp begins an event.
    pub(crate) fn begins_event(&self) -> bool {
        match self.rank {
            Rank::Full | Rank::Date => true,
            Rank::Clock => self.leads,
            Rank::LooseEpoch => false,
        }
    }
}

/// The recognisers, with the limits derived from the current time.
#[derive(Clone, Debug)]
pub(crate) struct Recogniser {
    /// The year after the current one: the last year accepted for a two-digit year at the start of a date, and for a
    /// four-digit year after a time of day.
    year_now_max: i16,
    /// Largest epoch in seconds.
    epoch_max: i64,
    /// Preferred order of the numbers in an ambiguous date.
    order: Option<DateOrder>,
    /// Reads zone abbreviations.
    zone_name: Option<Format>,
    aliases: Arc<ZoneAliases>,
}

/// `TZ_ALIAS`: abbreviations with redefined offsets, in seconds east of UTC.
pub(crate) type ZoneAliases = [(Box<[u8]>, i32)];

impl Recogniser {
    pub(crate) fn new(now: TimeNs, aliases: Arc<ZoneAliases>) -> Recogniser {
        let seconds = now.div_euclid(NS_PER_SEC);
        let year = 1970 + seconds.div_euclid(31_556_952);
        Recogniser {
            year_now_max: i16::try_from(year + 1).unwrap_or(YEAR_MAX),
            epoch_max: seconds + EPOCH_AHEAD_SECS_MAX,
            order: None,
            zone_name: Format::new("%Z").ok(),
            aliases,
        }
    }

    /// Sets the preferred order of the numbers in an ambiguous date, which is the order in other dates of the source.
    pub(crate) fn set_preferred_order(&mut self, order: Option<DateOrder>) {
        self.order = order;
    }

    /// The best timestamp in `text`, which the caller has cut to the lookahead length.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Stamp> {
        // Most lines of a stack trace end here; a line that begins with a digit most likely begins with its time and
        // is not tested.
        if !text.first().is_some_and(u8::is_ascii_digit) && !has_digits_of_a_time(text) {
            return None;
        }
        self.scan(text)
    }

    /// Like [`Recogniser::find`], without the test for digits.
    fn scan(&self, text: &[u8]) -> Option<Stamp> {
        let mut resorts = FallbackStamps::default();
        let mut leads = true;
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            if !byte.is_ascii_alphanumeric() {
                at += 1;
                continue;
            }
            let is_digit = byte.is_ascii_digit();
            let run = if is_digit { digits(text, at) } else { letters(text, at) };
            if has_left_boundary(text, at) {
                let stamp = if is_digit {
                    self.stamp_at_number(text, at, run, leads)
                } else {
                    self.stamp_at_name(text, at, run)
                };
                if let Some(stamp) = stamp {
                    let stamp = Stamp { leads, start: at, ..stamp };
                    match stamp.rank {
                        Rank::Full => return Some(self.with_fraction(resorts.replacement_for(stamp), text)),
                        _ => resorts.note(stamp),
                    }
                    at = stamp.end;
                    leads = false;
                    continue;
                }
            }
            leads = false;
            at += run;
        }
        resorts.best()
    }

    /// The first complete timestamp in this form, from `at` on.
    pub(crate) fn find_form(&self, text: &[u8], form: Form, at: usize) -> Option<Stamp> {
        let mut at = at;
        while at < text.len() {
            let byte = text[at];
            let is_digit = byte.is_ascii_digit();
            let run = if is_digit { digits(text, at) } else { letters(text, at) };
            if run > 0 && has_left_boundary(text, at) {
                let stamp = if is_digit {
                    self.stamp_at_number(text, at, run, false)
                } else {
                    self.stamp_at_name(text, at, run)
                };
                if let Some(stamp) = stamp.filter(|stamp| stamp.form == form && stamp.rank == Rank::Full) {
                    return Some(Stamp { start: at, ..stamp });
                }
            }
            at += run.max(1);
        }
        None
    }

    fn stamp_at_number(&self, text: &[u8], at: usize, run: usize, leads: bool) -> Option<Stamp> {
        match run {
            1 | 2 => self.short_number(text, at, run),
            4 => rfc3339::stamp_at(text, at).or_else(|| self.year_first(text, at)),
            6 => self.compact_short_year(text, at),
            8 | 14 => self.compact(text, at, run),
            10 | 13 | 16 | 19 => self.epoch(text, at, run, leads),
            _ => None,
        }
    }

    /// The same time with a fraction, if the text repeats it. Supercomputer logs, for example, begin with an epoch and
    /// repeat the time with a fraction.
    fn with_fraction(&self, stamp: Stamp, text: &[u8]) -> Stamp {
        let (Some(epoch), 0) = (stamp.parts.epoch, stamp.parts.nanos) else { return stamp };
        let mut at = stamp.end;
        while at < text.len() {
            if digits(text, at) == 4
                && has_left_boundary(text, at)
                && let Some(other) = self.year_first(text, at)
                && other.parts.nanos > 0
                && is_same_second(epoch, &other.parts)
            {
                return Stamp { parts: DateTimeParts { nanos: other.parts.nanos, ..stamp.parts }, ..stamp };
            }
            at += digits(text, at).max(1);
        }
        stamp
    }
}

/// Whether both times differ only by a time zone.
fn is_same_second(epoch: i64, parts: &DateTimeParts) -> bool {
    seconds_apart(epoch, parts).is_some_and(|apart| apart % ZONE_STEP_SECS == 0 && apart.abs() <= ZONE_SECS_MAX)
}

/// Seconds from an epoch to a timestamp, if the timestamp is interpreted as UTC.
fn seconds_apart(epoch: i64, parts: &DateTimeParts) -> Option<i64> {
    let utc = jiff::tz::TimeZone::UTC;
    let context = ResolveContext { now: epoch.checked_mul(NS_PER_SEC)?, tz: &utc, last: None };
    parts.resolve(&context)?.div_euclid(NS_PER_SEC).checked_sub(epoch)
}

/// The first lone date, the first lone time of day, and the first number that may be an epoch.
#[derive(Default)]
struct FallbackStamps {
    date: Option<Stamp>,
    clock: Option<Stamp>,
    epoch: Option<Stamp>,
}

impl FallbackStamps {
    fn note(&mut self, stamp: Stamp) {
        let slot = match stamp.rank {
            Rank::Full | Rank::Date => &mut self.date,
            Rank::Clock => &mut self.clock,
            Rank::LooseEpoch => &mut self.epoch,
        };
        slot.get_or_insert(stamp);
    }

    /// Returns the recorded epoch, which needs no zone, if it can be the same moment as `stamp` in some time zone;
    /// otherwise `stamp`. A timestamp that names its zone is kept.
    fn replacement_for(&self, stamp: Stamp) -> Stamp {
        let Some(epoch) = self.epoch else { return stamp };
        let slack = if stamp.rank == Rank::Date { DAY_SECS } else { EPOCH_SLACK_SECS };
        let apart = epoch.parts.epoch.and_then(|seconds| seconds_apart(seconds, &stamp.parts));
        let is_same = apart.is_some_and(|apart| apart.abs() <= ZONE_SECS_MAX + slack);
        if stamp.parts.offset.is_none() && is_same { Stamp { rank: Rank::Full, ..epoch } } else { stamp }
    }

    fn best(self) -> Option<Stamp> {
        let found = self.best_of_kinds();
        found.map(
            |stamp| if matches!(stamp.rank, Rank::Full | Rank::Date) { self.replacement_for(stamp) } else { stamp },
        )
    }

    fn best_of_kinds(&self) -> Option<Stamp> {
        match (self.date, self.clock) {
            (Some(date), Some(clock)) => {
                let DateTimeParts { year, month, day, .. } = date.parts;
                let parts = DateTimeParts { year, month, day, ..clock.parts };
                Some(Stamp { parts, rank: Rank::Full, ..date })
            }
            (date, clock) => date.or(clock).or(self.epoch),
        }
    }
}

/// Whether the text has at least as many digits as the shortest timestamps: three in two numbers (`1:30`, `1-Oct-00`),
/// or six in one number (`081109`).
fn has_digits_of_a_time(text: &[u8]) -> bool {
    let (mut numbers, mut count, mut at) = (0, 0, 0);
    while let Some(start) = next_digit(text, at) {
        let run = digits(text, start);
        (numbers, count) = (numbers + 1, count + run);
        if run >= 6 || (numbers >= 2 && count >= 3) {
            return true;
        }
        at = start + run;
    }
    false
}

/// The first digit from `at` on. Tests eight bytes at a time: adding 128 minus a bound to a byte below 128 sets the
/// top bit if the byte reaches the bound.
fn next_digit(text: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x80 * ONES;
    while let Some(chunk) = text.get(at..)?.first_chunk::<8>() {
        let bytes = u64::from_le_bytes(*chunk);
        let low = bytes & !TOPS;
        let from_zero = low + u64::from(0x80 - b'0') * ONES;
        let above_nine = low + u64::from(0x7f - b'9') * ONES;
        let found = from_zero & !above_nine & !bytes & TOPS;
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    text[at..].iter().position(u8::is_ascii_digit).map(|found| at + found)
}

/// Number of consecutive digits from `at` on.
fn digits(text: &[u8], at: usize) -> usize {
    text.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// Number of consecutive letters from `at` on.
fn letters(text: &[u8], at: usize) -> usize {
    text.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count())
}

/// Number of consecutive blanks from `at` on.
fn blanks(text: &[u8], at: usize) -> usize {
    text.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count())
}

/// A number of `least` to `most` digits at `at`, and the position after it.
fn number(text: &[u8], at: usize, least: usize, most: usize) -> Option<(u32, usize)> {
    let mut value = 0;
    let mut end = at;
    while end < at + most {
        let Some(digit) = text.get(end).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) else { break };
        value = value * 10 + u32::from(digit);
        end += 1;
    }
    (end >= at + least).then_some((value, end))
}

/// Whether a timestamp may begin at `at`: not inside a word, a longer number, a path or a file name.
fn has_left_boundary(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    let earlier = before.checked_sub(1).map(|earlier| text[earlier]);
    match text[before] {
        b'.' | b'_' | b'/' | b'\\' | b'+' | b'%' => false,
        b'-' => !earlier.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'.'),
        b':' => !earlier.is_some_and(|byte| byte.is_ascii_digit()),
        byte => !byte.is_ascii_alphanumeric(),
    }
}

/// Whether a timestamp may end before `at`: the word or number does not continue.
fn has_right_boundary(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        None => true,
        Some(b'.' | b'-' | b'/' | b':') => !text.get(at + 1).is_some_and(u8::is_ascii_digit),
        Some(byte) => !byte.is_ascii_alphanumeric() && *byte != b'_',
    }
}

/// Month and day, if such a date is possible.
fn day_of_month(month: u32, day: u32) -> Option<(u8, u8)> {
    const DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let most = DAYS.get((month as usize).checked_sub(1)?)?;
    (1..=*most).contains(&day).then_some((low_u8(month), low_u8(day)))
}

/// The year, if it is plausible.
fn full_year(year: u32) -> Option<i16> {
    i16::try_from(year).ok().filter(|year| (YEAR_MIN..=YEAR_MAX).contains(year))
}

/// The year that two digits stand for, from 1969 to 2068.
fn short_year(year: u32) -> i16 {
    i16::from(low_u8(year)) + if year < 69 { 2000 } else { 1900 }
}

#[cfg(test)]
mod tests;
