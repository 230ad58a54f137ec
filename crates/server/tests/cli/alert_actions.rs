//! `sendalert`: an app's program receives the rows and information about the search, and the search returns the rows
//! unchanged.

use crate::server::{Server, begin};
use crate::support::{Place, RunOutput, wait_until};

/// A program that copies its input to files: payload, arguments, rows.
const COPIES: &str = r#"
import gzip, json, os, sys
payload = sys.stdin.read()
folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/payload", "a") as out:
    out.write(payload)
with open(folder + "/arguments", "w") as out:
    out.write(" ".join(sys.argv[1:]))
file = json.loads(payload)["results_file"]
with open(folder + "/file", "w") as out:
    out.write(file)
if file.endswith(".gz"):
    with gzip.open(file, "rt") as rows, open(folder + "/rows", "w") as out:
        out.write(rows.read())
print("this is read by nobody")
print("INFO told %s" % json.loads(payload)["configuration"].get("room"), file=sys.stderr)
print("DEBUG not this", file=sys.stderr)
"#;

const FAILS: &str = "#!/bin/sh\necho 'ERROR no such room' >&2\nexit 3\n";
const WRITES_XML: &str = "#!/bin/sh\ncat > \"$(dirname \"$0\")/xml\"\necho \"$@\" > \"$(dirname \"$0\")/words\"\n";
const SLEEPS: &str = "#!/bin/sh\necho $$ > \"$(dirname \"$0\")/pid\"\nsleep 1000 & wait\n";

const CONF: &str = "
[default]
param.everywhere = yes
[copies]
is_custom = 1
payload_format = json
param.room = hall
param.text = $result.user$ in $result.gone$ of $app$, $5
param.Kept = 1
[fails]
is_custom = 1
[words]
alert.execute.cmd = writes.sh
alert.execute.cmd.arg.0 = --in
alert.execute.cmd.arg.2 = $SPLUNK_HOME/x
param.a = <b> & \"c\"
[sleeps]
maxtime = 1s
[off]
disabled = 1
[old]
python.version = python2
[elsewhere]
alert.execute.cmd = ../copies.py
[gone]
";

const ROWS: &str = "| makeresults count=3 | streamstats count AS n | eval user=\"u\".n, many=split(\"a;b\", \";\") \
                    | fields - _time";

fn place() -> Place {
    let place = Place::new();
    let app = place.data().join("etc/apps/rooms");
    std::fs::create_dir_all(app.join("default")).unwrap();
    std::fs::create_dir_all(app.join("bin")).unwrap();
    std::fs::write(app.join("default/alert_actions.conf"), CONF).unwrap();
    std::fs::write(app.join("bin/copies.py"), COPIES).unwrap();
    for (name, text) in [("fails.sh", FAILS), ("writes.sh", WRITES_XML), ("sleeps", SLEEPS)] {
        write_program(&app.join("bin").join(name), text);
    }
    std::fs::write(app.join("bin/off.py"), "").unwrap();
    std::fs::write(app.join("bin/old.py"), "").unwrap();
    place
}

fn write_program(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn ask(place: &Place, search: &str) -> RunOutput {
    place.run(&["search", search, "-o", "csv"])
}

fn left_by(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.data().join("etc/apps/rooms/bin").join(name)).unwrap_or_else(|_| "nothing".to_owned())
}

#[test]
fn programs_get_rows_and_payload_and_rows_pass_through() {
    let place = place();
    let search = format!(
        "{ROWS} | sendalert copies param.room=\"$result.n$ of $results.count$\" results_link=\"http://x/y\" \
         | table n user"
    );
    let ran = ask(&place, &search);
    assert_eq!((ran.out.as_str(), ran.code), ("n,user\n1,u1\n2,u2\n3,u3\n", 0), "{}", ran.err);
    assert!(ran.err.contains("sendalert copies: told 1 of 3"), "{}", ran.err);
    assert!(!ran.err.contains("not this") && !ran.err.contains("read by nobody"), "{}", ran.err);
    assert_eq!(left_by(&place, "arguments"), "--execute");
    assert_eq!(
        left_by(&place, "rows"),
        "n,user,many,__mv_many\n1,u1,\"a\nb\",$a$;$b$\n2,u2,\"a\nb\",$a$;$b$\n3,u3,\"a\nb\",$a$;$b$\n"
    );
    let payload: serde_json::Value = serde_json::from_str(&left_by(&place, "payload")).unwrap();
    assert_eq!(payload["configuration"]["text"], "u1 in  of search, $5");
    assert_eq!(payload["configuration"]["Kept"], "1");
    assert_eq!(payload["configuration"]["everywhere"], "yes");
    assert_eq!(payload["result"]["user"], "u1");
    assert_eq!(payload["result"]["many"], serde_json::json!(["a", "b"]));
    assert_eq!((&payload["app"], &payload["results_link"]), (&"search".into(), &"http://x/y".into()));
    assert!(payload["sid"].as_str().is_some_and(|sid| !sid.is_empty()));
    // The file and its directory are removed when the program has ended.
    assert_eq!(std::fs::read_dir(place.data().join("run/alerts")).unwrap().count(), 0);
}

#[test]
fn actions_run_once_even_without_rows_but_not_for_explain() {
    let place = place();
    let explained = place.run(&["spl", "explain", &format!("{ROWS} | sendalert copies")]);
    assert_eq!((explained.code, left_by(&place, "payload").as_str()), (0, "nothing"), "{}", explained.err);
    let ran = ask(&place, &format!("{ROWS} | where n>9 | sendalert copies | stats count"));
    assert_eq!((ran.out.as_str(), ran.code), ("count\n0\n", 0), "{}", ran.err);
    assert_eq!(left_by(&place, "rows"), "");
    assert_eq!(left_by(&place, "payload").lines().count(), 1);
    let ran = ask(&place, "| makeresults | sendalert copies results_path=\"/other/rows.csv\" | table x");
    assert_eq!((ran.code, left_by(&place, "file").as_str()), (0, "/other/rows.csv"), "{}", ran.err);
    let text = place.write("searches.jsonl", "{\"search\": \"| makeresults | sendalert copies\"}\n");
    let checked = place.run(&["spl", "check", "--execute", &text]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert_eq!(left_by(&place, "payload").lines().count(), 2);
}

#[test]
fn payloads_default_to_xml_with_arguments_as_given() {
    let place = place();
    let ran = ask(&place, "| makeresults | eval f=\"<x>\" | fields - _time | sendalert words");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let xml = left_by(&place, "xml");
    for expected in [
        "<app>search</app>",
        "<stanza name=\"words\">",
        "<param name=\"a\">&lt;b&gt; &amp; &quot;c&quot;</param>",
        "<field k=\"f\"><value><text>&lt;x&gt;</text></value></field>",
    ] {
        assert!(xml.contains(expected), "{expected} in {xml}");
    }
    assert_eq!(left_by(&place, "words"), format!("--in {}/x\n", place.data().display()));
}

#[test]
fn failing_or_slow_programs_are_reported_and_rows_pass_through() {
    let place = place();
    let ran = ask(&place, "| makeresults | eval x=1 | table x | sendalert fails");
    assert_eq!((ran.out.as_str(), ran.code), ("x\n1\n", 0), "{}", ran.err);
    assert!(ran.err.contains("error: no such room") && ran.err.contains("exit status: 3"), "{}", ran.err);
    let ran = ask(&place, "| makeresults | eval x=1 | table x | sendalert sleeps");
    assert_eq!((ran.out.as_str(), ran.code), ("x\n1\n", 0), "{}", ran.err);
    assert!(ran.err.contains("limit of 1 seconds (maxtime)"), "{}", ran.err);
    let pid = left_by(&place, "pid");
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "{pid} is still there");
}

#[test]
fn actions_that_cannot_run_are_errors() {
    let place = place();
    for (search, expected) in [
        ("sendalert copie", "there is no alert action copie; did you mean copies?"),
        ("sendalert email", "the action email comes with Splunk, not with Quarry"),
        ("sendalert off", "the alert action off is disabled"),
        ("sendalert old", "requires python2"),
        ("sendalert elsewhere", "give the name of a file"),
        ("sendalert gone", "there is no program gone in its bin folder"),
        ("sendalert", "no alert action is given"),
        ("sendalert copies room", "unexpected `room`"),
        ("sendalert copies room=1", "unknown option `room`"),
    ] {
        let ran = ask(&place, &format!("| makeresults | {search}"));
        assert_ne!(ran.code, 0, "{search}: {}", ran.out);
        assert!(ran.err.contains(expected), "{search}: {}", ran.err);
    }
    assert_eq!(left_by(&place, "payload"), "nothing");
}

#[test]
fn actions_are_shared_as_their_metadata_specify() {
    let place = place();
    for app in ["rooms/metadata", "other/default"] {
        std::fs::create_dir_all(place.data().join("etc/apps").join(app)).unwrap();
    }
    let ask = |app: &str| place.run(&["search", "--app", app, "--user", "ann", "| makeresults | sendalert copies"]);
    let hidden = ask("other");
    assert!(hidden.code != 0 && hidden.err.contains("no alert action copies"), "{}", hidden.err);
    assert_eq!(ask("rooms").code, 0);
    let payload: serde_json::Value = serde_json::from_str(&left_by(&place, "payload")).unwrap();
    assert_eq!((&payload["app"], &payload["owner"]), (&"rooms".into(), &"ann".into()));
    let meta = place.data().join("etc/apps/rooms/metadata/default.meta");
    std::fs::write(meta, "[alert_actions]\nexport = system\n").unwrap();
    let shared = ask("other");
    assert_eq!(shared.code, 0, "{}", shared.err);
}

/// A search whose client disconnects is stopped together with its program, although it has no output to send.
#[test]
fn programs_end_when_the_client_disconnects() {
    let place = place();
    let conf = place.data().join("etc/apps/rooms/default/alert_actions.conf");
    std::fs::write(conf, CONF.replace("maxtime = 1s", "maxtime = 1d")).unwrap();
    let server = Server::start(&place);
    for (path, mode) in [("/services/search/jobs/export", ""), ("/services/search/jobs", "exec_mode=oneshot&")] {
        let pid_file = place.data().join("etc/apps/rooms/bin/pid");
        drop(std::fs::remove_file(&pid_file));
        let client = begin(&place, path, &format!("{mode}search=%7C%20makeresults%20%7C%20sendalert%20sleeps"));
        let started = || left_by(&place, "pid").trim().parse::<u32>().ok();
        assert!(wait_until(|| started().is_some()), "{path}");
        drop(client);
        let process = std::path::Path::new("/proc").join(started().unwrap().to_string());
        assert!(wait_until(|| !process.exists()), "{path}");
        let results = || std::fs::read_dir(place.data().join("run/alerts")).unwrap().count();
        assert!(wait_until(|| results() == 0), "{path}");
    }
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn programs_end_with_their_command_line() {
    let place = place();
    let conf = place.data().join("etc/apps/rooms/default/alert_actions.conf");
    std::fs::write(conf, CONF.replace("maxtime = 1s", "maxtime = 1d")).unwrap();
    let mut ran = place.spawn(&["search", "| makeresults | sendalert sleeps"]);
    let started = || left_by(&place, "pid").trim().parse::<u32>().ok();
    assert!(wait_until(|| started().is_some()));
    // The first Ctrl-C requests partial results, the second ends the search.
    let mut interrupted = || {
        let sent = std::process::Command::new("kill").args(["-INT", &ran.id().to_string()]).status().unwrap();
        assert!(sent.success());
        ran.try_wait().unwrap().is_some()
    };
    assert!(wait_until(&mut interrupted));
    let process = std::path::Path::new("/proc").join(started().unwrap().to_string());
    assert!(wait_until(|| !process.exists()));
}
