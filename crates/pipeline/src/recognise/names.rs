//! Timestamps that contain the name of a weekday or a month.

use quarry_event::time::DateTimeParts;
use quarry_stdx::number::u32_of;

use super::{
    Form, Rank, Recogniser, Stamp, blanks, day_of_month, digits, full_year, has_right_boundary, letters, number,
};

const MONTHS: [&[u8]; 12] = [
    b"january",
    b"february",
    b"march",
    b"april",
    b"may",
    b"june",
    b"july",
    b"august",
    b"september",
    b"october",
    b"november",
    b"december",
];
const WEEKDAYS: [&[u8]; 7] = [b"sunday", b"monday", b"tuesday", b"wednesday", b"thursday", b"friday", b"saturday"];
/// Length of a short name.
const SHORT_NAME_LEN: usize = 3;

/// The first three letters in lower case as one number.
const fn key(first: u8, second: u8, third: u8) -> u32 {
    u32::from_be_bytes([0, first | 0x20, second | 0x20, third | 0x20])
}

/// [`key`]s of names.
const fn keys<const COUNT: usize>(names: &[&[u8]; COUNT]) -> [u32; COUNT] {
    let mut keys = [0; COUNT];
    let mut at = 0;
    while at < COUNT {
        keys[at] = key(names[at][0], names[at][1], names[at][2]);
        at += 1;
    }
    keys
}

const MONTH_KEYS: [u32; 12] = keys(&MONTHS);
const WEEKDAY_KEYS: [u32; 7] = keys(&WEEKDAYS);

/// Index of the name of `run` letters at `at`: short, long, or cut after at least the third letter (`Sept`).
fn find_name(text: &[u8], at: usize, run: usize, names: &[&[u8]], keys: &[u32]) -> Option<usize> {
    if run < SHORT_NAME_LEN {
        return None;
    }
    let word = text.get(at..at + run)?;
    let wanted = key(word[0], word[1], word[2]);
    let found = keys.iter().position(|key| *key == wanted)?;
    let is_whole = run == SHORT_NAME_LEN || names[found].len() >= run && names[found][..run].eq_ignore_ascii_case(word);
    is_whole.then_some(found)
}

/// The month whose name is at `at`, counted from 1, and the position after the name.
pub(super) fn month_name(text: &[u8], at: usize) -> Option<(u32, usize)> {
    let run = letters(text, at);
    let month = find_name(text, at, run, &MONTHS, &MONTH_KEYS)?;
    Some((u32_of(month) + 1, at + run))
}

impl Recogniser {
    /// A timestamp that begins with a name of `run` letters, or with a level letter.
    pub(super) fn stamp_at_name(&self, text: &[u8], at: usize, run: usize) -> Option<Stamp> {
        if run == 1 && matches!(text[at], b'I' | b'W' | b'E' | b'F') {
            return self.after_level(text, at + 1);
        }
        // A cheap test before the tables: the first letters of all names, in either case.
        if !matches!(text[at] | 0x20, b'j' | b'f' | b'm' | b'a' | b's' | b'o' | b'n' | b'd' | b't' | b'w') {
            return None;
        }
        if find_name(text, at, run, &MONTHS, &MONTH_KEYS).is_some() {
            return self.month_first(text, at);
        }
        find_name(text, at, run, &WEEKDAYS, &WEEKDAY_KEYS)?;
        let comma = usize::from(text.get(at + run) == Some(&b','));
        let gap = blanks(text, at + run + comma);
        let next = at + run + comma + gap;
        if gap == 0 {
            return None;
        }
        match digits(text, next) {
            0 => self.month_first(text, next),
            run @ 1..=2 => self.short_number(text, next, run).filter(|stamp| stamp.form == Form::DayMonthName),
            _ => None,
        }
    }

    /// Reads `1122 15:37:06.123456` after a level letter, as Kubernetes writes it.
    fn after_level(&self, text: &[u8], at: usize) -> Option<Stamp> {
        if digits(text, at) != 4 || text.get(at + 4) != Some(&b' ') {
            return None;
        }
        let ((month, end), (day, _)) = (number(text, at, 2, 2)?, number(text, at + 2, 2, 2)?);
        let (month, day) = day_of_month(month, day)?;
        let mut parts = DateTimeParts { month: Some(month), day: Some(day), ..DateTimeParts::default() };
        let end = self.clock(text, end + 3, &mut parts)?;
        parts.second?;
        Some(Stamp::new(parts, Form::NoYear, Rank::Full, end))
    }

    /// Reads `Jun 14 15:16:01`, `Dec 04 04:47:44 2005`, `Nov 20, 2026 1:42:07 PM`.
    fn month_first(&self, text: &[u8], at: usize) -> Option<Stamp> {
        let (month, end) = month_name(text, at)?;
        let (day, end) = number(text, end + Some(blanks(text, end)).filter(|blanks| *blanks > 0)?, 1, 2)?;
        let (month, day) = day_of_month(month, day)?;
        let mut parts = DateTimeParts { month: Some(month), day: Some(day), ..DateTimeParts::default() };
        let comma = usize::from(text.get(end) == Some(&b','));
        let start = end + comma + blanks(text, end + comma);
        if start == end {
            return None;
        }
        if let (Some((year, end)), 4) = (number(text, start, 4, 4), digits(text, start)) {
            parts.year = Some(full_year(year)?);
            if let Some(end) = self.clock_after_date(text, end, &mut parts) {
                return Some(Stamp::new(parts, Form::MonthName, Rank::Full, end));
            }
            return has_right_boundary(text, end).then(|| Stamp::new(parts, Form::MonthName, Rank::Date, end));
        }
        let end = self.clock(text, start, &mut parts)?;
        let end = self.year_after(text, end, &mut parts);
        Some(Stamp::new(parts, Form::MonthName, Rank::Full, end))
    }

    /// Reads a year after the time and its zone, as in `04:47:44 UTC 2005`, and a zone after the year; returns the
    /// position after both, or `at` if there is no year.
    pub(super) fn year_after(&self, text: &[u8], at: usize, parts: &mut DateTimeParts) -> usize {
        let start = at + blanks(text, at);
        let (4, Some((year, end))) = (digits(text, start), number(text, start, 4, 4)) else { return at };
        let ends = text.get(end).is_none_or(|byte| matches!(byte, b' ' | b'\t' | b':' | b']' | b',' | b')' | b'"'));
        match full_year(year).filter(|year| start > at && ends && *year <= self.year_now_max) {
            Some(year) => {
                parts.year = Some(year);
                self.zone(text, end, parts)
            }
            None => at,
        }
    }
}
