//! Dates and times of day in texts, recognised by their form.
//!
//! Not here: the time of an event, which its sourcetype's settings locate when it is indexed (`quarry_pipeline`).

/// Number of digits of a year.
const YEAR_DIGITS: usize = 4;
/// Number of letters of a month's short name.
const MONTH_LETTERS: usize = 3;
/// Short names of the months.
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedPart<'t> {
    /// A date, a time of day, or both.
    Time,
    Text(&'t str),
}

/// Splits a text that contains no blanks into times and other texts.
pub(crate) fn split_times(text: &str) -> Vec<TimedPart<'_>> {
    let bytes = text.as_bytes();
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let begins = bytes[at].is_ascii_digit() && begins_word(&bytes[..at]);
        match if begins { time_length(&bytes[at..]) } else { None } {
            Some(length) => {
                if from < at {
                    parts.push(TimedPart::Text(&text[from..at]));
                }
                parts.push(TimedPart::Time);
                at += length;
                from = at;
            }
            None => at += 1,
        }
    }
    if from < text.len() {
        parts.push(TimedPart::Text(&text[from..]));
    }
    parts
}

/// Whether a date or time may begin after this text: not within a word, an address or a version.
fn begins_word(before: &[u8]) -> bool {
    match before {
        [.., digit, b':' | b'-' | b'/' | b'.'] => !digit.is_ascii_digit(),
        [.., last] => !last.is_ascii_alphanumeric(),
        [] => true,
    }
}

/// Length of the date or time at the beginning of a text.
fn time_length(text: &[u8]) -> Option<usize> {
    let date = date_length(text);
    let end = match date {
        None => clock_length(text)?,
        Some(date) => {
            let joint = text.get(date).filter(|mark| matches!(mark, b'T' | b't' | b':' | b'_'));
            let clock = joint.and_then(|_| clock_length(&text[date + 1..]));
            clock.map_or(date, |clock| date + 1 + clock)
        }
    };
    // An address such as 01:02:03:04:05:06 is not a time.
    let goes_on = match text.get(end..) {
        Some([mark, ..]) if mark.is_ascii_alphanumeric() => true,
        Some([b':' | b'-' | b'/' | b'.', digit, ..]) => digit.is_ascii_digit(),
        _ => false,
    };
    (!goes_on).then_some(end)
}

/// Length of a date with equal separators: year, month and day, or day and month in either order and year.
fn date_length(text: &[u8]) -> Option<usize> {
    let first = digits(text);
    let separator = *text.get(first).filter(|mark| matches!(mark, b'-' | b'/' | b'.'))?;
    let after = &text[first + 1..];
    let middle = match digits(after) {
        0 if is_month(after) => MONTH_LETTERS,
        count => count,
    };
    if !matches!(middle, 1..=MONTH_LETTERS) || after.get(middle) != Some(&separator) {
        return None;
    }
    let last = digits(&after[middle + 1..]);
    let is_date = matches!((first, last), (YEAR_DIGITS, 1 | 2) | (1 | 2, YEAR_DIGITS));
    is_date.then_some(first + 1 + middle + 1 + last)
}

/// Length of a time of day: hours and minutes, possibly seconds with decimals, possibly an offset.
fn clock_length(text: &[u8]) -> Option<usize> {
    let hours = digits(text);
    if !matches!(hours, 1 | 2) || text.get(hours) != Some(&b':') || digits(&text[hours + 1..]) != 2 {
        return None;
    }
    let mut end = hours + 3;
    if text.get(end) == Some(&b':') && digits(&text[end + 1..]) == 2 {
        end += 3;
        let decimals = if matches!(text.get(end), Some(b'.' | b',')) { digits(&text[end + 1..]) } else { 0 };
        end += if decimals > 0 { decimals + 1 } else { 0 };
    }
    Some(end + offset_length(&text[end..]))
}

/// Length of `Z`, `+0100` or `+01:00`; 0 if there is none.
fn offset_length(text: &[u8]) -> usize {
    match text {
        [b'Z' | b'z', ..] => 1,
        [b'+' | b'-', rest @ ..] => match digits(rest) {
            4 => 5,
            2 if rest.get(2) == Some(&b':') && digits(&rest[3..]) == 2 => 6,
            _ => 0,
        },
        _ => 0,
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn is_month(text: &[u8]) -> bool {
    let name = text.get(..MONTH_LETTERS).unwrap_or_default();
    MONTHS.iter().any(|month| name.eq_ignore_ascii_case(month.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_recognised_by_their_form() {
        for time in [
            "2026-11-29",
            "2026/1/9",
            "29.11.2026",
            "29/Nov/2026:03:27:01",
            "2026-11-29T03:27",
            "2026-11-29T03:27:01.123Z",
            "2026-11-29_03:27:01,5+01:00",
            "3:27",
            "03:27:01-0500",
        ] {
            assert_eq!(split_times(time), [TimedPart::Time], "{time}");
            let within = format!("é[{time}]x");
            assert_eq!(
                split_times(&within),
                [TimedPart::Text("é["), TimedPart::Time, TimedPart::Text("]x")],
                "{within}"
            );
        }
        for other in
            ["1.2.3.4", "01:02:03:04:05:06", "a10:01", "10:1", "2026-11", "12345", "1/2/3", "10:01x", "", "v1.2.2026a"]
        {
            assert!(split_times(other).iter().all(|part| matches!(part, TimedPart::Text(_))), "{other}");
        }
    }
}
