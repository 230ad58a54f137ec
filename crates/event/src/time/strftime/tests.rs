//! Tests of every directive, with instants whose parts are known.

use super::*;
use crate::time::fixed_zone;

/// 2026-03-05T09:07:03.123456789Z, a Thursday.
const TIME: TimeNs = 1_772_701_623_123_456_789;

#[test]
fn every_directive_is_formatted() {
    for (format, expected) in [
        ("%Y", "2026"),
        ("%C", "20"),
        ("%y", "26"),
        ("%m", "03"),
        ("%d", "05"),
        ("%e", " 5"),
        ("%j", "064"),
        ("%B %b %h", "March Mar Mar"),
        ("%A %a", "Thursday Thu"),
        ("%w %u", "4 4"),
        ("%U %W %V", "09 09 10"),
        ("%G %g", "2026 26"),
        ("%H %k", "09  9"),
        ("%I %l", "09  9"),
        ("%M:%S", "07:03"),
        ("%p %P", "AM am"),
        ("%s", "1772701623"),
        ("%f", "123456"),
        ("%N", "123456789"),
        ("%3N %6N %9N %1N", "123 123456 123456789 1"),
        ("%Q %3Q %6Q %9Q", "123 123 123456 123456789"),
        ("%z %:z %::z %:::z", "+0000 +00:00 +00:00:00 +00"),
        ("%Ez %Z %:Z", "+0 UTC GMT+0000"),
        ("%c", "Thu Mar  5 09:07:03 2026"),
        ("%D %x", "03/05/26 03/05/26"),
        ("%F", "2026-03-05"),
        ("%T %X", "09:07:03 09:07:03"),
        ("%R", "09:07"),
        ("%r", "09:07:03 AM"),
        ("%+", "Thu Mar  5 09:07:03 UTC 2026"),
        ("%%Y%n%t", "%Y\n\t"),
        ("%Y-%m-%dT%H:%M:%S.%3N%:z", "2026-03-05T09:07:03.123+00:00"),
        ("um %H Uhr für %Z", "um 09 Uhr für UTC"),
        ("%J %5 %E %: %é %", "%J %5 %E %: %é %"),
        ("", ""),
    ] {
        assert_eq!(strftime(TIME, format, &TimeZone::UTC), expected, "{format}");
    }
}

#[test]
fn zones_determine_local_time_and_zone_name() {
    let format = "%F %T %z %:z %::z %:::z %Ez %Z";
    for (name, expected) in [
        ("America/New_York", "2026-03-05 04:07:03 -0500 -05:00 -05:00:00 -05 -300 EST"),
        ("Europe/Berlin", "2026-03-05 10:07:03 +0100 +01:00 +01:00:00 +01 +60 CET"),
        ("Asia/Kolkata", "2026-03-05 14:37:03 +0530 +05:30 +05:30:00 +05 +330 IST"),
    ] {
        assert_eq!(strftime(TIME, format, &TimeZone::get(name).unwrap()), expected);
    }
    let summer = TIME + 120 * 86_400 * 1_000_000_000;
    assert_eq!(strftime(summer, "%T %Z", &TimeZone::get("Europe/Berlin").unwrap()), "11:07:03 CEST");
    assert_eq!(strftime(TIME, "%d %T %z", &fixed_zone(-34_200)), "04 23:37:03 -0930");
}

#[test]
fn iso_weeks_belong_to_the_year_of_their_thursday() {
    for (date, weeks) in [
        ("2026-01-01", "2026 01 00 00"),
        ("2025-12-29", "2026 01 52 52"),
        ("2027-01-01", "2026 53 00 00"),
        ("2027-01-04", "2027 01 01 01"),
        ("2023-01-01", "2022 52 01 00"),
        ("2024-12-31", "2025 01 52 53"),
    ] {
        let date: jiff::civil::Date = date.parse().unwrap();
        let instant = date.to_zoned(TimeZone::UTC).unwrap().timestamp().as_nanosecond() as i64;
        assert_eq!(strftime(instant, "%G %V %U %W", &TimeZone::UTC), weeks, "{date}");
    }
}

#[test]
fn twelve_hour_clock_and_times_before_the_epoch_are_formatted() {
    let hour = 3_600 * super::super::NS_PER_SEC;
    for (hours, expected) in [(0, "12 AM"), (1, "01 AM"), (11, "11 AM"), (12, "12 PM"), (13, "01 PM"), (23, "11 PM")] {
        assert_eq!(strftime(hours * hour, "%I %p", &TimeZone::UTC), expected);
    }
    assert_eq!(strftime(-1, "%F %T.%9N %s", &TimeZone::UTC), "1969-12-31 23:59:59.999999999 -1");
    assert_eq!(strftime(TimeNs::MIN, "%F %T", &TimeZone::UTC), "1677-09-21 00:12:43");
    assert_eq!(strftime(TimeNs::MAX, "%F %T", &TimeZone::UTC), "2262-04-11 23:47:16");
}

#[test]
fn the_unit_is_that_of_the_finest_directive() {
    for (format, unit) in [
        ("text %% %n", Some(900)),
        ("%F %A %H %I %p %z %q", Some(900)),
        ("%H:%M", Some(60)),
        ("%R", Some(60)),
        ("%F %T", Some(1)),
        ("%c", Some(1)),
        ("%s", Some(1)),
        ("%d %Z", Some(1)),
        ("%+", Some(1)),
        ("%H %N", None),
        ("%3N", None),
        ("%f", None),
        ("%S.%Q", None),
    ] {
        assert_eq!(strftime_unit(format), unit, "{format}");
    }
}

/// The texts of all times in a range are equal, also around clock changes and with offsets that are not whole minutes.
#[test]
fn times_in_a_range_have_equal_texts() {
    let zones = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Monrovia", "Europe/Dublin"];
    let formats = ["%F", "%A %H", "%H:%M %z", "%F %T", "%Z %H"];
    // The ranges include clock changes and times whose offset has seconds (Monrovia before 1972, Dublin before 1917).
    for start in [1_774_746_000, 1_792_890_000, 1_775_322_000, 63_593_000, 1_743_300_000, -1_680_470_000_i64] {
        for zone in zones {
            let zone = TimeZone::get(zone).unwrap();
            for format in formats {
                let unit = strftime_unit(format).unwrap();
                for step in 0..600 {
                    let time = (start + step * 37) * NS_PER_SEC + step;
                    let (first, end) = equal_text_range(time, unit, &zone);
                    assert!(first <= time && time < end, "{time} is in {first}..{end}");
                    let text = |time| strftime(time, format, &zone);
                    assert_eq!(text(first), text(time), "{format} at {first} and {time}");
                    assert_eq!(text(end - 1), text(time), "{format} before {end} and at {time}");
                }
            }
        }
    }
}

#[test]
fn ranges_at_the_ends_of_all_times_contain_their_time() {
    for time in [TimeNs::MIN, TimeNs::MIN + 1, TimeNs::MAX - 1] {
        let (first, end) = equal_text_range(time, 900, &TimeZone::UTC);
        assert!(first <= time && time < end, "{time} is in {first}..{end}");
    }
}
