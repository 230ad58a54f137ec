//! Formatting of instants.
//!
//! strftime with the C directives in the C locale, plus Splunk's `%f %N %Q %Ez %:z %+`. An unknown directive is output
//! as written. Not here: other locales.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quarry_stdx::number::{f64_of, integer_part, low_u8};

use super::civil::{SECS_PER_DAY, date_from_days, days_from_date, iso_year_start, offset_at, weekday};
use super::names::{MONTHS, SHORT_NAME_LEN, WEEKDAYS};
use super::{NS_PER_SEC, TimeNs};
use crate::value::write_integer;

/// Default number of digits of `%N`.
pub(crate) const NANOSECOND_DIGITS: u8 = 9;
/// Default number of digits of `%Q`.
pub(crate) const MILLISECOND_DIGITS: u8 = 3;
/// Number of digits of `%f`.
pub(crate) const MICROSECOND_DIGITS: u8 = 6;

/// Formats `time` in a time zone.
pub fn strftime(time: TimeNs, format: &str, tz: &TimeZone) -> String {
    let mut out = String::with_capacity(format.len() * 2);
    strftime_into(time, format, tz, &mut out);
    out
}

/// Like [`strftime`], but appends the text to `out`.
pub fn strftime_into(time: TimeNs, format: &str, tz: &TimeZone, out: &mut String) {
    Fields::new(time, tz).write_format(format, out);
}

/// Seconds of a quarter of an hour, of which the offsets of today's time zones are multiples.
const QUARTER_HOUR: i64 = 900;

/// The longest unit in seconds (a second, a minute or a quarter of an hour) within which a format gives the same text,
/// as long as the zone's clock does not change ([`equal_text_range`]); `None` if the format shows parts of a second.
pub fn strftime_unit(format: &str) -> Option<i64> {
    let (mut unit, mut rest) = (QUARTER_HOUR, format);
    while let Some(at) = rest.find('%') {
        rest = &rest[at..];
        let length = directive_len(rest);
        unit = unit.min(directive_unit(&rest[1..length])?);
        rest = &rest[length..];
    }
    Some(unit)
}

/// [`strftime_unit`] of one directive, given without its `%`. An unknown directive is output as written.
fn directive_unit(name: &str) -> Option<i64> {
    let mut chars = name.chars();
    match (chars.next(), chars.next()) {
        (Some('f' | 'N' | 'Q'), None) | (Some('1'..='9'), _) => None,
        // The abbreviation of a zone may change without its offset.
        (Some('S' | 's' | 'Z'), None) => Some(1),
        (Some('M'), None) => Some(60),
        (Some(letter), None) => composite_format(letter).map_or(Some(QUARTER_HOUR), strftime_unit),
        _ => Some(QUARTER_HOUR),
    }
}

/// The times around `time`, from the first to before the second, for which a format with this [`strftime_unit`] gives
/// the same text: a whole unit, or a second if the unit contains a change of the zone's clock, or the zone's offset
/// is not a multiple of the unit.
pub fn equal_text_range(time: TimeNs, unit: i64, tz: &TimeZone) -> (TimeNs, TimeNs) {
    let second = time.div_euclid(NS_PER_SEC);
    let start = second.div_euclid(unit) * unit;
    let is_uniform = || {
        let first = Timestamp::from_second(start).ok()?;
        let change = tz.following(first).next().map(|change| change.timestamp().as_second());
        let offset = i64::from(tz.to_offset(first).seconds());
        Some(offset % unit == 0 && change.is_none_or(|change| change >= start + unit))
    };
    let (start, end) = match unit > 1 && is_uniform() == Some(true) {
        true => (start, start + unit),
        false => (second, second + 1),
    };
    (start.saturating_mul(NS_PER_SEC), end.saturating_mul(NS_PER_SEC))
}

/// Formats a time that may lie outside the range of [`TimeNs`], in the years 0 to 9999. Later times, such as
/// milliseconds mistaken for seconds, become the last second of 9999 on the zone's clock. `None` before the year 0, and
/// for NaN.
pub fn strftime_out_of_range(seconds: f64, format: &str, tz: &TimeZone) -> Option<String> {
    /// The seconds of 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
    const SECONDS: (i64, i64) = (-62_167_219_200, 253_402_300_799);
    if seconds.is_nan() || seconds < f64_of(SECONDS.0) {
        return None;
    }
    let whole =
        integer_part::<i64>(seconds.min(f64_of(SECONDS.1)).floor()).min(SECONDS.1 - zone_offset_at(SECONDS.1, tz));
    let nanos = integer_part::<i64>((seconds - f64_of(whole)).clamp(0.0, 1.0) * 1e6) % 1_000_000 * 1_000;
    let mut out = String::with_capacity(format.len() * 2);
    Fields::of_second(whole, nanos, tz).write_format(format, &mut out);
    Some(out)
}

/// Offset of the zone at a second; outside the supported range, the offset at the nearest second inside the range.
fn zone_offset_at(second: i64, tz: &TimeZone) -> i64 {
    let bounded = second.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(bounded).map_or(0, |time| i64::from(tz.to_offset(time).seconds()))
}

/// The fields of an instant.
struct Fields<'a> {
    second: i64,
    tz: &'a TimeZone,
    offset: i64,
    year: i64,
    month: i64,
    day: i64,
    days: i64,
    clock: i64,
    nanos: i64,
}

impl Fields<'_> {
    fn new(time: TimeNs, tz: &TimeZone) -> Fields<'_> {
        let offset = offset_at(time, tz);
        Fields::with_offset(time.div_euclid(NS_PER_SEC), time.rem_euclid(NS_PER_SEC), offset, tz)
    }

    fn of_second(second: i64, nanos: i64, tz: &TimeZone) -> Fields<'_> {
        Fields::with_offset(second, nanos, zone_offset_at(second, tz), tz)
    }

    fn with_offset(second: i64, nanos: i64, offset: i64, tz: &TimeZone) -> Fields<'_> {
        let local = second + offset;
        let (days, clock) = (local.div_euclid(SECS_PER_DAY), local.rem_euclid(SECS_PER_DAY));
        let (year, month, day) = date_from_days(days);
        Fields { second, tz, offset, year, month, day, days, clock, nanos }
    }

    fn write_format(&self, format: &str, out: &mut String) {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let length = directive_len(rest);
            if !self.write_directive(&rest[1..length], out) {
                out.push_str(&rest[..length]);
            }
            rest = &rest[length..];
        }
        out.push_str(rest);
    }

    /// Writes one directive, given without its `%`; false if the directive is unknown.
    fn write_directive(&self, name: &str, out: &mut String) -> bool {
        let mut chars = name.chars();
        match (chars.next(), chars.next()) {
            (Some(letter), None) => {
                self.write_date(letter, out) || self.write_clock(letter, out) || self.write_composite(letter, out)
            }
            (Some(':') | Some('E'), _) => self.write_zone(name, out),
            (Some(digit @ '1'..='9'), Some('N' | 'Q')) => {
                self.write_subsecond(low_u8(u32::from(digit)) - b'0', out);
                true
            }
            _ => false,
        }
    }

    fn write_date(&self, letter: char, out: &mut String) -> bool {
        let day_of_year = self.days - days_from_date(self.year, 1, 1);
        let weekday = weekday(self.days);
        match letter {
            'Y' => write_padded(self.year, 4, out),
            'C' => write_padded(self.year.div_euclid(100), 2, out),
            'y' => write_padded(self.year.rem_euclid(100), 2, out),
            'm' => write_padded(self.month, 2, out),
            'd' => write_padded(self.day, 2, out),
            'e' => write_blank_padded(self.day, out),
            'j' => write_padded(day_of_year + 1, 3, out),
            'B' => out.push_str(MONTHS[self.month as usize - 1]),
            'b' | 'h' => out.push_str(&MONTHS[self.month as usize - 1][..SHORT_NAME_LEN]),
            'A' => out.push_str(WEEKDAYS[weekday as usize]),
            'a' => out.push_str(&WEEKDAYS[weekday as usize][..SHORT_NAME_LEN]),
            'w' => write_padded(weekday, 1, out),
            'u' => write_padded((weekday + 6) % 7 + 1, 1, out),
            'U' => write_padded((day_of_year + 7 - weekday) / 7, 2, out),
            'W' => write_padded((day_of_year + 7 - (weekday + 6) % 7) / 7, 2, out),
            'V' => write_padded(self.iso_week().1, 2, out),
            'G' => write_padded(self.iso_week().0, 4, out),
            'g' => write_padded(self.iso_week().0.rem_euclid(100), 2, out),
            _ => return false,
        }
        true
    }

    fn write_clock(&self, letter: char, out: &mut String) -> bool {
        let hour = self.clock / 3600;
        let hour_12 = (hour + 11) % 12 + 1;
        match letter {
            'H' => write_padded(hour, 2, out),
            'k' => write_blank_padded(hour, out),
            'I' => write_padded(hour_12, 2, out),
            'l' => write_blank_padded(hour_12, out),
            'M' => write_padded(self.clock / 60 % 60, 2, out),
            'S' => write_padded(self.clock % 60, 2, out),
            'p' => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            'P' => out.push_str(if hour < 12 { "am" } else { "pm" }),
            's' => write_padded(self.second, 1, out),
            'f' => self.write_subsecond(MICROSECOND_DIGITS, out),
            'N' => self.write_subsecond(NANOSECOND_DIGITS, out),
            'Q' => self.write_subsecond(MILLISECOND_DIGITS, out),
            'z' => return self.write_zone("z", out),
            'Z' => out.push_str(
                self.tz.to_offset_info(Timestamp::from_second(self.second).unwrap_or(Timestamp::MAX)).abbreviation(),
            ),
            '%' => out.push('%'),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            _ => return false,
        }
        true
    }

    fn write_composite(&self, letter: char, out: &mut String) -> bool {
        match composite_format(letter) {
            Some(format) => {
                self.write_format(format, out);
                true
            }
            None => false,
        }
    }

    fn write_zone(&self, name: &str, out: &mut String) -> bool {
        let sign = if self.offset < 0 { '-' } else { '+' };
        let size = self.offset.abs();
        let (hours, minutes, seconds) = (size / 3600, size / 60 % 60, size % 60);
        // Writing to a String cannot fail.
        let written = match name {
            "z" => write!(out, "{sign}{hours:02}{minutes:02}"),
            ":z" => write!(out, "{sign}{hours:02}:{minutes:02}"),
            "::z" => write!(out, "{sign}{hours:02}:{minutes:02}:{seconds:02}"),
            ":::z" => write!(out, "{sign}{hours:02}"),
            "Ez" => write!(out, "{sign}{}", size / 60),
            ":Z" => write!(out, "GMT{sign}{hours:02}{minutes:02}"),
            _ => return false,
        };
        written.is_ok()
    }

    fn write_subsecond(&self, digits: u8, out: &mut String) {
        let cut = self.nanos / 10i64.pow(u32::from(NANOSECOND_DIGITS - digits));
        write_padded(cut, usize::from(digits), out);
    }

    /// ISO year and week.
    fn iso_week(&self) -> (i64, i64) {
        let year = if self.days >= iso_year_start(self.year + 1) {
            self.year + 1
        } else if self.days < iso_year_start(self.year) {
            self.year - 1
        } else {
            self.year
        };
        (year, (self.days - iso_year_start(year)) / 7 + 1)
    }
}

/// Expansion of a directive that abbreviates several others.
pub(crate) fn composite_format(letter: char) -> Option<&'static str> {
    Some(match letter {
        'c' => "%a %b %e %H:%M:%S %Y",
        'D' | 'x' => "%m/%d/%y",
        'F' => "%Y-%m-%d",
        'T' | 'X' => "%H:%M:%S",
        'R' => "%H:%M",
        'r' => "%I:%M:%S %p",
        '+' => "%a %b %e %H:%M:%S %Z %Y",
        _ => return None,
    })
}

/// Length of the directive at the start of `text`, including its `%`.
pub(crate) fn directive_len(text: &str) -> usize {
    let body = &text[1..];
    let modifiers = match body.as_bytes().first() {
        Some(b':') => body.bytes().take_while(|byte| *byte == b':').count(),
        Some(b'E' | b'1'..=b'9') => 1,
        _ => 0,
    };
    1 + modifiers + body[modifiers..].chars().next().map_or(0, char::len_utf8)
}

fn write_padded(value: i64, width: usize, out: &mut String) {
    if width == 2 && (0..100).contains(&value) {
        out.extend([value / 10, value % 10].map(|digit| char::from(b'0' + low_u8(digit))));
        return;
    }
    let size = value.unsigned_abs();
    let digits = size.checked_ilog10().map_or(1, |log| log as usize + 1);
    if value < 0 {
        out.push('-');
    }
    out.extend(std::iter::repeat_n('0', width.saturating_sub(digits)));
    write_integer(size.cast_signed(), out);
}

fn write_blank_padded(value: i64, out: &mut String) {
    if value < 10 {
        out.push(' ');
    }
    write_padded(value, 1, out);
}

#[cfg(test)]
mod tests;
