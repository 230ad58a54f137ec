//! Tests of parsing spans, and of time buckets on calendars with and without clock changes.

use proptest::prelude::*;

use super::*;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn at(local: &str, tz: &TimeZone) -> TimeNs {
    let civil: jiff::civil::DateTime = local.parse().unwrap();
    let instant = tz.to_ambiguous_timestamp(civil).compatible().unwrap();
    i64::try_from(instant.as_nanosecond()).unwrap()
}

#[test]
fn spans_are_parsed() {
    for (text, amount, unit) in [
        ("5m", 5, SpanUnit::Minute),
        ("h", 1, SpanUnit::Hour),
        ("1mon", 1, SpanUnit::Month),
        ("500ms", 500, SpanUnit::Millisecond),
        ("10us", 10, SpanUnit::Microsecond),
        ("5cs", 5, SpanUnit::Centisecond),
        ("1ds", 1, SpanUnit::Decisecond),
        ("300", 300, SpanUnit::Second),
        ("2days", 2, SpanUnit::Day),
        ("1q", 1, SpanUnit::Quarter),
        ("3years", 3, SpanUnit::Year),
    ] {
        assert_eq!(Span::parse(text), Ok(Span { amount, unit, snap: None }), "{text}");
    }
    let monday = Snap { unit: SpanUnit::Week, weekday: 1 };
    assert_eq!(Span::parse("2w@w1"), Ok(Span { amount: 2, unit: SpanUnit::Week, snap: Some(monday) }));
    for text in ["", "0m", "5x", "-5m", "1.5h", "99999999999s", "5 m", "m5", "1w@w9", "@d", "5m@"] {
        assert!(Span::parse(text).is_err(), "{text}");
    }
    assert_eq!(Span::new(0, SpanUnit::Day).amount, 1);
    assert_eq!(Span::parse("5m").unwrap().fixed_ns(), Some(300 * NS_PER_SEC));
    assert_eq!(Span::parse("1d").unwrap().fixed_ns(), None);
}

#[test]
fn unit_names_round_trip() {
    for unit in [
        SpanUnit::Microsecond,
        SpanUnit::Millisecond,
        SpanUnit::Centisecond,
        SpanUnit::Decisecond,
        SpanUnit::Second,
        SpanUnit::Minute,
        SpanUnit::Hour,
        SpanUnit::Day,
        SpanUnit::Week,
        SpanUnit::Month,
        SpanUnit::Quarter,
        SpanUnit::Year,
    ] {
        assert_eq!(Span::parse(&format!("7{}", unit.name())), Ok(Span::new(7, unit)));
    }
}

#[test]
fn buckets_start_at_round_times() {
    let tz = TimeZone::UTC;
    for (span, time, floor, next) in [
        ("5m", "2026-11-21T08:17:30", "2026-11-21T08:15:00", "2026-11-21T08:20:00"),
        ("5m", "2026-11-21T08:15:00", "2026-11-21T08:15:00", "2026-11-21T08:20:00"),
        ("30s", "2026-11-21T08:17:59.999", "2026-11-21T08:17:30", "2026-11-21T08:18:00"),
        ("250ms", "2026-11-21T08:17:30.6", "2026-11-21T08:17:30.5", "2026-11-21T08:17:30.75"),
        ("1h", "2026-11-21T08:17:30", "2026-11-21T08:00:00", "2026-11-21T09:00:00"),
        ("1d", "2026-11-21T08:17:30", "2026-11-21T00:00:00", "2026-11-22T00:00:00"),
        ("1w", "2026-11-21T08:17:30", "2026-11-19T00:00:00", "2026-11-26T00:00:00"),
        ("1w@w0", "2026-11-21T08:17:30", "2026-11-15T00:00:00", "2026-11-22T00:00:00"),
        ("1w@w1", "2026-11-21T08:17:30", "2026-11-16T00:00:00", "2026-11-23T00:00:00"),
        ("1mon", "2026-11-21T08:17:30", "2026-11-01T00:00:00", "2026-12-01T00:00:00"),
        ("3mon", "2026-11-21T08:17:30", "2026-10-01T00:00:00", "2027-01-01T00:00:00"),
        ("1q", "2026-02-21T08:17:30", "2026-01-01T00:00:00", "2026-04-01T00:00:00"),
        ("1y", "2026-11-21T08:17:30", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("10y", "2026-11-21T08:17:30", "2020-01-01T00:00:00", "2030-01-01T00:00:00"),
        ("1d", "1969-12-31T23:00:00", "1969-12-31T00:00:00", "1970-01-01T00:00:00"),
        ("1h", "1969-12-31T23:30:00", "1969-12-31T23:00:00", "1970-01-01T00:00:00"),
        ("1mon", "1969-02-03T00:00:00", "1969-02-01T00:00:00", "1969-03-01T00:00:00"),
    ] {
        let (span_text, span) = (span, Span::parse(span).unwrap());
        assert_eq!(span.floor(at(time, &tz), &tz), at(floor, &tz), "{span_text} {time}");
        assert_eq!(span.next(at(time, &tz), &tz), at(next, &tz), "{span_text} {time}");
    }
}

#[test]
fn day_buckets_follow_local_clock_changes() {
    let tz = zone("Europe/Berlin");
    let day = Span::new(1, SpanUnit::Day);
    let hours = |from: &str| {
        let start = day.floor(at(from, &tz), &tz);
        assert_eq!(start, at(&from[..10], &tz));
        (day.next(start, &tz) - start) / (3_600 * NS_PER_SEC)
    };
    assert_eq!(hours("2026-03-28T12:00:00"), 24);
    assert_eq!(hours("2026-03-29T12:00:00"), 23);
    assert_eq!(hours("2026-10-25T12:00:00"), 25);
    let month = Span::new(1, SpanUnit::Month);
    assert_eq!(month.floor(at("2026-11-01T00:00:00", &tz), &tz), at("2026-11-01T00:00:00", &tz));
    assert_eq!(month.floor(at("2026-10-31T23:59:59", &tz), &tz), at("2026-10-01T00:00:00", &tz));
    // Hours are aligned to UTC: in a zone of +05:30 they begin at half past.
    let kolkata = zone("Asia/Kolkata");
    let hour = Span::new(1, SpanUnit::Hour);
    assert_eq!(hour.floor(at("2026-11-21T08:10:00", &kolkata), &kolkata), at("2026-11-21T07:30:00", &kolkata));
}

#[test]
fn bucket_bounds_saturate_at_the_time_limits() {
    for text in ["1s", "1h", "1d", "1w", "1mon", "100y", "1000000000y", "1000000000d", "1000000000h", "1000000000mon"] {
        let span = Span::parse(text).unwrap();
        for tz in [TimeZone::UTC, zone("Pacific/Auckland")] {
            for time in [TimeNs::MIN, TimeNs::MIN + 1, -1, 0, TimeNs::MAX] {
                assert!(span.floor(time, &tz) <= time, "{text} {time}");
                assert!(span.next(time, &tz) >= time, "{text} {time}");
            }
        }
    }
}

proptest! {
    #[test]
    fn buckets_contain_their_times_without_gaps(
        time in -5_000_000_000_000_000_000i64..5_000_000_000_000_000_000,
        text in prop::sample::select(vec!["7s", "10m", "4h", "1d", "3d", "1w", "2w@w1", "1mon", "5mon", "1q", "1y"]),
        name in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia"]),
    ) {
        let (span, tz) = (Span::parse(text).unwrap(), zone(name));
        let (floor, next) = (span.floor(time, &tz), span.next(time, &tz));
        prop_assert!(floor <= time && time < next, "{} {}: {} {} {}", text, name, floor, time, next);
        prop_assert_eq!(span.floor(floor, &tz), floor);
        prop_assert_eq!(span.floor(next - 1, &tz), floor);
        prop_assert_eq!(span.floor(next, &tz), next);
        let mut remembered = SpanFloor::new(span, tz.clone());
        for near in [time, floor, next, next - 1, floor - 1, time] {
            prop_assert_eq!(remembered.floor(near), span.floor(near, &tz));
        }
    }
}
