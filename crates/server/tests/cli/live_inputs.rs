//! Inputs that are created, changed, disabled, enabled and removed while the server runs.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};

use crate::network::found;
use crate::permissions::with_users;
use crate::server::{Server, ask};
use crate::support::{Place, lines, wait_until};

/// A port that is free at the moment.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn send(port: &str, text: &str) {
    TcpStream::connect(format!("127.0.0.1:{port}")).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn ports_follow_changes_of_their_inputs_and_leave_the_others_alone() {
    let place = Place::new();
    let server = Server::start(&place);
    let [port, other] = [free_port(), free_port()];
    let added = place.run(&["add", "tcp", &port, "-sourcetype", "before", "--bindAddress", "127.0.0.1"]);
    assert!(added.code == 0 && !added.err.contains("next start"), "{added:?}");
    place.run(&["add", "tcp", &other, "-sourcetype", "other", "--bindAddress", "127.0.0.1"]).expect_success();
    send(&port, "one\n");
    let mut kept = TcpStream::connect(format!("127.0.0.1:{other}")).unwrap();
    kept.write_all(b"first\n").unwrap();
    found(&place, 2, "* | table sourcetype, _raw");
    place.run(&["edit", "tcp", &port, "-sourcetype", "after"]).expect_success();
    send(&port, "two\n");
    // The connection to the port that did not change is still there.
    kept.write_all(b"second\n").unwrap();
    let rows = found(&place, 4, "index=* | table sourcetype, _raw");
    assert_eq!(rows, ["after,two", "before,one", "other,first", "other,second"]);
    place.run(&["edit", "tcp", &port, "--disabled", "1"]).expect_success();
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err());
    place.run(&["edit", "tcp", &port, "--disabled", "0"]).expect_success();
    send(&port, "three\n");
    found(&place, 5, "*");
    place.run(&["remove", "tcp", &port]).expect_success();
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err());
    place.run(&["add", "udp", &port, "--bindAddress", "127.0.0.1"]).expect_success();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(b"a datagram", format!("127.0.0.1:{port}")).unwrap();
    found(&place, 6, "*");
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn ports_in_use_are_reported_in_answer_and_messages() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"])]);
    let server = Server::start(&place);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let added = place.run(&["add", "tcp", &port, "--bindAddress", "127.0.0.1"]);
    assert!(added.code == 0 && added.err.contains("saved without effect"), "{added:?}");
    assert!(added.err.contains("stop the process that listens there"), "{added:?}");
    let admin = crate::permissions::key(&place, "admin");
    let messages = || ask(&place, "GET", "/services/messages?output_mode=json", &admin, "");
    assert!(messages().contains("stop the process that listens there"), "{}", messages());
    // The stanza does not keep the server from starting, and the message comes again.
    assert_eq!(server.stop("-TERM"), 0);
    let server = Server::start(&place);
    let admin = crate::permissions::key(&place, "admin");
    let messages = || ask(&place, "GET", "/services/messages?output_mode=json", &admin, "");
    assert!(messages().contains("stop the process that listens there"), "{}", messages());
    drop(taken);
    let edited = place.run(&["edit", "tcp", &port, "-sourcetype", "x"]);
    assert!(edited.code == 0 && !edited.err.contains("without effect"), "{edited:?}");
    send(&port, "one\n");
    found(&place, 1, "*");
    assert!(!messages().contains("stop the process"), "{}", messages());
    drop(server);
}

#[test]
fn senders_are_listed_while_they_are_connected() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"])]);
    let server = Server::start(&place);
    let port = free_port();
    place.run(&["add", "tcp", &port, "--bindAddress", "127.0.0.1"]).expect_success();
    let admin = crate::permissions::key(&place, "admin");
    let path = format!("/services/data/inputs/tcp/raw/{port}/connections?output_mode=json");
    let names = || -> Vec<String> {
        let answer = ask(&place, "GET", &path, &admin, "");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: serde_json::Value = serde_json::from_str(body).unwrap();
        let name = |entry: &serde_json::Value| entry["name"].as_str().unwrap().to_owned();
        answer["entry"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(), Vec::<String>::new());
    let senders = [0, 1].map(|_| TcpStream::connect(format!("127.0.0.1:{port}")).unwrap());
    let mut expected = senders.each_ref().map(|sender| sender.local_addr().unwrap().to_string()).to_vec();
    expected.sort();
    assert!(wait_until(|| names() == expected), "{:?}, not {expected:?}", names());
    let [first, second] = senders;
    drop(first);
    let left = [second.local_addr().unwrap().to_string()];
    assert!(wait_until(|| names() == left), "{:?}, not {left:?}", names());
    drop(server);
}

#[test]
fn watched_files_and_programs_follow_changes_of_their_inputs() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..3));
    let server = Server::start(&place);
    let added = place.run(&["add", "monitor", &log, "-index", "web", "-sourcetype", "generic_single_line"]);
    assert!(added.code == 0 && !added.err.contains("next start"), "{added:?}");
    found(&place, 3, "index=* | table _raw");
    place.run(&["remove", "monitor", &log]).expect_success();
    place.write("a.log", lines(0..5));
    // The file is no longer watched: only the new input reads it, into another index.
    place.run(&["add", "monitor", &log, "-index", "next", "-sourcetype", "generic_single_line"]).expect_success();
    assert_eq!(found(&place, 8, "index=* | stats count by index"), ["next,5", "web,3"]);
    let folder = place.data().join("etc/apps/search/bin");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("hello.sh");
    std::fs::write(&program, "#!/bin/sh\necho hello\n").unwrap();
    let mut permissions = std::fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&program, permissions).unwrap();
    let program = program.display().to_string();
    let added = place.run(&["add", "script", &program, "--interval", "-1", "-sourcetype", "greeting"]);
    assert!(added.code == 0 && !added.err.contains("without effect"), "{added:?}");
    let greetings = || place.run(&["search", "sourcetype=greeting | stats count", "-o", "csv"]).expect_success();
    assert!(wait_until(|| greetings() == "count\n1\n"), "{}", greetings());
    assert_eq!(server.stop("-TERM"), 0);
}
