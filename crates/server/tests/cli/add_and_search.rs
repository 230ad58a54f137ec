//! Adding and searching with the binary, and its exit codes.

use std::io::Write;
use std::process::Stdio;

use crate::server::Server;
use crate::support::{Place, RunOutput, lines, sorted, unsealed_bytes};

#[test]
fn added_events_are_found_in_every_format_and_after_a_restart() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3_000));
    let said = place.run(&["add", "oneshot", &log, "--host", "h1"]).expect_success();
    assert!(said.starts_with("added 3,000 events from 1 file"), "{said}");
    assert_eq!(unsealed_bytes(&place.data()), 0, "an add leaves nothing unsealed");
    let raw = place.run(&["search", "*", "-o", "raw"]).expect_success();
    assert_eq!(sorted(&raw), sorted(&lines(0..3_000)));
    let csv = place.run(&["search", "host=h1 | stats count by sourcetype index", "-o", "csv"]).expect_success();
    assert!(csv.ends_with(",main,3000\n"), "{csv}");
    let json = place.run(&["search", "line=77 | fields line took | fields - _*", "-o", "json"]).expect_success();
    assert_eq!(json.split_whitespace().collect::<String>(), "[{\"line\":77,\"took\":539}]");
    let rows = place.run(&["search", "* | head 3 | stats count", "-o", "ndjson"]).expect_success();
    assert_eq!(rows, "{\"count\":3}\n");
    let early = place.run(&["search", "*", "--latest", "2026-11-20T00:00:05Z", "-o", "raw"]).expect_success();
    assert_eq!(sorted(&early), sorted(&lines(0..5)));
}

#[test]
fn sources_are_named_without_parent_segments() {
    let place = Place::new();
    std::fs::create_dir(place.path("logs")).unwrap();
    let log = place.write("logs/a.log", lines(0..3));
    let way = std::path::Path::new(&log).parent().unwrap().join("../logs/a.log");
    place.run(&["add", "oneshot", &way.display().to_string()]).expect_success();
    let again = place.run(&["add", "oneshot", &log]).expect_success();
    assert!(again.contains("1 file skipped"), "{again}");
    let sources = place.run(&["search", "* | stats count by source", "-o", "csv"]).expect_success();
    assert!(sources.ends_with("/logs/a.log,3\n") && !sources.contains(".."), "{sources}");
}

#[test]
fn searches_do_not_create_a_data_directory() {
    let place = Place::new();
    assert_eq!(place.run(&["search", "| makeresults | eval n=1 | table n", "-o", "csv"]).expect_success(), "n\n1\n");
    assert!(place.run(&["search", "*"]).err.contains("there is no data directory"));
    assert!(!place.data().exists());
}

#[test]
fn the_same_bytes_add_nothing() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..500));
    place.run(&["add", "oneshot", &log]).expect_success();
    std::fs::write(&log, lines(0..800)).unwrap();
    let grown = place.run(&["add", "oneshot", &log]);
    assert!(grown.out.starts_with("added 300 events"), "{grown:?}");
    let copy = place.write("b.log", lines(0..800));
    let said = place.run(&["add", "oneshot", &copy]).expect_success();
    let both = format!("1 file skipped because added before (--again adds them again): {copy} (its content as {log})");
    assert!(said.contains(&both), "{said}");
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n800\n");
    place.run(&["add", "oneshot", &copy, "--again"]).expect_success();
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n1600\n");
}

#[test]
fn rows_received_in_parts_form_one_result() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..20_000));
    let json = place.run(&["search", "* | fields line", &log, "-o", "json"]).expect_success();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.len(), 20_000);
    assert_eq!((&rows[0]["line"], &rows[19_999]["line"]), (&19_999.into(), &0.into()));
    assert_eq!(place.run(&["search", "nothing", &log, "-o", "json"]).expect_success(), "[]\n");
    // Hints examine only the newest events, which have other values of `line`. The search finds an event, so no hint
    // may be printed.
    let one = place.run(&["search", "line=7", &log]);
    assert_eq!((one.out.lines().count(), one.err.as_str()), (1, ""), "{one:?}");
    let nothing = place.run(&["search", "nothing", &log]);
    assert_eq!((nothing.out.as_str(), nothing.err.contains("no results")), ("", true), "{nothing:?}");
    let table = place.run(&["search", "line=7 OR line=8", &log]).expect_success();
    let shown = "2026-11-20T00:00:08.000+00:00  2026-11-20T00:00:08Z host=web2 line=8 took=56\n\
                 2026-11-20T00:00:07.000+00:00  2026-11-20T00:00:07Z host=web1 line=7 took=49\n";
    assert_eq!(table, shown);
    assert_eq!(
        place.run(&["search", "line=7 | fields - _raw, _time | fields line", &log, "-o", "raw"]).expect_success(),
        "7\n"
    );
    let mut reader_leaves = place.command(&["search", "*", &log, "-o", "raw"]);
    let mut child = reader_leaves.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = RunOutput::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn copies_among_files_of_one_command_are_recognised() {
    let place = Place::new();
    let folder = place.path("logs");
    std::fs::create_dir(&folder).unwrap();
    for at in 0..300 {
        // Every third file is a copy of the previous file.
        let line = at - usize::from(at % 3 == 2);
        std::fs::write(folder.join(format!("{at:03}.log")), lines(line..line + 1)).unwrap();
    }
    let said = place.run(&["add", "oneshot", &folder.display().to_string()]).expect_success();
    assert!(said.starts_with("added 200 events from 200 files") && said.contains("100 files skipped"), "{said}");
    assert_eq!(
        place.run(&["search", "* | stats dc(line) count", "-o", "csv"]).expect_success(),
        "dc(line),count\n200,200\n"
    );
}

/// The sourcetypes, extractions and lookups of the data directory are used, and nothing is written there.
#[test]
fn files_are_searched_in_place_with_the_knowledge_of_the_data_directory() {
    let place = Place::new();
    let log = place.write("a.log", "05/11/2026 10:00:00 u=eva\n");
    let (local, lookups) = (place.data().join("etc/system/local"), place.data().join("etc/system/lookups"));
    std::fs::create_dir_all(&local).unwrap();
    std::fs::create_dir_all(&lookups).unwrap();
    let props = "[shop]\nTIME_FORMAT = %d/%m/%Y %H:%M:%S\nEXTRACT-who = u=(?<who>\\w+)\nLOOKUP-desk = desks.csv who OUTPUT desk\n";
    std::fs::write(local.join("props.conf"), props).unwrap();
    std::fs::write(lookups.join("desks.csv"), "who,desk\neva,7\n").unwrap();
    let search = "* | eval day=strftime(_time, \"%F\") | table day who desk";
    let run = || place.run(&["search", search, &log, "--sourcetype", "shop", "-o", "csv"]).expect_success();
    let by_source = "[source::.../a.log]\nEXTRACT-y = (?<year>\\d{4})\n";
    std::fs::write(local.join("props.conf"), format!("{props}{by_source}")).unwrap();
    assert_eq!(place.run(&["search", "* | table year", "a.log", "-o", "csv"]).expect_success(), "year\n2026\n");
    assert_eq!(run(), "day,who,desk\n2026-11-05,eva,7\n");
    let left: Vec<_> = std::fs::read_dir(place.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["etc"], "nothing is left behind");
    let preview = place.run(&["preview", &log, "--sourcetype", "shop"]).expect_success();
    assert!(preview.contains("2026-11-05"), "{preview}");
    // A lookup in the working directory takes precedence.
    place.write("desks.csv", "who,desk\neva,8\n");
    assert_eq!(run(), "day,who,desk\n2026-11-05,eva,8\n");
}

#[test]
fn files_are_searched_without_a_data_folder() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..100));
    assert_eq!(place.run(&["search", "line=5*", &log, "-o", "raw"]).expect_success().lines().count(), 11);
    let mut child = place.command(&["search", "* | stats count", "-", "-o", "csv"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines(0..42).as_bytes()).unwrap();
    assert_eq!(RunOutput::of(child.wait_with_output().unwrap()).expect_success(), "count\n42\n");
    assert!(!place.data().exists());
}

#[test]
fn standard_input_is_added_with_and_without_a_server() {
    let place = Place::new();
    for server in [false, true] {
        let server = server.then(|| Server::start(&place));
        let index = if server.is_some() { "served" } else { "own" };
        let mut child = place.command(&["add", "oneshot", "-", "-index", index, "-sourcetype", "lines"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines(0..42).as_bytes()).unwrap();
        assert!(RunOutput::of(child.wait_with_output().unwrap()).expect_success().starts_with("added 42 events"));
        let search = format!("index={index} | stats count by sourcetype");
        assert_eq!(place.run(&["search", &search, "-o", "csv"]).expect_success(), "sourcetype,count\nlines,42\n");
        let mut again = place.command(&["add", "oneshot", "-", "-index", index, "-sourcetype", "lines"]);
        let mut again = again.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        again.stdin.take().unwrap().write_all(lines(0..42).as_bytes()).unwrap();
        let again = RunOutput::of(again.wait_with_output().unwrap());
        assert!(!again.err.contains("uploads"), "{again:?}");
        drop(server);
    }
}

#[test]
fn an_old_log_is_noted_when_it_is_added() {
    let place = Place::new();
    let old = place.write("old.log", "2005-06-04T00:24:32Z old\n2005-06-04T00:24:33Z older\n");
    let ran = place.run(&["add", "oneshot", &old]);
    assert!(ran.code == 0 && ran.err.contains("index main keeps events for 2184 days"), "{ran:?}");
    assert!(place.run(&["search", "*", "-o", "cvs"]).err.contains("'csv'"));
    let log = place.write("a.log", lines(0..3));
    let ran = place.run(&["add", "oneshot", &log]);
    assert!(ran.code == 0 && !ran.err.contains("keeps events"), "{ran:?}");
}

#[test]
fn exit_codes_distinguish_kinds_of_failure() {
    let place = Place::new();
    assert_eq!(place.run(&["add", "oneshot", "missing.log"]).code, 2);
    assert_eq!(place.run(&["search", "x", "missing.log"]).code, 2);
    assert_eq!(place.run(&["fly"]).code, 2);
    assert_eq!(place.run(&["search", "x"]).code, 4, "no data directory");
    let log = place.write("a.log", lines(0..10));
    assert_eq!(place.run(&["add", "oneshot", &log, "--index", "Bad Name"]).code, 2);
    place.run(&["add", "oneshot", &log]).expect_success();
    let wrong = place.run(&["search", "x | stast count"]);
    assert_eq!(wrong.code, 3);
    assert!(wrong.err.contains("did you mean `stats`?") && wrong.err.contains("^^^^^"), "{}", wrong.err);
    assert_eq!(place.run(&["search", "x", "--earliest", "yesterdayish"]).code, 2);
    assert_eq!(place.run(&["search", "nothing like it", "-o", "csv"]).code, 0);
}

#[test]
fn files_without_added_events_are_named() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..10));
    let missing = place.path("missing.log").display().to_string();
    let empty: Vec<String> = (0..7).map(|at| place.write(&format!("empty{at}.log"), "")).collect();
    let binary = place.write("binary.dat", [0_u8, 1, 2, 3, 4, 5, 6, 7]);
    let mut arguments = vec!["add", "oneshot", &missing, &log, &binary];
    arguments.extend(empty.iter().map(String::as_str));
    let ran = place.run(&arguments);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains(&format!("error: {missing}: no such file")) && ran.err.contains(&binary), "{ran:?}");
    assert!(ran.out.starts_with("added 10 events from 1 file, ") && !ran.out.contains("0.0 MB"), "{ran:?}");
    let named = format!("7 files empty: {} and 2 more", empty[..5].join(", "));
    assert!(ran.out.contains("1 file skipped as binary") && ran.out.contains(&named), "{ran:?}");
    assert!(ran.out.trim_end().ends_with("1 file failed"), "{ran:?}");
    let none = place.run(&["add", "oneshot", &missing]);
    assert_eq!((none.code, none.out.as_str()), (2, ""), "{none:?}");
    let all_left_out = place.run(&["add", "oneshot", &binary]);
    assert_eq!(all_left_out.code, 5, "{all_left_out:?}");
}

#[test]
fn an_asterisk_that_the_shell_expanded_is_reported() {
    let place = Place::new();
    for name in ["a.log", "b", "c.log"] {
        place.write(name, lines(0..3));
    }
    for arguments in [&["search", "a.log", "b", "c.log"][..], &["search", "a.log", "c.log", "c.log"]] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("quarry search '*' c.log") && ran.err.lines().count() == 1, "{ran:?}");
    }
    // A search word may also be the name of a file.
    assert_eq!(place.run(&["search", "a.log", "b"]).code, 0);
}

#[test]
fn sorts_that_drop_rows_by_default_are_reported() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..10_001));
    for (search, rows, is_told) in [
        ("* | sort line | stats count", 10_000, true),
        ("* | stats count by line | sort - line | stats count", 10_000, true),
        ("* | sort line | head 5 | stats count", 5, false),
        ("* | stats count by line | sort - line | head 5 | stats count", 5, false),
        ("* | sort 10000 line | stats count", 10_000, false),
        ("* | sort 0 line | stats count", 10_001, false),
        ("* | head 10000 | sort line | stats count", 10_000, false),
    ] {
        let ran = place.run(&["search", search, &log, "-o", "csv"]);
        assert_eq!(ran.out, format!("count\n{rows}\n"), "{search}");
        assert_eq!(ran.err.contains("sort returns the first 10000 rows"), is_told, "{search}: {ran:?}");
    }
}

#[test]
fn unusual_files_are_added() {
    let place = Place::new();
    let empty = place.write("empty.log", "");
    assert!(place.run(&["add", "oneshot", &empty]).expect_success().starts_with("added 0 events"));
    let garbage: Vec<u8> = (0..200_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let garbage = place.write("garbage.bin", garbage);
    let left_out = place.run(&["add", "oneshot", &garbage]);
    assert!(left_out.code == 5 && left_out.out.starts_with("added 0 events"), "{left_out:?}");
    let long = place.write("long.log", vec![b'x'; 100_000_000]);
    let said = place.run(&["add", "oneshot", &long, "--index", "long"]).expect_success();
    assert!(said.contains("added 1 events") || said.contains("added 1 event "), "{said}");
    assert!(said.contains("cut to TRUNCATE"), "{said}");
    assert_eq!(place.run(&["search", "index=long | stats count", "-o", "csv"]).expect_success(), "count\n1\n");
}

#[test]
fn configuration_shows_with_its_origin_and_faults_are_reported() {
    let place = Place::new();
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    std::fs::write(local.join("props.conf"), "[mine]\nTRUNCATE = 77\nTRUNCAT = 5\n").unwrap();
    let shown = place.run(&["btool", "props", "list", "mine", "--debug"]);
    assert!(shown.err.contains("props.conf:3: [mine] unknown setting TRUNCAT"), "{}", shown.err);
    assert!(
        shown
            .expect_success()
            .lines()
            .any(|line| line.contains("local/props.conf:2") && line.ends_with("TRUNCATE = 77"))
    );
    assert_eq!(place.run(&["btool", "nonsense", "list"]).code, 2);
}

#[test]
fn searches_of_a_file_are_counted() {
    let place = Place::new();
    let text = ["error | stats count", "a | lookup t x | x11 x", "x | eval a=("]
        .map(|text| format!("{{\"search\":\"{text}\"}}\n"));
    let file = place.write("s.jsonl", text.concat());
    let report = place.run(&["spl", "check", &file, "-o", "json"]).expect_success();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["searches"], &report["parsed"], &report["supported"]), (&3.into(), &2.into(), &1.into()));
    assert_eq!(report["unsupported"], serde_json::json!([{ "feature": "command:x11", "searches": 1 }]));
    assert_eq!(report["not_parsed"][0]["line"], 3);
    let file = place.write("some.jsonl", "{\"search\":\"a\"}\nno json\n{\"other\":1}\n{\"search\":\"b\"}\n");
    let report = place.run(&["spl", "check", &file, "-o", "json"]).expect_success();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["searches"], &report["skipped"]), (&2.into(), &2.into()));
    let lines: Vec<&serde_json::Value> =
        report["unread"].as_array().unwrap().iter().map(|unread| &unread["line"]).collect();
    assert_eq!(lines, [2, 3]);
    let file = place.write("none.jsonl", "{\"other\":1}\n");
    let none = place.run(&["spl", "check", &file]);
    assert!(none.code == 2 && none.err.contains("none.jsonl:1: has no text field search"), "{none:?}");
}

#[test]
fn searches_of_a_file_run_with_stand_ins() {
    let place = Place::new();
    let searches = [
        "status=500 | lookup owners host OUTPUT owner | stats count BY owner",
        "| tstats count FROM datamodel=Shop.Orders WHERE Orders.price>5 BY Orders.city",
        "| savedsearch Daily | map search=\\\"search x=$nosuch$\\\"",
    ];
    let text = searches.map(|text| format!("{{\"search\":\"{text}\"}}\n"));
    let file = place.write("s.jsonl", text.concat());
    let report = place.run(&["spl", "check", "--execute", &file, "-o", "json"]).expect_success();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["supported"], &report["executed"], &report["failed"]), (&3.into(), &3.into(), &1.into()));
    assert_eq!(report["failures"][0]["line"], 3);
    assert!(report["failures"][0]["error"].as_str().unwrap().contains("no value for $nosuch$"), "{report}");
    let table = place.run(&["spl", "check", "--execute", &file]).expect_success();
    assert!(table.contains("3 executed, 1 of them failed"), "{table}");
}

#[test]
fn likely_mistakes_get_a_hint() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..50));
    place.run(&["add", "oneshot", &log]).expect_success();
    let table: [(&[&str], &str); 7] = [
        (&["* stats count by host"], "help: a `|` goes before a command: * | stats count by host"),
        (&["* | stats count by lin"], "help: did you mean `line`?"),
        (&["index=maim line=7"], "help: did you mean `main`?"),
        (&["sourcetype=nothing"], "note: no event has the sourcetype `nothing`"),
        (&["line=7 | stats count", "--order", "oldest"], ""),
        (&["foo", "bar", &log], "put the whole search in quotes, as in quarry search 'foo bar'"),
        (&[&log], "the search is missing: quarry search '*'"),
    ];
    for (arguments, want) in table {
        let ran = place.run(&[&["search"], arguments].concat());
        assert!(ran.err.contains(want), "{arguments:?}: {}", ran.err);
        assert!(!want.is_empty() || ran.err.is_empty(), "{arguments:?}: {}", ran.err);
    }
    let first = place.run(&["search", "* | head 1", "-o", "raw", "--order", "oldest"]).expect_success();
    assert_eq!(first, lines(0..1));
    let record = place.run(&["search", "line=7 | table line took", "--vertical"]).expect_success();
    assert!(record.starts_with("-[ 1 ]-") && record.contains("\nline  7\n"), "{record}");
}

#[test]
fn counts_of_nothing_are_explained_like_no_rows() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..100));
    place.run(&["add", "oneshot", &log]).expect_success();
    for (search, more, note) in [
        ("* | where sorcetype=\"syslog\" | stats count", &[][..], "did you mean `sourcetype`?"),
        ("* | stats count, sum(took)", &["--earliest", "2030-01-01"], "events go from"),
        ("* | stats count", &["--latest", "-20y"], "events go from"),
    ] {
        let ran = place.run(&[&["search", search], more].concat());
        assert!(ran.code == 0 && ran.err.contains(note), "{search}: {ran:?}");
    }
    let found = place.run(&["search", "* | stats count, count(eval(line<0)) AS none"]);
    assert_eq!((found.code, found.err.as_str()), (0, ""), "{found:?}");
    let reversed = place.run(&["search", "*", "--earliest", "now", "--latest", "-1h"]);
    assert!(reversed.code == 2 && reversed.err.contains("is after --latest"), "{reversed:?}");
}

#[test]
fn a_quoted_value_of_a_csv_file_may_contain_line_breaks() {
    let place = Place::new();
    let file = place.write("a.csv", "id,text\n1,2\n3,\"x\ny\"\n5,6\n");
    let search = "* | stats count max(id) AS last list(text) AS texts | eval texts=mvjoin(texts, \"|\")";
    let expected = "count,last,texts\n3,5,\"6|x\ny|2\"\n";
    assert_eq!(place.run(&["search", search, &file, "-o", "csv"]).expect_success().replace('\r', ""), expected);
    place.run(&["add", "oneshot", &file]).expect_success();
    assert_eq!(place.run(&["search", search, "-o", "csv"]).expect_success().replace('\r', ""), expected);
}
