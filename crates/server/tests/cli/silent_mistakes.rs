//! Notes about likely typos and mistakes that would otherwise go unnoticed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::server::Server;
use crate::support::{Place, lines};

#[test]
fn a_new_or_empty_index_is_reported() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    place.run(&["add", "index", "web"]).expect_success();
    assert_eq!(place.run(&["add", "oneshot", &log]).err, "");
    for is_served in [false, true] {
        let _server = is_served.then(|| Server::start(&place));
        let empty = place.run(&["search", "index=web"]).err;
        assert!(empty.contains("index `web` holds no events") && empty.contains("events are in main"), "{empty}");
        let unknown = place.run(&["search", "index=wbe"]).err;
        assert!(unknown.contains("there is no index `wbe`") && unknown.contains("`web`"), "{unknown}");
        let name = if is_served { "webb" } else { "wep" };
        let new = place.run(&["add", "oneshot", &log, "-index", name, "--again"]).err;
        assert_eq!(new, format!("note: there is no index `{name}`: it is new; did you mean `web`?\n"));
        assert_eq!(place.run(&["add", "oneshot", &log, "-index", name, "--again"]).err, "");
        let port = if is_served { "15517" } else { "15518" };
        let input = place.run(&["add", "udp", port, "-index", "nosuch"]).err;
        assert!(
            input.contains("note: there is no index `nosuch`: it is created when the first event arrives"),
            "{input}"
        );
        assert!(!place.run(&["edit", "udp", port, "-index", "web"]).err.contains("no index"));
    }
}

#[test]
fn a_saved_search_is_checked_when_it_is_saved() {
    let place = Place::new();
    for verb in ["add", "edit"] {
        let wrong = place.run(&[verb, "saved-search", "bad", "-search", "error | statz count"]);
        assert!(wrong.code == 3 && wrong.err.contains("statz") && wrong.err.contains("^^^^^"), "{wrong:?}");
    }
    place.run(&["add", "saved-search", "good", "-search", "error `with_macro` | stats count"]).expect_success();
}

#[test]
fn following_an_index_that_does_not_exist_is_reported() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    place.run(&["add", "oneshot", &log]).expect_success();
    let _server = Server::start(&place);
    let mut following =
        place.command(&["search", "-f", "index=mian"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let reported = BufReader::new(following.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    following.kill().unwrap();
    following.wait().unwrap();
    assert_eq!(reported, "note: there is no index `mian`");
}

#[test]
fn following_words_that_look_like_a_command_is_reported() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    place.run(&["add", "oneshot", &log]).expect_success();
    let _server = Server::start(&place);
    for (search, says) in [
        ("error where x=1", "`where` is searched for as a word"),
        ("error head 5", "for the command, a `|` goes before it: error | head 5"),
    ] {
        let mut following =
            place.command(&["search", "-f", search]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reported = BufReader::new(following.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(reported.any(|line| line.contains(says)), "{search}");
        following.kill().unwrap();
        following.wait().unwrap();
    }
    for (search, command) in [("* | stats count", "stats"), ("* | table host", "table")] {
        let refused = place.run(&["search", "-f", search]);
        let says = format!("-f shows events as they arrive, and `{command}` turns them into a table");
        assert!(refused.code == 2 && refused.err.contains(&says), "{refused:?}");
        assert!(!refused.err.contains("following"), "{refused:?}");
    }
}

#[test]
fn empty_searches_report_the_failing_condition() {
    let place = Place::new();
    let log = place.write(
        "app.log",
        "2026-11-20T10:00:00Z level=error host web1 status=200\n\
         2026-11-20T10:00:01Z level=info table of contents status=404\n\
         2026-11-20T10:00:02Z level=info errors in a table status=404\n",
    );
    place.run(&["add", "oneshot", &log]).expect_success();
    let table = [
        ("error table host", "none meets all of them", "for the command, a `|` goes before it: error | table host"),
        ("error contents", "none meets all of them", "write OR for events that meet one of them: error OR contents"),
        ("error host status=404", "none meets all of them", "without `status=404` there are events"),
        ("error head 5", "no event contains `head`", "for the command, a `|` goes before it: error | head 5"),
        ("error top status", "no event contains `top`", "error | top status"),
        ("error rare status", "no event contains `rare`", "error | rare status"),
        ("error tail 2", "no event contains `tail`", "error | tail 2"),
        ("error sort -status", "no event contains `sort`", "error | sort -status"),
        ("error fields status", "no event contains `fields`", "error | fields status"),
        ("content", "no event contains the word `content`", "write *content* for a part of a word"),
        ("nosuchword", "no event contains `nosuchword`", ""),
        ("error --earliest -1h", "no event contains `--earliest`", "quarry search '…' --earliest …"),
        ("source=*x.log*", "no event meets `source=*x.log*`", "`| metadata type=sources` lists"),
        ("error status>900", "no event meets `status>900`", ""),
        ("level=error status=404", "none meets all of them", "level=error OR status=404"),
        (
            "level=info | where like(_raw, \"%zz%\")",
            "`where like(_raw, \"%zz%\")` keeps none of the events before it",
            "",
        ),
        ("error level=error NOT status=200", "no event that meets `error level=error` meets the other conditions", ""),
        (
            "error (contents OR nosuch) status=200",
            "no event that meets `error status=200` meets the other conditions",
            "",
        ),
        (
            "error earliest=11/20/2026:10:00:01 latest=11/20/2026:10:00:03",
            "no event that the search selects lies in its time range",
            "the newest event outside it is from 2026-11-20T10:00:00.000+00:00: change earliest= or latest=",
        ),
        ("level=info | eval n=1 | search n=2 | head 3", "`search n=2` keeps none of the events before it", ""),
        ("count by status", "no event contains `count`", "a `|` goes before it: * | stats count by status"),
        ("error earliest=-1h latest=-2h", "earliest=-1h is after latest=-2h", "swap them"),
        (
            "error earliest=11/20/2026:10:00:01 latest=11/20/2026:10:00:03 | timechart span=1s count",
            "no event that the search selects lies in its time range",
            "the newest event outside it is from 2026-11-20T10:00:00.000+00:00: change earliest= or latest=",
        ),
        ("* | rename status AS s | where status=200", "after `rename` there is no field `status`", "called `s` there"),
        (
            "* | fields - status | where status=200",
            "after `fields` there is no field `status`",
            "`fields -` removes it",
        ),
    ];
    for is_served in [false, true] {
        let _server = is_served.then(|| Server::start(&place));
        for (search, says, hint) in table {
            let ran = place.run(&["search", search]);
            assert!(ran.err.contains(says) && ran.err.contains(hint), "{search}: {ran:?}");
            assert_eq!(
                ran.err.matches("warning: ").count() + ran.err.matches("note: ").count(),
                1,
                "{search}: {ran:?}"
            );
        }
    }
    let range = ["--earliest", "11/20/2026:10:00:01", "--latest", "11/20/2026:10:00:03"];
    for search in ["error", "level=error", "status=200 | stats count"] {
        let ran = place.run(&[&["search", search][..], &range].concat());
        let says = "no event that the search selects lies in its time range";
        assert!(ran.err.contains(says) && ran.err.contains("change --earliest or --latest"), "{search}: {ran:?}");
    }
    // If only later commands remove all rows, there are no hints about the time range or the conditions.
    let wide = ["--earliest", "11/20/2026:09:00:00", "--latest", "11/20/2026:11:00:00"];
    for (search, says) in [
        ("level=info | where status>900", "`where status>900` keeps none of the events before it"),
        ("level=info | stats count by status | where count>5", "`where count>5` keeps none of the rows before it"),
        ("level=info | stats count(eval(status>900)) AS n", ""),
    ] {
        let ran = place.run(&[&["search", search][..], &wide].concat());
        assert!(ran.err.contains(says) && !ran.err.contains("time range"), "{search}: {ran:?}");
    }
    let ran = place.run(&["search", "level=info table | where status=200"]);
    assert!(!ran.err.contains("conditions"), "{ran:?}");
}

#[test]
fn hints_are_about_the_indexes_that_a_search_reads() {
    let place = Place::new();
    let main = place.write("main.log", "2026-11-20T10:00:00Z mood=calm user=eva\n");
    let app = place.write("app.log", "2026-11-20T10:00:00Z level=error user=tom\n");
    place.run(&["add", "oneshot", &main]).expect_success();
    place.run(&["add", "oneshot", &app, "--index", "app", "--host", "app1"]).expect_success();
    for is_served in [false, true] {
        let _server = is_served.then(|| Server::start(&place));
        for (search, says) in [
            ("index=* level=eror", "did you mean `error`?"),
            ("index=a* level=eror", "did you mean `error`?"),
            ("index!=main level=eror", "did you mean `error`?"),
            ("index=* host=app2", "did you mean `app1`?"),
            ("level=error", "events of index=app have it"),
            ("host=app1", "no event of the searched indexes has the host `app1`"),
            ("index=app host=app1 user=eva", "no event has the value `eva` in `user`"),
            ("index=app nosuch=1", "level, user"),
        ] {
            let ran = place.run(&["search", search]);
            assert!(ran.err.contains(says), "{search}: {ran:?}");
        }
    }
}

#[test]
fn events_in_the_future_are_reported() {
    let place = Place::new();
    let date = Command::new("date").args(["-u", "+%s"]).output().unwrap();
    let now: u64 = String::from_utf8(date.stdout).unwrap().trim().parse().unwrap();
    let past = place.write("past.log", format!("{} ended\n", now - 60));
    assert_eq!(place.run(&["add", "oneshot", &past]).err, "");
    for is_served in [false, true] {
        let _server = is_served.then(|| Server::start(&place));
        let hours = if is_served { 5 } else { 4 };
        let ahead = place.write("ahead.log", format!("{} started\n", now + hours * 3_600));
        let previewed = place.run(&["preview", &ahead]).expect_success();
        assert!(previewed.contains("note: 1 of the events shown lies in the future"), "{previewed}");
        let reported = place.run(&["add", "oneshot", &ahead]).err;
        assert!(
            reported.starts_with("note: the newest of these events is ") && reported.contains(" h in the future"),
            "{reported}"
        );
        // Adding the same events again prints no second note.
        assert_eq!(place.run(&["add", "oneshot", &past, "--again"]).err, "");
    }
}

#[test]
fn unused_zones_of_hosts_named_by_the_text_are_reported() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    place.write("data/etc/system/local/props.conf", "[host::fw-tokyo-*]\nTZ = Asia/Tokyo\n");
    let log = place.write(
        "messages",
        "Nov 20 10:00:00 fw-tokyo-1 sshd[7]: Accepted\nNov 20 10:00:01 fw-tokyo-1 sshd[7]: Closed\n",
    );
    let plain = place.run(&["preview", &log, "--sourcetype", "syslog"]).expect_success();
    assert!(plain.contains("time zone of timestamps without one: UTC (the machine's)"), "{plain}");
    assert!(
        plain.contains("note: TZ of [host::fw-tokyo-*] is not used") && plain.contains("--host fw-tokyo-1"),
        "{plain}"
    );
    let named = place.run(&["preview", &log, "--sourcetype", "syslog", "--host", "fw-tokyo-1"]).expect_success();
    assert!(named.contains("Asia/Tokyo (TZ of [host::fw-tokyo-*]") && !named.contains("note:"), "{named}");
    place.run(&["add", "oneshot", &log, "--sourcetype", "syslog", "-host", "fw-tokyo-1"]).expect_success();
    let hours =
        place.run(&["search", "* | eval h=strftime(_time, \"%H\") | stats count by h", "-o", "csv"]).expect_success();
    assert_eq!(hours, "h,count\n01,2\n");
}

#[test]
fn the_demo_can_be_shown_again_while_it_is_served() {
    let place = Place::new();
    let demo = place.path("demo").display().to_string();
    let arguments = ["demo", "--dir", &demo, "--megabytes", "1"];
    let answers = |text: String| -> Vec<String> {
        let answers = text.split_once("\n1. ").unwrap().1.to_owned();
        // Elapsed times differ.
        answers.lines().filter(|line| !line.ends_with(" ms)")).map(str::to_owned).collect()
    };
    let first = answers(place.run(&arguments).expect_success());
    let mut server = Command::new(env!("CARGO_BIN_EXE_quarry"));
    server.args(["--data-dir", &format!("{demo}/data"), "serve", "--mgmt", "127.0.0.1:0"]);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run_file = place.path("demo/data/run/server.json");
    assert!(crate::support::wait_until(|| run_file.exists()));
    let again = place.run(&arguments);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(answers(again.expect_success()), first);
}

#[test]
fn empty_files_that_are_searched_are_named() {
    let place = Place::new();
    let (empty, other, log) = (place.write("a.log", ""), place.write("b.log", ""), place.write("c.log", lines(0..3)));
    assert_eq!(place.run(&["search", "*", &empty, &log]).err, format!("note: {empty} is empty\n"));
    let both = place.run(&["search", "*", &empty, &other]).err;
    assert!(both.contains(&format!("note: 2 files are empty, the first is {empty}\n")), "{both}");
    let nothing = Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.take().unwrap();
    let read = place.command(&["search", "*", "-"]).stdin(nothing).output().unwrap();
    assert!(String::from_utf8_lossy(&read.stderr).contains("note: standard input is empty\n"), "{read:?}");
    assert_eq!(place.run(&["search", "*", &log]).err, "");
}

#[test]
fn events_without_their_text_show_their_fields() {
    let place = Place::new();
    let log = place.write("a.log", "level=warn user=\"A B\"\n");
    place.run(&["add", "oneshot", &log, "-host", "h1"]).expect_success();
    for is_served in [false, true] {
        let _server = is_served.then(|| Server::start(&place));
        for removed in ["_raw", "_*"] {
            let shown = place.run(&["search", &format!("* | fields - {removed}")]).expect_success();
            let expected = "level=warn user=\"A B\"";
            assert!(shown.contains("host=h1") && shown.contains(expected), "{removed}: {shown}");
        }
    }
}

#[test]
fn an_invalid_new_user_is_reported_before_the_password_prompt() {
    let place = Place::new();
    // Standard input has no password, which would be reported if the roles were valid.
    let roles = place.run(&["add", "user", "carl"]);
    assert!(roles.code == 2 && roles.err.contains("at least one role"), "{roles:?}");
    let unknown = place.run(&["add", "user", "carl", "-role", "nosuch"]);
    assert!(unknown.code == 2 && unknown.err.contains("there is no role"), "{unknown:?}");
    let taken = place.run(&["add", "user", "admin", "-role", "user"]);
    assert!(taken.code == 2 && taken.err.contains("there is a user admin already"), "{taken:?}");
}

#[test]
fn tokens_without_a_listener_are_reported_once() {
    let place = Place::new();
    // In the first round, a server runs. It was started without a token, so its collector does not listen.
    for is_served in [true, false] {
        let _server = is_served.then(|| Server::start(&place));
        let name = if is_served { "one" } else { "two" };
        let added = place.run(&["add", "http-event-collector", name]);
        assert_eq!((added.code, added.err.matches("listen").count()), (0, 1), "{added:?}");
    }
}
