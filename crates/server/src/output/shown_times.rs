//! Times on a terminal are truncated to milliseconds, because more digits are rarely of interest to a reader. Files and
//! programs receive all digits.

use std::borrow::Cow;

/// Digits of a fraction that are shown.
const DIGITS: usize = 3;

/// An ISO time with three digits after the second; `None` for other texts and for times with at most three digits.
pub(crate) fn to_millis(text: &str) -> Option<Cow<'static, str>> {
    let (seconds, rest) = text.split_once('.')?;
    let zone = rest.find(|c: char| !c.is_ascii_digit())?;
    // For example 2026-11-26T11:06:32.442880320+05:30.
    let is_time = seconds.len() == "2026-11-26T11:06:32".len() && seconds.as_bytes()[10] == b'T';
    let is_zone = rest[zone..].starts_with(['+', '-', 'Z']);
    (is_time && is_zone && zone > DIGITS).then(|| Cow::Owned(format!("{seconds}.{}{}", &rest[..DIGITS], &rest[zone..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_other_texts_stay() {
        for (text, shown) in [
            ("2026-11-26T11:06:32.442880320+05:30", Some("2026-11-26T11:06:32.442+05:30")),
            ("2026-11-26T11:06:32.442880Z", Some("2026-11-26T11:06:32.442Z")),
            ("2026-11-26T11:06:32.442+05:30", None),
            ("1.23456", None),
            ("v2.44288032-beta", None),
            ("", None),
        ] {
            assert_eq!(to_millis(text).as_deref(), shown, "{text}");
        }
    }
}
