//! `quarry bench s3` against a server.

use std::process::Command;

use quarry_s3world::{CONTAINER, Gateway, KEY_ID, SECRET};

use crate::support::{Place, RunOutput};

fn command(place: &Place, url: &str, arguments: &[&str]) -> Command {
    let mut command = place.command(&["bench", "s3", "--container", CONTAINER, "--endpoint", url]);
    command.args(["--duration", "1s", "--size", "100KiB", "--concurrency", "4"]).args(arguments);
    command.env("AWS_ACCESS_KEY_ID", KEY_ID).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command
}

fn run(place: &Place, url: &str, arguments: &[&str]) -> RunOutput {
    RunOutput::of(command(place, url, arguments).output().unwrap())
}

#[test]
fn operations_are_measured_per_endpoint_and_cleaned_up() {
    let Some(gateway) = Gateway::start() else { return };
    let place = Place::new();
    let both = format!("{0},{0}/", gateway.url());
    let rows: serde_json::Value = serde_json::from_str(&run(&place, &both, &["-o", "json"]).expect_success()).unwrap();
    let rows = rows.as_array().unwrap();
    let reported: Vec<&str> = rows.iter().map(|row| row["operation"].as_str().unwrap()).collect();
    let expected = ["put", "stat", "list", "get", "delete"].map(|operation| [operation; 3]).concat();
    assert_eq!(reported, expected, "a row of all and one of each endpoint");
    for row in rows {
        assert!(row["requests"].as_u64().unwrap() > 0 && row["errors"] == 0, "{row}");
        assert!(row["p50_ms"].as_f64() <= row["p99_ms"].as_f64() && row["p99_ms"].as_f64() <= row["max_ms"].as_f64());
        let moves = matches!(row["operation"].as_str(), Some("put" | "get"));
        assert_eq!(row["mb_per_second"].as_f64() > Some(0.0), moves, "{row}");
        let first = row["ttfb_p50_ms"].as_f64();
        assert_eq!(first.is_some(), row["operation"] == "get", "{row}");
        assert!(first <= row["p50_ms"].as_f64() && row["ttfb_p90_ms"].as_f64() <= row["ttfb_p99_ms"].as_f64(), "{row}");
        let in_seconds: u64 = row["series"].as_array().unwrap().iter().filter_map(|at| at["requests"].as_u64()).sum();
        assert_eq!(Some(in_seconds), row["requests"].as_u64());
    }
    let left = walk(&gateway.file("quarry-bench"));
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

#[test]
fn single_operations_are_chosen_by_options() {
    let Some(gateway) = Gateway::start() else { return };
    let place = Place::new();
    let measured = |arguments: &[&str]| {
        let out = run(&place, &gateway.url(), &[arguments, &["-o", "json"]].concat()).expect_success();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&out).unwrap();
        rows.iter().map(|row| row["operation"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(measured(&["--put"]), ["put"]);
    assert_eq!(measured(&["--get"]), ["get"], "the objects are stored before");
    assert_eq!(measured(&["--delete", "--stat", "--list", "--put"]), ["put", "stat", "list", "delete"]);
    let both = run(&place, &gateway.url(), &["--get", "--operations", "put"]);
    assert_eq!(both.code, 2, "{both:?}");
    assert_eq!(walk(&gateway.file("quarry-bench")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn objects_are_deleted_although_an_endpoint_is_dead() {
    let Some(gateway) = Gateway::start() else { return };
    let place = Place::new();
    let urls = format!("http://127.0.0.1:1,{}", gateway.url());
    let ran = run(&place, &urls, &["--operations", "put,delete", "-o", "json"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(!ran.err.contains("stay in"), "{ran:?}");
    assert_eq!(walk(&gateway.file("quarry-bench")), Vec::<std::path::PathBuf>::new());
    // A store that refuses everything is reported once.
    let nowhere = place
        .command(&["bench", "s3", "--container", "nowhere", "--endpoint", &gateway.url(), "--put"])
        // A server may close the connection before it has read a large object.
        .args(["--size", "1KiB", "--concurrency", "1", "--duration", "1s"])
        .env("AWS_ACCESS_KEY_ID", KEY_ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .output()
        .unwrap();
    let nowhere = RunOutput::of(nowhere);
    assert_eq!(nowhere.err.matches("container nowhere").count(), 1, "{nowhere:?}");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn unmeasurable_operations_are_reported() {
    let Some(gateway) = Gateway::start() else { return };
    let place = Place::new();
    let table = run(&place, &gateway.url(), &["--operations", "put"]).expect_success();
    assert!(table.contains("operation") && table.contains("put"), "{table}");
    let early = run(&place, &gateway.url(), &["--operations", "get,put"]);
    assert_eq!(early.code, 2, "{early:?}");
    assert!(early.err.contains("put first"), "{early:?}");
    let refused = command(&place, &gateway.url(), &[]).env("AWS_SECRET_ACCESS_KEY", "wrong").output().unwrap();
    let refused = RunOutput::of(refused);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("access key"), "{refused:?}");
    for wrong in [["--size", "0"], ["--duration", "1d"], ["--concurrency", "0"]] {
        assert_eq!(run(&place, &gateway.url(), &wrong).code, 2, "{wrong:?}");
    }
}
