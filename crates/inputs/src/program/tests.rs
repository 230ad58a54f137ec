//! Events of programs' output, which may be split at any byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_event::{EventBatch, Metadata};
use quarry_pipeline::EventTyping;

use super::{JournalReader, OutputReader, StanzaDefaults, XmlReader, escape_xml};
use crate::{AppendError, EventStore, Receipt};

const NOW: i64 = 1_795_132_800_000_000_000;

/// A store that only reports which indexes exist.
struct IndexNames;

impl EventStore for IndexNames {
    fn append(&self, _: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        Err(AppendError::Stopping)
    }

    fn check_index(&self, index: &str) -> Result<(), quarry_stdx::Fault> {
        if index == "none" { Err(quarry_stdx::Fault::not_found("there is no index none")) } else { Ok(()) }
    }
}

fn metadata(source: &str) -> Metadata {
    Metadata { index: "main".into(), host: "h".into(), source: source.into(), sourcetype: "generic_single_line".into() }
}

fn xml_reader() -> XmlReader {
    xml_reader_with("")
}

/// A reader with these settings in props.conf.
fn xml_reader_with(props: &str) -> XmlReader {
    let (layer, file) = (Layer::SystemLocal, "props.conf".to_owned());
    let layers = Layers::new([ConfSource { layer, app: None, file, text: props.to_owned() }]);
    let of = |name: &str| (name.to_owned(), StanzaDefaults { metadata: metadata(name), host_is_fixed: false });
    let props = Arc::new(PropsResolver::new(&layers));
    XmlReader::new("a://one", BTreeMap::from([of("a://one"), of("a://two")]), props, Arc::new(IndexNames))
}

/// Text, seconds, source and index of each event, and the warnings.
fn read(reader: &mut dyn OutputReader, pieces: &[&[u8]]) -> (Vec<String>, Vec<String>) {
    let mut rows = Vec::new();
    let mut take = |out: EventBatch| {
        for row in 0..out.len() {
            let meta = &out.metas[out.meta[row] as usize];
            let text = String::from_utf8_lossy(out.raw(row)).into_owned();
            rows.push(format!("{} {} {} {}", (out.time[row] - NOW) / 1_000_000, meta.source, meta.index, text));
        }
    };
    for piece in pieces {
        let mut out = EventBatch::default();
        reader.push(piece, NOW, &mut out).unwrap();
        take(out);
    }
    let mut out = EventBatch::default();
    reader.finish(NOW, &mut out);
    take(out);
    (rows, reader.take_faults())
}

const STREAM: &str = r#"<?xml version="1.0"?><stream>
<event><time>1795132801.25</time><data>one &lt;b&gt;
of two lines</data></event>
<event stanza="a://two"><data><![CDATA[2026-11-20T00:00:05Z <x> & ]]]]><![CDATA[> y]]></data><index>other</index></event>
<event unbroken="1" stanza="a://two"><data>part </data></event><!-- <event> -->
<event><data>between</data><source>s</source><index>default</index></event>
<event unbroken="1" stanza="a://two"><data>whole
next</data><done/></event>
<event><data>lost</data><index>none</index></event><event stanza="a://three"><data>lost</data></event>
<event><data>lost <b>x</b></data></event><event><time>soon</time><data>lost</data></event>
</stream>"#;

const ROWS: [&str; 5] = [
    "1250 a://one main one <b>\nof two lines",
    "5000 a://two other 2026-11-20T00:00:05Z <x> & ]]> y",
    "0 s main between",
    "0 a://two main part whole",
    "0 a://two main next",
];

#[test]
fn xml_stream_is_split_into_events() {
    let (rows, faults) = read(&mut xml_reader(), &[STREAM.as_bytes()]);
    assert_eq!(rows, ROWS);
    assert_eq!(faults.len(), 4, "{faults:?}");
    let (rows, faults) = read(&mut xml_reader(), &[b"<stream><event><data>cut"]);
    assert_eq!((rows.len(), faults.len()), (0, 1), "{faults:?}");
    let mut out = EventBatch::default();
    let before_1970 = b"<stream><event><time>-1.5</time><data>x</data></event></stream>";
    xml_reader().push(before_1970, NOW, &mut out).unwrap();
    assert_eq!(out.time, [-1_500_000_000]);
    assert!(xml_reader().push(b"<stream><event =\"\"></stream>", NOW, &mut out).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn events_are_independent_of_chunking(cuts in prop::collection::vec(1_usize..40, 0..80)) {
        let mut rest = STREAM.as_bytes();
        let mut pieces = Vec::new();
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        let (rows, faults) = read(&mut xml_reader(), &pieces);
        prop_assert_eq!(rows, ROWS);
        prop_assert_eq!(faults.len(), 4);
    }

    #[test]
    fn escaped_text_round_trips(text in "[a-z<>&\"' \n;#]{1,40}[a-z]") {
        let stream = format!("<stream><event><data>{}</data></event></stream>", escape_xml(&text));
        let (rows, _) = read(&mut xml_reader(), &[stream.as_bytes()]);
        prop_assert_eq!(rows, [format!("0 a://one main {text}")]);
    }
}

#[test]
fn events_of_an_unbroken_stream_have_the_time_of_the_piece_in_which_they_begin() {
    let stream = "<stream><event unbroken=\"1\"><time>1795132801</time><data>a\nb one </data></event>\
        <event unbroken=\"1\" stanza=\"a://one\"><time>1795132802</time><data>two\nc\n</data></event>\
        <event unbroken=\"1\"><data>2026-11-20T00:00:07Z d\ne </data></event>\
        <event unbroken=\"1\"><time>1795132809</time><data>last\n</data><done/></event></stream>";
    let expected = ["1000 a", "1000 b one two", "2000 c", "7000 2026-11-20T00:00:07Z d", "7000 e last"];
    let merged = "[generic_single_line]\nSHOULD_LINEMERGE = true\nBREAK_ONLY_BEFORE = ^.\n";
    for props in ["", merged] {
        for size in [stream.len(), 7, 1] {
            let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            let (rows, faults) = read(&mut xml_reader_with(props), &pieces);
            let rows: Vec<String> = rows.iter().map(|row| row.replace("a://one main ", "")).collect();
            assert_eq!((rows, faults.len()), (expected.map(str::to_owned).to_vec(), 0), "{props} {size}");
        }
    }
}

#[test]
fn complete_events_of_an_unbroken_stream_do_not_wait_for_its_end() {
    let mut reader = xml_reader_with("[generic_single_line]\nSHOULD_LINEMERGE = true\nBREAK_ONLY_BEFORE = ^x\n");
    let mut out = EventBatch::default();
    reader.push(b"<stream><event unbroken=\"1\"><data>x\ny\npart</data></event>", NOW, &mut out).unwrap();
    assert!(out.is_empty());
    reader.pause(NOW, &mut out);
    assert_eq!((out.len(), out.raw(0)), (1, &b"x\ny"[..]));
}

#[test]
fn times_of_events_are_decimal_seconds() {
    for (text, nanoseconds) in [
        ("1795132800.000000001", 1_795_132_800_000_000_001),
        (" 1795132801.\n", 1_795_132_801_000_000_000),
        ("1795132800.1234567899", 1_795_132_800_123_456_789),
        ("0.5", 500_000_000),
        (".5", 500_000_000),
        ("-1.5", -1_500_000_000),
        ("-0.25", -250_000_000),
    ] {
        let stream = format!("<stream><event><time>{text}</time><data>a</data></event>");
        let mut out = EventBatch::default();
        xml_reader().push(stream.as_bytes(), NOW, &mut out).unwrap();
        assert_eq!(out.time, [nanoseconds], "{text}");
    }
    for wrong in ["1.-5", "+-1", "1.5s", "nan"] {
        let stream = format!("<stream><event><time>{wrong}</time><data>a</data></event>");
        assert_eq!(read(&mut xml_reader(), &[stream.as_bytes()]).0.len(), 0, "{wrong}");
    }
}

#[test]
fn times_come_from_the_text_of_their_own_event() {
    let mut reader = xml_reader_with("[generic_single_line]\nLINE_BREAKER = ([\\r\\n]+)(?=\\d{4}-)\n");
    let stream = "<stream><event><data>2026-11-20T00:00:05Z a</data></event>\
        <event><data>2026-11-20T00:00:06Z b</data></event><event><data>2026-11-20T00:00:07Z c</data></event></stream>";
    let (rows, _) = read(&mut reader, &[stream.as_bytes()]);
    let seconds: Vec<&str> = rows.iter().filter_map(|row| row.split(' ').next()).collect();
    assert_eq!(seconds, ["5000", "6000", "7000"]);
}

#[test]
fn the_length_of_an_event_is_limited() {
    let mut reader = xml_reader();
    let mut out = EventBatch::default();
    reader.push(b"<stream><event><data>", NOW, &mut out).unwrap();
    let part = format!("<![CDATA[{}]]>", "x".repeat(1 << 20));
    (0..17).for_each(|_| reader.push(part.as_bytes(), NOW, &mut out).unwrap());
    reader.push(b"</data></event><event><data>short</data></event>", NOW, &mut out).unwrap();
    assert_eq!((out.len(), out.raw(0)), (1, &b"short"[..]));
    assert!(reader.take_faults()[0].contains("longer than 16777216 bytes"));
}

#[test]
fn journal_entries_become_events() {
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    let typing = Arc::new(EventTyping::new(props));
    let mut reader = JournalReader::new(metadata("journald://all"), false, &["_PID", "TAG"], &["_UID"], typing);
    let lines = concat!(
        r#"{"__CURSOR":"c1","__REALTIME_TIMESTAMP":"1795132801500000","MESSAGE":"hello","_PID":"7","_UID":"0","_HOSTNAME":"box","TAG":["x","y"]}"#,
        "\n",
        r#"{"__CURSOR":"c2","__REALTIME_TIMESTAMP":"1795132802000000","MESSAGE":[104,105,255]}"#,
        "\nnonsense\n",
        r#"{"__CURSOR":"c3","MESSAGE":null}"#,
        "\n{\"__CURSOR\":\"c4\",\"MESS"
    );
    let mut out = EventBatch::default();
    reader.push(lines.as_bytes(), NOW, &mut out).unwrap();
    reader.finish(NOW, &mut out);
    assert_eq!((out.len(), out.raw(0), out.raw(1)), (2, b"hello".as_slice(), "hi\u{fffd}".as_bytes()));
    assert_eq!(out.time, [NOW + 1_500_000_000, NOW + 2_000_000_000]);
    let hosts: Vec<&str> = out.meta.iter().map(|meta| &*out.metas[*meta as usize].host).collect();
    assert_eq!(hosts, ["box", "h"]);
    let fields: Vec<String> = out.fields.iter().map(|one| format!("{} {}={}", one.row, one.name, one.value)).collect();
    assert_eq!(fields, ["0 TAG=x", "0 TAG=y", "0 _PID=7"]);
    assert_eq!(reader.resume_position(), Some("c3"));
    assert_eq!(reader.take_faults().len(), 1);
}

#[test]
fn journal_entries_behind_one_that_is_too_long_are_read() {
    let typing = Arc::new(EventTyping::new(Arc::new(PropsResolver::new(&Layers::new([])))));
    let mut reader = JournalReader::new(metadata("journald://all"), false, &[], &[], typing);
    let mut out = EventBatch::default();
    let mut push = |bytes: &[u8]| reader.push(bytes, NOW, &mut out).unwrap();
    push(b"{\"__CURSOR\":\"c1\",\"MESSAGE\":\"one\"}\n{\"__CURSOR\":\"c2\",\"MESSAGE\":\"");
    let part = vec![b'x'; 1 << 20];
    (0..17).for_each(|_| push(&part));
    push(b"\"}\n{\"__CURSOR\":\"c3\",\"MESSAGE\":\"three\"}\n");
    assert_eq!((out.len(), out.raw(0), out.raw(1)), (2, &b"one"[..], &b"three"[..]));
    assert_eq!(reader.resume_position(), Some("c3"));
    assert_eq!(reader.take_faults(), ["a journal entry of more than 16777216 bytes is skipped"]);
}
