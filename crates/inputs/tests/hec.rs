//! The HTTP Event Collector over real sockets: each answer, and the events that reach the store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::response::Response;
use quarry_conf::{ConfSource, HttpInputSettings, Layer, Layers, PropsResolver};
use quarry_event::{EventBatch, SentRequest};
use quarry_inputs::hec::{AckNumbers, Collector, ResponseHook};
use quarry_inputs::{AppendError, EventStore, Receipt};
use quarry_stdx::SystemClock;

const CONF: &str = "[http]\n[http://apps]\ntoken = 11111111-1111-1111-1111-111111111111\nindex = app\nindexes = app,web\n\
    sourcetype = app_log\nsource = the_app\nhost = default_host\n\
    [http://any]\ntoken = 22222222-2222-2222-2222-222222222222\n\
    [http://off]\ntoken = 33333333-3333-3333-3333-333333333333\ndisabled = 1\n\
    [http://ack]\ntoken = 44444444-4444-4444-4444-444444444444\nuseACK = 1\n\
    [http://query]\ntoken = 55555555-5555-5555-5555-555555555555\nallowQueryStringAuth = 1\n";
const APPS: &str = "Splunk 11111111-1111-1111-1111-111111111111";
const ANY: &str = "Splunk 22222222-2222-2222-2222-222222222222";
const ACK: &str = "Splunk 44444444-4444-4444-4444-444444444444";

const BODY_BYTES: u64 = 100_000;

/// A store that keeps the batches it receives; `broken` makes it fail. It is too busy for the index `full`, and has no
/// room when it writes the index `late`.
#[derive(Default)]
struct RecordingStore {
    batches: Mutex<Vec<EventBatch>>,
    broken: Mutex<Option<fn() -> AppendError>>,
    told: Mutex<Vec<String>>,
}

struct StoredReceipt;

struct FailedReceipt;

impl Receipt for FailedReceipt {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        Err(AppendError::Busy("the disk is full".into()))
    }
}

impl Receipt for StoredReceipt {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        Ok(())
    }
}

impl EventStore for RecordingStore {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        if let Some(error) = *self.broken.lock().unwrap() {
            return Err(error());
        }
        match &*batch.metas[0].index {
            "full" => return Err(AppendError::Busy("too many appends".into())),
            "late" => return Ok(Box::new(FailedReceipt)),
            _ => {}
        }
        self.batches.lock().unwrap().push(batch);
        Ok(Box::new(StoredReceipt))
    }

    fn record_failure(&self, _: &SentRequest) {
        self.told.lock().unwrap().push("a request failed".to_owned());
    }

    fn check_room(&self) -> Result<(), AppendError> {
        self.broken.lock().unwrap().map_or(Ok(()), |error| Err(error()))
    }

    fn warn(&self, text: &str) {
        self.told.lock().unwrap().push(text.to_owned());
    }

    fn check_index(&self, index: &str) -> Result<(), quarry_stdx::Fault> {
        if index == "closed" { Err(quarry_stdx::Fault::invalid("it is closed")) } else { Ok(()) }
    }
}

impl RecordingStore {
    /// Removes the stored events and formats each as `index host source sourcetype raw [field=value...]`.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for batch in self.batches.lock().unwrap().drain(..) {
            for row in 0..batch.len() {
                let meta = &batch.metas[batch.meta[row] as usize];
                let raw = String::from_utf8_lossy(batch.raw(row));
                let mut line = format!("{} {} {} {} {raw}", meta.index, meta.host, meta.source, meta.sourcetype);
                for field in batch.fields.iter().filter(|field| field.row as usize == row) {
                    line.push_str(&format!(" {}={}", field.name, field.value));
                }
                lines.push(line);
            }
        }
        lines
    }

    fn times(&self) -> Vec<i64> {
        self.batches.lock().unwrap().drain(..).flat_map(|batch| batch.time).collect()
    }
}

/// Runs the hook of an answer, as the port does before it writes the answer.
async fn run_hook(mut response: Response) -> Response {
    if let Some(hook) = response.extensions_mut().remove::<ResponseHook>() {
        hook.run().unwrap();
    }
    response
}

/// A collector on a free port; it ends with the runtime.
struct TestCollector {
    address: SocketAddr,
    /// Port for OTLP over gRPC.
    calls: SocketAddr,
    store: Arc<RecordingStore>,
    _runtime: tokio::runtime::Runtime,
}

impl TestCollector {
    fn start() -> TestCollector {
        TestCollector::with(&[("inputs", CONF)])
    }

    /// Starts a collector with these conf files.
    fn with(confs: &[(&str, &str)]) -> TestCollector {
        let source = |(name, text): &(&str, &str)| ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: format!("{name}.conf"),
            text: (*text).to_owned(),
        };
        let layers = Layers::new(confs.iter().map(source));
        let store = Arc::new(RecordingStore::default());
        let props = Arc::new(PropsResolver::new(&layers));
        let settings = HttpInputSettings::new(&layers);
        assert_eq!(settings.tokens.len(), 5, "the configuration is read");
        let collector = Arc::new(Collector::new(
            settings,
            BODY_BYTES,
            AckNumbers::default(),
            store.clone(),
            props,
            SystemClock::shared(),
        ));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Arc::clone(&collector).router().layer(axum::middleware::map_response(run_hook));
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        runtime.spawn(async move { axum::serve(listener, service).await });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let calls = listener.local_addr().unwrap();
        let service = collector.grpc_router().into_make_service_with_connect_info::<SocketAddr>();
        runtime.spawn(async move { axum::serve(listener, service).await });
        TestCollector { address, calls, store, _runtime: runtime }
    }

    /// Sends a request and returns the status and body of the answer.
    fn send_request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let config = ureq::Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true).build();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let agent = ureq::Agent::new_with_config(config);
        let mut response = agent.run(request.body(body.to_vec()).unwrap()).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    fn send(&self, path: &str, token: &str, body: &str) -> (u16, String) {
        self.send_request("POST", &format!("/services/collector{path}"), &[("Authorization", token)], body.as_bytes())
    }
}

fn expected_response(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[test]
fn requests_without_a_good_token_are_refused_with_splunks_words() {
    let served = TestCollector::start();
    let off = "Splunk 33333333-3333-3333-3333-333333333333";
    for (path, authorization, status, answer) in [
        ("", None, 401, r#"{"text":"Token is required","code":2}"#),
        ("", Some("Bearer x"), 401, r#"{"text":"Invalid authorization","code":3}"#),
        ("", Some("Splunk"), 401, r#"{"text":"Invalid authorization","code":3}"#),
        ("", Some("Splunk 99"), 403, r#"{"text":"Invalid token","code":4}"#),
        ("", Some(off), 403, r#"{"text":"Token disabled","code":1}"#),
        ("?token=9", None, 403, r#"{"text":"Invalid token","code":4}"#),
        (
            "?token=22222222-2222-2222-2222-222222222222",
            None,
            400,
            r#"{"text":"Query string authorization is not enabled","code":16}"#,
        ),
    ] {
        let headers: Vec<(&str, &str)> = authorization.map(|value| ("Authorization", value)).into_iter().collect();
        let got = served.send_request("POST", &format!("/services/collector{path}"), &headers, br#"{"event":"a"}"#);
        assert_eq!(got, expected_response(status, answer), "{path} {authorization:?}");
    }
    assert!(served.store.lines().is_empty(), "nothing of a refused request is stored");
}

#[test]
fn bad_bodies_are_refused_with_splunks_words_and_the_number_of_the_event() {
    let served = TestCollector::start();
    let event = r#"{"event":"a"}"#;
    for (path, token, body, answer) in [
        ("/event", ANY, "", r#"{"text":"No data","code":5}"#),
        ("/raw", ANY, " \n ", r#"{"text":"No data","code":5}"#),
        ("", ANY, "nonsense", r#"{"text":"Invalid data format","code":6,"invalid-event-number":0}"#),
        ("", APPS, r#"{"event":"a","index":"no"}"#, r#"{"text":"Incorrect index","code":7,"invalid-event-number":1}"#),
        (
            "",
            ANY,
            r#"{"event":"a","index":"closed"}"#,
            r#"{"text":"Incorrect index","code":7,"invalid-event-number":1}"#,
        ),
        ("", ACK, event, r#"{"text":"Data channel is missing","code":10}"#),
        ("?channel=no+guid", ACK, event, r#"{"text":"Invalid data channel","code":11}"#),
        ("", ANY, r#"{"host":"h"}"#, r#"{"text":"Event field is required","code":12,"invalid-event-number":0}"#),
        ("", ANY, r#"{"event":""}"#, r#"{"text":"Event field cannot be blank","code":13,"invalid-event-number":0}"#),
        ("/ack", ANY, r#"{"acks":[0]}"#, r#"{"text":"ACK is disabled","code":14}"#),
        (
            "",
            ANY,
            r#"{"event":"a","fields":{"x":{}}}"#,
            r#"{"text":"Error in handling indexed fields","code":15,"invalid-event-number":0}"#,
        ),
    ] {
        assert_eq!(served.send(path, token, body), expected_response(400, answer), "{path} {body}");
    }
    assert!(served.store.lines().is_empty(), "nothing of a refused request is stored");
}

#[test]
fn tokens_are_accepted_in_basic_auth_and_if_allowed_in_the_url() {
    let served = TestCollector::start();
    let good = expected_response(200, r#"{"text":"Success","code":0}"#);
    // x:22222222-2222-2222-2222-222222222222
    let basic = "Basic eDoyMjIyMjIyMi0yMjIyLTIyMjItMjIyMi0yMjIyMjIyMjIyMjI=";
    assert_eq!(served.send("/event", basic, r#"{"event":"a"}"#), good);
    let path = "/services/collector/event/1.0?token=55555555-5555-5555-5555-555555555555&host=h1";
    assert_eq!(served.send_request("POST", path, &[], br#"{"event":"b"}"#), good);
    let stored = served.store.lines();
    assert!(stored[1].starts_with("main h1 http:query httpevent b"), "{stored:?}");
}

#[test]
fn event_metadata_overrides_url_and_url_overrides_token() {
    let served = TestCollector::start();
    let body = concat!(
        r#"{"event":"a"}"#,
        r#"{"event":{"b": 1},"host":"h","source":"s","sourcetype":"t","index":"web","fields":{"k":"v","m":[1,2]}}"#,
        r#"{"event":"c","source":null}"#
    );
    assert_eq!(served.send("/event?sourcetype=url_type", APPS, body).0, 200);
    let mut lines = served.store.lines();
    lines.sort();
    let expected = [
        "app default_host the_app url_type a",
        "app default_host the_app url_type c",
        "web h s t {\"b\": 1} k=v m=1 m=2",
    ];
    assert_eq!(lines, expected);
    assert_eq!(served.send("", ANY, r#"{"event":"a","time":"1795225298.916342"}{"event":"b","time":1.5}"#).0, 200);
    assert_eq!(served.store.times(), [1_795_225_298_916_342_000, 1_500_000_000]);
}

#[test]
fn events_before_a_bad_one_are_stored() {
    let served = TestCollector::start();
    let answer = served.send("", ANY, r#"{"event":"good"}{"event":"also"}{"event":null}{"event":"late"}"#);
    assert_eq!(
        answer,
        expected_response(400, r#"{"text":"Event field cannot be blank","code":13,"invalid-event-number":2}"#)
    );
    assert_eq!(served.store.lines().len(), 2);
}

#[test]
fn raw_text_is_broken_into_events_with_their_times() {
    let served = TestCollector::start();
    let text = "2026-11-20T10:00:00Z one\n  more of one\n2026-11-20T10:00:01Z two\n";
    let headers = [("Authorization", ANY), ("Content-Type", "application/x-www-form-urlencoded")];
    let path = "/services/collector/raw?sourcetype=app&host=h&source=s&index=web";
    assert_eq!(
        served.send_request("POST", path, &headers, text.as_bytes()),
        expected_response(200, r#"{"text":"Success","code":0}"#)
    );
    let times: Vec<i64> = served.store.batches.lock().unwrap().iter().flat_map(|batch| batch.time.clone()).collect();
    assert_eq!(times, [1_795_168_800_000_000_000, 1_795_168_801_000_000_000]);
    let lines = served.store.lines();
    assert!(lines[0].starts_with("web h s app 2026-11-20T10:00:00Z one\n  more of one"), "{lines:?}");
}

#[test]
fn raw_requests_of_a_source_share_the_date_order() {
    let served = TestCollector::start();
    let send = |source: &str, text: &str| {
        let path = format!("/services/collector/raw?sourcetype=app&source={source}");
        assert_eq!(served.send_request("POST", &path, &[("Authorization", ANY)], text.as_bytes()).0, 200);
        served.store.times()
    };
    let (may, november) = (1_746_957_600_000_000_000, 1_762_336_800_000_000_000);
    assert_eq!(send("one", "05/11/2025 10:00:00+0000 a\n"), [may]);
    assert!(
        served.store.told.lock().unwrap()[0]
            .contains("raw events of HEC token any: dates are read with the month first")
    );
    send("one", "13/11/2025 10:00:00+0000 b\n");
    assert_eq!(send("one", "05/11/2025 10:00:00+0000 c\n"), [november], "an earlier request has shown the order");
    assert_eq!(send("other", "05/11/2025 10:00:00+0000 d\n"), [may]);
}

#[test]
fn compressed_bodies_are_decompressed_and_unknown_ones_refused() {
    use std::io::Write;
    let served = TestCollector::start();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(br#"{"event":"packed"}{"event":"too"}"#).unwrap();
    let packed = packer.finish().unwrap();
    let headers = [("Authorization", ANY), ("Content-Encoding", "gzip")];
    assert_eq!(served.send_request("POST", "/services/collector", &headers, &packed).0, 200);
    assert_eq!(served.store.lines().len(), 2);
    for (encoding, body) in [("gzip", &b"not packed"[..]), ("gzip", &packed[..20]), ("br", &packed[..])] {
        let headers = [("Authorization", ANY), ("Content-Encoding", encoding)];
        let answer = served.send_request("POST", "/services/collector", &headers, body);
        assert_eq!(answer, expected_response(400, r#"{"text":"Invalid data format","code":6}"#), "{encoding}");
    }
    assert!(served.store.lines().is_empty());
}

#[test]
fn stored_requests_are_reported_once_per_channel() {
    let served = TestCollector::start();
    let channel = "FE0ECFAD-13D5-401B-847D-77833BD77131";
    let headers = [("Authorization", ACK), ("X-Splunk-Request-Channel", channel)];
    let send = || served.send_request("POST", "/services/collector", &headers, br#"{"event":"a"}"#);
    assert_eq!(send(), expected_response(200, r#"{"text":"Success","code":0,"ackId":0}"#));
    assert_eq!(send(), expected_response(200, r#"{"text":"Success","code":0,"ackId":1}"#));
    let path = format!("/services/collector/ack?channel={channel}");
    let ask = |body: &str| served.send_request("POST", &path, &[("Authorization", ACK)], body.as_bytes());
    assert_eq!(ask(r#"{"acks":[0,7]}"#), expected_response(200, r#"{"acks":{"0":true,"7":false}}"#));
    assert_eq!(ask(r#"{"acks":[0,1]}"#), expected_response(200, r#"{"acks":{"0":false,"1":true}}"#));
    assert_eq!(ask("{}"), expected_response(400, r#"{"text":"Invalid data format","code":6}"#));
    assert_eq!(ask(""), expected_response(400, r#"{"text":"No data","code":5}"#));
}

#[test]
fn probes_of_clients_are_answered_as_they_expect() {
    let served = TestCollector::start();
    assert_eq!(served.send_request("OPTIONS", "/services/collector/event/1.0", &[], b"").0, 200);
    let healthy = expected_response(200, r#"{"text":"HEC is healthy","code":17}"#);
    assert_eq!(served.send_request("GET", "/services/collector/health", &[], b""), healthy);
    assert_eq!(served.send_request("GET", "/services/collector/health/1.0", &[("Authorization", ANY)], b""), healthy);
    let bad = served.send_request("GET", "/services/collector/health", &[("Authorization", "Splunk 9")], b"");
    assert_eq!(bad, expected_response(400, r#"{"text":"Invalid token","code":4}"#));
    let nothing = r#"{"text":"The requested URL was not found on this server.","code":404}"#;
    assert_eq!(served.send_request("GET", "/services/collector", &[], b""), expected_response(405, nothing));
    assert_eq!(served.send_request("POST", "/services/other", &[], b"x"), expected_response(404, nothing));
}

#[test]
fn store_failures_are_reported_to_the_sender() {
    let served = TestCollector::start();
    let busy: fn() -> AppendError = || AppendError::Busy("disk full".into());
    for (broken, status, answer) in [
        (busy, 503, r#"{"text":"Server is busy","code":9}"#),
        (|| AppendError::Stopping, 503, r#"{"text":"Server is shutting down","code":23}"#),
        (|| AppendError::Failed("broken".into()), 500, r#"{"text":"Internal server error","code":8}"#),
    ] {
        *served.store.broken.lock().unwrap() = Some(broken);
        assert_eq!(served.send("", ANY, r#"{"event":"a"}"#), expected_response(status, answer));
        let unhealthy = expected_response(503, r#"{"text":"HEC is unhealthy, queues are full","code":18}"#);
        assert_eq!(served.send_request("GET", "/services/collector/health", &[], b""), unhealthy);
    }
    *served.store.broken.lock().unwrap() = None;
    assert_eq!(served.send("", ANY, r#"{"event":"a"}"#).0, 200);
}

#[test]
fn compressed_bodies_above_the_limit_are_refused() {
    use std::io::Write;
    let served = TestCollector::start();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&vec![b'x'; BODY_BYTES as usize + 1]).unwrap();
    let headers = [("Authorization", ANY), ("Content-Encoding", "gzip")];
    let (status, answer) = served.send_request("POST", "/services/collector/raw", &headers, &packer.finish().unwrap());
    assert_eq!(status, 413, "{answer}");
    assert!(answer.contains("100000 bytes"), "{answer}");
}

#[test]
fn bodies_declared_too_large_are_refused_at_once() {
    use std::io::{BufRead, BufReader, Write};
    let served = TestCollector::start();
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    let length = BODY_BYTES + 1;
    write!(
        stream,
        "POST /services/collector HTTP/1.1\r\nHost: h\r\nAuthorization: {ANY}\r\nContent-Length: {length}\r\n\r\n"
    )
    .unwrap();
    // The server refuses the request by its headers, before any byte of the body is sent.
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).unwrap();
    assert_eq!(first.trim_end(), "HTTP/1.1 413 Payload Too Large");
}

#[test]
fn chunked_bodies_above_the_limit_are_refused() {
    use std::io::{BufRead, BufReader, Write};
    let served = TestCollector::start();
    let stream = std::net::TcpStream::connect(served.address).unwrap();
    let mut sender = stream.try_clone().unwrap();
    let head = format!("POST /services/collector/raw HTTP/1.1\r\nHost: h\r\nAuthorization: {ANY}\r\n");
    write!(sender, "{head}Transfer-Encoding: chunked\r\n\r\n").unwrap();
    // The body is larger than the limit and has no end.
    let part = "x".repeat(BODY_BYTES as usize / 10);
    for _ in 0..10 {
        write!(sender, "{:x}\r\n{part}\r\n", part.len()).unwrap();
    }
    write!(sender, "1\r\nx\r\n").unwrap();
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).unwrap();
    assert_eq!(first.trim_end(), "HTTP/1.1 413 Payload Too Large");
    assert!(served.store.lines().is_empty());
}

#[test]
fn collectds_values_are_metric_events_and_other_text_of_its_sourcetype_is_text() {
    let served = TestCollector::start();
    let list = r#"[{"values":[7],"dstypes":["gauge"],"dsnames":["value"],"time":1795225000.5,"interval":10,"host":"web4",
        "plugin":"shop","plugin_instance":"till","type":"gauge","type_instance":"stock"}]"#;
    assert_eq!(served.send("/raw?sourcetype=collectd_http", ANY, list).0, 200);
    let expected = "main web4 http:any collectd_http {\"metric_name:shop.gauge.stock.value\":7,\"metric_type\":\"gauge\",\
        \"plugin_instance\":\"till\"} metric_type=gauge plugin_instance=till metric_name:shop.gauge.stock.value=7";
    assert_eq!(served.store.lines(), [expected]);
    assert_eq!(served.send("/raw?sourcetype=collectd_http&host=h", ANY, "no JSON").0, 200);
    assert_eq!(served.store.lines(), ["main h http:any collectd_http no JSON"]);
}

/// Calls a service; returns the status (`-` when it is in the trailers, which HTTP/1.1 does not show) and the body.
fn call(served: &TestCollector, service: &str, headers: &[(&str, &str)], body: &[u8]) -> (String, Vec<u8>) {
    let uri = format!("http://{}/opentelemetry.proto.collector.{service}/Export", served.calls);
    let mut request = ureq::http::Request::builder().method("POST").uri(uri).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = ureq::Agent::new_with_defaults().run(request.body(body.to_vec()).unwrap()).unwrap();
    assert_eq!(response.status(), 200, "the status of a call is not that of HTTP");
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let status = response.headers().get("grpc-status").map_or("-", |value| value.to_str().unwrap()).to_owned();
    (status, response.body_mut().read_to_vec().unwrap())
}

#[test]
fn opentelemetry_calls_are_accepted_or_refused_with_a_status() {
    use std::io::Write;
    const LOGS: &str = "logs.v1.LogsService";
    let served = TestCollector::start();
    let message = b"\x0a\x0c\x12\x0a\x12\x08\x2a\x06\x0a\x04sold";
    let framed = |packed: u8, message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[packed], &length[..], message].concat()
    };
    let good = ("authorization", "Bearer 22222222-2222-2222-2222-222222222222");
    let taken = ("-".to_owned(), vec![0; 5]);
    assert_eq!(call(&served, LOGS, &[good], &framed(0, message)), taken);
    let packed = |message: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(message).unwrap();
        framed(1, &packer.finish().unwrap())
    };
    let gzip = ("grpc-encoding", "gzip");
    assert_eq!(call(&served, LOGS, &[good, gzip], &packed(message)), taken);
    let lines = served.store.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("main ") && line.ends_with(" sold")), "{lines:?}");

    let refused = |service: &str, headers: &[(&str, &str)], body: &[u8]| call(&served, service, headers, body).0;
    assert_eq!(refused(LOGS, &[], &framed(0, message)), "16");
    assert_eq!(refused(LOGS, &[("authorization", "Bearer none")], &framed(0, message)), "16");
    assert_eq!(refused(LOGS, &[good], &framed(0, b"\x0a\x7f")), "3", "no message");
    assert_eq!(refused(LOGS, &[good], message), "3", "no prefix");
    assert_eq!(refused(LOGS, &[good, ("grpc-encoding", "snappy")], &framed(1, message)), "12");
    assert_eq!(refused("profiles.v1development.ProfilesService", &[good], &framed(0, b"")), "12");
    assert_eq!(refused(LOGS, &[good, gzip], &packed(&vec![0; BODY_BYTES as usize + 1])), "8");
    *served.store.broken.lock().unwrap() = Some(|| AppendError::Stopping);
    assert_eq!(refused(LOGS, &[good], &framed(0, message)), "14");
    assert_eq!(served.store.lines(), Vec::<String>::new());
}

#[test]
fn opentelemetry_spans_become_events_over_http_and_grpc() {
    let served = TestCollector::start();
    let good = ("authorization", "Bearer 22222222-2222-2222-2222-222222222222");
    let json = br#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
        "scopeSpans":[{"spans":[{"traceId":"ab","spanId":"07","name":"buy","kind":3,"startTimeUnixNano":"1795225170000000001",
        "endTimeUnixNano":"1795225170000000005"}]}]}]}"#;
    let kind = ("content-type", "application/json");
    assert_eq!(served.send_request("POST", "/v1/traces", &[good, kind], json), expected_response(200, "{}"));
    assert_eq!(served.store.times(), [1_795_225_170_000_000_001]);
    assert_eq!(served.send_request("POST", "/v1/traces", &[good, kind], json).0, 200);
    let span = r#"{"duration_ns":4,"end_time":1795225170000000005,"kind":"SPAN_KIND_CLIENT","name":"buy","resource":{"service.name":"shop"},"span_id":"07","start_time":1795225170000000001,"status":{"code":"STATUS_CODE_UNSET","message":""},"trace_id":"ab"}"#;
    let lines = served.store.lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(" shop otel:trace ") && lines[0].contains(span), "{lines:?}");

    let message = b"\x0a\x12\x12\x10\x12\x0e\x0a\x02\xab\xcd\x12\x01\x07\x2a\x03buy\x30\x03";
    let protobuf = ("content-type", "application/x-protobuf");
    assert_eq!(served.send_request("POST", "/v1/traces", &[good, protobuf], message).0, 200);
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = [&[0], &length[..], message].concat();
    assert_eq!(call(&served, "trace.v1.TraceService", &[good], &framed), ("-".to_owned(), vec![0; 5]));
    let lines = served.store.lines();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.contains(r#""trace_id":"abcd""#)), "{lines:?}");
    assert_eq!(served.send_request("POST", "/v1/traces", &[kind], json).0, 401);
}

#[test]
fn opentelemetry_refusals_use_the_encoding_of_the_request() {
    let served = TestCollector::start();
    let good = ("authorization", "Bearer 22222222-2222-2222-2222-222222222222");
    let (json, protobuf) = (("content-type", "application/json"), ("content-type", "application/x-protobuf"));
    let broken = r#"{"code":3,"message":"Invalid data format"}"#;
    for path in ["/v1/logs", "/v1/metrics", "/v1/traces"] {
        assert_eq!(served.send_request("POST", path, &[good, json], b"["), expected_response(400, broken), "{path}");
        let status = "\x08\x03\x12\x13Invalid data format";
        assert_eq!(
            served.send_request("POST", path, &[good, protobuf], b"\x0a\x7f"),
            expected_response(400, status),
            "{path}"
        );
        let refused = r#"{"code":16,"message":"Token is required"}"#;
        assert_eq!(served.send_request("POST", path, &[json], b"{}"), expected_response(401, refused), "{path}");
        let (status, text) = served.send_request("POST", path, &[good, json], &vec![b' '; BODY_BYTES as usize + 1]);
        assert!(status == 413 && text.starts_with(r#"{"code":8,"message":"#), "{path}: {status} {text}");
    }
    let log = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"x"}}]}]}]}"#;
    *served.store.broken.lock().unwrap() = Some(|| AppendError::Stopping);
    let (status, text) = served.send_request("POST", "/v1/logs", &[good, json], log);
    assert!(status == 503 && text.starts_with(r#"{"code":14,"message":"#), "senders retry: {status} {text}");
}

/// A sender of another protocol can name an index in several places.
#[test]
fn other_protocols_cannot_write_to_internal_indexes() {
    let served = TestCollector::start();
    let good = ("authorization", "Bearer 22222222-2222-2222-2222-222222222222");
    let json = ("content-type", "application/json");
    let ask = |method: &str, path: &str, body: &str| served.send_request(method, path, &[good, json], body.as_bytes());
    for index in ["_audit", "_internal", "_no_such"] {
        let bulk = format!("{{\"index\":{{\"_index\":\"{index}\"}}}}\n{{\"n\":1}}\n{{\"create\":{{}}}}\n{{\"n\":2}}\n");
        let (status, answer) = ask("POST", "/shop/_bulk", &bulk);
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let of = |at: usize, action: &str| answer["items"][at][action]["status"].clone();
        assert_eq!(
            (status, &answer["errors"], of(0, "index"), of(1, "create")),
            (200, &true.into(), 400.into(), 201.into())
        );
        assert!(answer["items"][0].to_string().contains("Incorrect index"), "{answer}");
        assert_eq!(served.store.lines().len(), 1, "only the one that may be");
        let (status, answer) = ask("POST", &format!("/{index}/_bulk"), "{\"index\":{}}\n{\"n\":1}\n");
        assert!(status == 200 && answer.contains("Incorrect index"), "{status} {answer}");
        for (method, path) in [("POST", "_doc"), ("PUT", "_doc/7"), ("POST", "_create/8")] {
            assert_eq!(ask(method, &format!("/{index}/{path}"), "{\"n\":1}").0, 400, "{path}");
        }
        let attribute = format!(r#"{{"key":"com.splunk.index","value":{{"stringValue":"{index}"}}}}"#);
        let resource = format!(r#"{{"resource":{{"attributes":[{attribute}]}}"#);
        let logs = r#""scopeLogs":[{"logRecords":[{"body":{"stringValue":"a"}}]}]"#;
        let spans = r#""scopeSpans":[{"spans":[{"traceId":"ab","spanId":"07","name":"buy","startTimeUnixNano":"1"}]}]"#;
        let metrics =
            r#""scopeMetrics":[{"metrics":[{"name":"a","gauge":{"dataPoints":[{"asDouble":1,"timeUnixNano":"1"}]}}]}]"#;
        for (path, list, body) in [
            ("logs", "resourceLogs", logs),
            ("traces", "resourceSpans", spans),
            ("metrics", "resourceMetrics", metrics),
        ] {
            let (status, answer) =
                ask("POST", &format!("/v1/{path}"), &format!(r#"{{"{list}":[{resource},{body}}}]}}"#));
            assert_eq!(status, 400, "{path}: {answer}");
        }
        let push =
            format!(r#"{{"streams":[{{"stream":{{"index":"{index}"}},"values":[["1795168800000000000","a"]]}}]}}"#);
        assert_eq!(ask("POST", "/loki/api/v1/push", &push).0, 400);
        assert_eq!(served.store.lines(), Vec::<String>::new());
    }
    // The name of an Elasticsearch index that does not exist here becomes the source of the events.
    assert_eq!(ask("POST", "/Logs-2026.11.20/_doc", "{\"n\":1}").0, 201);
    assert_eq!(served.store.lines().len(), 1);
}

#[test]
fn single_elasticsearch_documents_are_stored_and_answered() {
    let served = TestCollector::start();
    let good = ("authorization", "Bearer 22222222-2222-2222-2222-222222222222");
    let ask = |method: &str, path: &str, body: &str| {
        let (status, text) = served.send_request(method, path, &[good], body.as_bytes());
        (status, serde_json::from_str::<serde_json::Value>(&text).unwrap())
    };
    let document = "{\"@timestamp\":\"2026-11-20T10:00:00.5Z\",\n \"n\":1.0}";
    let (status, answer) = ask("PUT", "/shop/_doc/7", document);
    assert_eq!(
        (status, &answer["result"], &answer["_id"], &answer["_index"]),
        (201, &"created".into(), &"7".into(), &"shop".into())
    );
    assert_eq!(served.store.times(), [1_795_168_800_500_000_000]);
    assert_eq!(ask("PUT", "/shop/_doc/7", document).0, 201);
    let lines = served.store.lines();
    assert!(lines.len() == 1 && lines[0].ends_with(document) && lines[0].contains(" shop "), "{lines:?}");
    for (method, path) in
        [("POST", "/shop/_doc"), ("POST", "/shop/_doc/8"), ("PUT", "/shop/_create/9"), ("POST", "/shop/_create/9")]
    {
        let (status, answer) = ask(method, path, document);
        assert_eq!((status, &answer["_shards"]["successful"]), (201, &1.into()), "{method} {path}");
        assert!(answer["_id"].as_str().is_some_and(|id| !id.is_empty()), "{answer}");
    }
    assert_eq!(served.store.lines().len(), 4);
    for broken in ["", "[]", "nonsense"] {
        let (status, answer) = ask("POST", "/shop/_doc", broken);
        assert_eq!(
            (status, &answer["status"], &answer["error"]["type"]),
            (400, &400.into(), &"mapper_parsing_exception".into())
        );
    }
    for (method, path) in [("GET", "/shop/_doc/7"), ("DELETE", "/shop/_doc/7"), ("POST", "/shop/_update/7")] {
        let (status, answer) = ask(method, path, document);
        let kind = &answer["error"]["type"];
        assert_eq!((status, kind), (400, &"illegal_argument_exception".into()), "{method} {path}");
    }
    let bulk = "{\"index\":{}}\n{\"n\":1}\n";
    assert_eq!(ask("POST", "/shop/_doc/_bulk", bulk).1["errors"], false, "older clients name the type");
    assert_eq!(served.send_request("POST", "/shop/_doc", &[], document.as_bytes()).0, 401);
    *served.store.broken.lock().unwrap() = Some(|| AppendError::Stopping);
    assert_eq!(ask("POST", "/shop/_doc", document).0, 429);
}

const RULES: &str =
    "[app_log]\nSHOULD_LINEMERGE = false\nSEDCMD-card = s/\\d{4}/####/\nTRANSFORMS-a = drop, vault, copy\n";
const TRANSFORMS: &str = "[drop]\nREGEX = debug\nDEST_KEY = queue\nFORMAT = nullQueue\n\
    [vault]\nREGEX = secret (\\w+)\nDEST_KEY = _MetaData:Index\nFORMAT = vault_$1\n\
    [copy]\nREGEX = twice\nCLONE_SOURCETYPE = other\nDEST_KEY = MetaData:Host\nFORMAT = host::copied\n";

#[test]
fn a_request_of_another_protocol_that_is_partly_stored_is_recorded_as_failed() {
    let served = TestCollector::start();
    let push = |indexes: [&str; 2]| {
        let stream =
            |name: &str| format!(r#"{{"stream":{{"index":"{name}"}},"values":[["1795225298000000000","x"]]}}"#);
        let body = format!(r#"{{"streams":[{},{}]}}"#, stream(indexes[0]), stream(indexes[1]));
        let headers = [("Authorization", ANY), ("Content-Type", "application/json")];
        served.send_request("POST", "/loki/api/v1/push", &headers, body.as_bytes()).0
    };
    assert_eq!((push(["a", "b"]), served.store.told.lock().unwrap().len()), (204, 0));
    for indexes in [["a", "full"], ["late", "a"]] {
        assert_eq!(push(indexes), 503);
        assert_eq!(std::mem::take(&mut *served.store.told.lock().unwrap()), ["a request failed"]);
    }
    served.store.lines();
    // A request that is refused for good stores nothing.
    assert_eq!(push(["a", "_audit"]), 400);
    assert!(served.store.lines().is_empty());
}

#[test]
fn each_document_of_a_bulk_request_is_answered_by_what_became_of_its_batch() {
    let served = TestCollector::start();
    let ask = |indexes: &[&str]| {
        let bulk: String =
            indexes.iter().map(|name| format!("{{\"index\":{{\"_index\":\"{name}\"}}}}\n{{}}\n")).collect();
        let (status, answer) = served.send_request("POST", "/_bulk", &[("Authorization", ANY)], bulk.as_bytes());
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let item = |item: &serde_json::Value| item["index"]["status"].as_u64().unwrap();
        let items: Vec<u64> = answer["items"].as_array().map_or(Vec::new(), |items| items.iter().map(item).collect());
        (status, answer["errors"].as_bool(), items)
    };
    assert_eq!(ask(&["a", "full", "a", "late", "_x"]), (200, Some(true), vec![201, 429, 201, 429, 400]));
    assert_eq!(served.store.lines().len(), 2);
    assert_eq!(ask(&["a", "b"]), (200, Some(false), vec![201, 201]));
    served.store.lines();
    // A client that ignores items retries the whole request.
    assert_eq!(ask(&["full", "late"]), (429, None, vec![]));
}

#[test]
fn index_time_rules_apply_to_events_and_raw_text() {
    let served = TestCollector::with(&[("inputs", CONF), ("props", RULES), ("transforms", TRANSFORMS)]);
    let events = br#"{"event":"pay 1234","fields":{"a":"1"}}{"event":"a debug line"}{"event":"secret b"}{"event":"secret B"}{"event":"twice"}"#;
    let expected = |tail: &str| {
        let line = |line: &str| line.replace(" _ ", " default_host the_app app_log ");
        let mut lines: Vec<String> =
            ["vault_b _ secret b", "app _ secret B", "app _ twice", "app copied the_app other twice"].map(line).into();
        lines.push(line("app _ pay ####") + tail);
        lines.sort();
        lines
    };
    let found = || {
        let mut lines = served.store.lines();
        lines.sort();
        lines
    };
    assert_eq!(served.send_request("POST", "/services/collector", &[("authorization", APPS)], events).0, 200);
    assert_eq!(found(), expected(" a=1"));
    let raw = b"pay 1234\na debug line\nsecret b\nsecret B\ntwice\n";
    assert_eq!(served.send_request("POST", "/services/collector/raw", &[("authorization", APPS)], raw).0, 200);
    assert_eq!(found(), expected(""));
    // Rules drop the only event of this request.
    let dropped = br#"{"event":"debug"}"#;
    assert_eq!(served.send_request("POST", "/services/collector", &[("authorization", APPS)], dropped).0, 200);
    assert_eq!(served.send_request("POST", "/services/collector/raw", &[("authorization", APPS)], b"debug").0, 200);
    assert_eq!(found(), Vec::<String>::new());
}

#[test]
fn unusable_settings_are_reported_without_refusing_events() {
    let props = "[app_log]\nTIME_FORMAT = %q\nLINE_BREAKER = (\nSEDCMD-a = s/(/x/\nTRANSFORMS-a = broken\n";
    let transforms = "[broken]\nREGEX = (\nDEST_KEY = queue\nFORMAT = nullQueue\n";
    let served = TestCollector::with(&[("inputs", CONF), ("props", props), ("transforms", transforms)]);
    for path in ["", "/event", "/raw"] {
        let body = if path == "/raw" { "one\n" } else { r#"{"event":"one"}"# };
        assert_eq!(served.send(path, APPS, body).0, 200, "{path}");
        assert_eq!(served.store.lines(), ["app default_host the_app app_log one"], "{path}");
        let told = std::mem::take(&mut *served.store.told.lock().unwrap());
        assert!(told.iter().any(|text| text.contains("[broken]") || text.contains("app_log")), "{told:?}");
    }
}

/// Code, HTTP status and, if the answer names an event, its number. Senders repeat requests answered with 5xx forever,
/// so errors caused by an event must never be 5xx.
#[test]
fn malformed_envelopes_are_refused_permanently() {
    let served = TestCollector::start();
    let long = |bytes: usize| "x".repeat(bytes);
    let nested = |depth: usize| format!(r#"{{"event":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let of = |member: &str| format!(r#"{{"event":"a",{member}}}"#);
    let cases: Vec<(String, u64, Option<u64>, &str)> = vec![
        (String::new(), 5, None, "No data"),
        (" \n\t".to_owned(), 5, None, "No data"),
        ("[]".to_owned(), 5, None, "No data"),
        ("{".to_owned(), 6, Some(0), "Invalid data format"),
        ("}".to_owned(), 6, Some(0), "Invalid data format"),
        ("null".to_owned(), 6, Some(0), "Invalid data format"),
        ("1".to_owned(), 6, Some(0), "Invalid data format"),
        (r#""text""#.to_owned(), 6, Some(0), "Invalid data format"),
        ("event=a".to_owned(), 6, Some(0), "Invalid data format"),
        (r#"{"event":"a""#.to_owned(), 6, Some(0), "Invalid data format"),
        (r#"{"event":"a"}{"event":"#.to_owned(), 6, Some(1), "Invalid data format"),
        (r#"{"event":"a"},{"event":"b"}"#.to_owned(), 6, Some(1), "Invalid data format"),
        (r#"[{"event":"a"},1]"#.to_owned(), 6, Some(1), "Invalid data format"),
        (r#"{event:"a"}"#.to_owned(), 6, Some(0), "Invalid data format"),
        (r#"{"event":"a","event"}"#.to_owned(), 6, Some(0), "Invalid data format"),
        (nested(600), 6, Some(0), "nested deeper than 500"),
        (format!(r#"{{"event":"a"}}{}"#, nested(30_000)), 6, Some(1), "nested deeper than 500"),
        ("{}".to_owned(), 12, Some(0), "Event field is required"),
        (r#"{"host":"h"}"#.to_owned(), 12, Some(0), "Event field is required"),
        (r#"{"event":"a"}{"time":1}"#.to_owned(), 12, Some(1), "Event field is required"),
        (r#"{"event":""}"#.to_owned(), 13, Some(0), "Event field cannot be blank"),
        (r#"{"event":null}"#.to_owned(), 13, Some(0), "Event field cannot be blank"),
        (r#"{"event":{}}"#.to_owned(), 13, Some(0), "Event field cannot be blank"),
        (r#"{"event":[]}"#.to_owned(), 13, Some(0), "Event field cannot be blank"),
        (of(r#""time":"soon""#), 15, Some(0), "time is not a number of seconds"),
        (of(r#""time":"2026-11-22T10:00:00Z""#), 15, Some(0), "time is not a number of seconds"),
        (of(r#""time":true"#), 15, Some(0), "time is not a number of seconds"),
        (of(r#""time":1796039118123"#), 15, Some(0), "(divide milliseconds by 1000)"),
        (of(r#""time":{"s":1}"#), 15, Some(0), "time is not a number of seconds"),
        (of(r#""time":[1]"#), 15, Some(0), "time is not a number of seconds"),
        (of(r#""time":1e300"#), 15, Some(0), "time is not a number of seconds"),
        (of(r#""time":99999999999999999999"#), 15, Some(0), "time is not a number of seconds"),
        (format!(r#"{{"event":"a"}}{}"#, of(r#""time":"x""#)), 15, Some(1), "time is not a number of seconds"),
        (of(r#""fields":{"a":{"b":1}}"#), 15, Some(0), "Error in handling indexed fields"),
        (of(r#""fields":{"a":[[1]]}"#), 15, Some(0), "Error in handling indexed fields"),
        (of(r#""fields":{"":1}"#), 15, Some(0), "a name is empty or longer than 1024 bytes"),
        (of(&format!(r#""fields":{{"{}":1}}"#, long(1_025))), 15, Some(0), "longer than 1024 bytes"),
        (of(r#""fields":{"a":{}}"#), 15, Some(0), "Error in handling indexed fields"),
        (of(r#""fields":[1]"#), 6, Some(0), "Invalid data format"),
        (of(r#""fields":"a""#), 6, Some(0), "Invalid data format"),
        (of(r#""host":{"a":1}"#), 6, Some(0), "Invalid data format"),
        (of(r#""source":[1]"#), 6, Some(0), "Invalid data format"),
        (of(&format!(r#""host":"{}""#, long(65_537))), 6, Some(0), "longer than 65536 bytes"),
        (of(&format!(r#""sourcetype":"{}""#, long(65_537))), 6, Some(0), "longer than 65536 bytes"),
        (of(r#""index":"closed""#), 7, Some(1), "Incorrect index"),
        (of(r#""index":"_internal""#), 7, Some(1), "Incorrect index"),
        (of(r#""index":"_audit""#), 7, Some(1), "Incorrect index"),
        (of(r#""index":{"a":1}"#), 6, Some(0), "Invalid data format"),
        (format!(r#"{{"event":"a"}}{}"#, of(r#""index":"closed""#)), 7, Some(2), "Incorrect index"),
    ];
    assert!(cases.len() >= 40);
    for (body, code, event, words) in &cases {
        let shown: String = body.chars().take(80).collect();
        let (status, answer) = served.send("", ANY, body);
        let told: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((status, told["code"].as_u64()), (400, Some(*code)), "{shown}: {answer}");
        assert_eq!(told["invalid-event-number"].as_u64(), *event, "{shown}: {answer}");
        assert!(told["text"].as_str().unwrap().contains(words), "{shown}: {answer}");
    }
    served.store.lines();
    // An event that the store refuses would also be refused when it is repeated.
    let too_large = || AppendError::Refused("too large".into());
    let too_many = || AppendError::IndexRefused("too many indexes".into());
    for (is_too_large, code) in [(true, "\"code\":6"), (false, "\"code\":7")] {
        *served.store.broken.lock().unwrap() = Some(if is_too_large { too_large } else { too_many });
        let (status, answer) = served.send("", ANY, r#"{"event":"a"}"#);
        assert!(status == 400 && answer.contains(code), "{status} {answer}");
    }
}

#[test]
fn internal_indexes_require_a_token_that_names_them() {
    let conf = CONF.replace("[http://any]\n", "[http://any]\nindexes = main,_internal\n");
    let conf = conf.replace("[http://ack]\n", "[http://ack]\nindex = _audit\n");
    let served = TestCollector::with(&[("inputs", &conf)]);
    assert_eq!(served.send("", ANY, r#"{"event":"a","index":"_internal"}"#).0, 200);
    assert_eq!(served.send("", ANY, r#"{"event":"a","index":"_audit"}"#).0, 400);
    let query = "Splunk 55555555-5555-5555-5555-555555555555";
    assert_eq!(served.send("", query, r#"{"event":"a","index":"web"}"#).0, 200);
    for index in ["_internal", "_audit"] {
        let body = format!(r#"{{"event":"a","index":"{index}"}}"#);
        assert_eq!(served.send("", query, &body).0, 400);
        let raw = format!("/services/collector/raw?index={index}");
        assert_eq!(served.send_request("POST", &raw, &[("Authorization", query)], b"a").0, 400, "{index}");
    }
}
