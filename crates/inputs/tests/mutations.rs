//! Mutated bytes for every protocol: any input is accepted, refused or answered, and none causes a panic. A small
//! version of the fuzz targets; see fuzz/README.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

#[path = "../../../fuzz/entries/collector_request.rs"]
mod collector_request;
#[path = "../../../fuzz/entries/forwarder_bytes.rs"]
mod forwarder_bytes;
#[path = "../../../fuzz/entries/mutations.rs"]
mod mutations;
#[path = "../../../fuzz/entries/network_text.rs"]
mod network_text;

const ROUNDS: u64 = 2_000;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

/// A nested protobuf message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// Index of the path, encoding and body of valid requests.
fn requests() -> Vec<(u8, u8, Vec<u8>)> {
    let event = br#"{"event":{"a":[1,{"b":null}]},"time":"1795225170.5","host":"h","fields":{"x":["y","z"],"n":1}}{"event":"t"}"#;
    let metric =
        br#"{"event":"metric","fields":{"metric_name:cpu":0.5,"region":"eu"}}[{"event":1},{"event":"\u0041"}]"#;
    let attribute = field(6, &[field(1, b"k"), field(2, &field(1, b"v"))].concat());
    let record = [field(5, &field(1, b"a body")), attribute].concat();
    let logs = field(1, &field(2, &field(2, &record)));
    let logs_json = br#"{"resourceLogs":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"h"}}]},
        "scopeLogs":[{"logRecords":[{"timeUnixNano":"1795225170000000000","body":{"kvlistValue":{"values":[{"key":"k",
        "value":{"intValue":"7"}}]}}}]}]}]}"#;
    let point = [&[3 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &[4 << 3 | 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]].concat();
    let metrics = field(1, &field(2, &field(2, &[field(1, b"cpu"), field(5, &field(1, &point))].concat())));
    let label = field(1, &[field(1, b"__name__"), field(2, b"up")].concat());
    let series = field(1, &[label, field(2, &[1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 2 << 3, 7])].concat());
    let entry = [field(1, &[1 << 3, 9, 2 << 3, 7]), field(2, b"a line")].concat();
    let push = field(1, &[field(1, br#"{a="x", b="y"}"#), field(2, &entry)].concat());
    let push_json = br#"{"streams":[{"stream":{"a":"b"},"values":[["1795225170000000001","line",{"t":"u"}]]}]}"#;
    let bulk = b"{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"@timestamp\":\"2026-11-20T10:00:00Z\",\"n\":1}\n{\"delete\":{}}\n";
    vec![
        (0, 0, event.to_vec()),
        (0, 6, event.to_vec()),
        (0, 2, gzip(event)),
        (0, 0, metric.to_vec()),
        (1, 0, b"2026-11-20T10:00:00Z a=1\n\"quoted, [text\n\tof two\n".to_vec()),
        (2, 6, br#"{"acks":[0,1,18446744073709551615]}"#.to_vec()),
        (3, 1, logs.clone()),
        (3, 3, gzip(&logs)),
        (3, 0, logs_json.to_vec()),
        (4, 1, metrics),
        (5, 5, snappy(&push)),
        (5, 0, push_json.to_vec()),
        (6, 5, snappy(&series)),
        (7, 0, bulk.to_vec()),
        (8, 0, bulk.to_vec()),
    ]
}

#[test]
fn any_request_is_answered() {
    for (path, form, body) in requests() {
        let status = collector_request::answer(path.into(), form.into(), &body);
        assert!((200..300).contains(&status), "path {path} form {form}: {status}");
    }
    let seeds: Vec<Vec<u8>> =
        requests().iter().map(|(path, form, body)| [&[*path, *form], &body[..]].concat()).collect();
    mutations::for_each_mutation(&seeds, ROUNDS, collector_request::run);
}

fn greeting(version: &str) -> Vec<u8> {
    let mut bytes = format!("--splunk-cooked-mode-{version}").into_bytes();
    bytes.resize(400, 0);
    bytes
}

fn frame(pairs: &[(&str, &str)]) -> Vec<u8> {
    quarry_inputs::s2s::wire::frame_of(pairs)
}

#[test]
fn any_connection_of_a_forwarder_ends() {
    let event = frame(&[("_MetaData:Index", "web"), ("_time", "1795225170.5"), ("_raw", "text\n"), ("_done", "_done")]);
    let packets = [
        frame(&[("__s2s_capabilities", "ack=1;compression=0;quarry_batches=edge")]),
        frame(&[("_raw", "ForwarderInfo"), ("__s2s_capabilities", "v4=1;pl=7")]),
        b"\xff\x03abc\xfe\x01\x0asource::/x\x08host::v\x11sourcetype::sysl\x00\x00".to_vec(),
        b"\xfc\x01\x0e\x03\x07\xc2\xa4\x83\xd8\x06\x01\x04\x05_path\x02/x\x05line\n".to_vec(),
        b"\xfc\x01\x44\x08\x00\x05whole\xfd\x01\xf8\x01\x02\x00\x00\x00\x00".to_vec(),
        b"\xe0\x05\x16\x00\x01\x00\x01\x01\x01w\x01h\x01s\x01t\x04text\x04\x00\x01\x02\x00\x00".to_vec(),
    ]
    .concat();
    let packed = [b"\xf9".to_vec(), zlib(b"\xfc\x01\x44\x08\x00\x05whole")].concat();
    let seeds = [
        [b"\0\xff".to_vec(), greeting("v2--"), event.clone(), event.clone()].concat(),
        [b"\0\x07".to_vec(), greeting("v3--"), packets.clone()].concat(),
        [b"\0\xff".to_vec(), greeting("v3--"), packets, packed].concat(),
        [b"\x01\x10".to_vec(), greeting("v3--"), event.clone()].concat(),
        [b"\0\xff".to_vec(), greeting("v3--:C"), zlib(&event)].concat(),
    ];
    seeds.iter().for_each(|seed| forwarder_bytes::run(seed));
    mutations::for_each_mutation(&seeds, ROUNDS, forwarder_bytes::run);
    // Most of the greeting is ignored, so these seeds begin after it.
    let behind: Vec<Vec<u8>> = seeds.iter().map(|seed| seed[402..].to_vec()).collect();
    mutations::for_each_mutation(&behind, ROUNDS, |rest| {
        forwarder_bytes::run(&[&seeds[1][..402], rest].concat());
    });
}

#[test]
fn any_text_from_the_network_is_events() {
    let bodies: [&[u8]; 6] = [
        b"<13>Nov 20 10:00:00 host app[1]: text\n<14>Nov 20 10:00:01 host app: more\n",
        b"<165>1 2026-11-20T10:00:00.003Z host app 111 ID47 [a@1 b=\"c\"] \xef\xbb\xbftext\n",
        b"46 <13>1 2026-11-20T10:00:00Z host app - - - text\n17 <13>two\nlines\n12 ",
        b"9999999 <13>large\n1048577 <13>larger\n18446744073709551616 <1>\n",
        b"cpu:1.5|g|#region:eu,host:a\nhits:1|c|@0.1\nlatency:320|ms\n\0",
        b"\xff\xfe\x00\n{\"a\": 1}\r\n\r\n",
    ];
    let mut seeds = Vec::new();
    for (at, body) in bodies.iter().enumerate() {
        for choice in 0..32_u8 {
            seeds.push([&[choice, u8::try_from(at * 7).unwrap()], *body].concat());
        }
    }
    seeds.iter().for_each(|seed| network_text::run(seed));
    mutations::for_each_mutation(&seeds, ROUNDS, network_text::run);
}
