//! Objects of a node on the command line: with a local server, without a server, and on another node; and the
//! conventions of Splunk's command line.

use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::permissions::with_users;
use crate::server::Server;
use crate::support::{Place, RunOutput, lines, wait_until};

/// A kind; a name; option, parameter and value of a setting for a new object; the same for a setting that is changed;
/// and the conf and the stanza that store the object.
type Row = (&'static str, &'static str, [&'static str; 3], [&'static str; 3], &'static str, &'static str);

const OBJECTS: &[Row] = &[
    (
        "monitor",
        "/nothing/here.log",
        ["-sourcetype", "sourcetype", "app"],
        ["-hostregex", "host_regex", "^/(\\w+)"],
        "inputs",
        "monitor:///nothing/here.log",
    ),
    (
        "tcp",
        "15514",
        ["-sourcetype", "sourcetype", "syslog"],
        ["--connection_host", "connection_host", "dns"],
        "inputs",
        "tcp://15514",
    ),
    ("udp", "15515", ["-index", "index", "net"], ["-sourcetype", "sourcetype", "syslog"], "inputs", "udp://15515"),
    (
        "splunktcp",
        "15997",
        ["--acceptFrom", "acceptFrom", "10.0.0.0/8"],
        ["--disabled", "disabled", "1"],
        "inputs",
        "splunktcp://15997",
    ),
    (
        "script",
        "/bin/date",
        ["--interval", "interval", "60"],
        ["-index", "index", "net"],
        "inputs",
        "script:///bin/date",
    ),
    (
        "index",
        "web",
        ["-frozenTimePeriodInSecs", "frozenTimePeriodInSecs", "86400"],
        ["-maxTotalDataSizeMB", "maxTotalDataSizeMB", "1000"],
        "indexes",
        "web",
    ),
    (
        "forward-server",
        "10.0.0.5:9997",
        ["--useSSL", "useSSL", "true"],
        ["--readTimeout", "readTimeout", "60"],
        "outputs",
        "tcpout:default-autolb-group",
    ),
    (
        "saved-search",
        "All errors",
        ["-search", "search", "error | stats count"],
        ["-start_time", "dispatch.earliest_time", "-24h"],
        "savedsearches",
        "All errors",
    ),
];

/// The only object in the output of `show -o json`.
fn shown(ran: RunOutput) -> Value {
    serde_json::from_str::<Value>(&ran.expect_success()).unwrap()[0].take()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn objects_are_added_changed_listed_and_removed_with_a_server_and_without() {
    for has_server in [false, true] {
        let place = Place::new();
        let server = has_server.then(|| Server::start(&place));
        for (kind, name, [option, parameter, value], [other_option, other, other_value], conf, stanza) in OBJECTS {
            let about = format!("{kind} with a server: {has_server}");
            let added = place.run(&["add", kind, name, option, value]);
            assert_eq!((added.code, added.err.contains("added")), (0, true), "{about}: {added:?}");
            // A running server applies changes of its inputs at once; forwarding is done by another process.
            let waits = *conf == "outputs" || *conf == "inputs" && !has_server;
            assert_eq!(added.err.contains("next start"), waits, "{about}: {}", added.err);
            let file =
                std::fs::read_to_string(place.data().join(format!("etc/apps/search/local/{conf}.conf"))).unwrap();
            assert!(file.contains(&format!("[{stanza}]")), "{about}: {file}");
            let again = place.run(&["add", kind, name, option, value]);
            assert_eq!((again.code, again.out.as_str()), (2, ""), "{about}: {again:?}");
            assert!(again.err.contains(name) || again.err.contains("already"), "{about}: {}", again.err);
            let object = shown(place.run(&["show", kind, name, "-o", "json"]));
            assert_eq!(text(&object[*parameter]), *value, "{about}: {object}");
            assert_eq!(place.run(&["edit", kind, name, other_option, other_value]).code, 0, "{about}");
            let object = shown(place.run(&["list", kind, name, "-o", "json"]));
            assert!(["true", *other_value].contains(&text(&object[*other]).as_str()), "{about}: {object}");
            assert_eq!(text(&object[*parameter]), *value, "{about}: other settings are unchanged: {object}");
            let listed = place.run(&["list", kind, "-o", "csv"]).expect_success();
            assert!(listed.lines().any(|line| line.starts_with(name)), "{about}: {listed}");
            assert_eq!(place.run(&["edit", kind, name]).code, 2, "{about}");
            assert_eq!(place.run(&["edit", kind, "18999", other_option, other_value]).code, 2, "{about}");
            let wrong = place.run(&["edit", kind, name, "--set", "colour=red"]);
            assert_eq!((wrong.code, wrong.err.contains("colour")), (2, true), "{about}: {wrong:?}");
            let removed = place.run(&["remove", kind, name]);
            assert_eq!((removed.code, removed.err.contains("removed")), (0, true), "{about}: {removed:?}");
            assert_eq!(place.run(&["show", kind, name]).code, 2, "{about}");
            assert_eq!(place.run(&["remove", kind, name]).code, 2, "{about}");
        }
        assert_eq!(place.run(&["add", "monitor", "x", "--colour", "red"]).code, 2);
        // The author of a change is recorded with and without a server.
        let found = "index=_audit action=edit_object operation=remove | stats count";
        let mut last = String::new();
        let is_found = wait_until(|| {
            last = place.run(&["search", found, "-o", "csv"]).expect_success();
            last == format!("count\n{}\n", OBJECTS.len())
        });
        assert!(is_found, "{last}");
        drop(server);
    }
}

#[test]
fn paths_are_absolute_and_a_missing_one_is_reported() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    let added = place.run(&["add", "monitor", "a.log"]);
    assert_eq!((added.code, added.err.contains("does not exist yet")), (0, false), "{added:?}");
    assert!(place.run(&["add", "monitor", "b.log"]).err.contains("does not exist yet"));
    let listed = place.run(&["list", "monitor", "-o", "csv"]).expect_success();
    assert!(listed.contains(&log), "{listed}");
    let server = Server::start(&place);
    assert!(wait_until(|| place.run(&["search", "* | stats count", "-o", "csv"]).expect_success() == "count\n3\n"));
    // A folder is found with or without a slash at its end.
    for (typed, meant) in [("watched/", "watched"), ("watched", "watched/")] {
        place.run(&["add", "monitor", typed]).expect_success();
        let removed = place.run(&["remove", "monitor", meant]);
        assert!(removed.code == 0 && !removed.err.contains("next start"), "{removed:?}");
    }
    drop(server);
}

/// `-source` is the path, and `-rename-source` the source of the events.
#[test]
fn files_and_monitors_are_added_with_splunk_options() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    place.run(&["add", "oneshot", &log, "-hostname", "h1", "-rename-source", "s1"]).expect_success();
    let counted = place.run(&["search", "* | stats count by host source", "-o", "csv"]).expect_success();
    assert_eq!(counted, "host,source,count\nh1,s1,3\n");
    place.run(&["add", "monitor", "-source", &log, "-hostname", "h2"]).expect_success();
    let listed = place.run(&["list", "monitor", "-o", "csv"]).expect_success();
    assert!(listed.contains(&log) && listed.contains("h2"), "{listed}");
    let nameless = place.run(&["add", "monitor", "-index", "main"]);
    assert_eq!((nameless.code, nameless.err.contains("<PATH>")), (2, true), "{nameless:?}");
}

#[test]
fn a_user_is_added_by_either_verb_and_a_missing_data_folder_is_reported() {
    let place = Place::new();
    let missing = place.run(&["list", "user"]);
    assert_eq!((missing.code, missing.err.contains("no data directory")), (4, true), "{missing:?}");
    assert!(!place.data().exists());
    for (has_server, name) in [(false, "eva"), (true, "tom")] {
        let server = has_server.then(|| Server::start(&place));
        place
            .run(&["add", "user", name, "-password", "a long secret", "-role", "power", "-full-name", "E. N."])
            .expect_success();
        let user = shown(place.run(&["show", "user", name, "-o", "json"]));
        assert_eq!((&user["realname"], &user["roles"][0]), (&"E. N.".into(), &"power".into()), "{user}");
        assert!(place.run(&["user", "list", "-o", "csv"]).expect_success().contains(&format!("{name},power")));
        place.run(&["edit", "user", name, "-role", "user"]).expect_success();
        assert!(place.run(&["list", "user", "-o", "csv"]).expect_success().contains(&format!("{name},user")));
        assert_eq!(place.run(&["add", "user", "ann", "-password", "x", "-role", "nothing"]).code, 2);
        place.run(&["remove", "user", name]).expect_success();
        assert!(!place.run(&["user", "list", "-o", "csv"]).expect_success().contains(name));
        drop(server);
    }
}

#[test]
fn an_index_with_events_is_removed_only_when_that_is_confirmed() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    place.run(&["add", "index", "web"]).expect_success();
    place.run(&["add", "oneshot", &log, "-index", "web"]).expect_success();
    let refused = place.run(&["remove", "index", "web"]);
    assert_eq!((refused.code, refused.err.contains("contains 3 events")), (2, true), "{refused:?}");
    let count = || place.run(&["search", "index=web | stats count", "-o", "csv"]).expect_success();
    assert_eq!(count(), "count\n3\n");
    place.run(&["remove", "index", "web", "--yes"]).expect_success();
    assert_eq!((count(), place.run(&["show", "index", "web"]).code), ("count\n0\n".to_owned(), 2));
    assert_ne!(place.run(&["remove", "index", "main", "--yes"]).code, 0, "the index is built in");
    // The positions of an index's files are removed with the index.
    place.run(&["add", "index", "web"]).expect_success();
    for _ in 0..2 {
        place.run(&["add", "oneshot", &log, "-index", "web"]).expect_success();
        assert_eq!(count(), "count\n3\n");
    }
}

#[test]
fn a_job_is_dispatched_shown_and_removed() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..10));
    place.run(&["add", "oneshot", &log]).expect_success();
    for arguments in [&["dispatch", "*"][..], &["search", "*", "--detach"]] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.err.contains("quarry --data-dir")), (2, true), "{ran:?}");
    }
    let server = Server::start(&place);
    let counted = place.run(&["dispatch", "* | stats count", "-o", "csv"]);
    assert_eq!(counted.expect_success(), "count\n10\n");
    assert_eq!(place.run(&["dispatch", "nosuchword", "-o", "json"]).expect_success(), "[]\n");
    for (search, says) in [
        ("index=mian | stats count", "did you mean `main`?"),
        ("nosuchword | table a b", "no event contains `nosuchword`"),
        ("* | stats count by hsot", "did you mean `host`?"),
    ] {
        let [dispatched, searched] = ["dispatch", "search"].map(|verb| place.run(&[verb, search, "-o", "csv"]));
        assert!(dispatched.err.contains(says) && dispatched.err == searched.err, "{dispatched:?} {searched:?}");
    }
    let sid =
        place.run(&["search", "* | head 2", "-detach", "true", "-id", "mine", "-timeout", "600"]).expect_success();
    assert_eq!(sid, "mine\n");
    let is_done = || shown(place.run(&["show", "jobs", "mine", "-o", "json"]))["dispatchState"] == "DONE";
    assert!(wait_until(is_done));
    assert_eq!(place.run(&["search", "| loadjob mine | stats count", "-o", "csv"]).expect_success(), "count\n2\n");
    let listed = place.run(&["list", "jobs", "-o", "csv"]).expect_success();
    assert!(listed.starts_with("sid,") && listed.contains("\nmine,DONE,"), "{listed}");
    place.run(&["remove", "jobs", "mine"]).expect_success();
    assert_eq!(place.run(&["show", "jobs", "mine"]).code, 2);
    place.run(&["remove", "jobs", "all"]).expect_success();
    assert_eq!(place.run(&["list", "jobs", "-o", "json"]).expect_success(), "[]\n");
    let [dispatched, searched] =
        ["dispatch", "search"].map(|verb| place.run(&[verb, "*", "-maxout", "3"]).expect_success());
    assert_eq!((dispatched.lines().count(), &dispatched), (3, &searched), "events are shown as events");
    let many = place.run(&["dispatch", "| makeresults count=100001 | streamstats count", "-o", "csv"]).expect_success();
    assert_eq!(many.lines().count(), 100_002, "a result has any number of pages");
    let failed = place.run(&["dispatch", "* | require | where nosuch=1 | require", "-id", "failing"]);
    assert_eq!(failed.code, 3, "{failed:?}");
    let loaded = place.run(&["search", "| loadjob failing"]);
    assert!(loaded.code == 3 && loaded.err.contains("job failing failed and has no result: "), "{loaded:?}");
    let wrong = place.run(&["dispatch", "* | stast count"]);
    assert!(wrong.code == 3 && wrong.err.contains('^'), "{wrong:?}");
    assert_eq!(place.run(&["search", "*", "--id", "x"]).code, 2);
    drop(server);
}

#[test]
fn unexpected_effects_of_changes_are_reported() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    place.run(&["add", "monitor", &log, "-index", "web"]).expect_success();
    for (arguments, reported) in [
        (&["edit", "monitor", &log, "-index", "main"][..], "are read again into main"),
        (&["add", "tcp", &port], "a program listens on port"),
        (
            &["add", "saved-search", "s", "-search", "x", "-cron_schedule", "0 * * * *", "-is_scheduled", "1"],
            "Scheduled searches do not run yet",
        ),
    ] {
        let ran = place.run(arguments);
        assert!(ran.code == 0 && ran.err.contains(reported), "{ran:?}");
    }
    // A running server listens on the port of a new input itself. The first port is released, because a server that
    // cannot listen on it does not start.
    drop(taken);
    let server = Server::start(&place);
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port().to_string();
    let added = place.run(&["add", "tcp", &free]);
    assert!(added.code == 0 && !added.err.contains("listens on port"), "{added:?}");
    drop(server);
    for (arguments, reported) in [
        (&["edit", "saved-search", "s", "-cron_schedule", "99 * * * *"][..], "Invalid cron_schedule=\"99 * * * *\""),
        (&["search", "x", "--sourcetype", "web"], "write sourcetype=web in the search"),
        (&["serach", "x"], "a similar subcommand exists: 'search'"),
        (&["add", "oneshot", &log, "-sourcetyp", "web"], "a similar argument exists: '--sourcetype'"),
    ] {
        let ran = place.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(reported) && !ran.err.contains("here:"), "{ran:?}");
    }
}

#[test]
fn server_warnings_can_be_searched() {
    let place = Place::new();
    let binary = place.write("b.log", [0, 1, 2, 255].repeat(100));
    place.run(&["add", "monitor", &binary]).expect_success();
    let server = Server::start(&place);
    let search = ["search", "index=_internal source=*splunkd.log WARN b.log binary | stats count", "-o", "csv"];
    assert!(wait_until(|| place.run(&search).expect_success() == "count\n1\n"));
    drop(server);
}

#[test]
fn searches_accept_splunk_options() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..10));
    let newest: String = lines(8..10).lines().rev().map(|line| format!("{line}\n")).collect();
    place.run(&["add", "oneshot", &log]).expect_success();
    let options = ["-maxout", "2", "-output", "rawdata", "-preview", "0", "-wrap", "0", "-app", "search"];
    for server in [false, true] {
        let server = server.then(|| Server::start(&place));
        assert_eq!(place.run(&[&["search", "*"][..], &options].concat()).expect_success(), newest);
        let bare = ["search", "* | stats count by index", "-output", "csv", "-header", "false", "-maxout", "1"];
        assert_eq!(place.run(&bare).expect_success(), "main,10\n");
        let times = ["-earliest_time", "2026-11-20T00:00:08Z", "-latest_time", "2026-11-20T00:00:09Z"];
        let counted = place.run(&[&["search", "* | stats count", "-o", "csv"][..], &times].concat()).expect_success();
        assert_eq!(counted, "count\n1\n");
        assert_eq!(
            place.run(&["search", "*", "--maxout", "1", "--order", "oldest", "-o", "raw"]).expect_success(),
            lines(0..1)
        );
        drop(server);
    }
}

#[test]
fn other_nodes_are_queried_over_tls_with_credentials() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("tom", &["user"])]);
    let log = place.write("a.log", lines(0..10));
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run: Value = serde_json::from_str(&run_file).unwrap();
    let address = run["mgmt"].as_str().unwrap();
    let uri = format!("https://{address}");
    let certificate = place.data().join("etc/auth/server.pem").display().to_string();
    // With another data directory, none of the node's own data is read.
    let far = Place::new();
    let count = ["search", "* | stats count", "-o", "csv", "-uri", &uri];
    let ask = |base: &[&str], more: &[&str]| far.run(&[base, more].concat());
    assert_eq!(ask(&count, &["-auth", "admin:secret", "--ca-cert", &certificate]).expect_success(), "count\n10\n");
    assert_eq!(ask(&count, &["-auth", "tom:secret", "--insecure"]).expect_success(), "count\n10\n");
    let unknown = ask(&count, &["-auth", "admin:secret"]);
    assert_eq!((unknown.code, unknown.err.contains("--ca-cert")), (4, true), "{unknown:?}");
    let nobody = ask(&count, &["--insecure"]);
    assert_eq!((nobody.code, nobody.err.contains("--auth")), (2, true), "{nobody:?}");
    let wrong = ask(&count, &["-auth", "admin:wrong", "--insecure"]);
    assert_ne!(wrong.code, 0, "{wrong:?}");
    assert!(wrong.err.contains("login failed"), "{wrong:?}");
    let add = ["add", "tcp", "15516", "-uri", &uri, "--insecure"];
    let refused = ask(&add, &["-auth", "tom:secret"]);
    assert_eq!((refused.code, refused.err.contains("edit_tcp")), (2, true), "{refused:?}");
    ask(&add, &["-auth", "admin:secret"]).expect_success();
    assert!(place.run(&["list", "tcp"]).expect_success().contains("15516"));
    let sid =
        ask(&["dispatch", "*", "--detach", "-uri", &uri, "--insecure"], &["-auth", "tom:secret"]).expect_success();
    assert!(
        ask(&["show", "jobs", sid.trim(), "-uri", &uri, "--insecure"], &["-auth", "tom:secret"])
            .expect_success()
            .contains("sid")
    );
    // A password may be passed in an environment variable or a line of standard input, which other users of the machine
    // cannot see.
    let mut from_variable = far.command(&[&count[..], &["-auth", "admin", "--insecure"]].concat());
    assert_eq!(
        RunOutput::of(from_variable.env("QUARRY_PASSWORD", "secret").output().unwrap()).expect_success(),
        "count\n10\n"
    );
    let mut from_input = far.command(&[&count[..], &["-auth", "admin", "--insecure"]].concat());
    let mut child = from_input.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"secret\n").unwrap();
    assert_eq!(RunOutput::of(child.wait_with_output().unwrap()).expect_success(), "count\n10\n");
    // Without TLS, the password is only sent to this machine.
    let clear = far.run(&["search", "*", "-uri", "http://192.0.2.1:8089", "-auth", "admin:secret"]);
    assert_eq!((clear.code, clear.err.contains("https")), (2, true), "{clear:?}");
    assert!(!far.data().exists());
    // A password also authenticates a user if no server runs.
    drop(server);
    let listed = place.run(&["list", "tcp", "-auth", "tom:secret"]);
    assert_eq!((listed.code, listed.err.contains("edit_tcp")), (2, true), "{listed:?}");
    assert_eq!(place.run(&["list", "tcp", "-auth", "admin:wrong"]).code, 2);
    assert!(place.run(&["list", "tcp", "-auth", "admin:secret"]).expect_success().contains("15516"));
    assert_eq!(place.run(&["search", "*", "-auth", "admin:secret"]).code, 2);
}
