//! Several pipeline sets: files are added in parallel, each line once and in the order of its file, and copies are
//! skipped.

use crate::server::Server;
use crate::support::{Place, bytes_below, sorted, unsealed_bytes, wait_until};

/// A data directory whose configuration has this number of pipeline sets.
fn place_with(sets: &str) -> Place {
    let place = Place::new();
    let folder = place.data().join("etc/system/local");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.conf"), format!("[general]\nparallelIngestionPipelines = {sets}\n")).unwrap();
    place
}

/// Lines of one file with the same second, so that only the order of arrival distinguishes them.
fn lines_of(file: &str, range: std::ops::Range<usize>) -> String {
    range.map(|at| format!("2026-11-20T00:00:00Z file={file} line={at} took={}\n", at * 7)).collect()
}

/// Compares the events of a file, newest first, with its lines.
fn assert_in_order(place: &Place, file: &str, lines: usize) {
    let found = place.run(&["search", &format!("source=*{file}.log"), "-o", "raw"]).expect_success();
    let found: Vec<&str> = found.lines().rev().collect();
    let text = lines_of(file, 0..lines);
    assert!(found == text.lines().collect::<Vec<_>>(), "{file}: {} of {lines} lines", found.len());
}

fn count(place: &Place) -> String {
    place.run(&["search", "* | stats count", "-o", "csv"]).expect_success().lines().last().unwrap().to_owned()
}

#[test]
fn files_are_read_in_parallel_and_reported_in_order() {
    let place = place_with("3");
    let files = ["a", "b", "c", "d", "e"];
    let write = |lines: usize| files.map(|file| place.write(&format!("{file}.log"), lines_of(file, 0..lines)));
    let logs = write(2_000);
    let copy = place.write("copy.log", lines_of("a", 0..2_000));
    let mut arguments = vec!["add", "oneshot"];
    arguments.extend(logs.iter().map(String::as_str));
    arguments.push(&copy);
    let said = place.run(&arguments).expect_success();
    assert!(said.starts_with("added 10,000 events from 5 files") && said.contains("1 file skipped"), "{said}");
    assert_eq!(unsealed_bytes(&place.data()), 0, "an add leaves nothing unsealed");
    files.iter().for_each(|file| assert_in_order(&place, file, 2_000));
    write(3_000);
    arguments.pop();
    let again = place.run(&arguments);
    assert!(again.out.starts_with("added 5,000 events from 5 files"), "{again:?}");
    let reported: Vec<char> =
        again.err.lines().filter_map(|line| line.split(".log: continues").next()?.chars().last()).collect();
    assert_eq!(reported, ['a', 'b', 'c', 'd', 'e'], "{}", again.err);
    files.iter().for_each(|file| assert_in_order(&place, file, 3_000));
    arguments.push("--again");
    assert!(place.run(&arguments).expect_success().starts_with("added 15,000 events from 5 files"));
    assert_eq!(count(&place), "30000");
    assert!(place.run(&["bucket", "verify"]).expect_success().contains("true"));
}

#[test]
fn copies_and_files_that_begin_alike_are_distinguished_whatever_set_reads_them() {
    let place = place_with("4");
    let folder = place.path("logs");
    std::fs::create_dir(&folder).unwrap();
    // All files share their first 256 bytes; every third file is a copy of the previous file.
    let head = format!("{}\n", "#".repeat(300));
    for at in 0..60 {
        let line = at - usize::from(at % 3 == 2);
        std::fs::write(folder.join(format!("{at:03}.log")), format!("{head}{}", lines_of("x", line..line + 9)))
            .unwrap();
    }
    let said = place.run(&["add", "oneshot", &folder.display().to_string(), "--sourcetype", "plain"]).expect_success();
    assert!(said.contains("from 40 files") && said.contains("20 files skipped"), "{said}");
    let sources = place.run(&["search", "* | stats count by source", "-o", "csv"]).expect_success();
    assert_eq!(sources.lines().count(), 41, "{sources}");
    assert!(
        (2..60).step_by(3).all(|at| !sources.contains(&format!("{at:03}.log"))),
        "the first of two stays: {sources}"
    );
    let twice = place.run(&["add", "oneshot", &folder.display().to_string(), "--sourcetype", "plain"]).expect_success();
    assert!(twice.contains("60 files skipped"), "{twice}");
}

#[test]
fn an_add_of_two_sets_killed_at_any_point_stores_every_line_once() {
    const LINES: usize = 60_000;
    let place = place_with("2");
    let logs = ["a", "b"].map(|file| place.write(&format!("{file}.log"), lines_of(file, 0..LINES)));
    let data = place.data();
    let mut seed = 88_172_645_463_325_252u64;
    for _ in 0..10 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let grown = seed % (LINES as u64 * 10);
        let before = bytes_below(&data);
        let mut child = place.spawn(&["add", "oneshot", &logs[0], &logs[1]]);
        assert!(wait_until(|| child.try_wait().unwrap().is_some() || bytes_below(&data).abs_diff(before) >= grown));
        drop(child.kill());
        child.wait().unwrap();
    }
    place.run(&["add", "oneshot", &logs[1], &logs[0]]).expect_success();
    ["a", "b"].iter().for_each(|file| assert_in_order(&place, file, LINES));
    assert_eq!(count(&place), (2 * LINES).to_string());
}

#[test]
fn servers_use_pipeline_sets() {
    let place = place_with("2");
    let files = ["a", "b", "c"];
    let write = |lines: usize| files.map(|file| place.write(&format!("{file}.log"), lines_of(file, 0..lines)));
    let server = Server::start(&place);
    for lines in [1_000, 1_500, 4_000] {
        let logs = write(lines);
        place.run(&["add", "oneshot", &logs[2], &logs[0], &logs[1]]).expect_success();
        files.iter().for_each(|file| assert_in_order(&place, file, lines));
    }
    server.stop("-KILL");
    let server = Server::start(&place);
    let logs = write(5_000);
    place.run(&["add", "oneshot", &logs[0], &logs[1], &logs[2]]).expect_success();
    files.iter().for_each(|file| assert_in_order(&place, file, 5_000));
    assert_eq!(server.stop("-TERM"), 0);
    assert_eq!(count(&place), "15000");
}

#[test]
fn an_invalid_number_of_sets_is_reported_with_its_position() {
    let place = place_with("many");
    let log = place.write("a.log", lines_of("a", 0..10));
    let ran = place.run(&["add", "oneshot", &log]);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("server.conf:2: [general] parallelIngestionPipelines = many"), "{}", ran.err);
    assert!(ran.err.contains("a whole number from 1 to 16"), "{}", ran.err);
    let raw = place.run(&["search", "*", "-o", "raw"]).expect_success();
    assert_eq!(sorted(&raw), sorted(&lines_of("a", 0..10)));
}
