use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_pipeline::EventTyping;

use super::super::wire::frame_of;
use super::super::wire::tests::{greeting, packets};
use super::{Forwarder, ForwarderDefaults};

const NOW: i64 = 1_795_225_298_000_000_000;
const OFFER: &str = "ack=1;compression=0";

fn forwarder(offers_packets: bool) -> Forwarder {
    forwarder_by(offers_packets, Layers::new([]))
}

fn forwarder_by(offers_packets: bool, layers: Layers) -> Forwarder {
    let props = Arc::new(PropsResolver::new(&layers));
    Forwarder::new(Arc::new(ForwarderDefaults {
        index: "main".to_owned(),
        host: "10.0.0.9".to_owned(),
        source: "s2s".to_owned(),
        sourcetype: "generic_single_line".to_owned(),
        tokens: None,
        offers_packets,
        typing: Arc::new(EventTyping::new(Arc::clone(&props))),
        props,
    }))
}

fn describe_events(batches: &[EventBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.len() {
            let meta = &batch.metas[batch.meta[row] as usize];
            let fields = batch.fields.iter().filter(|field| field.row as usize == row);
            let fields: String = fields.map(|field| format!(" {}={}", field.name, field.value)).collect();
            let text = String::from_utf8_lossy(batch.raw(row));
            let (index, host, source) = (&meta.index, &meta.host, &meta.source);
            rows.push(format!("{index} {host} {source} {} {} {text}{fields}", meta.sourcetype, batch.time[row]));
        }
    }
    rows
}

#[test]
fn version_2_sends_events_and_pieces() {
    let mut forwarder = forwarder(true);
    forwarder.push(&greeting("v2"));
    let event = [
        ("_MetaData:Index", "web"),
        ("MetaData:Host", "host::h1"),
        ("MetaData:Source", "source::/a"),
        ("MetaData:Sourcetype", "sourcetype::st"),
        ("_meta", "env::prod _x::y"),
        ("region", "eu"),
        ("_time", "1795225170.5"),
        ("_raw", "two\nlines"),
        ("_done", "_done"),
    ];
    forwarder.push(&frame_of(&event));
    for piece in ["first 2026-11-20T10:00:00Z\nsec", "ond 2026-11-20T10:00:01Z\nlast 2026-11-20T10:00:02Z"] {
        forwarder.push(&frame_of(&[("MetaData:Source", "source::/b"), ("env", "test"), ("_raw", piece)]));
    }
    forwarder.push(&frame_of(&[("MetaData:Source", "source::/b"), ("env", "test"), ("_raw", ""), ("_done", "_done")]));
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    let (batches, ids) = forwarder.take_batches();
    let expected = [
        "web h1 /a st 1795225170500000000 two\nlines env=prod region=eu",
        "main 10.0.0.9 /b generic_single_line 1795168800000000000 first 2026-11-20T10:00:00Z env=test",
        "main 10.0.0.9 /b generic_single_line 1795168801000000000 second 2026-11-20T10:00:01Z env=test",
        "main 10.0.0.9 /b generic_single_line 1795168802000000000 last 2026-11-20T10:00:02Z env=test",
    ];
    assert_eq!((describe_events(&batches).as_slice(), ids.len()), (&expected.map(str::to_owned)[..], 0));
    assert!(forwarder.take_answer().is_empty(), "version 2 has no handshake");
}

fn shaken(offers_packets: bool) -> Forwarder {
    let mut forwarder = forwarder(offers_packets);
    forwarder.push(&greeting("v3"));
    forwarder.push(&frame_of(&[("__s2s_capabilities", OFFER)]));
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    let answer = String::from_utf8_lossy(&forwarder.take_answer()).into_owned();
    assert!(answer.contains("cap_response=success") && answer.contains(&format!("v4={offers_packets}")), "{answer}");
    let information = [("_raw", "ForwarderInfo build=x"), ("__s2s_capabilities", "pl=7;v4=1")];
    forwarder.push(&frame_of(&information));
    forwarder
}

#[test]
fn ids_are_acknowledged_after_their_event_is_complete() {
    let mut forwarder = shaken(true);
    forwarder.push(&packets());
    forwarder.push(b"\xfc\x03\x04\x05\x00\x05Nov 2\xfc\x03\x04\x06\x00\x0e0 10:00:00 gat\xfc\x03\x04\x07\x00\x00");
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    let (batches, ids) = forwarder.take_batches();
    assert_eq!((describe_events(&batches).len(), ids), (2, vec![1, 3, 7]), "every line is an event");
    forwarder.flush_silent(false, super::QUIET_NS - 1);
    assert!(forwarder.take_batches().0.is_empty() && forwarder.is_open());
    forwarder.flush_silent(false, super::QUIET_NS);
    let (batches, ids) = forwarder.take_batches();
    assert_eq!((describe_events(&batches).len(), ids, forwarder.is_open()), (1, vec![5, 6], false));
    assert_eq!((batches[0].raw(0), batches[0].index_time), (&b"Nov 20 10:00:00 gat"[..], NOW));
}

#[test]
fn whole_events_keep_their_time_and_channels_are_cloned() {
    let mut forwarder = shaken(true);
    forwarder.push(b"\xfe\x01\x0bsource::/a\x08host::h\x0fsourcetype::st\x00\x00");
    forwarder.push(b"\xf8\x01\x02\x0bsource::/b\x00\x00\x00\x00");
    forwarder.push(b"\xfc\x02\x4c\x09\xd2\xec\x83\xd8\x06\x02\x06\x00\x03.25\x04\x01k\x01v\x05a\nb\nc");
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    let (batches, ids) = forwarder.take_batches();
    let expected = ["main h /b st 1795225170250000000 a\nb\nc k=v".to_owned()];
    assert_eq!((describe_events(&batches).as_slice(), ids), (&expected[..], vec![9]));
}

#[test]
fn only_rulesets_apply_to_whole_events() {
    let props = "[st]\nRULESET-a = mask, away\nTRANSFORMS-a = drop_all\nSEDCMD-a = s/two/three/\n";
    let transforms = "[mask]\nREGEX = card=\\d+\nDEST_KEY = _raw\nFORMAT = card=xxx\n\
                      [away]\nREGEX = audit\nDEST_KEY = _MetaData:Index\nFORMAT = audit\n\
                      [drop_all]\nREGEX = .\nDEST_KEY = queue\nFORMAT = nullQueue\n";
    let source = |conf: &str, text: &str| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: format!("{conf}.conf"),
        text: text.to_owned(),
    };
    let mut forwarder = forwarder_by(true, Layers::new([source("props", props), source("transforms", transforms)]));
    forwarder.push(&greeting("v2"));
    for text in ["two words", "card=12345", "audit of two"] {
        let event = [("MetaData:Sourcetype", "sourcetype::st"), ("_time", "1795225170"), ("_raw", text), ("k", "v")];
        forwarder.push(&frame_of(&event));
    }
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    let (batches, _) = forwarder.take_batches();
    let expected = [
        "main 10.0.0.9 s2s st 1795225170000000000 two words k=v",
        "main 10.0.0.9 s2s st 1795225170000000000 card=xxx k=v",
        "audit 10.0.0.9 s2s st 1795225170000000000 audit of two k=v",
    ];
    assert_eq!(describe_events(&batches), expected);
}

#[test]
fn events_have_the_fields_sent_with_their_beginning() {
    let piece =
        |fields: &str, text: &str| frame_of(&[("MetaData:Source", "source::/b"), ("_meta", fields), ("_raw", text)]);
    let mut silent = forwarder(true);
    silent.push(&greeting("v2"));
    for (fields, text) in [("env::a", "1\n2"), ("env::a", " 2"), ("env::b", " 2\n3\n4"), ("env::c", " 4\n5\n6")] {
        silent.push(&piece(fields, text));
    }
    assert_eq!(silent.advance(NOW, 0), Ok(false));
    silent.flush_silent(true, 0);
    let events = describe_events(&silent.take_batches().0);
    let events: Vec<&str> = events.iter().filter_map(|event| Some(event.split_once("000000000 ")?.1)).collect();
    assert_eq!(events, ["1 env=a", "2 2 2 env=a", "3 env=b", "4 4 env=b", "5 env=c", "6 env=c"]);
    // Lines that end because the channel is closed or its metadata changes also have their fields.
    let event = |host: &str, text: &str| {
        let mut bytes = vec![0xfc, 1, 0, 2];
        for (name, value) in [("_meta", "env::a"), ("MetaData:Host", host)] {
            for part in [&[4, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()] {
                bytes.extend_from_slice(part);
            }
        }
        [&bytes[..], &[text.len() as u8], text.as_bytes()].concat()
    };
    let mut closed = shaken(true);
    closed.push(b"\xfe\x01\x0bsource::/a\x08host::h\x0fsourcetype::st\x00\x00");
    closed.push(&event("host::g", "one"));
    closed.push(&event("host::h", "two"));
    closed.push(b"\xfd\x01");
    assert_eq!(closed.advance(NOW, 0), Ok(false));
    let events = describe_events(&closed.take_batches().0);
    assert!(events.len() == 2 && events.iter().all(|event| event.ends_with(" env=a")), "{events:?}");
}

#[test]
fn meta_values_may_be_quoted() {
    let mut forwarder = forwarder(true);
    forwarder.push(&greeting("v2"));
    let meta = r#"env::"a b" path::C:\x quote::"say \"x\"" _private::x site::eu"#;
    forwarder.push(&frame_of(&[("_meta", meta), ("_time", "1795225170"), ("_raw", "x")]));
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    let (batches, _) = forwarder.take_batches();
    let fields: Vec<(&str, &str)> = batches[0].fields.iter().map(|field| (&**field.name, field.value)).collect();
    assert_eq!(fields, [("env", "a b"), ("path", "C:\\x"), ("quote", "say \"x\""), ("site", "eu")]);
}

#[test]
fn number_of_channels_is_limited() {
    let open = |number: u8| [&b"\xfe"[..], &[number], &[0; 5]].concat();
    let mut twice = shaken(true);
    twice.push(&[open(1), open(1)].concat());
    assert!(twice.advance(NOW, 0).unwrap_err().to_string().contains("was open"));
    let mut closed = shaken(true);
    closed.push(&[open(1), vec![0xfd, 1], open(1), vec![0xfd, 2]].concat());
    assert!(closed.advance(NOW, 0).unwrap_err().to_string().contains("was not open"));
    let mut many = shaken(true);
    for number in 0..=super::CHANNELS_MAX as u16 {
        many.push(&[0xfe, (number & 0x7f) as u8 | 0x80, (number >> 7) as u8, 0, 0, 0, 0, 0]);
    }
    assert!(many.advance(NOW, 0).unwrap_err().to_string().contains("one more"));
}

#[test]
fn frames_continue_if_packets_are_not_offered() {
    let mut forwarder = shaken(false);
    forwarder.push(&frame_of(&[("_raw", "x"), ("_time", "1795225170")]));
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    assert_eq!(describe_events(&forwarder.take_batches().0).len(), 1);
}

#[test]
fn times_without_zone_use_the_forwarders_zone() {
    let mut forwarder = shaken(true);
    let zone = b"### SERIALIZED TIMEZONE FORMAT 1.0\nC0\nY3600 NW 43 45 54\n$\n";
    forwarder.push(&[b"\xff", &[u8::try_from(zone.len()).unwrap()][..], zone].concat());
    forwarder.push(b"\xfe\x01\x0bsource::/a\x08host::h\x0fsourcetype::st\x00\x00");
    let text = b"2026-11-20 10:00:00 up\n";
    forwarder.push(&[b"\xfc\x01\x00\x00", &[u8::try_from(text.len()).unwrap()][..], text].concat());
    assert_eq!(forwarder.advance(NOW, 0), Ok(false));
    forwarder.flush_silent(true, 0);
    let (batches, _) = forwarder.take_batches();
    assert_eq!(describe_events(&batches), ["main h /a st 1795165200000000000 2026-11-20 10:00:00 up"]);
}
