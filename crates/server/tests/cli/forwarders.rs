//! Forwarders send to a running server. Every event is found, and acknowledged events survive a kill.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::network::{address_of, found, place_with, tls_client};
use crate::server::Server;

fn greeting(version: &str) -> Vec<u8> {
    let mut bytes = vec![0; 400];
    let signature = format!("--splunk-cooked-mode-{version}--");
    bytes[..signature.len()].copy_from_slice(signature.as_bytes());
    bytes
}

fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len() + 1).unwrap();
    [&length.to_be_bytes()[..], bytes, b"\0"].concat()
}

fn frame(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut body = u32::try_from(pairs.len()).unwrap().to_be_bytes().to_vec();
    for (key, value) in pairs {
        body.extend(text(key.as_bytes()));
        body.extend(text(value.as_bytes()));
    }
    body.extend([0; 4]);
    body.extend(text(b"_raw"));
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Performs the handshake of version 4; `ack` is 1 to request acknowledgments.
pub(crate) fn shake(stream: &mut (impl Read + Write), ack: u8) {
    stream.write_all(&greeting("v3")).unwrap();
    stream.write_all(&frame(&[("__s2s_capabilities", &format!("ack={ack};compression=0"))])).unwrap();
    stream.flush().unwrap();
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("cap_response=success") && answer.contains("v4=true"), "{answer}");
    let information =
        [("_raw", "ForwarderInfo"), ("_MetaData:Index", "_internal"), ("__s2s_capabilities", "v4=1;pl=7")];
    stream.write_all(&frame(&information)).unwrap();
}

fn channel(number: u8, host: &str) -> Vec<u8> {
    let mut bytes = vec![0xfe, number];
    for slot in ["source::/var/log/app", &format!("host::{host}"), "sourcetype::generic_single_line"] {
        bytes.extend(varint(slot.len() as u64 + 1));
        bytes.extend(slot.as_bytes());
    }
    bytes.extend([0, 0]);
    bytes
}

/// A piece of text with an id, for an index.
fn piece(channel: u8, id: u64, index: &str, text: &str) -> Vec<u8> {
    let mut bytes = vec![0xfc, channel, 0x4];
    bytes.extend(varint(id));
    bytes.extend(b"\x01\x04\x0f_MetaData:Index");
    bytes.extend(varint(index.len() as u64));
    bytes.extend(index.as_bytes());
    bytes.extend(varint(text.len() as u64));
    bytes.extend(text.as_bytes());
    bytes
}

#[test]
fn frames_and_packets_become_events() {
    let place = place_with("[splunktcp://0]\n");
    let server = Server::start(&place);
    let address = address_of(&place, "splunktcp://0");
    let mut old = TcpStream::connect(&address).unwrap();
    old.write_all(&greeting("v2")).unwrap();
    for number in 0..100 {
        let time = format!("{}.25", 1_795_225_000 + number);
        let raw = format!("old={number} and\na second line");
        let event = [
            ("_MetaData:Index", "old"),
            ("MetaData:Host", "host::h2"),
            ("MetaData:Source", "source::s2"),
            ("MetaData:Sourcetype", "sourcetype::st2"),
            ("region", "eu"),
            ("_time", &time),
            ("_raw", &raw),
            ("_done", "_done"),
        ];
        old.write_all(&frame(&event)).unwrap();
    }
    drop(old);
    let mut new = TcpStream::connect(&address).unwrap();
    shake(&mut new, 0);
    new.write_all(&channel(1, "h4")).unwrap();
    let text: String = (0..500).map(|number| format!("2026-11-20T10:00:00Z new={number}\n")).collect();
    for (id, part) in text.as_bytes().chunks(333).enumerate() {
        new.write_all(&piece(1, id as u64, "new", std::str::from_utf8(part).unwrap())).unwrap();
    }
    // A forwarder's own events are for an index that it may not write to, so the server drops them.
    new.write_all(&piece(1, 9_999, "_internal", "left out\n")).unwrap();
    drop(new);
    let search =
        "index=* | eval time=_time | stats count dc(new) dc(old) sum(time) AS time by index host source sourcetype";
    let rows = found(&place, 600, search);
    let old_times: u64 = (0..100).map(|number| 1_795_225_000 + number).sum::<u64>() + 25;
    let expected = [
        format!("new,h4,/var/log/app,generic_single_line,500,500,0,{}", 1_795_168_800_u64 * 500),
        format!("old,h2,s2,st2,100,0,100,{old_times}"),
    ];
    assert_eq!(rows, expected);
    let rows = found(&place, 600, "index=old region::eu old=7 | table _raw");
    assert_eq!(rows, ["\"old=7 and", "a second line\""]);
    drop(server);
}

#[test]
fn forwarders_are_accepted_on_the_command_line_address() {
    // The settings of such a port apply to its events.
    let place = place_with("[splunktcp://0]\nindex = asked\n");
    let server = Server::start_with(&place, &["--s2s", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(address_of(&place, "splunktcp://0")).unwrap();
    stream.write_all(&greeting("v2")).unwrap();
    stream.write_all(&frame(&[("_raw", "one"), ("_time", "1795225000"), ("_done", "_done")])).unwrap();
    drop(stream);
    assert_eq!(found(&place, 1, "index=asked | table _raw"), ["one"]);
    drop(server);
}

#[test]
fn internal_indexes_accept_forwarders_if_the_port_allows_it() {
    for (more, kept) in [("", 0), ("acceptInternalIndexes = true\n", 1)] {
        let place = place_with(&format!("[splunktcp://0]\nindex = asked\n{more}"));
        let server = Server::start(&place);
        let mut stream = TcpStream::connect(address_of(&place, "splunktcp://0")).unwrap();
        stream.write_all(&greeting("v2")).unwrap();
        for (index, raw) in [("_internal", "words of a forwarder"), ("asked", "a later event")] {
            let pairs = [("_MetaData:Index", index), ("_time", "1795225000"), ("_raw", raw), ("_done", "_done")];
            stream.write_all(&frame(&pairs)).unwrap();
        }
        drop(stream);
        assert_eq!(found(&place, 1, "index=asked | table _raw"), ["a later event"]);
        let count = place
            .run(&["search", "index=_internal \"words of a forwarder\" | stats count", "-o", "csv"])
            .expect_success();
        assert_eq!(count, format!("count\n{kept}\n"), "{more}");
        drop(server);
    }
}

#[test]
fn events_acknowledged_to_forwarders_survive_a_kill() {
    let place = place_with("[splunktcp-ssl:0]\nindex = acked\n");
    let server = Server::start(&place);
    let mut stream = tls_client(&place, &address_of(&place, "splunktcp-ssl:0"));
    shake(&mut stream, 1);
    stream.write_all(&channel(7, "h")).unwrap();
    for id in 0..50 {
        stream.write_all(&piece(7, id, "acked", &format!("number={id}\n"))).unwrap();
    }
    stream.flush().unwrap();
    let mut acknowledged = 0;
    while acknowledged < 50 {
        let mut tag = [0; 2];
        stream.read_exact(&mut tag).unwrap();
        assert_eq!(u64::from(tag[1]), acknowledged, "ids come in order");
        acknowledged += 1;
        if tag[0] == 0xfa {
            let mut last = [0];
            stream.read_exact(&mut last).unwrap();
            acknowledged = u64::from(last[0]) + 1;
        }
    }
    server.stop("-KILL");
    let rows = found(&place, 50, "index=acked | stats count dc(number)");
    assert_eq!(rows, ["50,50"]);
}

#[test]
fn other_clients_are_disconnected() {
    let place = place_with("[splunktcp://0]\n");
    let server = Server::start(&place);
    let mut stream = TcpStream::connect(address_of(&place, "splunktcp://0")).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A reset also ends the connection.
    drop(stream.read_to_end(&mut answer));
    assert!(answer.is_empty());
    assert_eq!(server.stop("-TERM"), 0);
}

/// A batch of one event, as Quarry's forwarders send it.
fn batch(number: u64, text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    // Not compressed, format version 1, no index time, one row, one metadata entry.
    let mut packed = vec![0, 1, 0, 1, 1];
    for name in ["whole", "h", "s", "t"] {
        packed.push(u8::try_from(name.len()).unwrap());
        packed.extend(name.as_bytes());
    }
    packed.push(length);
    packed.extend(text.as_bytes());
    // Length of the text, index of its metadata, time (one second after the epoch), number of fields (none).
    packed.extend([length, 0, 1]);
    packed.extend(varint(2_000_000_000));
    packed.extend([0, 0]);
    [vec![0xe0], varint(number), varint(packed.len() as u64), packed].concat()
}

/// A connection of a Quarry forwarder, after its handshake.
fn ours(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&greeting("v3")).unwrap();
    let offer = "ack=1;compression=0;quarry_batches=edge/main";
    stream.write_all(&frame(&[("__s2s_capabilities", offer)])).unwrap();
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains(";quarry_batches=1"));
    stream.write_all(&frame(&[("_raw", "ForwarderInfo"), ("__s2s_capabilities", "v4=1;pl=7")])).unwrap();
    stream
}

fn acknowledged(stream: &mut TcpStream) -> Vec<u8> {
    let mut tag = [0; 2];
    stream.read_exact(&mut tag).unwrap();
    let mut last = [tag[1]];
    if tag[0] == 0xfa {
        stream.read_exact(&mut last).unwrap();
    }
    (tag[1]..=last[0]).collect()
}

#[test]
fn repeated_batches_are_acknowledged_but_not_stored() {
    let place = place_with("[splunktcp://0]\n");
    let server = Server::start(&place);
    let address = address_of(&place, "splunktcp://0");
    let mut first = ours(&address);
    first.write_all(&batch(5, "number=5")).unwrap();
    assert_eq!(acknowledged(&mut first), [5]);
    // The same forwarder reconnects while its old connection is open, so the server ends the old connection.
    let mut second = ours(&address);
    assert_eq!(first.read(&mut [0; 8]).unwrap_or(0), 0);
    second.write_all(&[batch(5, "number=5"), batch(9, "number=9")].concat()).unwrap();
    let mut heard = acknowledged(&mut second);
    while heard.len() < 2 {
        heard.extend(acknowledged(&mut second));
    }
    assert_eq!(heard, [5, 9]);
    // The server also recognises the stored batches after a crash.
    server.stop("-KILL");
    let server = Server::start(&place);
    let mut third = ours(&address_of(&place, "splunktcp://0"));
    third.write_all(&batch(9, "number=9")).unwrap();
    assert_eq!(acknowledged(&mut third), [9]);
    third.write_all(&batch(10, "number=10")).unwrap();
    assert_eq!(acknowledged(&mut third), [10]);
    let rows = found(
        &place,
        3,
        "index=whole | eval time=_time | stats list(number) AS n values(time) AS t by host \
                                 source sourcetype | eval n=mvjoin(mvsort(n), \" \")",
    );
    assert_eq!(rows, ["h,s,t,10 5 9,1"]);
    drop(server);
}
