//! Hostile connections on every data port: many idle ones, and heads, handshakes and frames that never end.
//! Well-behaved senders are always served, and memory stays limited.
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

/// Number of idle connections opened to each port.
const IDLE: usize = 10_000;
/// Number of open files that a test needs in addition.
const RESERVE: u64 = 200;
/// Maximum memory for the idle connections of a port, in MB.
const GROWN_MB_MAX: u64 = 200;
/// Number of connections opened for each well-behaved sender among them.
const SEND_EVERY: usize = 500;

/// Lets one test run at a time, because all share the open-file limit of this process.
static ALONE: Mutex<()> = Mutex::new(());

const TOKEN: &str = "11111111-1111-1111-1111-111111111111";
const INPUTS: &str = "[http://plain]\ntoken = 11111111-1111-1111-1111-111111111111\n";

/// The number of idle connections that the system allows this process.
fn connection_queue() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = usize::try_from(files.saturating_sub(RESERVE)).unwrap_or(IDLE).min(IDLE);
    println!("{count} idle connections, of {IDLE}");
    count
}

/// Current memory of the server, in MB.
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

/// Posts an event over a connection; returns the answer.
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
    // With TLS the connection may end without a close message.
    drop(stream.read_to_end(&mut answer));
    String::from_utf8(answer).unwrap()
}

/// Opens connections that send `begin` and nothing more, with some senders among them; reports the memory used.
fn besiege(name: &str, server: &Server, address: &str, begin: &[u8], mut send: impl FnMut(usize)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident_mb(server);
    let mut idle = Vec::new();
    for number in 0..connection_queue() {
        let mut stream = TcpStream::connect(address).unwrap();
        // Writing fails if the server has closed the connection to make room.
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
fn idle_connections_do_not_block_event_senders() {
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
fn idle_handshakes_do_not_block_event_senders() {
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
fn idle_connections_do_not_block_text_senders() {
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
fn silent_forwarders_do_not_block_others() {
    let place = place_with("[splunktcp://0]\n");
    let server = Server::start(&place);
    let address = address_of(&place, "splunktcp://0");
    besiege("forwarders", &server, &address, b"--splunk-cooked-mode-v3--", |_| {
        // A well-behaved forwarder is still answered.
        shake(&mut TcpStream::connect(&address).unwrap(), 0);
    });
    drop(server);
}
