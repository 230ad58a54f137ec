//! Time of day after or before a date: clock, fraction, AM/PM, zone.

use quarry_event::time::DateTimeParts;
use quarry_stdx::number::low_u8;

use super::{Recogniser, blanks, digits, has_right_boundary, letters, number};

/// Maximum number of blanks between date and time.
const GAP_BLANKS_MAX: usize = 3;
/// Largest zone offset, in hours.
const OFFSET_HOURS_MAX: u32 = 14;
/// Length of the longest zone abbreviation.
const ZONE_LETTERS_MAX: usize = 5;

impl Recogniser {
    /// Reads the separator between date and time, then the time; returns the position after it.
    pub(super) fn clock_after_date(&self, text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
        let start = match *text.get(at)? {
            b' ' | b'\t' => at + Some(blanks(text, at)).filter(|blanks| *blanks <= GAP_BLANKS_MAX)?,
            b'T' | b't' => {
                return self.clock(text, at + 1, parts).or_else(|| self.compact_clock(text, at + 1, parts));
            }
            b',' => at + 1 + blanks(text, at + 1),
            b'_' | b'-' | b':' | b'@' => at + 1,
            _ => return None,
        };
        self.clock(text, start, parts)
    }

    /// Reads `13:42`, `13:42:07`, `13.42.07` with fraction, AM/PM and zone; returns the position after it.
    pub(super) fn clock(&self, text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
        let (hour, end) = number(text, at, 1, 2)?;
        let separator = *text.get(end).filter(|byte| matches!(byte, b':' | b'.'))?;
        let (minute, mut end) = number(text, end + 1, 1, 2)?;
        let mut second = None;
        if text.get(end) == Some(&separator)
            && let Some((value, after)) = number(text, end + 1, 1, 2)
        {
            second = Some(value);
            end = after;
        }
        // "3.5" and "1:2" are not times of day.
        let is_short = second.is_none() && (separator == b'.' || text.get(end - 2) == Some(&separator));
        if hour > 23 || minute > 59 || second.is_some_and(|second| second > 60) || is_short {
            return None;
        }
        let nanos = if second.is_some() { fraction(text, &mut end) } else { 0 };
        if text.get(end).is_some_and(u8::is_ascii_digit) {
            return None;
        }
        let mut found = *parts;
        (found.hour, found.minute, found.second) = (Some(low_u8(hour)), Some(low_u8(minute)), second.map(low_u8));
        found.nanos = nanos;
        let end = read_am_pm(text, end, &mut found);
        let end = self.zone(text, end, &mut found);
        let ends_well = text.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        ends_well.then(|| *parts = found).map(|()| end)
    }

    /// Reads `134207` with fraction and zone; returns the position after it.
    pub(super) fn compact_clock(&self, text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
        if digits(text, at) != 6 {
            return None;
        }
        let (hour, end) = number(text, at, 2, 2)?;
        let (minute, end) = number(text, end, 2, 2)?;
        let (second, mut end) = number(text, end, 2, 2)?;
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let nanos = fraction(text, &mut end);
        let mut found = *parts;
        (found.hour, found.minute, found.second) = (Some(low_u8(hour)), Some(low_u8(minute)), Some(low_u8(second)));
        found.nanos = nanos;
        let end = self.zone(text, end, &mut found);
        let ends_well = text.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        ends_well.then(|| *parts = found).map(|()| end)
    }

    /// An offset or a known abbreviation, optionally after a blank; returns the position after it, or `at` if there is
    /// none.
    pub(super) fn zone(&self, text: &[u8], at: usize, parts: &mut DateTimeParts) -> usize {
        let blank = usize::from(text.get(at) == Some(&b' '));
        let start = at + blank;
        match text.get(start) {
            Some(b'+' | b'-') => {
                match offset(
                    text,
                    start,
                    if blank == 0 { OffsetNotation::TwoDigits } else { OffsetNotation::WithMinutes },
                ) {
                    Some((seconds, end)) => {
                        parts.offset = Some(seconds);
                        end
                    }
                    None => at,
                }
            }
            Some(b'A'..=b'Z') => self.named_zone(text, start, parts).unwrap_or(at),
            // RFC 3339 allows a lower-case `z`; separated from the time, it would be a word.
            Some(b'z') if blank == 0 && has_right_boundary(text, start + 1) => {
                parts.offset = Some(0);
                start + 1
            }
            _ => at,
        }
    }

    fn named_zone(&self, text: &[u8], at: usize, parts: &mut DateTimeParts) -> Option<usize> {
        let count = letters(text, at);
        let name = &text[at..at + count];
        if let Some((_, seconds)) = self.aliases.iter().find(|(alias, _)| **alias == *name)
            && has_right_boundary(text, at + count)
        {
            parts.offset = Some(*seconds);
            return Some(at + count);
        }
        // Nearly all abbreviations end in T for "time"; this check saves looking up words such as INFO.
        let may_be_zone = matches!(name, [.., b'T'] | b"UTC" | b"Z" | b"MSK") && count <= ZONE_LETTERS_MAX;
        if !may_be_zone {
            return None;
        }
        let end = at + count;
        if matches!(name, b"GMT" | b"UTC" | b"UT")
            && let Some((seconds, end)) = offset(text, end, OffsetNotation::OneDigit)
        {
            parts.offset = Some(seconds);
            return Some(end);
        }
        if !has_right_boundary(text, end) {
            return None;
        }
        let (zone, _) = self.zone_name.as_ref()?.parse_prefix(&text[at..end])?;
        parts.offset = Some(zone.offset?);
        Some(end)
    }
}

/// Nanoseconds of `.363779`, `,978` or `:606`; `end` is moved to the position after it.
fn fraction(text: &[u8], end: &mut usize) -> u32 {
    const POWERS: [u32; 10] = [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let count = digits(text, *end + 1);
    if continues(text, *end, *end + 1 + count) {
        return 0;
    }
    let least = match text.get(*end) {
        Some(b'.') => 1,
        // Other lengths are columns of a comma-separated line; so are nine digits before another comma, which may be a
        // serial number.
        Some(b',') if matches!(count, 3 | 6) || (count == 9 && text.get(*end + 1 + count) != Some(&b',')) => count,
        Some(b':') if (1..=3).contains(&count) => {
            // Digits after a colon are milliseconds, possibly without leading zeros.
            let value = number(text, *end + 1, 1, 3).map_or(0, |(value, _)| value);
            *end += 1 + count;
            return value * 1_000_000;
        }
        _ => return 0,
    };
    if count < least {
        return 0;
    }
    let kept = count.min(9);
    let value = number(text, *end + 1, kept, kept).map_or(0, |(value, _)| value);
    *end += 1 + count;
    value * POWERS[kept]
}

/// Whether the digits between a separator and `end` are part of a longer text: `,192.168.1.10`, `,200,17`.
fn continues(text: &[u8], separator: usize, end: usize) -> bool {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    match (text.get(separator), text.get(end)) {
        (Some(b',' | b'.' | b':'), Some(b'.')) | (Some(b','), Some(b',')) | (Some(b':'), Some(b':')) => {
            is_digit(end + 1)
        }
        (Some(b','), Some(byte)) => byte.is_ascii_alphabetic() && !is_zone_letter(text, end) || *byte == b'_',
        _ => false,
    }
}

/// Whether the zone letter `Z` is at `at`, as in `07,123Z`.
fn is_zone_letter(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), Some(b'Z' | b'z')) && text.get(at + 1).is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

fn read_am_pm(text: &[u8], at: usize, parts: &mut DateTimeParts) -> usize {
    let start = at + usize::from(text.get(at) == Some(&b' '));
    let (Some(first), Some(b'm' | b'M')) = (text.get(start), text.get(start + 1)) else { return at };
    let afternoon = match first {
        b'a' | b'A' => false,
        b'p' | b'P' => true,
        _ => return at,
    };
    let is_hour = parts.hour.is_some_and(|hour| (1..=12).contains(&hour));
    if !is_hour || text.get(start + 2).is_some_and(u8::is_ascii_alphanumeric) {
        return at;
    }
    parts.afternoon = Some(afternoon);
    start + 2
}

/// Shortest notation that is accepted as an offset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OffsetNotation {
    /// `+0200`, `+02:00`.
    WithMinutes,
    /// `+02`.
    TwoDigits,
    /// `+2`; accepted if the text before it leaves no doubt that it is an offset.
    OneDigit,
}

/// Reads `+hhmm`, `-hh:mm`, or hours alone if `least` allows that; returns seconds east of UTC, and the position after
/// it.
fn offset(text: &[u8], at: usize, least: OffsetNotation) -> Option<(i32, usize)> {
    let sign = match text.get(at)? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, end) = number(text, at + 1, if least == OffsetNotation::OneDigit { 1 } else { 2 }, 2)?;
    let colon = usize::from(text.get(end) == Some(&b':'));
    let (minutes, end) = match number(text, end + colon, 2, 2) {
        Some(minutes) => minutes,
        None if least != OffsetNotation::WithMinutes && colon == 0 => (0, end),
        None => return None,
    };
    let is_zone = hours <= OFFSET_HOURS_MAX && minutes % 15 == 0 && minutes < 60;
    let ends = text.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    (is_zone && ends).then_some((sign * (hours * 3600 + minutes * 60).cast_signed(), end))
}
