//! The most common timestamp formats, `2026-11-20T13:42:07.123Z` and `2026-11-20 13:42:07`, at fixed positions.
//!
//! This shortcut accepts only text that the recognisers would read in the same way, so that times never depend on it.
//! The recognisers read all other text, even if it has just one digit fewer.

use quarry_event::time::DateTimeParts;

use super::{Form, Rank, Stamp, day_of_month, full_year, has_right_boundary};

/// Length of `2026-11-20T13:42:07`.
const SECOND_END: usize = 19;
/// Maximum number of digits of a fraction.
const FRACTION_DIGITS_MAX: usize = 9;

/// The timestamp at `at`, where a four-digit number begins.
#[inline]
pub(super) fn stamp_at(text: &[u8], at: usize) -> Option<Stamp> {
    let text = text.get(at..)?;
    let head: &[u8; SECOND_END] = text.first_chunk()?;
    let separators = [head[4], head[7], head[10], head[13], head[16]];
    let is_utc = match &separators {
        b"--T::" => true,
        b"-- ::" => false,
        _ => return None,
    };
    let pair = |at: usize| {
        let (tens, ones) = (head[at].wrapping_sub(b'0'), head[at + 1].wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then_some(tens * 10 + ones)
    };
    let year = full_year(u32::from(pair(0)?) * 100 + u32::from(pair(2)?))?;
    let (month, day) = day_of_month(pair(5)?.into(), pair(8)?.into())?;
    let (hour, minute, second) = (pair(11)?, pair(14)?, pair(17)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (nanos, end) = fraction(text)?;
    let ends_well = match is_utc {
        true => text.get(end) == Some(&b'Z') && has_right_boundary(text, end + 1),
        false => is_end(text, end),
    };
    if !ends_well {
        return None;
    }
    let parts = DateTimeParts {
        year: Some(year),
        month: Some(month),
        day: Some(day),
        hour: Some(hour),
        minute: Some(minute),
        second: Some(second),
        nanos,
        offset: is_utc.then_some(0),
        ..DateTimeParts::default()
    };
    Some(Stamp::new(parts, Form::YearFirst, Rank::Full, at + end + usize::from(is_utc)))
}

/// Whether neither a fraction nor AM, PM or a zone follows.
fn is_end(text: &[u8], end: usize) -> bool {
    let after = text.get(end + 1);
    match text.get(end) {
        None | Some(b'\t' | b'"' | b']' | b'|' | b';') => true,
        Some(b' ') => after.is_none_or(|byte| !byte.is_ascii_alphabetic() && !matches!(byte, b'+' | b'-')),
        Some(b',') => after.is_none_or(|byte| !byte.is_ascii_digit()),
        _ => false,
    }
}

/// Nanoseconds after the second, and the number of bytes read.
fn fraction(text: &[u8]) -> Option<(u32, usize)> {
    if text.get(SECOND_END) != Some(&b'.') {
        return Some((0, SECOND_END));
    }
    let (mut nanos, mut count) = (0, 0);
    for byte in text[SECOND_END + 1..].iter().take_while(|byte| byte.is_ascii_digit()) {
        if count == FRACTION_DIGITS_MAX {
            return None;
        }
        nanos = nanos * 10 + u32::from(byte - b'0');
        count += 1;
    }
    let nanos = (count..FRACTION_DIGITS_MAX).fold(nanos, |nanos, _| nanos * 10);
    (count > 0).then_some((nanos, SECOND_END + 1 + count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quarry_event::time::NS_PER_SEC;

    use super::*;
    use crate::recognise::Recogniser;

    /// Whether the shortcut accepts the text at `at`; asserts that the recogniser of such timestamps then agrees with
    /// it.
    #[track_caller]
    fn takes(text: &[u8], at: usize) -> bool {
        let Some(stamp) = stamp_at(text, at) else { return false };
        let recognised = Recogniser::new(1_795_244_400 * NS_PER_SEC, [].into()).year_first(text, at);
        let shown = |stamp: &Stamp| format!("{stamp:?}");
        assert_eq!(Some(shown(&stamp)), recognised.as_ref().map(shown), "{}", String::from_utf8_lossy(text));
        true
    }

    #[test]
    fn local_times_match_the_recogniser() {
        for end in ["", " 10.1.0.7 GET", " [x", "\tx", "\" x", "] x", "|x", ";", ",x", ", x", ".25 7", ",", " "] {
            assert!(takes(format!("2026-11-20 13:42:07{end}").as_bytes(), 0), "{end}");
        }
        for end in ["Z", ",123 x", ",1", " PM", " p", " +0100", " -7", " UTC", " INFO", ":5", "x", "-x", ".1.2"] {
            assert!(!takes(format!("2026-11-20 13:42:07{end}").as_bytes(), 0), "{end}");
        }
    }

    #[test]
    fn shortcut_matches_the_recogniser() {
        for text in ["2026-11-20T13:42:07Z x", "2026-11-20T13:42:07.5Z", "1999-02-29T23:59:60.123456789Z\"}"] {
            assert!(takes(text.as_bytes(), 0), "{text}");
            assert!(takes(format!("{{\"ts\":\"{text}").as_bytes(), 7), "{text}");
        }
        for text in [
            "",
            "2026-11-20T13:42:07",
            "2026-11-20T13:42:07 x",
            "2026-11-20T13:42:07.Z",
            "2026-11-20T13:42:07.1234567890Z",
            "2026-13-20T13:42:07Z",
            "2026-11-20T24:42:07Z",
            "2026-11-20T13:42:07Zulu",
            "2026-11-20T13:42:07Z-7",
            "1970-11-20T13:42:07Z",
        ] {
            assert!(!takes(text.as_bytes(), 0), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn mutated_texts_match_the_recogniser(
            changes in prop::collection::vec(
                (0_usize..30, prop::sample::select(b"0123456789-:.TZ+, aApPmM\"_/|\t".to_vec())), 0..3),
            is_utc in any::<bool>(),
        ) {
            let mut text = b"2026-11-20T13:42:07.123Z ab x".to_vec();
            if !is_utc {
                (text[10], text[19], text[23]) = (b' ', b' ', b' ');
            }
            for (at, byte) in changes {
                let at = at.min(text.len() - 1);
                text[at] = byte;
            }
            takes(&text, 0);
            takes(&[b"ts=", &text[..]].concat(), 3);
        }
    }
}
