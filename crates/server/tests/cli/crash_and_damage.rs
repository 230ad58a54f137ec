//! A killed process loses and duplicates nothing; damaged buckets are named, and searches still use the other buckets.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;

use crate::server::{Server, begin};
use crate::support::{Place, bytes_below, lines, sorted, wait_until};

/// Number of lines in the file that is being added when the process is killed.
const LINES: usize = 300_000;
/// Number of kills.
const KILLS: u64 = 20;

#[test]
fn an_add_killed_at_any_point_stores_every_line_once() {
    let place = Place::new();
    let text = lines(0..LINES);
    let log = place.write("a.log", &text);
    let data = place.data();
    let mut seed = 88_172_645_463_325_252u64;
    let mut killed = 0;
    for _ in 0..KILLS {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // The process is killed when the data directory has grown by this number of bytes, at most a twelfth of the
        // file.
        let grown = seed % (text.len() as u64 / 12);
        let before = bytes_below(&data);
        let mut child = place.spawn(&["add", "oneshot", &log]);
        let ended = |child: &mut std::process::Child| child.try_wait().unwrap().is_some();
        assert!(wait_until(|| ended(&mut child) || bytes_below(&data).abs_diff(before) >= grown));
        killed += u32::from(!ended(&mut child));
        // A child that has already ended cannot be killed.
        drop(child.kill());
        child.wait().unwrap();
    }
    assert!(killed >= 10, "only {killed} kills met a running process");
    place.run(&["add", "oneshot", &log]).expect_success();
    let found = place.run(&["search", "*", "-o", "raw"]).expect_success();
    assert_eq!(found.lines().count(), LINES);
    assert!(sorted(&found) == sorted(&text));
    assert!(place.run(&["bucket", "verify"]).expect_success().contains("true"));
}

/// A data directory with two buckets, and the path of the first bucket's object.
fn two_buckets() -> (Place, PathBuf) {
    let place = Place::new();
    for (name, range) in [("a.log", 0..2_000), ("b.log", 2_000..4_000)] {
        let log = place.write(name, lines(range));
        place.run(&["add", "oneshot", &log]).expect_success();
    }
    let folder = place.data().join("db/main");
    let mut objects: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    objects.retain(|path| path.extension().is_some_and(|ending| ending == "bucket"));
    objects.sort();
    assert_eq!(objects.len(), 2);
    let first = objects.swap_remove(0);
    (place, first)
}

#[test]
fn truncated_buckets_are_named_and_others_are_searched() {
    let (place, object) = two_buckets();
    let bytes = std::fs::read(&object).unwrap();
    for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&object, &bytes[..length]).unwrap();
        let verdict = place.run(&["bucket", "verify"]);
        assert_eq!(verdict.code, 5);
        assert!(verdict.out.contains("main~1") && verdict.out.contains("false"), "{verdict:?}");
        let found = place.run(&["search", "*", "-o", "raw"]);
        assert_eq!(found.code, 5, "cut to {length}: {}", found.err);
        assert!(found.err.contains("main~1"), "{}", found.err);
        assert_eq!(sorted(&found.out), sorted(&lines(2_000..4_000)));
    }
    std::fs::remove_file(&object).unwrap();
    assert_eq!(place.run(&["search", "*", "-o", "raw"]).code, 5);
    std::fs::write(&object, &bytes).unwrap();
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n4000\n");
}

#[test]
fn flipped_bits_are_reported_and_never_change_results() {
    let (place, object) = two_buckets();
    let bytes = std::fs::read(&object).unwrap();
    let all = lines(0..4_000);
    let mut partial = 0;
    for step in 0..12 {
        let at = step * bytes.len() / 12 + 5;
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (step % 8);
        std::fs::write(&object, flipped).unwrap();
        let verdict = place.run(&["bucket", "verify"]);
        assert_eq!(verdict.code, 5, "bit at {at}");
        assert!(verdict.out.contains("main~1"));
        let found = place.run(&["search", "*", "-o", "raw"]);
        match found.code {
            0 => assert!(sorted(&found.out) == sorted(&all), "bit at {at}"),
            5 => {
                partial += 1;
                let all = sorted(&all);
                assert!(found.out.lines().all(|line| all.binary_search(&line).is_ok()), "bit at {at}");
                assert!(found.out.lines().count() >= 2_000);
            }
            code => panic!("exit {code} with the bit at {at}: {}", found.err),
        }
    }
    assert!(partial > 0);
}

#[test]
fn damaged_catalogs_cause_errors_not_results() {
    let (place, _) = two_buckets();
    let catalog = place.data().join("catalog.sqlite");
    let whole = std::fs::read(&catalog).unwrap();
    let all = lines(0..4_000);
    let mut errors = 0;
    for step in 0..24 {
        let at = step * whole.len() / 24 + 37 * step;
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (step % 8);
        std::fs::write(&catalog, &flipped).unwrap();
        let found = place.run(&["search", "*", "-o", "raw"]);
        match found.code {
            0 => assert!(sorted(&found.out) == sorted(&all), "byte {at}"),
            code => {
                errors += 1;
                let verdict = place.run(&["bucket", "verify"]);
                assert_eq!(
                    verdict.code,
                    if verdict.err.contains("is damaged") { 5 } else { 4 },
                    "byte {at}: {}",
                    verdict.err
                );
                assert!(code == 4 && found.err.contains("catalog.sqlite"), "byte {at}, exit {code}: {}", found.err);
            }
        }
    }
    assert!(errors > 0);
    std::fs::write(&catalog, &whole).unwrap();
    // The catalog does not list this object, as if it were older than the object.
    let stranger = place.data().join("db/main/0000000009.bucket");
    std::fs::write(&stranger, "bytes").unwrap();
    let verdict = place.run(&["bucket", "verify"]);
    assert_eq!(verdict.code, 5);
    assert!(verdict.out.contains("main/0000000009.bucket"), "{}", verdict.out);
}

#[test]
fn damage_of_the_log_is_reported_before_the_server_serves() {
    let place = Place::new();
    let server = Server::start(&place);
    let mut answer = String::new();
    begin(&place, "/services/receivers/simple?index=main", "an event").read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Dropping the server kills it, so its events are only in the log.
    drop(server);
    let logs = std::fs::read_dir(place.data().join("wal")).unwrap().map(|entry| entry.unwrap().path());
    let log = logs.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let mut command = place.command(&["serve", "--mgmt", "127.0.0.1:0"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap);
    let reported: Vec<String> = lines.take_while(|line| !line.contains("quarry serves")).collect();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(reported.iter().any(|line| line.contains("is damaged at byte")), "{reported:?}");
}
