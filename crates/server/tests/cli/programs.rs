//! Inputs that run programs: their output is found, and no process is left when the server has stopped.

use std::path::Path;
use std::process::Command;

use crate::server::Server;
use crate::support::{Place, sorted, wait_until};

/// A data directory whose app `a` has these stanzas and programs.
fn place_with(stanzas: &str, programs: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for folder in ["default", "bin", "README"] {
        std::fs::create_dir_all(place.path(&format!("data/etc/apps/a/{folder}"))).unwrap();
    }
    place.write("data/etc/apps/a/default/inputs.conf", stanzas);
    for (name, text) in programs {
        let path = place.write(&format!("data/etc/apps/a/bin/{name}"), text);
        assert!(Command::new("chmod").args(["+x", &path]).status().unwrap().success());
    }
    place
}

fn rows(place: &Place, search: &str) -> String {
    place.run(&["search", search, "-o", "csv"]).expect_success().replace('\r', "")
}

fn wait_for(place: &Place, search: &str, expected: &str) {
    assert!(wait_until(|| rows(place, search) == expected), "{} instead of {expected}", rows(place, search));
}

fn is_alive(pid: &str) -> bool {
    Path::new(&format!("/proc/{}/cmdline", pid.trim())).exists()
}

#[test]
fn a_script_runs_at_intervals_and_its_lines_are_events() {
    let place = place_with(
        "[script://./bin/tick.sh one two]\ninterval = 0.2\nindex = web\nsourcetype = tick\n\
         [script://./bin/once.py]\ninterval = -1\nindex = web\n\
         [script:///bin/ls]\n[script://./bin/missing.sh]\n[script://./bin/once.py never]\ninterval = daily\n",
        &[
            ("tick.sh", "#!/bin/sh\necho 2026-11-20T00:00:01Z run=$(date +%N) words=$1/$2\necho oops >&2\n"),
            (
                "once.py",
                "print('2026-11-20T00:00:02Z only\\n  and its second line')\nprint('2026-11-20T00:00:03Z last', end='')\n",
            ),
        ],
    );
    let server = Server::start(&place);
    assert!(wait_until(
        || rows(&place, "index=web words=\"one/two\" | stats count | where count > 2").lines().count() == 2
    ));
    wait_for(&place, "index=web sourcetype=once | stats count max(linecount) as lines", "count,lines\n2,2\n");
    let told =
        "index=_internal component=ExecProcessor log_level=ERROR \"tick.sh\" oops | stats count | where count > 2";
    assert!(wait_until(|| rows(&place, told).lines().count() == 2));
    let source = rows(&place, "index=web sourcetype=once | stats count by source");
    assert!(source.contains("/data/etc/apps/a/bin/once.py,2"), "{source}");
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn long_running_programs_are_read_and_ended_with_their_children() {
    let place = place_with(
        "[script://./bin/forever.sh]\ninterval = -1\nsource = f\nsourcetype = generic_single_line\n",
        &[("forever.sh", "#!/bin/sh\ntrap '' TERM\nsleep 1000 &\necho $$ $! here\nwait\nsleep 1000\n")],
    );
    let server = Server::start(&place);
    let found = || place.run(&["search", "source=f", "-o", "raw"]).expect_success();
    assert!(wait_until(|| found().contains("here")), "{}", found());
    let text = found();
    let pids: Vec<&str> = text.split_whitespace().take(2).collect();
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    assert_eq!(server.stop("-TERM"), 0);
    assert!(wait_until(|| !pids.iter().any(|pid| is_alive(pid))), "{pids:?}");
}

#[test]
fn output_written_during_termination_is_stored() {
    let last = "last() { n=0; while [ $n -lt 3000 ]; do echo last $n; n=$((n+1)); done; exit 0; }";
    let place = place_with(
        "[default]\nsourcetype = generic_single_line\ninterval = -1\n[script://./bin/last.sh]\nsource = last\n\
         [script://./bin/deaf.py]\nsource = deaf\n",
        &[
            ("last.sh", &format!("#!/bin/sh\n{last}\ntrap last TERM\necho begun\nwhile :; do sleep 0.05; done\n")),
            // This program ends only when it is killed.
            (
                "deaf.py",
                "import os, signal\n\
                 signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                 os.write(1, b'begun\\nno break')\n\
                 signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n\
                 signal.sigwait([signal.SIGUSR1])\n",
            ),
        ],
    );
    let server = Server::start(&place);
    wait_for(&place, "begun | stats dc(source) as programs", "programs\n2\n");
    assert_eq!(server.stop("-TERM"), 0);
    let found = rows(&place, "source=last last | stats count dc(_raw) as distinct");
    assert_eq!(found, "count,distinct\n3000,3000\n");
    assert_eq!(rows(&place, "source=deaf \"no break\" | stats count"), "count\n1\n");
}

#[test]
fn a_schedule_of_minutes_waits_and_the_server_still_stops() {
    let stanza = "[script://./bin/never.sh]\ninterval = 0 0 29 2 *\n";
    let place = place_with(stanza, &[("never.sh", "#!/bin/sh\necho never\n")]);
    let server = Server::start(&place);
    wait_for(&place, "never | stats count", "count\n0\n");
    assert_eq!(server.stop("-TERM"), 0);
}

const SESSION: &str = r#"
import sys, urllib.request, xml.etree.ElementTree as tree
if sys.argv[1:] == ["--scheme"]:
    print("<scheme><title>Session</title></scheme>")
    sys.exit(0)
told = tree.parse(sys.stdin).getroot()
key, uri = told.findtext("session_key"), told.findtext("server_uri")
open("KEY", "w").write(key)
asked = urllib.request.Request(uri + "/services/authentication/current-context?output_mode=json",
                               headers={"Authorization": "Splunk " + key})
context = urllib.request.urlopen(asked).read().decode()
print("context", context.replace("\n", " "))
"#;

#[test]
fn a_modular_input_has_a_session_while_its_program_runs() {
    let place = place_with("[session://one]\ninterval = -1\nsource = session\n", &[]);
    let key_file = place.path("key").display().to_string();
    let program = place.write("data/etc/apps/a/bin/session.py", SESSION.replace("KEY", &key_file));
    assert!(Command::new("chmod").args(["+x", &program]).status().unwrap().success());
    let server = Server::start(&place);
    let found = || place.run(&["search", "source=session context", "-o", "raw"]).expect_success();
    assert!(wait_until(|| found().contains("splunk-system-user")), "{}", found());
    let run = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let url = format!("http://{}/services/authentication/current-context", run["mgmt"].as_str().unwrap());
    let key = std::fs::read_to_string(&key_file).unwrap();
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let status = || {
        let answer = agent.get(&url).header("Authorization", format!("Splunk {key}")).call().unwrap();
        answer.status().as_u16()
    };
    assert!(wait_until(|| status() == 401), "the session ends with the program");
    assert_eq!(server.stop("-TERM"), 0);
}

/// A program that reads a session key from the first line of standard input and prints the user of the session.
const PASSED_KEY: &str = r#"
import json, sys, urllib.request
key = sys.stdin.readline().strip()
asked = urllib.request.Request("http://" + json.load(open("RUN"))["mgmt"] + "/services/authentication/current-context?output_mode=json",
                               headers={"Authorization": "Splunk " + key})
print("user", json.load(urllib.request.urlopen(asked))["entry"][0]["content"]["username"])
"#;

#[test]
fn scripts_get_the_session_key_of_the_user_that_pass_auth_names() {
    let stanzas = "[script://./bin/who.py]\ninterval = 1\nsource = who\npassAuth = admin\n\
                   [script://./bin/none.sh]\ninterval = 1\nsource = none\npassAuth = nobody-here\n";
    let place = place_with(stanzas, &[("none.sh", "#!/bin/sh\nread key; echo \"key<$key>\"\n")]);
    let run = place.data().join("run/server.json").display().to_string();
    place.write("data/etc/apps/a/bin/who.py", PASSED_KEY.replace("RUN", &run));
    let server = Server::start(&place);
    // Some runs may begin before the server has written its address; only later runs print a user.
    wait_for(&place, "source=who user | stats dc(_raw) as users values(_raw) as names", "users,names\n1,user admin\n");
    wait_for(&place, "source=none key | stats values(_raw) as keys", "keys\nkey<>\n");
    let told =
        place.run(&["search", "index=_internal passAuth \"no such user\" | head 1", "-o", "raw"]).expect_success();
    assert!(told.contains("nobody-here"), "{told}");
    assert_eq!(server.stop("-TERM"), 0);
}

/// A command of the older protocol. Its row names the user of the session in its header, and whether `authString` and
/// `sessionKey` have the same key.
const COMMAND_WITH_KEY: &str = r#"
import json, sys, urllib.parse, urllib.request, xml.etree.ElementTree as tree
header = {}
for line in sys.stdin:
    name, found, value = line.strip().partition(":")
    if not found:
        break
    header[name] = urllib.parse.unquote(value)
key = tree.fromstring(header["authString"]).findtext("authToken")
asked = urllib.request.Request("http://" + json.load(open("RUN"))["mgmt"] + "/services/authentication/current-context?output_mode=json",
                               headers={"Authorization": "Splunk " + key})
context = json.load(urllib.request.urlopen(asked))["entry"][0]["content"]
print("user,same")
print(context["username"] + "," + str(key == header["sessionKey"]))
"#;

#[test]
fn search_commands_get_a_session_of_the_user_of_the_search() {
    let place = place_with("", &[]);
    let run = place.data().join("run/server.json").display().to_string();
    place.write("data/etc/apps/a/bin/whoami.py", COMMAND_WITH_KEY.replace("RUN", &run));
    place.write("data/etc/apps/a/default/commands.conf", "[whoami]\ngenerating = true\npassauth = true\n");
    let server = Server::start(&place);
    let told = place.run(&["search", "| whoami", "-o", "csv"]).expect_success();
    assert_eq!(told, "user,same\nadmin,True\n");
    assert_eq!(server.stop("-TERM"), 0);
}

/// The user of a session, for programs that import it.
const WHO: &str = r#"
import json, urllib.request
def who(uri, key):
    asked = urllib.request.Request(uri + "/services/authentication/current-context?output_mode=json",
                                   headers={"Authorization": "Splunk " + key})
    return json.load(urllib.request.urlopen(asked))["entry"][0]["content"]["username"]
"#;
/// A chunked command. Its row has the user of the session in its first chunk, and the user that the chunk names.
const CHUNKED_WITH_KEY: &str = r#"
import json, re, sys
from who import who
def read():
    sizes = [int(size) for size in re.findall(rb"\d+", sys.stdin.buffer.readline())[2:]]
    return json.loads(sys.stdin.buffer.read(sizes[0])), sys.stdin.buffer.read(sizes[1])
def write(answer, rows):
    head = json.dumps(answer).encode()
    sys.stdout.buffer.write(b"chunked 1.0,%d,%d\n" % (len(head), len(rows)) + head + rows)
    sys.stdout.buffer.flush()
facts = read()[0]["searchinfo"]
write({"type": "reporting", "generating": True}, b"")
read()
write({"finished": True}, b"user,same\n%s,%s\n" % (who(facts["splunkd_uri"], facts["session_key"]).encode(), facts["username"].encode()))
"#;
/// An alert action that writes the user of its session and the owner of its search to a file next to itself.
const ACTION_WITH_KEY: &str = r#"
import json, sys
from who import who
payload = json.load(sys.stdin)
open(__file__ + ".user", "w").write(who(payload["server_uri"], payload["session_key"]) + " " + payload["owner"])
"#;

#[test]
fn chunked_commands_and_alert_actions_get_a_session_of_the_user_of_the_search() {
    let place = place_with("", &[]);
    for (name, text) in [("who", WHO), ("chunks", CHUNKED_WITH_KEY), ("act", ACTION_WITH_KEY)] {
        place.write(&format!("data/etc/apps/a/bin/{name}.py"), text);
    }
    place.write("data/etc/apps/a/default/commands.conf", "[chunks]\nchunked = true\npassauth = true\n");
    place.write("data/etc/apps/a/default/alert_actions.conf", "[act]\nis_custom = 1\npayload_format = json\n");
    let server = Server::start(&place);
    let told = place.run(&["search", "| chunks", "-o", "csv"]).expect_success();
    assert_eq!(told, "user,same\nadmin,admin\n");
    place.run(&["search", "| makeresults | sendalert act"]).expect_success();
    let left = std::fs::read_to_string(place.data().join("etc/apps/a/bin/act.py.user")).unwrap();
    assert_eq!(left, "admin admin");
    assert_eq!(server.stop("-TERM"), 0);
}

const WEATHER: &str = r#"
import sys, xml.etree.ElementTree as tree
if sys.argv[1:] == ["--scheme"]:
    print("<scheme><title>Weather</title><use_single_instance>SINGLE</use_single_instance><streaming_mode>xml</streaming_mode>"
          "<endpoint><args><arg name='name'/><arg name='city'/></args></endpoint></scheme>")
    sys.exit(0)
told = tree.parse(sys.stdin).getroot()
kept = told.find("checkpoint_dir").text + "/seen"
print("<stream>")
for stanza in told.find("configuration"):
    said = {one.get("name"): one.text for one in stanza}
    if "city" not in said:
        continue
    with open(kept, "a") as file:
        file.write(stanza.get("name") + "\n")
    print("<event stanza='%s'><time>1795132800.5</time><data>city=%s unit=%s &lt;ok&gt;\nsecond line</data></event>"
          % (stanza.get("name"), said["city"], said["unit"]))
print("</stream>")
"#;

fn weather(single: &str) -> Place {
    let stanzas = "[weather]\nunit = C\nindex = web\ninterval = -1\n[weather://rome]\ncity = Rome\n\
                   [weather://oslo]\ncity = Oslo\nunit = K\nsourcetype = cold\n[weather://lost]\n[nobody://x]\n";
    place_with(stanzas, &[("weather.py", &WEATHER.replace("SINGLE", single))])
}

const WEATHER_ROWS: &str = "_time,source,sourcetype,city,unit,linecount\n\
    2026-11-20T00:00:00.500+00:00,weather://oslo,cold,Oslo,K,2\n\
    2026-11-20T00:00:00.500+00:00,weather://rome,weather,Rome,C,2\n";

#[test]
fn a_modular_input_is_described_configured_and_read() {
    for single in ["false", "true"] {
        let place = weather(single);
        let server = Server::start(&place);
        let search = "index=web \"<ok>\" | sort source | table _time source sourcetype city unit linecount";
        wait_for(&place, search, WEATHER_ROWS);
        let kept = std::fs::read_to_string(place.data().join("var/lib/splunk/modinputs/weather/seen")).unwrap();
        assert_eq!(sorted(&kept), ["weather://oslo", "weather://rome"]);
        assert_eq!(server.stop("-TERM"), 0);
    }
}

#[test]
fn a_modular_input_without_a_scheme_writes_text_where_its_app_describes_it() {
    let program = "#!/bin/sh\n[ \"$1\" = --scheme ] && exit 1\nsed -n 's/.*name=\"word\">\\(.*\\)<.*/2026-11-20T00:00:01Z \\1/p'\n";
    let place = place_with("[plain://x]\nword = hello\ninterval = -1\n", &[("plain.sh", program)]);
    place.write("data/etc/apps/a/README/inputs.conf.spec", "[plain://<name>]\nword = <string>\n");
    let server = Server::start(&place);
    wait_for(
        &place,
        "hello | table source sourcetype _raw",
        "source,sourcetype,_raw\nplain://x,plain,2026-11-20T00:00:01Z hello\n",
    );
    assert_eq!(server.stop("-TERM"), 0);
}

/// Simulates journalctl: prints the entries of a file after the given cursor, and follows it forever.
const JOURNALCTL: &str = r#"#!/bin/sh
after=0
for word in "$@"; do case $word in --after-cursor=*) after=${word#--after-cursor=c};; _UID=0) uid=yes;; esac; done
echo "$after $uid" >> "$0.calls"
at=0
while read -r line; do at=$((at + 1)); [ $at -gt $after ] && echo "$line"; done < "$0.entries"
exec sleep 60
"#;

#[test]
fn the_journal_resumes_after_its_last_stored_entry() {
    let place = place_with(
        "[journald://all]\nindex = web\njournalctl-filter = _UID=0\njournalctl-include-fields = _PID\n",
        &[("journalctl", JOURNALCTL)],
    );
    let entry = |at: usize| {
        format!(
            "{{\"__CURSOR\":\"c{at}\",\"__REALTIME_TIMESTAMP\":\"179513280{at}000000\",\"MESSAGE\":\"entry {at}\",\"_PID\":\"{at}\",\"_HOSTNAME\":\"box\"}}\n"
        )
    };
    let bin = place.path("data/etc/apps/a/bin");
    let path = format!("{}:{}", bin.display(), std::env::var_os("PATH").unwrap().display());
    place.write("data/etc/apps/a/bin/journalctl.entries", entry(1) + &entry(2));
    let search = "index=web sourcetype=journald | sort _time | table _time host _PID _raw";
    let row = |at: usize| format!("2026-11-20T00:00:0{at}.000+00:00,box,{at},entry {at}\n");
    let head = "_time,host,_PID,_raw\n";
    let server = Server::start_in(&place, &path);
    wait_for(&place, search, &format!("{head}{}{}", row(1), row(2)));
    assert!(wait_until(|| bytes_of_cursor(&place) == "c2"));
    server.stop("-KILL");
    place.write("data/etc/apps/a/bin/journalctl.entries", entry(1) + &entry(2) + &entry(3));
    let server = Server::start_in(&place, &path);
    wait_for(&place, search, &format!("{head}{}{}{}", row(1), row(2), row(3)));
    assert_eq!(server.stop("-TERM"), 0);
    let calls = std::fs::read_to_string(place.path("data/etc/apps/a/bin/journalctl.calls")).unwrap();
    assert_eq!(calls, "0 yes\n2 yes\n");
}

fn bytes_of_cursor(place: &Place) -> String {
    let folder = std::fs::read_dir(place.data().join("var/lib/quarry/journald")).into_iter().flatten().flatten();
    folder.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default()).collect()
}
