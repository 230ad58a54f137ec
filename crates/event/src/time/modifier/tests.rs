//! Tests of relative and absolute times; the expected instants come from jiff's own calendar.

use proptest::prelude::*;

use super::*;
use crate::time::{Span, fixed_zone};

/// Saturday morning.
const NOW: &str = "2026-11-21T08:15:30.5";

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

/// The instant of a local date and time.
fn at(local: &str, tz: &TimeZone) -> TimeNs {
    let civil: jiff::civil::DateTime = local.parse().unwrap();
    let instant = tz.to_ambiguous_timestamp(civil).compatible().unwrap();
    i64::try_from(instant.as_nanosecond()).unwrap()
}

fn check(tz: &TimeZone, now: &str, table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(parse_time(text, at(now, tz), tz), Ok(at(expected, tz)), "{text}");
    }
}

const RELATIVE: &[(&str, &str)] = &[
    ("now", NOW),
    ("now()", NOW),
    ("+0s", NOW),
    ("-30s", "2026-11-21T08:15:00.5"),
    ("-30", "2026-11-21T08:15:00.5"),
    ("-s", "2026-11-21T08:15:29.5"),
    ("-5m", "2026-11-21T08:10:30.5"),
    ("-5minutes", "2026-11-21T08:10:30.5"),
    ("-h", "2026-11-21T07:15:30.5"),
    ("2h", "2026-11-21T10:15:30.5"),
    ("+2hrs", "2026-11-21T10:15:30.5"),
    ("-1d", "2026-11-20T08:15:30.5"),
    ("-2w", "2026-11-07T08:15:30.5"),
    ("-1mon", "2026-10-21T08:15:30.5"),
    ("-9mon", "2026-02-21T08:15:30.5"),
    ("+4months", "2027-03-21T08:15:30.5"),
    ("-1q", "2026-08-21T08:15:30.5"),
    ("-1y", "2025-11-21T08:15:30.5"),
    ("now-1h", "2026-11-21T07:15:30.5"),
    ("  -1h ", "2026-11-21T07:15:30.5"),
];

/// An amount with a unit but without a sign counts forwards.
const UNSIGNED: &[(&str, &str)] = &[
    ("1d", "2026-11-22T08:15:30.5"),
    ("30s", "2026-11-21T08:16:00.5"),
    ("0d@d", "2026-11-21T00:00:00"),
    ("1mon@mon", "2026-12-01T00:00:00"),
    ("2h@h-1m", "2026-11-21T09:59:00"),
    ("1d@d+8h", "2026-11-22T08:00:00"),
];

const SNAPPED: &[(&str, &str)] = &[
    ("@s", "2026-11-21T08:15:30"),
    ("@m", "2026-11-21T08:15:00"),
    ("@h", "2026-11-21T08:00:00"),
    ("@d", "2026-11-21T00:00:00"),
    ("@day", "2026-11-21T00:00:00"),
    ("@w", "2026-11-15T00:00:00"),
    ("@w0", "2026-11-15T00:00:00"),
    ("@w7", "2026-11-15T00:00:00"),
    ("@w1", "2026-11-16T00:00:00"),
    ("@w5", "2026-11-20T00:00:00"),
    ("@w6", "2026-11-21T00:00:00"),
    ("@mon", "2026-11-01T00:00:00"),
    ("@q", "2026-10-01T00:00:00"),
    ("@y", "2026-01-01T00:00:00"),
    ("-1d@d", "2026-11-20T00:00:00"),
    ("-24h@h", "2026-11-20T08:00:00"),
    ("-1d@d+8h", "2026-11-20T08:00:00"),
    ("-1mon@mon", "2026-10-01T00:00:00"),
    ("@mon-1mon+14d", "2026-10-15T00:00:00"),
    ("-1q@q+1mon", "2026-08-01T00:00:00"),
    ("@w1-7d", "2026-11-09T00:00:00"),
    ("@d-1s", "2026-11-20T23:59:59"),
    ("@d+8h+30m", "2026-11-21T08:30:00"),
    ("@y@d-1y", "2025-01-01T00:00:00"),
    ("now@d", "2026-11-21T00:00:00"),
    ("+1d@d", "2026-11-22T00:00:00"),
];

#[test]
fn relative_times_are_based_on_now() {
    for tz in [TimeZone::UTC, zone("America/New_York"), zone("Asia/Kolkata"), fixed_zone(-5 * 3600)] {
        check(&tz, NOW, RELATIVE);
        check(&tz, NOW, SNAPPED);
        check(&tz, NOW, UNSIGNED);
        for (text, expected) in RELATIVE.iter().chain(SNAPPED).chain(UNSIGNED) {
            assert_eq!(apply_modifier(text, at(NOW, &tz), &tz), Ok(at(expected, &tz)), "{text}");
        }
    }
}

#[test]
fn days_beyond_the_month_become_its_last_day() {
    check(
        &TimeZone::UTC,
        "2026-03-31T12:00:00",
        &[
            ("-1mon", "2026-02-28T12:00:00"),
            ("+1mon", "2026-04-30T12:00:00"),
            ("-1q", "2025-12-31T12:00:00"),
            ("-25mon", "2024-02-29T12:00:00"),
        ],
    );
    check(&TimeZone::UTC, "2024-02-29T12:00:00", &[("+1y", "2025-02-28T12:00:00"), ("-4y", "2020-02-29T12:00:00")]);
    check(&TimeZone::UTC, "2026-11-15T00:00:00", &[("@w0", "2026-11-15T00:00:00"), ("@w6", "2026-11-14T00:00:00")]);
}

/// Berlin leaves summer time on 2026-10-25 at 03:00, when the clock is set back to 02:00, and enters it on 2026-03-29
/// at 02:00.
#[test]
fn across_clock_changes_days_keep_the_time_and_hours_the_duration() {
    let tz = zone("Europe/Berlin");
    check(
        &tz,
        "2026-10-26T08:00:00",
        &[
            ("-1d", "2026-10-25T08:00:00"),
            ("-2d", "2026-10-24T08:00:00"),
            ("-48h", "2026-10-24T09:00:00"),
            ("@d-1d", "2026-10-25T00:00:00"),
            ("-1d@d", "2026-10-25T00:00:00"),
            ("-1d@d+4h", "2026-10-25T03:00:00"),
            ("@mon", "2026-10-01T00:00:00"),
        ],
    );
    // Half past two does not exist that day and moves forward by an hour.
    check(&tz, "2026-03-30T02:30:00", &[("-1d", "2026-03-29T03:30:00"), ("-23h", "2026-03-29T03:30:00")]);
    // The hour from two to three occurs twice; the second occurrence is not changed to the first.
    let second = at("2026-10-25T02:30:00", &tz) + 3_600 * NS_PER_SEC;
    assert_eq!(parse_time("@h", second, &tz), Ok(at("2026-10-25T02:00:00", &tz) + 3_600 * NS_PER_SEC));
    assert_eq!(parse_time("@d", second, &tz), Ok(at("2026-10-25T00:00:00", &tz)));
}

/// In Santiago midnight itself is skipped when summer time starts: the day begins at one o'clock.
#[test]
fn a_day_may_begin_after_midnight() {
    let tz = zone("America/Santiago");
    check(&tz, "2026-09-06T12:00:00", &[("@d", "2026-09-06T01:00:00"), ("-1d@d", "2026-09-05T00:00:00")]);
}

#[test]
fn absolute_times_without_zone_are_local() {
    let tz = zone("Europe/Berlin");
    check(
        &tz,
        NOW,
        &[
            ("11/20/2026:23:59:59", "2026-11-20T23:59:59"),
            ("7/4/2026:1:02:03", "2026-07-04T01:02:03"),
            ("11/20/2026:23:59:59.25", "2026-11-20T23:59:59.25"),
            ("11/20/2026", "2026-11-20T00:00:00"),
            ("2026-11-20", "2026-11-20T00:00:00"),
            ("2026-11-20 10:11", "2026-11-20T10:11:00"),
            ("2026-11-20 10:11:12", "2026-11-20T10:11:12"),
            ("2026-11-20 10:11:12.5", "2026-11-20T10:11:12.5"),
            ("2026-11-20T10:11", "2026-11-20T10:11:00"),
            ("2026-11-20T10:11:12", "2026-11-20T10:11:12"),
            ("2026-11-20T10:11:12.123456789", "2026-11-20T10:11:12.123456789"),
            ("2026-11-20T10:11Z", "2026-11-20T11:11:00"),
            ("2026-11-20T10:11:12Z", "2026-11-20T11:11:12"),
            ("2026-11-20T10:11:12+05:30", "2026-11-20T05:41:12"),
            ("2026-11-20T10:11:12.5-0800", "2026-11-20T19:11:12.5"),
        ],
    );
}

#[test]
fn epochs_are_parsed_without_rounding() {
    for (text, expected) in [
        ("0", Some(0)),
        ("1795248930", Some(1_795_248_930_000_000_000)),
        ("1795248930.5", Some(1_795_248_930_500_000_000)),
        ("1795248930.123456789", Some(1_795_248_930_123_456_789)),
        ("1795248930.1234567891", Some(1_795_248_930_123_456_789)),
        ("1.", Some(1_000_000_000)),
        ("-1.5", Some(-1_500_000_000)),
        ("", None),
        (".5", None),
        ("-", None),
        ("1.5.5", None),
        ("1e3", None),
        ("+1", None),
        ("9223372037", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(parse_epoch(text), expected, "{text}");
    }
    assert_eq!(parse_time("1795248930.25", 0, &TimeZone::UTC), Ok(1_795_248_930_250_000_000));
    for text in ["0", "5", "1795248930", "1.5", "2026-11-20", "11/20/2026", "1-2d", "5@d"] {
        let refused = apply_modifier(text, 0, &TimeZone::UTC);
        assert!(matches!(refused, Err(TimeError::Unreadable { .. } | TimeError::Unit { .. })), "{text}");
    }
}

#[test]
fn invalid_times_are_rejected_with_a_reason() {
    for text in ["26.11.2026", "1.2.3"] {
        let refused = parse_time(text, 0, &TimeZone::UTC);
        assert!(matches!(refused, Err(TimeError::Unreadable { .. })), "{text}: {refused:?}");
    }
    for (text, part) in [
        ("", "a time is missing"),
        ("  ", "a time is missing"),
        ("rt", "real-time window"),
        ("rt-5m", "real-time window"),
        ("rtnow", "real-time window"),
        ("-5x", "\"x\" in \"-5x\" is not a time unit"),
        ("-5M", "\"M\" in \"-5M\" is not a time unit"),
        ("@", "is not a time unit"),
        ("@w8", "\"w8\" in \"@w8\" is not a time unit"),
        ("@w10", "is not a time unit"),
        ("-", "cannot read"),
        ("-1d+", "cannot read"),
        ("yesterday", "cannot read"),
        ("\u{e9}", "cannot read"),
        ("2026-13-01", "cannot read"),
        ("1-2", "cannot read"),
        ("5x", "not a time unit"),
        ("-9999999999999d", "outside the years"),
        ("-99999999999999999999d", "outside the years"),
        ("+400y", "outside the years"),
        ("99999999999", "outside the years"),
        ("-1d@d\u{e9}", "not a time unit"),
    ] {
        let error = parse_time(text, 0, &TimeZone::UTC).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn parsing_arbitrary_text_does_not_panic(text in "\\PC{0,12}|[-+@0-9smhdwqy]{0,10}", now in any::<i64>()) {
        for tz in [TimeZone::UTC, TimeZone::get("Europe/Berlin").unwrap()] {
            parse_time(&text, now, &tz).ok();
            apply_modifier(&text, now, &tz).ok();
            parse_epoch(&text);
            Span::parse(&text).ok();
        }
    }

    #[test]
    fn snapping_rounds_down_and_is_idempotent(
        now in -5_000_000_000_000_000_000i64..5_000_000_000_000_000_000,
        unit in prop::sample::select(vec!["s", "m", "h", "d", "w", "w1", "w5", "mon", "q", "y"]),
        name in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Kolkata"]),
    ) {
        let tz = TimeZone::get(name).unwrap();
        let modifier = format!("@{unit}");
        let snapped = apply_modifier(&modifier, now, &tz).unwrap();
        prop_assert!(snapped <= now, "{} {}", modifier, name);
        prop_assert_eq!(apply_modifier(&modifier, snapped, &tz), Ok(snapped));
    }
}

#[test]
fn modifiers_of_instants_restore_them() {
    let now = at(NOW, &TimeZone::UTC);
    for time in [0, 1, 1_500_000_000, now, -1, -1_500_000_000, -2_000_000_000, -86_400_000_000_000_000, i64::MAX] {
        let text = modifier_text(time);
        for tz in [TimeZone::UTC, zone("America/New_York")] {
            assert_eq!(parse_time(&text, now, &tz), Ok(time), "{text}");
        }
    }
}
