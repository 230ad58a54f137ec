//! The built-in host rule for syslog lines, implemented without its pattern.
//!
//! Each step of [`PATTERN`] is decided by the next byte, so a single pass without captures finds the same host. A rule
//! whose text differs, even by a blank, runs on the pattern engine.

use std::ops::Range;

/// The rule's pattern in transforms.conf.
pub(super) const PATTERN: &str = r"^(?:<\d{1,3}>)?(?:\d{1,2} )?(?:[A-Z][a-z]{2} {1,2}\d{1,2}(?: \d{4})? \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?) ([A-Za-z0-9][A-Za-z0-9_.:-]*)";

/// Maximum number of digits of a priority.
const PRIORITY_DIGITS_MAX: usize = 3;
/// Maximum number of digits of a version.
const VERSION_DIGITS_MAX: usize = 2;

/// Range of the host in a line.
pub(super) fn host_in(text: &[u8]) -> Option<Range<usize>> {
    let at = after_version(text, after_priority(text)?);
    let end = match text.get(at)? {
        b'A'..=b'Z' => after_named_month(text, at)?,
        b'0'..=b'9' => after_year_first(text, at)?,
        _ => return None,
    };
    let start = match_shape(text, end, b" ")?;
    if !text.get(start)?.is_ascii_alphanumeric() {
        return None;
    }
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    let end = start + text[start..].iter().take_while(is_part).count();
    Some(start..end)
}

fn after_priority(text: &[u8]) -> Option<usize> {
    if text.first() != Some(&b'<') {
        return Some(0);
    }
    let count = digits(text, 1);
    let is_priority = (1..=PRIORITY_DIGITS_MAX).contains(&count) && text.get(1 + count) == Some(&b'>');
    is_priority.then_some(count + 2)
}

/// Position after the version, which RFC 5424 has after the priority.
fn after_version(text: &[u8], at: usize) -> usize {
    let count = digits(text, at);
    let is_version = (1..=VERSION_DIGITS_MAX).contains(&count) && text.get(at + count) == Some(&b' ');
    if is_version { at + count + 1 } else { at }
}

/// Position after a time such as `Mar 3 14:07:55` or `Mar 3 2026 14:07:55.25`.
fn after_named_month(text: &[u8], at: usize) -> Option<usize> {
    let is_name = text.get(at + 1)?.is_ascii_lowercase() && text.get(at + 2)?.is_ascii_lowercase();
    let at = match_shape(text, at + 3, b" ").filter(|_| is_name)?;
    let at = at + usize::from(text.get(at) == Some(&b' '));
    let count = digits(text, at);
    let at = Some(at + count).filter(|_| count == 1 || count == 2)?;
    let at = match_shape(text, at, b" 0000 ").map_or(at, |after| after - 1);
    let end = match_shape(text, at, b" 00:00:00")?;
    Some(after_fraction(text, end, b"."))
}

/// Position after a time such as `2026-11-20T13:42:07.123Z` or `2026-11-20 13:42:07,123+01:00`.
fn after_year_first(text: &[u8], at: usize) -> Option<usize> {
    let at = match_shape(text, at, b"0000-00-00")?;
    if !matches!(text.get(at)?, b'T' | b' ') {
        return None;
    }
    let end = match_shape(text, at + 1, b"00:00:00")?;
    let end = after_fraction(text, end, b".,");
    match text.get(end) {
        Some(b'Z') => Some(end + 1),
        Some(b'+' | b'-') => match_shape(text, end + 1, b"00:00").or_else(|| match_shape(text, end + 1, b"0000")),
        _ => Some(end),
    }
}

/// Position after a point and its digits; `at` if there are none.
fn after_fraction(text: &[u8], at: usize, points: &[u8]) -> usize {
    let is_point = text.get(at).is_some_and(|byte| points.contains(byte));
    match digits(text, at + 1) {
        count if is_point && count > 0 => at + 1 + count,
        _ => at,
    }
}

fn digits(text: &[u8], at: usize) -> usize {
    text.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// Position after `shape`, in which 0 represents any digit; `None` unless the text has it at `at`.
#[inline]
fn match_shape(text: &[u8], at: usize, shape: &[u8]) -> Option<usize> {
    let part = text.get(at..)?.get(..shape.len())?;
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    part.iter().zip(shape).all(fits).then_some(at + shape.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quarry_conf::{Layers, PropsResolver};

    use super::*;
    use crate::pattern::Pattern;

    fn by_pattern(text: &[u8]) -> Option<Range<usize>> {
        Pattern::new(PATTERN).unwrap().find_break(text, 0).map(|found| found.group)
    }

    #[track_caller]
    fn check(text: &[u8]) -> Option<Range<usize>> {
        let found = host_in(text);
        assert_eq!(found, by_pattern(text), "{}", String::from_utf8_lossy(text));
        found
    }

    #[test]
    fn pattern_equals_the_built_in_configuration() {
        let settings = PropsResolver::new(&Layers::new([])).resolve("s", "h", "syslog");
        let patterns: Vec<&str> = settings.typing.rules().filter_map(|rule| rule.pattern.as_deref()).collect();
        assert_eq!(patterns, [PATTERN]);
    }

    #[test]
    fn finds_the_same_hosts_as_the_pattern() {
        for (text, host) in [
            ("Mar  3 14:07:55 gate sshd[811]: x", Some("gate")),
            ("<13>Mar 13 2026 14:07:55.25 10.0.0.1 sshd: x", Some("10.0.0.1")),
            ("2026-11-20T00:00:00.021Z host02 payments[1]: x", Some("host02")),
            ("<189>2026-11-20 00:00:00,5+0100 fe80::1 x", Some("fe80::1")),
            ("2026-11-20 00:00:00-01:00 a_b-c.d x", Some("a_b-c.d")),
            ("<34>1 2026-11-20T00:00:00.021Z host02 app - - x", Some("host02")),
            ("12 Mar  3 14:07:55 gate sshd: x", Some("gate")),
            ("123 Mar  3 14:07:55 gate sshd: x", None),
            ("2026-11-20 00:00:00 a", Some("a")),
            ("2026-11-20 00:00:00 a[1] x", Some("a")),
            ("2026-11-20 00:00:00. a x", None),
            ("2026-11-20 00:00:00-1:00 a x", None),
            ("Mar   3 14:07:55 gate x", None),
            ("Mar 3 2026 4:07:55 gate x", None),
            ("<1234>Mar  3 14:07:55 gate x", None),
            ("Mar  3 14:07:55 -gate x", None),
            ("", None),
        ] {
            assert_eq!(check(text.as_bytes()).map(|found| &text[found]), host, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn mutated_lines_match_the_pattern_result(
            line in prop::sample::select(vec![
                "<13>Mar 13 2026 14:07:55.25 10.0.0.1 sshd: x",
                "<1>Mar  3 14:07:55 gate sshd: x",
                "2026-11-20T00:00:00.021Z host02 payments: x",
                "2026-11-20 00:00:00,5+01:00 fe80::1 x",
                "<34>1 2026-11-20 00:00:00,5+01:00 host02 app",
            ]),
            at in 0_usize..40,
            change in prop::sample::select(b"<>0a AZT.,:+-_\n\xFF".to_vec()),
            is_added in any::<bool>(),
        ) {
            let mut text = line.as_bytes().to_vec();
            let at = at.min(text.len() - 1);
            if is_added {
                text.insert(at, change);
            } else {
                text[at] = change;
            }
            check(&text);
            text.remove(at);
            check(&text);
        }
    }
}
