//! Parsing of single format steps.

use quarry_stdx::number::u8_of;

use super::{DateTimeParts, EPOCH_SECS_MAX, Field, Item};
use crate::time::names::{MONTHS, SHORT_NAME_LEN, WEEKDAYS, zone_offset};

/// Maximum number of digits of an epoch in seconds; further digits are not part of it.
const EPOCH_DIGITS_MAX: usize = 10;
/// First two-digit year that belongs to the 20th century.
const CENTURY_PIVOT: i16 = 69;
/// Maximum number of hours of an offset; a larger number is not an offset.
const OFFSET_HOURS_MAX: i32 = 25;
/// Maximum number of letters of a zone name; a longer word is not a zone.
const ZONE_NAME_BYTES_MAX: usize = 5;

impl Item {
    /// Parses this step at `at`; returns the position after it.
    #[inline]
    pub(super) fn read(&self, text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
        match self {
            Item::Byte(byte) => (text.get(at) == Some(byte)).then_some(at + 1),
            Item::Blanks => Some(skip_blanks(text, at)),
            Item::YearMonthDay(separator) => read_date(text, at, *separator, parts),
            Item::Clock => read_clock(text, at, parts),
            Item::MonthName => {
                let (month, end) = read_name(text, at, &MONTHS)?;
                parts.month = Some(month + 1);
                Some(end)
            }
            Item::Number { field, digits } => read_field(text, at, *field, usize::from(*digits), parts),
            Item::Subsecond(digits) => read_subsecond(text, at, usize::from(*digits), parts),
            Item::Offset => {
                let (offset, end) = read_offset(text, at)?;
                parts.offset = Some(offset);
                Some(end)
            }
            Item::WeekdayName => {
                let (weekday, end) = read_name(text, at, &WEEKDAYS)?;
                parts.weekday = Some(weekday);
                Some(end)
            }
            Item::Half => read_meridiem(text, at, parts),
            Item::ZoneName => read_zone_name(text, at, parts),
            Item::OffsetMinutes => read_offset_minutes(text, at, parts),
            Item::Epoch => read_epoch(text, at, parts),
        }
    }
}

fn skip_blanks(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Two digits at a fixed position.
#[inline]
fn two_digits(text: &[u8], at: usize) -> Option<u8> {
    let (tens, ones) = (text.get(at)?.wrapping_sub(b'0'), text.get(at + 1)?.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| tens * 10 + ones)
}

/// A number of 1 to `digits` digits, and the position after it.
#[inline]
fn read_number(text: &[u8], at: usize, digits: usize) -> Option<(u32, usize)> {
    let mut value = 0;
    let mut end = at;
    while end < at + digits {
        let Some(digit) = text.get(end).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) else { break };
        value = value * 10 + u32::from(digit);
        end += 1;
    }
    (end > at).then_some((value, end))
}

#[inline]
fn read_date(text: &[u8], at: usize, separator: u8, parts: &mut DateTimeParts) -> Option<usize> {
    if let Some(fixed) = text.get(at..at + 10)
        && fixed[4] == separator
        && fixed[7] == separator
        && let (Some(century), Some(year)) = (two_digits(fixed, 0), two_digits(fixed, 2))
        && let (Some(month), Some(day)) = (two_digits(fixed, 5), two_digits(fixed, 8))
    {
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        parts.year = Some(i16::from(century) * 100 + i16::from(year));
        parts.month = Some(month);
        parts.day = Some(day);
        return Some(at + 10);
    }
    let at = read_field(text, at, Field::Year, 4, parts)?;
    let at = read_field(text, expect_byte(text, at, separator)?, Field::Month, 2, parts)?;
    read_field(text, expect_byte(text, at, separator)?, Field::Day, 2, parts)
}

#[inline]
fn read_clock(text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
    if let Some(fixed) = text.get(at..at + 8)
        && fixed[2] == b':'
        && fixed[5] == b':'
        && let (Some(hour), Some(minute), Some(second)) =
            (two_digits(fixed, 0), two_digits(fixed, 3), two_digits(fixed, 6))
    {
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        parts.hour = Some(hour);
        parts.minute = Some(minute);
        parts.second = Some(second);
        return Some(at + 8);
    }
    let at = read_field(text, at, Field::Hour, 2, parts)?;
    let at = read_field(text, expect_byte(text, at, b':')?, Field::Minute, 2, parts)?;
    read_field(text, expect_byte(text, at, b':')?, Field::Second, 2, parts)
}

fn expect_byte(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    (text.get(at) == Some(&byte)).then_some(at + 1)
}

fn read_field(text: &[u8], at: usize, field: Field, digits: usize, parts: &mut DateTimeParts) -> Option<usize> {
    // Some formats pad with blanks: "Nov  1", " 9:05".
    let padded = matches!(field, Field::Day | Field::Hour | Field::Hour12) && text.get(at) == Some(&b' ');
    let (value, end) = read_number(text, at + usize::from(padded), digits)?;
    let inside = |range: std::ops::RangeInclusive<u8>| u8::try_from(value).ok().filter(|value| range.contains(value));
    match field {
        Field::Year if end - at == digits => parts.year = Some(i16::try_from(value).ok()?),
        Field::IsoYear if end - at == digits => parts.iso_year = Some(i16::try_from(value).ok()?),
        Field::Year | Field::IsoYear => return None,
        Field::YearOfCentury => {
            let short = i16::try_from(value).ok()?;
            parts.year = Some(if short < CENTURY_PIVOT { 2000 + short } else { 1900 + short });
        }
        Field::Month => parts.month = Some(inside(1..=12)?),
        Field::Day => parts.day = Some(inside(1..=31)?),
        Field::DayOfYear => parts.day_of_year = Some(u16::try_from(value).ok().filter(|day| (1..=366).contains(day))?),
        Field::Hour => parts.hour = Some(inside(0..=23)?),
        Field::Hour12 => parts.hour = Some(inside(1..=12)?),
        Field::Minute => parts.minute = Some(inside(0..=59)?),
        Field::Second => parts.second = Some(inside(0..=60)?),
        Field::IsoWeek => parts.iso_week = Some(inside(1..=53)?),
        Field::IsoWeekday => parts.weekday = Some(inside(1..=7)? % 7),
        Field::Weekday => parts.weekday = Some(inside(0..=6)?),
        Field::WeekOfYear => {}
    }
    Some(end)
}

#[inline]
fn read_subsecond(text: &[u8], at: usize, digits: usize, parts: &mut DateTimeParts) -> Option<usize> {
    let (value, end) = read_number(text, at, digits)?;
    const POWERS: [u32; 10] = [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    parts.nanos = value * POWERS[end - at];
    Some(end)
}

/// Index in `names` of the long or short name at `at`; case-insensitive.
fn read_name(text: &[u8], at: usize, names: &[&str]) -> Option<(u8, usize)> {
    let rest = text.get(at..)?;
    let short = rest.get(..SHORT_NAME_LEN)?;
    let found = names.iter().position(|name| name.as_bytes()[..SHORT_NAME_LEN].eq_ignore_ascii_case(short))?;
    let long = names[found].as_bytes();
    let is_long = rest.get(..long.len()).is_some_and(|name| name.eq_ignore_ascii_case(long));
    Some((u8_of(found), at + if is_long { long.len() } else { SHORT_NAME_LEN }))
}

/// `AM`, `pm`, `a.m.`.
fn read_meridiem(text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
    let rest = text.get(at..)?;
    let forms: [(&[u8], bool); 4] = [(b"am", false), (b"pm", true), (b"a.m.", false), (b"p.m.", true)];
    let matches = |form: &[u8]| rest.get(..form.len()).is_some_and(|head| head.eq_ignore_ascii_case(form));
    let (form, afternoon) = forms.into_iter().find(|(form, _)| matches(form))?;
    parts.afternoon = Some(afternoon);
    Some(at + form.len())
}

/// `Z`, `+hh`, `+hhmm`, `+hh:mm`, `+hh:mm:ss`, optionally after `GMT` or `UTC`; in seconds east of UTC.
pub(crate) fn read_offset(text: &[u8], at: usize) -> Option<(i32, usize)> {
    let rest = text.get(at..)?;
    if rest.get(..3).is_some_and(|name| name.eq_ignore_ascii_case(b"GMT") || name.eq_ignore_ascii_case(b"UTC")) {
        return if matches!(rest.get(3), Some(b'+' | b'-')) { read_offset(text, at + 3) } else { Some((0, at + 3)) };
    }
    let sign = match rest.first()? {
        b'Z' | b'z' => return Some((0, at + 1)),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, mut end) = read_number(text, at + 1, 2)?;
    let mut size = i32::try_from(hours).ok()? * 3600;
    for unit in [60, 1] {
        let colon = usize::from(text.get(end) == Some(&b':'));
        let Some(value) = two_digits(text, end + colon).filter(|value| *value < 60) else { break };
        if colon == 0 && unit == 1 {
            break;
        }
        size += i32::from(value) * unit;
        end += colon + 2;
    }
    (size <= OFFSET_HOURS_MAX * 3600).then_some((sign * size, end))
}

/// A known abbreviation, a numeric offset, or unknown letters, which only `TZ_ALIAS` can resolve.
fn read_zone_name(text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
    let rest = text.get(at..)?;
    let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let signed = matches!(rest.get(letters), Some(b'+' | b'-'));
    if let (0, _) | (3, true) = (letters, signed) {
        let (offset, end) = read_offset(text, at)?;
        parts.offset = Some(offset);
        return Some(end);
    }
    if letters > ZONE_NAME_BYTES_MAX {
        return None;
    }
    let end = at + letters;
    parts.offset = zone_offset(&rest[..letters]);
    parts.zone_name = Some((u32::try_from(at).ok()?, u32::try_from(end).ok()?));
    Some(end)
}

fn read_offset_minutes(text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
    let sign = match text.get(at)? {
        b'-' => -1,
        _ => 1,
    };
    let signed = usize::from(matches!(text[at], b'-' | b'+'));
    let (minutes, end) = read_number(text, at + signed, 4)?;
    let minutes = i32::try_from(minutes).ok().filter(|minutes| *minutes <= OFFSET_HOURS_MAX * 60);
    parts.offset = minutes.map(|minutes| sign * minutes * 60);
    parts.offset.map(|_| end)
}

fn read_epoch(text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
    let negative = text.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let digits = text.get(start..)?.iter().take(EPOCH_DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = text.get(start..start + digits).filter(|digits| !digits.is_empty())?;
    let value = digits.iter().fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
    if value > EPOCH_SECS_MAX {
        return None;
    }
    parts.epoch = Some(if negative { -value } else { value });
    parts.is_before_epoch = negative;
    Some(start + digits.len())
}
