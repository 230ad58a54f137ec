//! `quarry forward` sends events to running servers: each event once, in order, and to the right group, even if a
//! process is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::network::{found, place_with};
use crate::server::Server;
use crate::support::{Place, bytes_below, wait_until};

/// A running forwarder; killed when dropped.
struct Forwarder {
    child: Child,
}

impl Forwarder {
    /// Starts a forwarder and waits until it listens.
    fn start(place: &Place) -> Forwarder {
        let run_file = place.data().join("run/forward.json");
        drop(std::fs::remove_file(&run_file));
        let child = place.command(&["forward"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut forwarder = Forwarder { child };
        let mut lines = BufReader::new(forwarder.child.stderr.take().unwrap()).lines();
        let mut reported = Vec::new();
        while let Some(Ok(line)) = lines.next() {
            if line.starts_with("quarry forwards") {
                std::thread::spawn(move || lines.for_each(drop));
                return forwarder;
            }
            reported.push(line);
        }
        panic!("the forwarder did not start: {reported:?}");
    }

    fn end(mut self, signal: &str) -> i32 {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A port that is free at the moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An indexer on a port of its own.
fn indexer() -> (Place, u16) {
    let port = free_port();
    (place_with(&format!("[splunktcp://{port}]\nbindAddress = 127.0.0.1\n")), port)
}

/// A forwarder's data directory that watches a directory of files.
fn forwarder(outputs: &str, inputs: &str) -> Place {
    let place = Place::new();
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    std::fs::create_dir_all(place.path("logs")).unwrap();
    let logs = place.path("logs").display().to_string();
    std::fs::write(local.join("outputs.conf"), outputs).unwrap();
    std::fs::write(local.join("inputs.conf"), inputs.replace("LOGS", &logs)).unwrap();
    let props = "[lines]\nSHOULD_LINEMERGE = false\nDATETIME_CONFIG = CURRENT\nTRANSFORMS-a = away, none\n";
    std::fs::write(local.join("props.conf"), props).unwrap();
    let transforms = "[away]\nREGEX = route=(\\w+)\nDEST_KEY = _TCP_ROUTING\nFORMAT = $1\n\
                      [none]\nREGEX = nothing\nDEST_KEY = queue\nFORMAT = nullQueue\n";
    std::fs::write(local.join("transforms.conf"), transforms).unwrap();
    place
}

const MONITOR: &str = "[monitor://LOGS/*.log]\nsourcetype = lines\nindex = fwd\nhost = edge\n";

fn append(place: &Place, name: &str, text: &str) {
    let path = place.path("logs").join(name);
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn numbered(range: std::ops::Range<usize>) -> String {
    range.map(|number| format!("number={number} text\n")).collect()
}

const COUNT: &str = "index=fwd | stats count dc(number) AS numbers by host sourcetype";

#[test]
fn every_line_arrives_once_although_indexer_and_forwarder_are_killed() {
    let (indexer, port) = indexer();
    let server = Server::start(&indexer);
    let outputs = format!("[tcpout]\ndefaultGroup = g\nuseACK = true\n[tcpout:g]\nserver = 127.0.0.1:{port}\n");
    let place = forwarder(&outputs, MONITOR);
    append(&place, "a.log", &numbered(0..1_000));
    let sender = Forwarder::start(&place);
    assert_eq!(found(&indexer, 1_000, COUNT), ["edge,lines,1000,1000"]);
    server.stop("-KILL");
    // The events are in the queue, which survives the end of the forwarder.
    let before = bytes_of(&place);
    append(&place, "a.log", &numbered(1_000..3_000));
    assert!(wait_until(|| bytes_of(&place) > before + 1_000));
    drop(sender);
    let sender = Forwarder::start(&place);
    append(&place, "b.log", &numbered(3_000..4_000));
    let server = Server::start(&indexer);
    assert_eq!(found(&indexer, 4_000, COUNT), ["edge,lines,4000,4000"]);
    let order = "index=fwd source=*a.log | reverse | streamstats current=f last(number) AS before \
                 | where number != before + 1 | stats count";
    assert_eq!(found(&indexer, 4_000, order), ["0"]);
    assert_eq!(sender.end("-TERM"), 0);
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn tokens_are_required_if_configured() {
    let (indexer, port) = indexer();
    let inputs = indexer.data().join("etc/system/local/inputs.conf");
    let tokens =
        "[splunktcptoken://edge]\ntoken = 11111111-aaaa\n[splunktcptoken://old]\ntoken = 22222222\ndisabled = 1\n";
    let text = std::fs::read_to_string(&inputs).unwrap() + tokens;
    std::fs::write(&inputs, text).unwrap();
    let server = Server::start(&indexer);
    let outputs = |token: &str| {
        format!("[tcpout]\ndefaultGroup = g\n{token}[tcpout:g]\nserver = 127.0.0.1:{port}\nautoLBFrequency = 1\n")
    };
    let refused: Vec<(Place, Forwarder)> = ["", "token = wrong\n", "token = 22222222\n", "token = 11111111-aaa\n"]
        .into_iter()
        .map(|token| {
            let place = forwarder(&outputs(token), &MONITOR.replace("edge", "refused"));
            append(&place, "a.log", &numbered(0..10));
            let sender = Forwarder::start(&place);
            (place, sender)
        })
        .collect();
    let mut old = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut greeting = b"--splunk-cooked-mode-v2--".to_vec();
    greeting.resize(400, 0);
    old.write_all(&greeting).unwrap();
    let own = "[monitor://LOGS/own.txt]\nsourcetype = lines\nindex = _internal\nhost = edge\n";
    let place = forwarder(&outputs("token = 11111111-aaaa\n"), &format!("{MONITOR}{own}"));
    append(&place, "a.log", &numbered(0..100));
    append(&place, "own.txt", "own words\n");
    let let_in = Forwarder::start(&place);
    assert_eq!(found(&indexer, 100, COUNT), ["edge,lines,100,100"]);
    let own = ["search", "index=_internal host=edge \"own words\" | stats count", "-o", "csv"];
    assert!(
        wait_until(|| indexer.run(&own).expect_success() == "count\n1\n"),
        "with a token also into internal indexes"
    );
    assert_eq!(found(&indexer, 100, "index=* host=refused | stats count"), ["0"]);
    drop((let_in, refused));
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn groups_receive_their_events_and_copies_of_unrouted_ones() {
    let ((first, first_port), (second, second_port)) = (indexer(), indexer());
    let (_one, _two) = (Server::start(&first), Server::start(&second));
    let outputs = format!(
        "[tcpout]\ndefaultGroup = a, b\n[tcpout:a]\nserver = 127.0.0.1:{first_port}\n\
         [tcpout:b]\nserver = 127.0.0.1:{second_port}\n"
    );
    let inputs = format!("{MONITOR}[monitor://LOGS/only.txt]\nsourcetype = lines\nindex = fwd\n_TCP_ROUTING = b\n");
    let place = forwarder(&outputs, &inputs);
    append(&place, "a.log", "number=1\nnumber=2 route=a\nnumber=3 nothing\nnumber=4 route=b\nnumber=5 route=nobody\n");
    append(&place, "only.txt", "number=6\nnumber=7 route=a\n");
    let _sender = Forwarder::start(&place);
    let numbers = "index=fwd | sort 0 number | stats list(number) AS numbers | eval numbers=mvjoin(numbers, \" \")";
    assert_eq!(found(&first, 4, numbers), ["1 2 5 7"]);
    assert_eq!(found(&second, 4, numbers), ["1 4 5 6"]);
    // A routing field does not become a field of the event.
    assert_eq!(found(&first, 4, "index=fwd _TCP_ROUTING=* | stats count"), ["0"]);
}

#[test]
fn groups_rotate_servers_and_skip_missing_ones() {
    let ((first, first_port), (second, second_port)) = (indexer(), indexer());
    let one = Server::start(&first);
    let _two = Server::start(&second);
    let outputs = format!(
        "[tcpout]\ndefaultGroup = g\n[tcpout:g]\nserver = 127.0.0.1:{first_port}, 127.0.0.1:{second_port}\n\
         autoLBVolume = 1\nuseACK = true\n"
    );
    let place = forwarder(&outputs, MONITOR);
    let _sender = Forwarder::start(&place);
    let both = |place: &Place| -> u64 {
        let reported = place.run(&["search", "index=fwd | stats count", "-o", "csv"]).expect_success();
        reported.lines().last().unwrap_or("0").parse().unwrap_or(0)
    };
    for round in 0..4 {
        append(&place, "a.log", &numbered(round * 10..round * 10 + 10));
        let all = (round as u64 + 1) * 10;
        assert!(wait_until(|| both(&first) + both(&second) == all));
    }
    assert!(both(&first) > 0 && both(&second) > 0, "each server has received events");
    let (stored, before) = (both(&first), both(&second));
    one.stop("-KILL");
    append(&place, "a.log", &numbered(40..60));
    assert!(wait_until(|| both(&second) == before + 20), "{stored} {before}");
}

#[test]
fn text_forwarders_and_tls_are_forwarded() {
    let port = free_port();
    let last = place_with(&format!("[splunktcp-ssl:{port}]\nbindAddress = 127.0.0.1\n"));
    let _server = Server::start(&last);
    let certificate = last.data().join("etc/auth/server.pem").display().to_string();
    let tls = format!(
        "[tcpout]\ndefaultGroup = g\n[tcpout:g]\nserver = localhost:{port}\nuseSSL = true\n\
         sslVerifyServerCert = true\nsslRootCAPath = {certificate}\n"
    );
    let (middle_port, text_port) = (free_port(), free_port());
    let middle = forwarder(&tls, &format!("[splunktcp://{middle_port}]\nbindAddress = 127.0.0.1\n"));
    let _between = Forwarder::start(&middle);
    let plain = format!("[tcpout]\ndefaultGroup = g\n[tcpout:g]\nserver = 127.0.0.1:{middle_port}\n");
    let text = format!("[tcp://{text_port}]\nbindAddress = 127.0.0.1\nsourcetype = lines\nindex = fwd\nhost = edge\n");
    let place = forwarder(&plain, &text);
    let _sender = Forwarder::start(&place);
    let mut stream = TcpStream::connect(("127.0.0.1", text_port)).unwrap();
    stream.write_all(numbered(0..500).as_bytes()).unwrap();
    drop(stream);
    assert_eq!(found(&last, 500, COUNT), ["edge,lines,500,500"]);
}

#[test]
fn full_queues_pause_file_reading_without_loss() {
    let (indexer, port) = indexer();
    let outputs = format!("[tcpout]\ndefaultGroup = g\nmaxQueueSize = 1MB\n[tcpout:g]\nserver = 127.0.0.1:{port}\n");
    let place = forwarder(&outputs, MONITOR);
    let sender = Forwarder::start(&place);
    // The lines hardly compress, and are many times as large as the queue.
    let mut state = 1_u64;
    let line = |number: usize| {
        let mut text = format!("number={number} ");
        for _ in 0..16 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(&format!("{state:016x}"));
        }
        text.push('\n');
        text
    };
    let text: String = (0..40_000).map(line).collect();
    append(&place, "a.log", &text);
    assert!(wait_until(|| bytes_of(&place) > 900 << 10));
    assert!(bytes_of(&place) < 4 << 20, "{}", bytes_of(&place));
    // The forwarder must also stop while a file waits for space in the queue.
    assert_eq!(sender.end("-TERM"), 0);
    let _sender = Forwarder::start(&place);
    let _server = Server::start(&indexer);
    assert_eq!(found(&indexer, 40_000, COUNT), ["edge,lines,40000,40000"]);
}

fn bytes_of(place: &Place) -> u64 {
    bytes_below(&place.data().join("forward"))
}

#[test]
fn old_indexers_receive_frames() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let outputs = format!("[tcpout]\ndefaultGroup = g\n[tcpout:g]\nserver = 127.0.0.1:{port}\n");
    let place = forwarder(&outputs, MONITOR);
    append(&place, "a.log", "number=1\n");
    let _sender = Forwarder::start(&place);
    let (mut stream, _) = listener.accept().unwrap();
    let mut greeting = vec![0; 400];
    stream.read_exact(&mut greeting).unwrap();
    assert!(greeting.starts_with(b"--splunk-cooked-mode-v3--\0"));
    let mut frame = || {
        let mut size = [0; 4];
        stream.read_exact(&mut size).unwrap();
        let mut body = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut body).unwrap();
        if body.windows(7).any(|part| part == b"ack=0;c") {
            let answer = b"\0\0\0\x01\0\0\0\x12__s2s_control_msg\0\0\0\0\x1dcap_response=success;v4=false\0";
            let answer = [&answer[..], b"\0\0\0\0\0\0\0\x05_raw\0"].concat();
            stream.write_all(&u32::try_from(answer.len()).unwrap().to_be_bytes()).unwrap();
            stream.write_all(&answer).unwrap();
        }
        String::from_utf8_lossy(&body).into_owned()
    };
    assert!(frame().contains("__s2s_capabilities"));
    assert!(frame().contains("ForwarderInfo"));
    let event = frame();
    assert!(
        event.contains("number=1") && event.contains("host::edge") && event.contains("sourcetype::lines"),
        "{event}"
    );
}

#[test]
fn missing_indexers_are_reported_with_a_hint() {
    let place = Place::new();
    let ran = place.run(&["forward"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("outputs.conf") && ran.err.contains("[tcpout]"), "{ran:?}");
}
