//! `quarry search -f` against a running server.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::server::{Server, begin};
use crate::support::Place;

#[test]
fn only_new_events_are_shown_as_they_arrive() {
    let place = Place::new();
    let old = place.write("old.log", "2026-11-01T10:00:00Z level=error before\n");
    place.run(&["add", "oneshot", &old, "--sourcetype", "kv"]).expect_success();
    let refused = place.run(&["search", "-f", "level=error"]);
    assert_eq!(
        (refused.code, refused.err.contains("serve`, or name another node with --uri")),
        (2, true),
        "{refused:?}"
    );
    let _server = Server::start(&place);
    let mut following = place
        .command(&["search", "-f", "level=error", "-maxout", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    // Events that arrive before the search has begun are not shown, so files are added until one is shown.
    let (found, ended) = std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            let mut at = 0;
            while following.try_wait().unwrap().is_none() {
                let text = format!("2020-01-01T10:00:00Z level=error after {at}\n2026-11-01T10:00:02Z level=info no\n");
                let new = place.write(&format!("new{at}.log"), &text);
                place.run(&["add", "oneshot", &new, "--sourcetype", "kv"]).expect_success();
                at += 1;
            }
            following.wait().unwrap()
        });
        let found: Vec<String> = lines.by_ref().map(Result::unwrap).collect();
        (found, adding.join().unwrap())
    });
    assert!(ended.success() && found.len() == 2, "{found:?}");
    assert!(found.iter().all(|line| line.starts_with("2020-01-01T10:00:00Z level=error after ")), "{found:?}");
    for (wrong, says) in [
        (&["search", "-f", "* | stats count"][..], "job"),
        (&["search", "-f", "*", "--earliest", "-5m"], "--earliest"),
        (&["search", "-f", "*", "-o", "csv"], "json"),
        (&["search", "-f", "*", &old], "tail -f"),
    ] {
        let refused = place.run(wrong);
        assert!(refused.code != 0 && refused.err.contains(says), "{wrong:?}: {refused:?}");
    }
}

#[test]
fn a_report_is_exported_again_when_its_rows_have_changed() {
    let place = Place::new();
    let log = |name: &str, text: &str| {
        let path = place.write(name, text);
        place.run(&["add", "oneshot", &path, "--sourcetype", "kv"]).expect_success();
    };
    log("a.log", "2026-11-01T10:00:00Z level=error\n");
    let _server = Server::start(&place);
    let body = "search=search+*+%7C+stats+count+BY+level&earliest_time=rt-50y&latest_time=rt&output_mode=json";
    let mut lines = BufReader::new(begin(&place, "/services/search/jobs/export", body)).lines().map(Result::unwrap);
    let mut next = || {
        let found = lines.find(|line| line.starts_with('{')).unwrap();
        serde_json::from_str::<serde_json::Value>(&found).unwrap()
    };
    let shown = |row: &serde_json::Value| {
        let text = |name: &str| row["result"][name].as_str().unwrap_or_default().to_owned();
        (row["preview"] == true, row["offset"].as_u64().unwrap(), text("level"), text("count"))
    };
    assert_eq!(shown(&next()), (true, 0, "error".into(), "1".into()));
    log("b.log", "2026-11-01T10:00:01Z level=error\n2026-11-01T10:00:02Z level=info\n");
    // Rows are sent at the end of a round, and all events of a file are counted in the same round.
    assert_eq!(shown(&next()), (true, 0, "error".into(), "2".into()));
    let last = next();
    assert_eq!((shown(&last), &last["lastrow"]), ((true, 1, "info".into(), "1".into()), &serde_json::json!(true)));
    let window = "search=search+*&earliest_time=rt-50y&latest_time=rt&output_mode=json";
    let mut refused = String::new();
    begin(&place, "/services/search/jobs/export", window).read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("create a job"), "{refused}");
}
