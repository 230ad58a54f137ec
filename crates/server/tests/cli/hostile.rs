//! Hostile connections on every port that takes data: many that are idle, heads, handshakes and frames that do not end.
//! Senders that mean well find room all the time, and memory stays where it is.
#![allow(clippy::print_stdout, reason = "how many connections the system allows, and what they took")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::Value;

use crate::forwarders::shake;
use crate::network::{address_of, found, place_with, tls_client};
use crate::server::Server;
use crate::support::Place;

/// Idle connections of a port.
const IDLE: usize = 10_000;
/// Open files that a test needs besides.
const RESERVE: u64 = 200;
/// Most memory that the server may take for the idle connections of a port.
const GROWN_MB_MAX: u64 = 200;
/// Among so many idle connections one sender sends.
const SEND_EVERY: usize = 500;

/// One siege at a time: they share the files that this process may have open.
static ALONE: Mutex<()> = Mutex::new(());

const TOKEN: &str = "11111111-1111-1111-1111-111111111111";
const INPUTS: &str = "[http://plain]\ntoken = 11111111-1111-1111-1111-111111111111\n";

/// As many idle connections as the system lets this process have.
fn idle_connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = usize::try_from(files.saturating_sub(RESERVE)).unwrap_or(IDLE).min(IDLE);
    println!("{count} idle connections, of {IDLE}");
    count
}

/// Memory that the server has now, in MB.
pub(crate) fn resident_mb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

fn collector_address(place: &Place) -> String {
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run_file: Value = serde_json::from_str(&run_file).unwrap();
    run_file["hec"].as_str().unwrap().to_owned()
}

/// Posts an event over a connection; the answer.
fn post(stream: &mut (impl Read + Write), event: &str) -> String {
    let body = format!("{{\"event\":\"{event}\"}}");
    write!(
        stream,
        "POST /services/collector HTTP/1.1\r\nHost: h\r\nAuthorization: Splunk {TOKEN}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    // With TLS the end may come without a farewell.
    drop(stream.read_to_end(&mut answer));
    String::from_utf8(answer).unwrap()
}

/// Opens connections that send `begin` and nothing more, with a sender among them; what memory they take is told.
fn besiege(name: &str, server: &Server, address: &str, begin: &[u8], mut send: impl FnMut(usize)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident_mb(server);
    let mut idle = Vec::new();
    for number in 0..idle_connections() {
        let mut stream = TcpStream::connect(address).unwrap();
        // One that was closed for others takes no more.
        drop(stream.write_all(begin));
        idle.push(stream);
        if number % SEND_EVERY == 0 {
            send(number);
        }
    }
    send(usize::MAX);
    let grown = resident_mb(server).saturating_sub(before);
    println!("{name}: {} connections, {grown} MB", idle.len());
    assert!(grown <= GROWN_MB_MAX, "{name}: {grown} MB for {} connections", idle.len());
}

#[test]
fn idle_connections_keep_no_sender_of_events_out() {
    let place = place_with(INPUTS);
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let address = collector_address(&place);
    let mut sent = 0;
    for (name, begin) in [
        ("silent", &b""[..]),
        ("heads without an end", b"POST /services/collector HTTP/1.1\r\nHost: "),
        ("HTTP/2 without a request", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
    ] {
        besiege(name, &server, &address, begin, |number| {
            let answer = post(&mut TcpStream::connect(&address).unwrap(), &format!("number {number}"));
            assert!(answer.ends_with(r#"{"text":"Success","code":0}"#), "{name}: {answer}");
            sent += 1;
        });
    }
    found(&place, sent, "number | table _raw");
    drop(server);
}

#[test]
fn idle_handshakes_keep_no_sender_of_events_out() {
    let place = place_with(&format!("[http]\nenableSSL = 1\n{INPUTS}"));
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let address = collector_address(&place);
    let mut sent = 0;
    besiege("TLS", &server, &address, &[22, 3, 1, 2], |number| {
        let answer = post(&mut tls_client(&place, &address), &format!("number {number}"));
        assert!(answer.ends_with(r#"{"text":"Success","code":0}"#), "{answer}");
        sent += 1;
    });
    found(&place, sent, "number | table _raw");
    drop(server);
}

#[test]
fn idle_connections_keep_no_sender_of_text_out() {
    let place = place_with("[tcp://0]\nsourcetype = generic_single_line\nconnection_host = ip\n");
    let server = Server::start(&place);
    let address = address_of(&place, "tcp://0");
    let mut sent = 0;
    besiege("text", &server, &address, b"", |number| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(format!("number {number}\n").as_bytes()).unwrap();
        sent += 1;
    });
    found(&place, sent, "* | table _raw");
    drop(server);
}

#[test]
fn forwarders_that_do_not_greet_keep_nobody_out() {
    let place = place_with("[splunktcp://0]\n");
    let server = Server::start(&place);
    let address = address_of(&place, "splunktcp://0");
    besiege("forwarders", &server, &address, b"--splunk-cooked-mode-v3--", |_| {
        // The server answers it.
        shake(&mut TcpStream::connect(&address).unwrap(), 0);
    });
    drop(server);
}
