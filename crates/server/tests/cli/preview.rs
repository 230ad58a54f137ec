//! `quarry preview`: how a file would be indexed, without adding it.

use serde_json::Value;

use crate::support::Place;

const LOG: &str = "2026-11-20 10:00:00,123 ERROR a.B [main] broke\njava.lang.Exception: x\n\tat a.B.c(B.java:1)\n\
    2026-11-20 10:00:01,456 INFO a.B [main] fine\n2026-11-20 10:00:02,456 INFO a.B [main] fine\n";

#[test]
fn a_file_is_shown_with_its_events_their_times_and_the_settings() {
    let place = Place::new();
    let log = place.write("app.log", LOG);
    let text = place.run(&["preview", &log]).expect_success();
    for part in ["app.log: sourcetype ", "3 events, each with a time of its own", "3 lines", "SHOULD_LINEMERGE = true"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let object: Value =
        serde_json::from_str(&place.run(&["preview", &log, "-n", "1", "-o", "json"]).expect_success()).unwrap();
    assert_eq!(object["events"].as_array().unwrap().len(), 1);
    assert_eq!(object["events"][0]["_time"], "2026-11-20T10:00:00.123+00:00");
    assert_eq!((&object["events"][0]["lines"], &object["events_seen"]), (&3.into(), &3.into()));
    let counted = place.run(&["search", "* | stats count", "-o", "csv"]);
    assert!(counted.code != 0 || counted.out.replace('\r', "") == "count\n0\n", "nothing was added: {counted:?}");
}

#[test]
fn the_settings_it_prints_give_the_same_events() {
    let place = Place::new();
    let log = place.write("app.log", LOG);
    let conf = place.run(&["preview", &log, "-o", "conf"]).expect_success();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    place.write("data/etc/system/local/props.conf", &conf);
    let name = conf.lines().next().unwrap().trim_matches(['[', ']']).to_owned();
    let before = place.run(&["preview", &log, "-o", "json"]).expect_success();
    let after = place.run(&["preview", &log, "--sourcetype", &name, "-o", "json"]).expect_success();
    let events = |text: &str| serde_json::from_str::<Value>(text).unwrap()["events"].clone();
    assert_eq!(events(&before), events(&after));
}

#[test]
fn dates_far_into_a_file_show_their_order_to_preview_and_add() {
    let place = Place::new();
    let line = |day: usize, at: usize| {
        format!("{day:02}/11/2025 10:{:02}:{:02} request {at} was answered\n", at / 60 % 60, at % 60)
    };
    // The first unambiguous date is far beyond the bytes that are read ahead.
    let text: String = (5..20).flat_map(|day| (0..2_000).map(move |at| line(day, at))).collect();
    let log = place.write("days.log", text);
    let preview = place.run(&["preview", &log, "-n", "1", "-o", "json"]).expect_success();
    let object: Value = serde_json::from_str(&preview).unwrap();
    assert_eq!(object["events"][0]["_time"], "2025-11-05T10:00:00.000+00:00", "{preview}");
    place.run(&["add", "oneshot", &log]).expect_success();
    let days = place.run(&["search", "* | bin _time span=1d | stats count by _time", "-o", "csv"]).expect_success();
    assert_eq!(days.lines().count(), 16, "{days}");
    assert!(days.lines().skip(1).all(|day| day.starts_with("2025-11-") && day.ends_with(",2000")), "{days}");
}

#[test]
fn an_ambiguous_order_of_dates_is_reported() {
    let place = Place::new();
    let log = place.write("day.log", "05/11/2025 10:00:00 one\n05/11/2025 10:00:01 two\n");
    let text = place.run(&["preview", &log]).expect_success();
    assert!(text.contains("the order of day and month is ambiguous"), "{text}");
    let added = place.run(&["add", "oneshot", &log]);
    assert!(added.code == 0 && added.err.contains("set TIME_FORMAT"), "{added:?}");
    let log = place.write("known.log", "05/11/2025 10:00:00 one\n15/11/2025 10:00:01 two\n");
    let text = place.run(&["preview", &log]).expect_success();
    assert!(text.contains("day, month, year, time") && !text.contains("ambiguous"), "{text}");
}

#[test]
fn unusual_contents_are_reported() {
    let place = Place::new();
    let log = place.write("odd.log", "no time here\n1975-01-01 00:00:00 too old\n");
    let text = place.run(&["preview", &log, "--sourcetype", "generic_single_line"]).expect_success();
    assert!(text.contains("it was named") && text.contains("2 without a time of their own"), "{text}");
    for reason in ["no timestamp within MAX_TIMESTAMP_LOOKAHEAD", "older than MAX_DAYS_AGO"] {
        assert!(text.contains(reason), "{reason} is not in\n{text}");
    }
    assert_eq!(place.run(&["preview", "missing.log"]).code, 2);
}

/// Other configuration errors are reported once; an invalid setting of a sourcetype is reported at every use, because
/// it changes the events.
#[test]
fn invalid_settings_of_a_sourcetype_are_reported_each_time_it_is_used() {
    let place = Place::new();
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    std::fs::write(local.join("props.conf"), "[shop]\nTZ = Mars/One\n[other]\nTZ = Venus/Two\n").unwrap();
    let log = place.write("a.log", "2026-11-20 10:00:00 one\n");
    let commands: [&[&str]; 2] = [&["preview", &log], &["add", "oneshot", &log, "--again"]];
    for (round, command) in commands.iter().cycle().take(4).enumerate() {
        let ran = place.run(&[command, &["--sourcetype", "shop"][..]].concat());
        let said = format!("{}{}", ran.out, ran.err);
        assert_eq!(said.matches("[shop] TZ = Mars/One").count(), 1, "{said}");
        assert_eq!(said.contains("Venus"), round == 0, "{said}");
    }
}
