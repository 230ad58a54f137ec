//! The time zone declared by a forwarder, for times without a zone in text that the forwarder did not parse.
//!
//! The declaration consists of lines: `Y` with seconds east of UTC for each kind of time of the zone (`Y3600 NW 43 45
//! 54`: no daylight saving time, name in hexadecimal), `@` with the time from which a kind applies (`@1793494800 1`),
//! and `$` at the end. If there are several kinds, the kind in force now is used, so times from the other half of the
//! year are an hour off.

use jiff::tz::TimeZone;
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, fixed_zone};

/// Beginning of a declaration.
const HEAD: &str = "### SERIALIZED TIMEZONE FORMAT";
/// Maximum plausible offset from UTC.
const OFFSET_SECS_MAX: i32 = 15 * 3600;
/// Maximum number of kinds of time read.
const KINDS_MAX: usize = 256;

/// The UTC offset in force at `now`; `None` if the text is invalid, or names several kinds of time but no transition
/// before `now`.
pub(super) fn zone_of(text: &[u8], now: TimeNs) -> Option<TimeZone> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches('\0');
    let mut lines = text.split(['\n', ';']).map(str::trim);
    lines.next().filter(|head| head.starts_with(HEAD))?;
    let mut kinds: Vec<i32> = Vec::new();
    // The latest transition before `now`, and its kind.
    let mut current: Option<(i64, usize)> = None;
    for line in lines {
        let first = |rest: &'_ str| rest.split(' ').next().map(str::to_owned);
        if let Some(rest) = line.strip_prefix('Y') {
            let offset: i32 = first(rest)?.parse().ok()?;
            if offset.abs() > OFFSET_SECS_MAX || kinds.len() >= KINDS_MAX {
                return None;
            }
            kinds.push(offset);
        } else if let Some((moment, kind)) = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            let (moment, kind): (i64, usize) = (moment.parse().ok()?, kind.trim().parse().ok()?);
            let has_come = moment <= now.div_euclid(NS_PER_SEC);
            if has_come && current.is_none_or(|(latest, _)| moment >= latest) {
                current = Some((moment, kind));
            }
        }
    }
    let kind = match current {
        Some((_, kind)) => kind,
        None if kinds.len() == 1 => 0,
        // With several kinds and no transition, the node's zone is the best guess.
        None => return None,
    };
    kinds.get(kind).map(|offset| fixed_zone(*offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_utc_offset(text: &str, now: i64) -> Option<i32> {
        let zone = zone_of(text.as_bytes(), now * NS_PER_SEC)?;
        Some(quarry_event::time::utc_offset_secs(now * NS_PER_SEC, &zone))
    }

    #[test]
    fn offset_in_force_now_is_used() {
        let utc = "### SERIALIZED TIMEZONE FORMAT 1.0\nC0\nY0 NW 55 54 43\n$\n";
        assert_eq!(parse_utc_offset(utc, 1_795_225_170), Some(0));
        let berlin =
            "### SERIALIZED TIMEZONE FORMAT 1.0;Y7200 YW 43 45 53 54;Y3600 NW 43 45 54;@1774746000 0;@1792890000 1;$;";
        assert_eq!(parse_utc_offset(berlin, 1_780_000_000), Some(7_200));
        assert_eq!(parse_utc_offset(berlin, 1_795_225_170), Some(3_600));
        assert_eq!(parse_utc_offset(berlin, 1_000_000_000), None, "before all changes");
    }

    #[test]
    fn invalid_text_is_rejected() {
        for text in
            ["", "UTC", "### SERIALIZED TIMEZONE FORMAT 1.0\n$\n", "### SERIALIZED TIMEZONE FORMAT 1.0\nYx NW\n"]
        {
            assert_eq!(parse_utc_offset(text, 0), None, "{text}");
        }
        assert_eq!(parse_utc_offset("### SERIALIZED TIMEZONE FORMAT 1.0\nY999999 NW 55\n", 0), None);
        assert_eq!(parse_utc_offset("### SERIALIZED TIMEZONE FORMAT 1.0\nY0 NW 55\n@0 7\n", 1), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_refused(text in "### SERIALIZED TIMEZONE FORMAT 1.0\n([Y@C$][0-9 -]{0,12}[\n;]){0,6}") {
            let _zone = zone_of(text.as_bytes(), 0);
        }
    }
}
