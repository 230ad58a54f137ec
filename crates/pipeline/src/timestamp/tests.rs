use quarry_conf::{Layers, PropsResolver};
use quarry_event::time::strftime;

use super::*;

/// 2026-11-21T07:00:00Z.
const NOW: TimeNs = 1_795_244_400 * NS_PER_SEC;

fn settings() -> PropsSettings {
    PropsResolver::new(&Layers::new([])).resolve("", "", "app")
}

fn timestamper(settings: &PropsSettings, modified: Option<TimeNs>) -> Timestamper {
    let context = PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified, orders: None };
    Timestamper::new(settings, &context).unwrap()
}

fn time(timestamper: &mut Timestamper, text: &str) -> String {
    let found = timestamper.find(text.as_bytes());
    strftime(timestamper.time(found).0, "%F %T.%3N", &TimeZone::UTC)
}

const NOW_TEXT: &str = "2026-11-21 07:00:00.000";

#[test]
fn events_without_time_use_the_last_then_file_then_current_time() {
    let mut without = timestamper(&settings(), None);
    assert_eq!(time(&mut without, "x"), NOW_TEXT);
    let mut with = timestamper(&settings(), Some(NOW - NS_PER_DAY));
    assert_eq!(time(&mut with, "x"), "2026-11-20 07:00:00.000");
    assert_eq!(time(&mut with, "2026-11-19 10:00:00.5 x"), "2026-11-19 10:00:00.500");
    assert_eq!(time(&mut with, "x"), "2026-11-19 10:00:00.500");
    assert_eq!(time(&mut with, "11:00:00 x"), "2026-11-19 11:00:00.000");
}

#[test]
fn time_format_applies_after_the_prefix() {
    let settings = PropsSettings {
        time_prefix: Some(r#""at":""#.to_owned()),
        time_format: Some("%d.%m.%y %H-%M".to_owned()),
        ..settings()
    };
    let mut by_format = timestamper(&settings, None);
    assert_eq!(time(&mut by_format, r#"2026-01-01 00:00:00 {"at":"19.11.26 13-42"}"#), "2026-11-19 13:42:00.000");
    assert_eq!(time(&mut by_format, r#"{"at":"2026-11-19 13:43:00"}"#), "2026-11-19 13:43:00.000");
    // Without the prefix, no timestamp is searched for.
    assert_eq!(time(&mut by_format, "2026-11-18 00:00:00"), "2026-11-19 13:43:00.000");
}

#[test]
fn zone_in_the_text_overrides_the_setting() {
    let settings = PropsSettings { tz: Some("America/New_York".to_owned()), ..settings() };
    let mut east = timestamper(&settings, None);
    assert_eq!(time(&mut east, "2026-07-01 08:00:00 x"), "2026-07-01 12:00:00.000");
    assert_eq!(time(&mut east, "2026-07-01 08:00:00Z x"), "2026-07-01 08:00:00.000");
    assert_eq!(time(&mut east, "2026-11-19 08:00:00 x"), "2026-11-19 13:00:00.000");
}

#[test]
fn times_outside_the_bounds_are_rejected() {
    let settings = PropsSettings { max_days_ago: 100, max_days_hence: 2, ..settings() };
    let mut bounded = timestamper(&settings, None);
    assert_eq!(time(&mut bounded, "2020-01-01 00:00:00 x"), NOW_TEXT);
    assert_eq!(time(&mut bounded, "2026-11-24 00:00:00 x"), NOW_TEXT);
    assert_eq!(time(&mut bounded, "2026-11-22 00:00:00 x"), "2026-11-22 00:00:00.000");
}

#[test]
fn jumps_in_an_unusual_form_are_rejected() {
    let mut usual = timestamper(&settings(), None);
    for _ in 0..3 {
        assert_eq!(time(&mut usual, "2026-11-20 10:00:00 x"), "2026-11-20 10:00:00.000");
    }
    assert_eq!(time(&mut usual, "see 10/Oct/2000:13:55:36 x"), "2026-11-20 10:00:00.000");
    assert_eq!(time(&mut usual, "see 20/Nov/2026:09:55:36 x"), "2026-11-20 09:55:36.000");
    assert_eq!(time(&mut usual, "2025-11-20 10:00:00 x"), "2025-11-20 10:00:00.000");
}

#[test]
fn the_lookahead_bounds_the_search() {
    let settings = PropsSettings { max_timestamp_lookahead: 20, ..settings() };
    let mut short = timestamper(&settings, None);
    assert_eq!(time(&mut short, "two words before it 2026-11-20 10:00:00"), NOW_TEXT);
    let settings = PropsSettings { max_timestamp_lookahead: 0, ..settings };
    let mut unbounded = timestamper(&settings, None);
    assert_eq!(time(&mut unbounded, &format!("{} 2026-11-20 10:00:00", "x ".repeat(200))), "2026-11-20 10:00:00.000");
}

#[test]
fn the_clock_or_the_file_may_replace_the_text_as_origin() {
    for (datetime, expected) in [(DatetimeConfig::Current, NOW_TEXT), (DatetimeConfig::None, "2026-11-20 07:00:00.000")]
    {
        let mut fixed = timestamper(&PropsSettings { datetime, ..settings() }, Some(NOW - NS_PER_DAY));
        assert_eq!(time(&mut fixed, "2026-11-19 10:00:00 x"), expected);
    }
}

#[test]
fn fractions_are_dropped_without_extra_time_fields() {
    for (extra_time_fields, expected) in
        [(ExtraTimeFields::None, "2026-11-20 10:00:00.000"), (ExtraTimeFields::SubSeconds, "2026-11-20 10:00:00.750")]
    {
        let mut any = timestamper(&PropsSettings { extra_time_fields, ..settings() }, None);
        assert_eq!(time(&mut any, "2026-11-20 10:00:00.750 x"), expected);
    }
}

#[test]
fn a_leap_second_is_the_next_minute() {
    let mut any = timestamper(&settings(), None);
    assert_eq!(time(&mut any, "2016-12-31 23:59:60 x"), "2017-01-01 00:00:00.000");
}

#[test]
fn unusual_first_lines_affect_few_following_lines() {
    // The first line's time is seven hours ahead of the epoch times in the other lines.
    let mut any = timestamper(&settings(), None);
    assert_eq!(time(&mut any, "2026-11-20 17:00:00 x"), "2026-11-20 17:00:00.000");
    assert_eq!(time(&mut any, "- 1795168801 x"), "2026-11-20 17:00:00.000", "a single jump is ignored");
    for second in 2..5 {
        assert_eq!(time(&mut any, &format!("- 179516880{second} x")), format!("2026-11-20 10:00:0{second}.000"));
    }
    assert_eq!(time(&mut any, "2026-11-20 17:00:05 x"), "2026-11-20 17:00:05.000", "no jump back");
}

#[test]
fn implausible_first_timestamps_cause_a_search_for_the_usual_form() {
    let mut usual = timestamper(&settings(), None);
    for second in 0..4 {
        let text = format!("web1 [20/Nov/2026:10:00:0{second} +0000] GET");
        assert_eq!(time(&mut usual, &text), format!("2026-11-20 10:00:0{second}.000"));
    }
    let text = "2011-01-01 00:00:00 is a user's name [20/Nov/2026:10:00:05 +0000] GET";
    assert_eq!(time(&mut usual, text), "2026-11-20 10:00:05.000");
}

#[test]
fn an_objects_own_time_counts_beyond_the_lookahead_unless_that_is_set() {
    let text = format!(
        "{{\"started\":\"2025-01-01T00:00:00Z\",\"a\":\"{}\",\"eventTime\":\"2026-11-20T10:00:00Z\"}}",
        "x".repeat(300)
    );
    assert_eq!(time(&mut timestamper(&settings(), None), &text), "2026-11-20 10:00:00.000");
    let short = PropsSettings { max_timestamp_lookahead: 50, ..settings() };
    assert_eq!(time(&mut timestamper(&short, None), &text), "2025-01-01 00:00:00.000");
}

#[test]
fn tz_overrides_the_inputs_zone_which_overrides_the_nodes() {
    let zone = |name: &str| quarry_event::time::parse_zone(name);
    let read = |tz: Option<&str>, input: Option<&str>| {
        let settings =
            PropsSettings { tz: tz.map(str::to_owned), node_zone: zone("Asia/Tokyo").unwrap(), ..settings() };
        let context = PipelineContext { now: NOW, zone: input.and_then(zone), modified: None, orders: None };
        time(&mut Timestamper::new(&settings, &context).unwrap(), "2026-11-20 10:00:00 x")
    };
    assert_eq!(read(None, None), "2026-11-20 01:00:00.000");
    assert_eq!(read(None, Some("Europe/Berlin")), "2026-11-20 09:00:00.000");
    assert_eq!(read(Some("America/New_York"), Some("Europe/Berlin")), "2026-11-20 15:00:00.000");
}

#[test]
fn dates_of_a_source_share_one_order() {
    let days = [
        // An unambiguous date determines how later dates are read, until another unambiguous date disagrees.
        ("28/11/2025 10:00:00", "2025-11-28"),
        ("01/12/2025 10:00:00", "2025-12-01"),
        ("12/13/2025 10:00:00", "2025-12-13"),
        ("02/01/2026 10:00:00", "2026-02-01"),
    ];
    let mut one = timestamper(&settings(), None);
    for (text, day) in days {
        assert_eq!(time(&mut one, text), format!("{day} 10:00:00.000"), "{text}");
    }
    for (text, other, day) in [
        ("28/11/25 10:00:00", "01/12/25 10:00:00", "2025-12-01"),
        ("27-10 10:00:00", "01-10 10:00:00", "2026-10-01"),
        ("10:00:00 28/11/2025", "10:00:00 01/12/2025", "2025-12-01"),
        ("28.11.2025 10:00:00", "01.12.2025 10:00:00", "2025-12-01"),
        ("10/25/2026 10:00:00", "01/11/2026 10:00:00", "2026-01-11"),
    ] {
        let mut source = timestamper(&settings(), None);
        time(&mut source, text);
        assert_eq!(time(&mut source, other), format!("{day} 10:00:00.000"), "{text} {other}");
        // A later unambiguous date also determines the order.
        let mut source = timestamper(&settings(), None);
        source.look_ahead(format!("{other} one\n more\n{text} two\n").as_bytes());
        assert_eq!(time(&mut source, other), format!("{day} 10:00:00.000"), "{other} {text}");
        // A pipeline that resumes the source uses the order that the first pipeline found.
        let mut resumed = timestamper(&settings(), None);
        resumed.set_history(source.history());
        assert_eq!(time(&mut resumed, other), format!("{day} 10:00:00.000"), "{other}");
    }
    let mut undecided = timestamper(&settings(), None);
    undecided.look_ahead(b"2026-11-19 10:00:00 a\n2026-11-19 10:00:00 b\nc\nd\ne\n28/11/2025 10:00:00\n");
    assert_eq!(time(&mut undecided, "01/12/2025 10:00:00"), "2025-01-12 10:00:00.000");
}

#[test]
fn ambiguous_dates_are_read_as_near_now_and_never_in_the_future() {
    let at = |text: &str| i64::try_from(text.parse::<jiff::Timestamp>().unwrap().as_nanosecond()).unwrap();
    let read = |now: &str, modified: Option<&str>, texts: &[&str]| {
        let context =
            PipelineContext { now: at(now), zone: Some(TimeZone::UTC), modified: modified.map(at), orders: None };
        let mut source = Timestamper::new(&settings(), &context).unwrap();
        texts.iter().map(|text| time(&mut source, text)[..10].to_owned()).collect::<Vec<_>>()
    };
    // An order that the current time implies for one date applies to all dates of the source.
    let (now, first) = ("2026-11-05T10:00:02Z", "04/11/2026 23:00:00");
    assert_eq!(read(now, None, &["05/11/2026 10:00:00", first]), ["2026-11-05", "2026-11-04"]);
    assert_eq!(read(now, None, &["11/05/2026 10:00:00", first]), ["2026-11-05", "2026-04-11"]);
    assert_eq!(read(now, None, &["10:00:00 05/11/2026", "10:00:00 04/11/2026"]), ["2026-11-05", "2026-11-04"]);
    assert_eq!(read(now, None, &["05-11 10:00:00", "04-11 10:00:00"]), ["2026-11-05", "2026-11-04"]);
    // The modification time of the file may also imply the order.
    let old = "05/03/2025 10:00:00";
    assert_eq!(read(now, Some("2025-03-05T10:20:00Z"), &[old]), ["2025-03-05"]);
    assert_eq!(read(now, Some("2025-03-05T12:20:00Z"), &[old]), ["2025-05-03"]);
    // A time in the future is not accepted.
    assert_eq!(read(now, None, &["01/12/2026 10:00:00", "02/03/2026 10:00:00"]), ["2026-01-12", "2026-02-03"]);
    assert_eq!(read(now, None, &["12/01/2026 10:00:00", "02/03/2026 10:00:00"]), ["2026-01-12", "2026-03-02"]);
    // Without such a date, the month comes first.
    assert_eq!(read(now, None, &[old, "04/03/2025 10:00:00"]), ["2025-05-03", "2025-04-03"]);
    // A date that is valid in only one order takes precedence.
    assert_eq!(
        read(now, None, &["11/05/2026 10:00:00", "28/10/2026 10:00:00", first]),
        ["2026-11-05", "2026-10-28", "2026-11-04"]
    );
}

#[test]
fn the_year_of_a_repeated_time_without_a_year_follows_the_clock() {
    let settings = PropsSettings { time_format: Some("%b %d %H:%M:%S".to_owned()), ..settings() };
    let mut yearless = timestamper(&settings, None);
    assert_eq!(time(&mut yearless, "Nov 20 10:00:00 backup"), "2026-11-20 10:00:00.000");
    assert_eq!(time(&mut yearless, "Dec 31 23:59:59 backup"), "2025-12-31 23:59:59.000");
    yearless.set_now(NOW + 365 * NS_PER_DAY, None);
    assert_eq!(time(&mut yearless, "Dec 31 23:59:00 backup"), "2026-12-31 23:59:00.000");
    assert_eq!(time(&mut yearless, "Nov 20 10:00:00 backup"), "2027-11-20 10:00:00.000");
}
