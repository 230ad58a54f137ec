//! Tests of every directive, of fields that a text lacks, and of parsing formatted times.

use proptest::prelude::*;

use super::*;
use crate::time::{fixed_zone, strftime};

fn utc(text: &str, format: &str) -> Option<String> {
    strptime(text, format, &TimeZone::UTC).map(|time| strftime(time, "%F %T.%N", &TimeZone::UTC))
}

#[test]
fn every_directive_is_parsed() {
    for (text, format, expected) in [
        ("2026-03-05 09:07:03", "%Y-%m-%d %H:%M:%S", "2026-03-05 09:07:03"),
        ("2026-3-5 9:7:3", "%Y-%m-%d %H:%M:%S", "2026-03-05 09:07:03"),
        ("2026/03/05", "%Y/%m/%d", "2026-03-05 00:00:00"),
        ("20260305090703", "%Y%m%d%H%M%S", "2026-03-05 09:07:03"),
        ("05/Mar/2026:09:07:03 +0100", "%d/%b/%Y:%H:%M:%S %z", "2026-03-05 08:07:03"),
        ("March 5, 2026", "%B %d, %Y", "2026-03-05 00:00:00"),
        ("MAR  5 2026", "%b %e %Y", "2026-03-05 00:00:00"),
        ("Thu, 05 Mar 2026 09:07:03 GMT", "%a, %d %b %Y %H:%M:%S %Z", "2026-03-05 09:07:03"),
        ("Thursday 5 march 2026", "%A %d %B %Y", "2026-03-05 00:00:00"),
        ("05/03/26 11:07 PM", "%d/%m/%y %I:%M %p", "2026-03-05 23:07:00"),
        ("05/03/26 12:07 am", "%d/%m/%y %I:%M %p", "2026-03-05 00:07:00"),
        ("05/03/26 12:07 p.m.", "%d/%m/%y %I:%M %p", "2026-03-05 12:07:00"),
        ("01/01/69", "%d/%m/%y", "1969-01-01 00:00:00"),
        ("01/01/68", "%d/%m/%y", "2068-01-01 00:00:00"),
        ("2026 064", "%Y %j", "2026-03-05 00:00:00"),
        ("2024-366", "%Y-%j", "2024-12-31 00:00:00"),
        ("2026-W10-4", "%G-W%V-%u", "2026-03-05 00:00:00"),
        ("2026-W10", "%G-W%V", "2026-03-02 00:00:00"),
        ("2026-W10-0", "%G-W%V-%w", "2026-03-08 00:00:00"),
        ("1772701623", "%s", "2026-03-05 09:07:03"),
        ("-1", "%s", "1969-12-31 23:59:59"),
        ("2026-03-05T09:07:03Z", "%Y-%m-%dT%H:%M:%S%z", "2026-03-05 09:07:03"),
        ("2026-03-05T09:07:03+05:30", "%Y-%m-%dT%H:%M:%S%:z", "2026-03-05 03:37:03"),
        ("2026-03-05T09:07:03-08", "%Y-%m-%dT%H:%M:%S%z", "2026-03-05 17:07:03"),
        ("2026-03-05 09:07:03 EST", "%Y-%m-%d %H:%M:%S %Z", "2026-03-05 14:07:03"),
        ("2026-03-05 09:07:03 GMT-0700", "%Y-%m-%d %H:%M:%S %:Z", "2026-03-05 16:07:03"),
        ("2026-03-05 09:07:03 GMT", "%F %T %z", "2026-03-05 09:07:03"),
        ("2026-03-05 09:07:03 utc", "%F %T %z", "2026-03-05 09:07:03"),
        ("2026-03-05 09:07:03 -330", "%Y-%m-%d %H:%M:%S %Ez", "2026-03-05 14:37:03"),
        ("03/05/26", "%D", "2026-03-05 00:00:00"),
        ("03/05/26", "%x", "2026-03-05 00:00:00"),
        ("2026-03-05 09:07:03", "%F %T", "2026-03-05 09:07:03"),
        ("2026-03-05 09:07", "%F %R", "2026-03-05 09:07:00"),
        ("2026-03-05 09:07:03 PM", "%F %r", "2026-03-05 21:07:03"),
        ("Thu Mar  5 09:07:03 2026", "%c", "2026-03-05 09:07:03"),
        ("Thu Mar  5 09:07:03 UTC 2026", "%+", "2026-03-05 09:07:03"),
        ("100% 2026-03-05", "100%% %F", "2026-03-05 00:00:00"),
        ("2026-03-05\t 09", "%F %H", "2026-03-05 09:00:00"),
        ("2026-03-05 and more", "%F", "2026-03-05 00:00:00"),
        ("2026-12-31 23:59:60", "%F %T", "2027-01-01 00:00:00"),
        ("2024-02-29", "%F", "2024-02-29 00:00:00"),
    ] {
        assert_eq!(utc(text, format), Some(format!("{expected}.000000000")), "{text} / {format}");
    }
}

#[test]
fn fractions_of_any_length_are_parsed() {
    for (text, format, nanos) in [
        ("1.5", "%s.%N", "500000000"),
        ("1.123456789", "%s.%N", "123456789"),
        ("1.1234567891", "%s.%N", "123456789"),
        ("1.123456", "%s.%3N", "123000000"),
        ("1.123456", "%s.%6N", "123456000"),
        ("1.123", "%s.%Q", "123000000"),
        ("1.123456", "%s.%6Q", "123456000"),
        ("1.000042", "%s.%f", "000042000"),
        ("1700000000123", "%s%3N", "123000000"),
        ("1,25", "%s,%3N", "250000000"),
    ] {
        let time = strptime(text, format, &TimeZone::UTC).map(|time| strftime(time, "%N", &TimeZone::UTC));
        assert_eq!(time.as_deref(), Some(nanos), "{text} / {format}");
    }
}

#[test]
fn texts_that_do_not_match_the_format_are_null() {
    for (text, format) in [
        ("", "%F"),
        ("2026-13-01", "%F"),
        ("2026-00-01", "%F"),
        ("2026-02-29", "%F"),
        ("2026-04-31", "%F"),
        ("2026-03-32", "%F"),
        ("26-03-05", "%F"),
        ("2026-03-05 24:00:00", "%F %T"),
        ("2026-03-05 09:60:00", "%F %T"),
        ("2026-03-05 09:00:61", "%F %T"),
        ("2026-03-05 13:00 PM", "%F %H:%M %p"),
        ("2026-03-05 0:00 PM", "%F %I:%M %p"),
        (" 2026-03-05", "%F"),
        ("2026 366", "%Y %j"),
        ("2026 0", "%Y %j"),
        ("2026-03-05 400", "%F %j"),
        ("2026-03-05 GM", "%F %z"),
        ("064", "%j"),
        ("09:07:03", "%T"),
        ("Mar 5", "%b %d"),
        ("2026-03", "%Y-%m"),
        ("Foo 5 2026", "%b %d %Y"),
        ("2026-03-05 x", "%F %z"),
        ("2026-03-05 +9999", "%F %z"),
        ("2026-03-05", "%F %J"),
        ("2026-03-05", "no directive"),
        ("9999999999", "%s"),
        ("9999-01-01", "%F"),
        ("0000-01-01", "%F"),
    ] {
        assert_eq!(utc(text, format), None, "{text} / {format}");
    }
}

#[test]
fn invalid_formats_are_reported() {
    let told = |format: &str| Format::new(format).unwrap_err().to_string();
    assert_eq!(told("%Y-%J"), "\"%J\" in the time format \"%Y-%J\" is not a known directive");
    assert_eq!(told("%Y %"), "\"%\" in the time format \"%Y %\" is not a known directive");
    assert_eq!(told("%é"), "\"%é\" in the time format \"%é\" is not a known directive");
    assert_eq!(told("abc %%"), "the time format \"abc %%\" contains no part of a time");
    for (format, has_zone) in [("%F %T", false), ("%F %T %z", true), ("%s", true), ("%+", true), ("%F %Ez", true)] {
        assert_eq!(Format::new(format).unwrap().has_zone(), has_zone, "{format}");
    }
}

fn resolved(text: &str, format: &str, now: &str, tz: &TimeZone, last: Option<&str>) -> Option<String> {
    let instant = |text: &str| strptime(text, "%F %T", tz).unwrap();
    let context = ResolveContext { now: instant(now), tz, last: last.map(instant) };
    let time = Format::new(format).unwrap().parse(text.as_bytes(), &context)?;
    Some(strftime(time, "%F %T", tz))
}

#[test]
fn missing_year_is_the_latest_one_not_far_in_the_future() {
    for (text, now, expected) in [
        ("Nov 20 10:00:00", "2026-11-21 08:00:00", "2026-11-20 10:00:00"),
        ("Nov 23 07:59:59", "2026-11-21 08:00:00", "2026-11-23 07:59:59"),
        ("Nov 23 08:00:01", "2026-11-21 08:00:00", "2025-11-23 08:00:01"),
        ("Dec 31 23:59:59", "2027-01-01 00:00:10", "2026-12-31 23:59:59"),
        ("Jan  1 00:00:05", "2026-12-31 23:59:58", "2027-01-01 00:00:05"),
        ("Feb 29 12:00:00", "2026-11-21 08:00:00", "2024-02-29 12:00:00"),
        ("Feb 29 12:00:00", "2028-02-28 12:00:00", "2028-02-29 12:00:00"),
    ] {
        for name in ["UTC", "Pacific/Auckland", "Pacific/Honolulu"] {
            let tz = TimeZone::get(name).unwrap();
            let found = resolved(text, "%b %d %H:%M:%S", now, &tz, None);
            assert_eq!(found.as_deref(), Some(expected), "{text} at {now} in {name}");
        }
    }
    for (text, now, expected) in [
        ("064 10:00:00", "2026-11-21 08:00:00", Some("2026-03-05 10:00:00")),
        ("365 23:59:59", "2027-01-01 00:00:10", Some("2026-12-31 23:59:59")),
        ("366 12:00:00", "2026-11-21 08:00:00", Some("2024-12-31 12:00:00")),
        ("400 12:00:00", "2026-11-21 08:00:00", None),
    ] {
        let found = resolved(text, "%j %H:%M:%S", now, &TimeZone::UTC, Some("2026-11-20 00:00:00"));
        assert_eq!(found.as_deref(), expected, "day {text} at {now}");
    }
}

#[test]
fn missing_date_is_taken_from_the_previous_timestamp() {
    let tz = TimeZone::get("Europe/Berlin").unwrap();
    let found = |last| resolved("10:11:12", "%T", "2026-11-21 08:00:00", &tz, last);
    assert_eq!(found(Some("2026-11-19 23:00:00")).as_deref(), Some("2026-11-19 10:11:12"));
    assert_eq!(found(None).as_deref(), Some("2026-11-21 10:11:12"));
    let with_zone = resolved("23:30:00 -0500", "%T %z", "2026-11-21 08:00:00", &tz, Some("2026-11-19 02:00:00"));
    assert_eq!(with_zone.as_deref(), Some("2026-11-19 05:30:00"));
    assert_eq!(resolved("Nov 2026", "%b %Y", "2026-11-21 08:00:00", &tz, None), None);
    assert_eq!(resolved("07", "%S", "2026-11-21 08:00:00", &tz, None), None);
    // A week without its year is not a date, and not the date of the previous timestamp either.
    assert_eq!(resolved("10 10:11", "%V %H:%M", "2026-11-21 08:00:00", &tz, Some("2026-11-19 02:00:00")), None);
}

#[test]
fn zone_in_the_text_takes_precedence() {
    let tz = fixed_zone(3_600);
    let instant = |text: &str, format: &str| strptime(text, format, &tz).map(|time| time / NS_PER_SEC);
    assert_eq!(instant("1970-01-01 01:00:00", "%F %T"), Some(0));
    assert_eq!(instant("1970-01-01 01:00:00 Z", "%F %T %z"), Some(3_600));
    assert_eq!(instant("1970-01-01 01:00:00 PST", "%F %T %Z"), Some(9 * 3_600));
    // Unknown letters leave the zone to the context; their position is recorded, so that an alias can apply.
    assert_eq!(instant("1970-01-01 01:00:00 XYZ", "%F %T %Z"), Some(0));
    let (parts, end) = Format::new("%T %Z").unwrap().parse_prefix(b"01:00:00 XYZ rest").unwrap();
    assert_eq!((parts.zone_name, parts.offset, end), (Some((9, 12)), None, 12));
    // A time skipped by a clock change moves forward; for a time that occurs twice, the first is used.
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    let clock = |text: &str| strptime(text, "%F %T", &berlin).map(|time| strftime(time, "%T %Z", &berlin));
    assert_eq!(clock("2026-03-29 02:30:00").as_deref(), Some("03:30:00 CEST"));
    assert_eq!(clock("2026-10-25 02:30:00").as_deref(), Some("02:30:00 CEST"));
}

/// Formats that determine an instant completely, to the second or finer.
const FULL_FORMATS: &[(&str, i64)] = &[
    ("%Y-%m-%dT%H:%M:%S.%9N%:z", 1),
    ("%Y-%m-%d %H:%M:%S.%6N %z", 1_000),
    ("%d/%b/%Y:%H:%M:%S %z", NS_PER_SEC),
    ("%A, %d %B %Y %I:%M:%S.%Q %p %z", 1_000_000),
    ("%Y%m%d%H%M%S%3N %::z", 1_000_000),
    ("%Y %j %k:%M:%S %Ez", NS_PER_SEC),
    ("%G-W%V-%u %T.%f %z", 1_000),
    ("%G %V %w %l:%M:%S %P %:Z", NS_PER_SEC),
    ("%s.%9N", 1),
    ("%s%3N", 1_000_000),
    ("%e %h %Y %R:%S %z", NS_PER_SEC),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn formatted_times_round_trip(
        // From 2001 to 2255: these epochs have ten digits, so that the digits of the fraction can be distinguished.
        time in 1_000_000_000_000_000_000i64..9_000_000_000_000_000_000,
        (format, grain) in prop::sample::select(FULL_FORMATS),
        zone in prop::sample::select(vec!["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Etc/GMT+12"]),
    ) {
        let tz = TimeZone::get(zone).unwrap();
        let text = strftime(time, format, &tz);
        prop_assert_eq!(strptime(&text, format, &TimeZone::UTC), Some(time / grain * grain), "{}", text);
    }

    #[test]
    fn formatted_local_times_round_trip(time in -9_000_000_000_000_000_000i64..9_000_000_000_000_000_000) {
        let text = strftime(time, "%F %T.%9N", &TimeZone::UTC);
        prop_assert_eq!(strptime(&text, "%F %T.%9N", &TimeZone::UTC), Some(time), "{}", text);
        let kolkata = TimeZone::get("Asia/Kolkata").unwrap();
        if time > 0 {
            let text = strftime(time, "%c %N", &kolkata);
            prop_assert_eq!(strptime(&text, "%c %N", &kolkata), Some(time), "{}", text);
        }
    }

    #[test]
    fn parsing_arbitrary_formats_and_texts_does_not_panic(
        format in "(%[-a-zA-Z:+%0-9]{1,2}|[ -:/.]|\\PC){0,8}",
        text in "[ -:/.0-9a-zA-Z+]{0,24}|\\PC{0,12}",
        time in any::<i64>(),
    ) {
        strptime(&text, &format, &TimeZone::UTC);
        let written = strftime(time, &format, &TimeZone::UTC);
        strptime(&written, &format, &TimeZone::UTC);
        if let Ok(format) = Format::new(&format) {
            let context = ResolveContext { now: time, tz: &TimeZone::UTC, last: None };
            format.parse(text.as_bytes(), &context);
        }
    }
}

#[test]
fn fractions_of_epochs_before_1970_count_backwards() {
    for (text, format, expected) in [
        ("-1.5", "%s.%3N", -1_500_000_000),
        ("-0.250", "%s.%3N", -250_000_000),
        ("-2", "%s", -2_000_000_000),
        ("1.5", "%s.%3N", 1_500_000_000),
    ] {
        assert_eq!(strptime(text, format, &TimeZone::UTC), Some(expected), "{text}");
    }
}
