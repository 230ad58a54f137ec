//! The server: the command line finds it, a data directory has one writer, and stopping loses nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use crate::support::{Place, lines, sorted, wait_until};

/// A running server; killed when it is dropped.
pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn start(place: &Place) -> Server {
        Server::start_with(place, &[])
    }

    /// Starts a server with additional arguments.
    pub(crate) fn start_with(place: &Place, more: &[&str]) -> Server {
        Server::of(place, place.command(&[&["serve", "--mgmt", "127.0.0.1:0"], more].concat()))
    }

    /// Starts a server at a management address.
    pub(crate) fn start_at(place: &Place, address: &str) -> Server {
        Server::of(place, place.command(&["serve", "--mgmt", address]))
    }

    /// Starts a server with another `PATH`.
    pub(crate) fn start_in(place: &Place, path: &str) -> Server {
        let mut command = place.command(&["serve", "--mgmt", "127.0.0.1:0"]);
        command.env("PATH", path);
        Server::of(place, command)
    }

    /// Starts a server in a time zone other than UTC.
    pub(crate) fn start_in_zone(place: &Place, zone: &str) -> Server {
        let mut command = place.command(&["serve", "--mgmt", "127.0.0.1:0"]);
        command.env("TZ", zone);
        Server::of(place, command)
    }

    fn of(place: &Place, mut command: Command) -> Server {
        let run_file = || std::fs::read_to_string(place.data().join("run/server.json")).ok();
        let left_by_another = run_file();
        let mut server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let is_up = || run_file().is_some_and(|text| Some(text) != left_by_another);
        assert!(wait_until(|| is_up() || server.0.try_wait().unwrap().is_some()));
        assert!(is_up(), "the server ended early");
        server
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn stop(mut self, signal: &str) -> i32 {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.0.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Until the process has ended, it may still accept connections, which then get no answer.
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

/// A connection to the management port.
pub(crate) fn connected(place: &Place) -> TcpStream {
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run_file).unwrap();
    TcpStream::connect(run["mgmt"].as_str().unwrap()).unwrap()
}

/// Sends a request without reading its answer.
pub(crate) fn send(place: &Place, method: &str, path: &str, authorization: &str, body: &str) -> TcpStream {
    let mut stream = connected(place);
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {authorization}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

/// Sends the request for a search as the command line would, without reading the answer.
pub(crate) fn begin(place: &Place, path: &str, body: &str) -> TcpStream {
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run_file).unwrap();
    send(place, "POST", path, &format!("Bearer {}", run["token"].as_str().unwrap()), body)
}

/// Sends a request and returns the whole answer.
pub(crate) fn ask(place: &Place, method: &str, path: &str, authorization: &str, body: &str) -> String {
    let mut stream = send(place, method, path, authorization, body);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_command_line_works_through_a_running_server() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..1_000));
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    let mode = std::fs::metadata(place.data().join("run/server.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(place.run(&["add", "oneshot", &log]).expect_success().contains("1 file skipped"));
    let more = place.write("b.log", lines(1_000..1_500));
    assert!(place.run(&["add", "oneshot", &more]).expect_success().starts_with("added 500 events"));
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n1500\n");
    let raw = place.run(&["search", "*", "-o", "raw"]).expect_success();
    assert_eq!(sorted(&raw), sorted(&lines(0..1_500)));
    assert!(place.run(&["bucket", "list", "-o", "csv"]).expect_success().contains(",hot,500,"));
    assert_eq!(place.run(&["bucket", "verify"]).code, 0);
    let wrong = place.run(&["search", "x | stast count"]);
    assert_eq!((wrong.code, wrong.err.contains("stats")), (3, true));
    assert_eq!(place.run(&["add", "oneshot", "missing"]).code, 2);
    assert_eq!(place.run(&["search", "x", "--latest", "someday"]).code, 2);
    let second = place.run(&["serve", "--mgmt", "127.0.0.1:0"]);
    assert_eq!(second.code, 4, "{}", second.err);
    assert_eq!(server.stop("-TERM"), 0);
    assert!(!place.data().join("run/server.json").exists());
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n1500\n");
}

#[test]
fn servers_whose_port_is_taken_start_no_inputs() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = |arguments: &[&str], what: &str, setting: &str| {
        let ran = place.run(&[&["serve"], arguments].concat());
        assert_eq!(ran.code, 4, "{}", ran.err);
        assert!(ran.err.contains(&format!("{what}: cannot listen on {address}: ")), "{}", ran.err);
        assert!(ran.err.contains(&format!("stop it, or name another port with {setting}")), "{}", ran.err);
    };
    refused(&["--mgmt", &address], "management port", "--mgmt");
    assert!(!place.data().exists(), "a server that never ran leaves no data directory");
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    let log = place.write("a.log", lines(0..3));
    place.write("data/etc/system/local/inputs.conf", format!("[monitor://{log}]\n"));
    refused(&["--mgmt", &address], "management port", "--mgmt");
    refused(&["--mgmt", "127.0.0.1:0", "--hec", &address], "HTTP Event Collector", "--hec, or");
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n0\n");
}

#[test]
fn acknowledged_events_survive_a_server_crash() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..700));
    let server = Server::start(&place);
    place.run(&["add", "oneshot", &log]).expect_success();
    server.stop("-KILL");
    assert!(place.data().join("run/server.json").exists());
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n700\n");
    // Spill files of a killed server's searches are removed at the next start.
    let spilled = place.data().join("run/spill/datafusion-x");
    std::fs::create_dir_all(&spilled).unwrap();
    std::fs::write(spilled.join("1.arrow"), "rows").unwrap();
    let server = Server::start(&place);
    assert!(!spilled.exists());
    assert!(place.run(&["add", "oneshot", &log]).expect_success().contains("1 file skipped"));
    assert_eq!(server.stop("-INT"), 0);
}

#[test]
fn the_rest_interface_requires_authentication() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..10));
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    let search = "search=search+*+%7C+stats+count&exec_mode=oneshot&output_mode=json";
    let nobody = ask(&place, "POST", "/services/search/jobs?output_mode=json", "Splunk 00", search);
    assert!(nobody.starts_with("HTTP/1.1 401") && nobody.contains("{\"messages\":[{"), "{nobody}");
    let login = ask(&place, "POST", "/services/auth/login", "", "username=admin&password=changeme&output_mode=json");
    let key = login.split("\"sessionKey\":\"").nth(1).unwrap().split('"').next().unwrap();
    let answer = ask(&place, "POST", "/services/search/jobs", &format!("Splunk {key}"), search);
    assert!(answer.contains("\"results\":[{\"count\":\"10\"}]"), "{answer}");
    let export = ask(&place, "POST", "/services/search/jobs/export", &format!("Bearer {key}"), search);
    assert!(export.contains("\"lastrow\":true,\"result\":{\"count\":\"10\"}"), "{export}");
    for mode in ["json", "csv"] {
        let failing = format!("search=%7C+loadjob+nosuch.9&output_mode={mode}");
        let reported = ask(&place, "POST", "/services/search/jobs/export", &format!("Bearer {key}"), &failing);
        assert!(reported.starts_with("HTTP/1.1 400") && reported.contains("nosuch.9"), "{reported}");
    }
    assert!(ask(&place, "GET", "/services/nothing", "", "").starts_with("HTTP/1.1 404"));
    let wrong = ask(
        &place,
        "POST",
        "/services/search/jobs",
        &format!("Splunk {key}"),
        "search=search+x+%7C+stast&exec_mode=oneshot",
    );
    assert!(wrong.starts_with("HTTP/1.1 400"), "{wrong}");
    drop(server);
}

#[test]
fn a_public_address_without_tls_is_refused() {
    let place = Place::new();
    for address in ["0.0.0.0:8089", "[::]:8089", "192.0.2.1:1", "nonsense"] {
        assert_eq!(place.run(&["serve", "--insecure", "--mgmt", address]).code, 2, "{address}");
    }
    assert!(!place.data().exists());
}

#[test]
fn a_server_restarts_over_rest_and_keeps_its_data() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..700));
    // Ports stay the same over a restart, as clients expect, even if the system chose them.
    let mut server = Server::start_with(&place, &["--hec=127.0.0.1:0", "--s2s", "127.0.0.1:0"]);
    place.run(&["add", "oneshot", &log]).expect_success();
    let login = || {
        let login =
            ask(&place, "POST", "/services/auth/login", "", "username=admin&password=changeme&output_mode=json");
        format!("Splunk {}", login.split("\"sessionKey\":\"").nth(1).unwrap().split('"').next().unwrap())
    };
    let key = login();
    let made = ask(&place, "POST", "/services/saved/searches", &key, "name=mine&search=*");
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let suppress = "/services/saved/searches/mine/suppress?output_mode=json";
    ask(&place, "POST", suppress, &key, "expiration=100000");
    ask(&place, "POST", "/services/messages", &key, "name=restart_required&value=x");
    let run_file = || std::fs::read_to_string(place.data().join("run/server.json")).unwrap_or_default();
    let before = run_file();
    let ports = |text: &str| {
        let mut run: serde_json::Value = serde_json::from_str(text).unwrap();
        ["mgmt", "hec", "inputs"].map(|name| run[name].take())
    };
    let restarted = ask(&place, "POST", "/services/server/control/restart", &key, "");
    assert!(restarted.starts_with("HTTP/1.1 200") && restarted.contains("restarts after"), "{restarted}");
    assert!(wait_until(|| !run_file().is_empty() && run_file() != before), "the server starts again");
    assert!(server.0.try_wait().unwrap().is_none(), "the process is the same");
    assert_eq!(ports(&run_file())[..2], ports(&before)[..2]);
    let forwarders = |text: &str| ports(text)[2].as_object().unwrap().values().next().cloned();
    assert_eq!(forwarders(&run_file()), forwarders(&before));
    assert_eq!(place.run(&["search", "* | stats count", "-o", "csv"]).expect_success(), "count\n700\n");
    let key = login();
    let message = ask(&place, "GET", "/services/messages/restart_required", &key, "");
    assert!(message.starts_with("HTTP/1.1 404"), "{message}");
    let suppressed = ask(&place, "GET", suppress, &key, "");
    assert!(suppressed.contains("\"suppressed\":\"1\""), "{suppressed}");
    assert!(place.run(&["add", "oneshot", &log]).expect_success().contains("1 file skipped"));
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn a_signal_at_any_moment_of_a_restart_ends_the_server() {
    let place = Place::new();
    for delay_ms in [0, 1, 2, 4, 8, 16, 32, 64] {
        let mut server = Server::start(&place);
        let login =
            ask(&place, "POST", "/services/auth/login", "", "username=admin&password=changeme&output_mode=json");
        let key = format!("Splunk {}", login.split("\"sessionKey\":\"").nth(1).unwrap().split('"').next().unwrap());
        let restarted = ask(&place, "POST", "/services/server/control/restart", &key, "");
        assert!(restarted.starts_with("HTTP/1.1 200"), "{restarted}");
        // The run file is removed after the ports of inputs are closed and before the store is closed.
        assert!(wait_until(|| !place.data().join("run/server.json").exists()), "the server stops");
        let mut waited = 0;
        wait_until(|| {
            waited += 1;
            waited > delay_ms
        });
        let sent = Command::new("kill").args(["-TERM", &server.pid().to_string()]).status().unwrap();
        assert!(sent.success());
        assert!(wait_until(|| server.0.try_wait().unwrap().is_some()), "{delay_ms} ms: the signal is lost");
    }
}
