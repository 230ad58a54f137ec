//! The machine's zone, `--zone`, and `TZ` of props.conf: the zone of timestamps without one, and the zone in which
//! times are shown.

use serde_json::Value;

use crate::server::Server;
use crate::support::{Place, RunOutput};

const LINES: &str = "2026-07-20 12:00:00 one\n2026-07-20T12:00:00Z two\n2026-07-20 12:00:00 -0400 three\n";

fn run_in(place: &Place, zone: &str, arguments: &[&str]) -> RunOutput {
    RunOutput::of(place.command(arguments).env("TZ", zone).output().unwrap())
}

fn times(place: &Place, zone: &str, arguments: &[&str]) -> Vec<String> {
    let text = run_in(place, zone, arguments).expect_success();
    let rows: Value = serde_json::from_str(&text).unwrap();
    rows.as_array().unwrap().iter().map(|row| row["_time"].as_str().unwrap().to_owned()).collect()
}

const SEARCH: [&str; 4] = ["search", "* | sort _raw | table _time", "-o", "json"];

#[test]
fn the_machine_zone_applies_to_parsed_and_shown_times() {
    let place = Place::new();
    let log = place.write("app.log", LINES);
    run_in(&place, "Europe/Berlin", &["add", "oneshot", &log]).expect_success();
    let berlin = ["2026-07-20T18:00:00.000+02:00", "2026-07-20T12:00:00.000+02:00", "2026-07-20T14:00:00.000+02:00"];
    assert_eq!(times(&place, "Europe/Berlin", &SEARCH), berlin, "three, one, two");
    let utc = ["2026-07-20T16:00:00.000+00:00", "2026-07-20T10:00:00.000+00:00", "2026-07-20T12:00:00.000+00:00"];
    assert_eq!(times(&place, "UTC", &SEARCH), utc, "the same events, shown in another zone");
    assert_eq!(times(&place, "Asia/Tokyo", &[&SEARCH[..], &["--zone", "UTC"]].concat()), utc);
    let files = [&SEARCH[..2], &[log.as_str(), "-o", "json"]].concat();
    assert_eq!(times(&place, "Europe/Berlin", &files), berlin);
    assert_eq!(times(&place, "UTC", &[&files[..], &["--zone", "Europe/Berlin"]].concat()), berlin);
}

#[test]
fn output_and_time_spans_use_the_same_zone() {
    let place = Place::new();
    let log = place.write("app.log", "2026-07-20 23:30:00 late\n2026-07-21 00:30:00 early\n");
    run_in(&place, "America/New_York", &["add", "oneshot", &log]).expect_success();
    let search = "* | bin span=1d _time AS day | eval shown=strftime(_time, \"%F %T %Z\"), \
        start=strftime(relative_time(_time, \"@d\"), \"%F %T\"), day=strftime(day, \"%F %T\"), hour=date_hour \
        | sort _time | table shown start day hour";
    let ran = run_in(&place, "America/New_York", &["search", search, "-o", "csv"]).expect_success().replace('\r', "");
    let expected = "shown,start,day,hour\n\
        2026-07-20 23:30:00 EDT,2026-07-20 00:00:00,2026-07-20 00:00:00,23\n\
        2026-07-21 00:30:00 EDT,2026-07-21 00:00:00,2026-07-21 00:00:00,0\n";
    assert_eq!(ran, expected);
    let typed = ["search", "* | stats count", "-o", "csv", "--earliest", "2026-07-21T00:00:00"];
    assert_eq!(run_in(&place, "America/New_York", &typed).expect_success().replace('\r', ""), "count\n1\n");
    let within = "* earliest=\"07/20/2026:23:00:00\" latest=\"07/21/2026:00:00:00\" | stats count";
    let within = run_in(&place, "America/New_York", &["search", within, "-o", "csv"]).expect_success();
    assert_eq!(within.replace('\r', ""), "count\n1\n");
    let days =
        run_in(&place, "America/New_York", &["search", "* | timechart span=1d count", "-o", "csv"]).expect_success();
    assert!(
        days.contains("2026-07-20T00:00:00.000-04:00,1") && days.contains("2026-07-21T00:00:00.000-04:00,1"),
        "{days}"
    );
}

#[test]
fn props_zone_overrides_option_and_option_overrides_machine() {
    let place = Place::new();
    let log = place.write("app.log", LINES);
    let preview = |more: &[&str]| -> Value {
        let arguments = [&["preview", log.as_str(), "--sourcetype", "shop", "-o", "json"], more].concat();
        serde_json::from_str(&run_in(&place, "Europe/Berlin", &arguments).expect_success()).unwrap()
    };
    let first = |preview: &Value| preview["events"][0]["_time"].as_str().unwrap().to_owned();
    let told = |preview: &Value| (preview["zone"].as_str().unwrap().to_owned(), preview["zone_reason"].clone());
    let machine = preview(&[]);
    assert_eq!(told(&machine), ("Europe/Berlin".to_owned(), "the machine's".into()));
    assert_eq!(first(&machine), "2026-07-20T12:00:00.000+02:00");
    assert_eq!(machine["events"][0]["zone_in_text"], Value::Null);
    let text = run_in(&place, "Europe/Berlin", &["preview", &log]).expect_success();
    assert!(text.contains("time zone of timestamps without one: Europe/Berlin (the machine's)"), "{text}");
    assert_eq!(text.matches(", in the zone named there").count(), 2, "{text}");
    let named = preview(&["--zone", "Asia/Tokyo"]);
    assert_eq!(told(&named), ("Asia/Tokyo".to_owned(), "--zone".into()));
    assert_eq!(first(&named), "2026-07-20T12:00:00.000+09:00");
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    place.write("data/etc/system/local/props.conf", "[shop]\nSHOULD_LINEMERGE = false\nTZ = America/New_York\n");
    for more in [&[][..], &["--zone", "Asia/Tokyo"]] {
        let set = preview(more);
        let (zone, reason) = told(&set);
        assert_eq!(zone, "America/New_York");
        let reason = reason.as_str().unwrap().to_owned();
        assert!(reason.starts_with("TZ of [shop] in ") && reason.ends_with("local/props.conf, line 3"), "{reason}");
        assert_eq!(set["events"][2]["zone_in_text"], "-04:00");
        assert_eq!(
            set["events"][0]["_time"].as_str().unwrap().len(),
            set["events"][2]["_time"].as_str().unwrap().len()
        );
    }
    assert_eq!(first(&preview(&["--zone", "UTC"])), "2026-07-20T16:00:00.000+00:00");
}

#[test]
fn invalid_zones_are_reported() {
    let place = Place::new();
    let log = place.write("app.log", LINES);
    for arguments in [&["add", "oneshot", &log][..], &["preview", &log], &["search", "*", &log]] {
        let ran = place.run(&[arguments, &["--zone", "Middle/Earth"]].concat());
        assert!(ran.code == 2 && ran.err.contains("Middle/Earth"), "{ran:?}");
    }
    let ran = run_in(&place, "Middle/Earth", &["preview", &log]);
    assert!(ran.code == 0 && ran.err.contains("TZ=Middle/Earth names no time zone: UTC is used"), "{ran:?}");
}

#[test]
fn servers_parse_in_their_zone_and_show_the_zone_of_the_client() {
    let place = Place::new();
    let log = place.write("app.log", LINES);
    let other = place.write("other.log", "2026-07-20 12:00:00 four\n");
    let server = Server::start_in_zone(&place, "Europe/Berlin");
    run_in(&place, "UTC", &["add", "oneshot", &log]).expect_success();
    run_in(&place, "UTC", &["add", "oneshot", &other, "--zone", "Asia/Tokyo"]).expect_success();
    let search = ["search", "one OR four | sort _raw | table _time", "-o", "json"];
    // A file is read in the time zone of the user who adds it, as `preview` shows it, not in the server's.
    let utc = ["2026-07-20T03:00:00.000+00:00", "2026-07-20T12:00:00.000+00:00"];
    assert_eq!(times(&place, "UTC", &search), utc, "four, one");
    let berlin = ["2026-07-20T05:00:00.000+02:00", "2026-07-20T14:00:00.000+02:00"];
    assert_eq!(times(&place, "Europe/Berlin", &search), berlin);
    drop(server);
}
