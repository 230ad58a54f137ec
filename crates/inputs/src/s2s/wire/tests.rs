use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

use super::{Decoder, Event, Message, acknowledgment, frame_of};
use crate::s2s::S2sError;

pub(crate) fn greeting(version: &str) -> Vec<u8> {
    let mut bytes = vec![0; 400];
    let signature = match version.strip_suffix(":C") {
        Some(version) => format!("--splunk-cooked-mode-{version}--:C"),
        None => format!("--splunk-cooked-mode-{version}--"),
    };
    bytes[..signature.len()].copy_from_slice(signature.as_bytes());
    bytes[128..134].copy_from_slice(b"myhost");
    bytes[384..388].copy_from_slice(b"8089");
    bytes
}

/// A channel and two events as sent by a public client.
pub(crate) fn packets() -> Vec<u8> {
    let mut bytes = b"\xff\x37### SERIALIZED TIMEZONE FORMAT 1.0\nC0\nY0 NW 55 54 43\n$\n".to_vec();
    bytes.extend_from_slice(b"\xfe\x03\x13source::/var/log/x\x09host::vm\x13sourcetype::syslog\x0356\x00");
    for (id, text) in [(1, b"one line of a file\n"), (3, b"two line of a file\n")] {
        bytes.extend_from_slice(b"\xfc\x03\x3f\x96\x01\x00\x00");
        bytes.push(id);
        bytes.extend_from_slice(b"\xc2\xa4\x83\xd8\x06\x03\x04\x05_path\x0a/var/log/x\x04\x0f_MetaData:Index\x04main");
        bytes.extend_from_slice(b"\x04\x0b_tcpoutTime\x0e1795225170.215");
        bytes.push(text.len() as u8);
        bytes.extend_from_slice(text);
    }
    bytes
}

fn decoded(chunks: &[&[u8]], has_packets: bool) -> Result<Vec<Message>, S2sError> {
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(message) = decoder.next_message()? {
            if has_packets && matches!(message, Message::Greeting { .. }) {
                decoder.switch_to_packets();
            }
            messages.push(message);
        }
    }
    Ok(messages)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn pairs_round_trip() {
    let frame = frame_of(&[("_raw", "text"), ("MetaData:Host", "host::h"), ("_done", "_done")]);
    let messages = decoded(&[&greeting("v3"), &frame, &[0; 8], &frame], false).unwrap();
    let pairs = [("_raw", "text"), ("MetaData:Host", "host::h"), ("_done", "_done")];
    let pairs = Message::Pairs(pairs.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).to_vec());
    let greeting = Message::Greeting { version: 3, server: "myhost".to_owned() };
    assert_eq!(messages, [greeting, pairs.clone(), pairs]);
}

#[test]
fn packets_of_a_public_client_are_decoded() {
    let messages = decoded(&[&greeting("v3"), &packets()], true).unwrap();
    let [_, Message::Zone(_), Message::OpenChannel { like: None, number: 3, slots }, one, Message::Event(two)] =
        &messages[..]
    else {
        panic!("{messages:?}")
    };
    let texts: Vec<&str> = slots.iter().flatten().map(String::as_str).collect();
    assert_eq!(texts, ["source::/var/log/x", "host::vm", "sourcetype::syslog", "56"]);
    assert!(matches!(one, Message::Event(Event { id: Some(1), is_whole: false, .. })), "{one:?}");
    assert_eq!((two.id, two.seconds, two.raw.as_slice()), (Some(3), Some(1_795_215_938), &b"two line of a file\n"[..]));
    assert_eq!(two.fields[1], ("_MetaData:Index".to_owned(), "main".to_owned()));
}

#[test]
fn values_may_be_parts_of_the_text_and_words_with_a_number() {
    // Channel 1, complete, five fields: a part of the text, a number, a negative number, a name by number, a float.
    let bytes = b"\xfc\x01\x40\x05\x0c\x01a\x02\x03\x00\x01n\x07\x28\x01m\x05\x06\x00\x02.5\x2c\x01f\x00\x06abcdef";
    let messages = decoded(&[&greeting("v3"), bytes], true).unwrap();
    let Message::Event(event) = &messages[1] else { panic!("{messages:?}") };
    let fields: Vec<String> = event.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!((fields.join(" ").as_str(), event.is_whole), ("a=cde n=7 m=-5 _subsecond=.5", true));
}

#[test]
fn compressed_streams_are_unpacked() {
    let plain = packets();
    let mut zlib_packet = vec![0xf9];
    zlib_packet.extend(packed(&plain));
    let expected = decoded(&[&greeting("v3"), &plain], true).unwrap();
    assert_eq!(decoded(&[&greeting("v3"), &zlib_packet], true).unwrap(), expected);
    let frame = frame_of(&[("_raw", &"text ".repeat(50_000))]);
    let by_frames = decoded(&[&greeting("v2:C"), &packed(&frame.repeat(3))], false);
    assert_eq!(by_frames.unwrap().len(), 4);
    let mut unfinished = ZlibEncoder::new(Vec::new(), Compression::default());
    unfinished.write_all(&[0xf9, 1]).unwrap();
    unfinished.flush().unwrap();
    let nested = [&[0xf9][..], unfinished.get_ref()].concat();
    assert!(matches!(decoded(&[&greeting("v3"), &nested], true), Err(S2sError::Malformed(_))));
}

#[test]
fn oversized_and_unknown_messages_are_refused_before_buffering() {
    assert_eq!(decoded(&[b"GET / HTTP/1.1\r\n"], false), Err(S2sError::Greeting));
    assert_eq!(decoded(&[&greeting("v9")], false), Err(S2sError::Greeting));
    let refused = |part: &[u8], has_packets| decoded(&[&greeting("v3"), part], has_packets).unwrap_err().to_string();
    assert_eq!(refused(b"\xff\xff\xff\xff", false), "a frame of 4294967295 bytes is longer than 20971520");
    let pairs = refused(b"\x00\x00\x00\x04\xff\xff\xff\xff", false);
    assert_eq!(pairs, "4294967295 pairs in a frame are more than 1024");
    assert_eq!(decoded(&[&greeting("v3"), b"\x42"], true), Err(S2sError::UnknownPacket(0x42)));
    let text = refused(b"\xff\xff\xff\xff\xff\x0f", true);
    assert_eq!(text, "a text of 20971521 bytes is longer than 20971520");
    assert_eq!(refused(b"\xfc\x01\x00\xff\xff\x7f", true), "2097151 fields in a packet are more than 1024");
    let endless = [0xff; 12];
    assert!(matches!(decoded(&[&greeting("v3"), &endless], true), Err(S2sError::Malformed(_))));
}

#[test]
fn consecutive_acknowledgments_share_a_packet() {
    for (ids, bytes) in [
        (&[][..], &b""[..]),
        (&[5], b"\xfb\x05"),
        (&[5, 6, 7], b"\xfa\x05\x07"),
        (&[1, 3, 4, 300], b"\xfb\x01\xfa\x03\x04\xfb\xac\x02"),
    ] {
        assert_eq!(acknowledgment(ids), bytes, "{ids:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn messages_are_independent_of_chunking(
        cuts in prop::collection::vec(1_usize..60, 0..60),
        is_packed in any::<bool>(),
    ) {
        let stream = if is_packed { [&[0xf9][..], &packed(&packets())].concat() } else { packets() };
        let stream = [greeting("v3"), stream].concat();
        let whole = decoded(&[&stream], true).unwrap();
        let (mut chunks, mut rest) = (Vec::new(), &stream[..]);
        for cut in cuts {
            let (chunk, behind) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = behind;
        }
        chunks.push(rest);
        prop_assert_eq!(decoded(&chunks, true).unwrap(), whole);
    }

    #[test]
    fn damaged_streams_cause_errors_and_bounded_memory(
        changes in prop::collection::vec((0_usize..2_000, any::<u8>()), 1..12),
        cut in 0_usize..2_000,
        has_packets in any::<bool>(),
        is_packed in any::<bool>(),
    ) {
        let frame = frame_of(&[("_raw", "some text"), ("_time", "1795225170"), ("MetaData:Host", "host::h")]);
        let plain = if has_packets { packets() } else { frame.repeat(3) };
        let mut stream = if is_packed { packed(&plain) } else { plain };
        if has_packets && is_packed {
            stream.insert(0, 0xf9);
        }
        for (at, byte) in changes {
            let at = at % stream.len();
            stream[at] = byte;
        }
        stream.truncate(cut.max(1));
        let mut decoder = Decoder::default();
        decoder.push(&greeting("v3"));
        decoder.next_message().unwrap();
        if has_packets {
            decoder.switch_to_packets();
        }
        decoder.push(&stream);
        let mut messages = 0;
        while let Ok(Some(_)) = decoder.next_message() {
            messages += 1;
            prop_assert!(messages < 10_000);
        }
        prop_assert!(decoder.held_bytes() < 1 << 20, "{}", decoder.held_bytes());
    }
}
