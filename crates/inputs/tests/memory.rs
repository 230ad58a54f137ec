//! Small requests that decode to large data: their memory is limited, and the sender gets an error. It is a single
//! test, because it measures the memory of its process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]
#![cfg(target_os = "linux")]

use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use flate2::Compression;
use flate2::write::GzEncoder;
use quarry_conf::{ConfSource, HttpInputSettings, Layer, Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_inputs::hec::{AckNumbers, Collector};
use quarry_inputs::{AppendError, EventStore, Receipt};
use quarry_stdx::SystemClock;
use tower_service::Service;

/// Maximum memory that a request may add, including its answer and the allocator's overhead: while a long list grows,
/// the allocator may have to copy it, which takes its memory twice for a moment (640 or 1,120 MB were measured).
const GROWN_MB_MAX: usize = 1_250;

struct Nowhere;

struct StoredReceipt;

impl Receipt for StoredReceipt {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        Ok(())
    }
}

impl EventStore for Nowhere {
    fn append(&self, _: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        Ok(Box::new(StoredReceipt))
    }

    fn check_index(&self, _: &str) -> Result<(), quarry_stdx::Fault> {
        Ok(())
    }
}

fn router(body_bytes_max: u64) -> axum::Router {
    let (file, text) = ("inputs.conf".to_owned(), "[http://plain]\ntoken = 1\n[http://acked]\ntoken = 2\nuseACK=1\n");
    let layers = Layers::new([ConfSource { layer: Layer::SystemLocal, app: None, file, text: text.to_owned() }]);
    let (settings, props) = (HttpInputSettings::new(&layers), Arc::new(PropsResolver::new(&layers)));
    let store: Arc<dyn EventStore> = Arc::new(Nowhere);
    Arc::new(Collector::new(settings, body_bytes_max, AckNumbers::default(), store, props, SystemClock::shared()))
        .router()
}

fn gzip_of(part: &[u8], times: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    (0..times).for_each(|_| encoder.write_all(part).unwrap());
    encoder.finish().unwrap()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2][..], &varint(bytes.len()), bytes].concat()
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

fn highest_mb() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() / 1_024
}

#[test]
fn requests_that_expand_beyond_memory_are_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = |body_bytes_max, path: &str, kind: &str, encoding: &str, body: Vec<u8>| {
        let request = Request::builder()
            .method("POST")
            .uri(path)
            .header("authorization", if path.ends_with("/ack") { "Splunk 2" } else { "Splunk 1" })
            .header("x-splunk-request-channel", "fe0ecfad-13d5-401b-847d-77833bd77131")
            .header("content-type", kind)
            .header("content-encoding", encoding);
        let response = router(body_bytes_max).call(request.body(Body::from(body)).unwrap());
        runtime.block_on(async {
            let response = response.await.unwrap();
            let status = response.status().as_u16();
            let text = axum::body::to_bytes(response.into_body(), 1 << 30).await.unwrap();
            (status, String::from_utf8_lossy(&text[..text.len().min(400)]).into_owned())
        })
    };
    let before = highest_mb();
    let many_attributes: Vec<u8> =
        (0..2_000).flat_map(|_| field(1, &[field(1, b"k"), field(2, &field(1, &[b'v'; 40]))].concat())).collect();
    let records = field(2, &[0x12, 0].repeat(20_000));
    let labels: String = (0..2_000).map(|number| format!("l{number}=\"{}\",", "v".repeat(30))).collect();
    let entries = [0x12, 0].repeat(20_000);
    let json = "application/json";
    let cases: [(&str, &str, &str, &str, Vec<u8>); 9] = [
        ("what gzip packed", "/services/collector/raw", json, "gzip", gzip_of(&vec![b'a'; 1 << 20], 20)),
        ("objects of JSON", "/v1/logs", json, "gzip", gzip_of(&b"{\"a\":[{\"a\":1},".repeat(1 << 14), 56)),
        ("lists of JSON", "/services/collector/ack", json, "gzip", {
            gzip_of(&[&b"{\"acks\":["[..], &b"[],".repeat(5 << 20)].concat(), 1)
        }),
        ("messages of protobuf", "/v1/logs", "application/x-protobuf", "gzip", gzip_of(&[0x0a, 0].repeat(1 << 19), 9)),
        ("attributes of a resource in all of its records", "/v1/logs", "application/x-protobuf", "", {
            field(1, &[field(1, &many_attributes), records].concat())
        }),
        ("what snappy packed", "/loki/api/v1/push", "", "", [&varint(1 << 31)[..], &[0xfe, 0, 0]].concat()),
        ("labels of a stream in all of its lines", "/loki/api/v1/push", "", "", {
            snappy(&field(1, &[field(1, format!("{{{labels}}}").as_bytes()), entries].concat()))
        }),
        ("documents without anything", "/_bulk", json, "gzip", gzip_of(&b"{\"index\":{}}\n{}\n".repeat(1 << 16), 12)),
        ("a document of lists", "/_bulk", json, "gzip", {
            gzip_of(&[&b"{\"index\":{}}\n"[..], &b"[".repeat(20), &b"[],".repeat(5 << 20)].concat(), 1)
        }),
    ];
    for (what, path, kind, encoding, body) in cases {
        let (status, text) = answer(16 << 20, path, kind, encoding, body);
        let grown = highest_mb() - before;
        // Such a long list of acknowledgment ids is refused during parsing, before it takes memory.
        let refused = if path.ends_with("/ack") { 400 } else { 413 };
        assert_eq!(status, refused, "{what}: {text}");
        assert!(grown < GROWN_MB_MAX, "{what}: {grown} MB");
    }
    let (status, text) = answer(1 << 20, "/services/collector", json, "gzip", gzip_of(&[b' '; 1 << 16], 17));
    assert_eq!((status, text.contains("max_content_length")), (413, true), "{text}");
    let fields = format!("{{\"event\":1,\"fields\":{{\"a\":[{}1]}}}}", "1,".repeat(65_536));
    let (status, text) = answer(1 << 20, "/services/collector", json, "", fields.into_bytes());
    assert_eq!(
        (status, text.as_str()),
        (
            400,
            r#"{"text":"Error in handling indexed fields: an event has more than 65536 of them","code":15,"invalid-event-number":0}"#
        )
    );
}
