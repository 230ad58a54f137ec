//! Sends any request, in each protocol, to the collector's port. Every request must be answered, without a panic.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use quarry_conf::{ConfSource, HttpInputSettings, Layer, Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_inputs::hec::{AckNumbers, Collector};
use quarry_inputs::{AppendError, EventStore, Receipt};
use quarry_stdx::SystemClock;
use tower_service::Service;

/// Maximum decompressed bytes of a body.
const BODY_BYTES: u64 = 1 << 20;
const CHANNEL: &str = "fe0ecfad-13d5-401b-847d-77833bd77131";
const CONF: &str = "[http://plain]\ntoken = 1\n[http://acked]\ntoken = 2\nuseACK = 1\n";
/// Paths, tokens, content types and encodings to choose from.
const PATHS: &[&str] = &[
    "/services/collector",
    "/services/collector/raw",
    "/services/collector/ack",
    "/v1/logs",
    "/v1/metrics",
    "/loki/api/v1/push",
    "/api/v1/write",
    "/_bulk",
    "/index/_bulk",
];
const TOKENS: &[&str] = &["Splunk 1", "Splunk 2", "Bearer 1", "Splunk 3"];
const KINDS: &[&str] = &["application/json", "application/x-protobuf"];
const ENCODINGS: &[&str] = &["", "gzip", "snappy"];

/// A store that discards all events, and checks the invariants of each batch.
struct Nowhere;

struct Done;

impl Receipt for Done {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        Ok(())
    }
}

impl EventStore for Nowhere {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        let count = batch.ends.len();
        assert_eq!((batch.time.len(), batch.meta.len()), (count, count));
        assert!(batch.meta.iter().all(|meta| (*meta as usize) < batch.metas.len()));
        assert!(std::str::from_utf8(&batch.raw).is_ok(), "the text is UTF-8");
        assert!(batch.fields.all().rows().is_sorted());
        Ok(Box::new(Done))
    }

    fn check_index(&self, _: &str) -> Result<(), quarry_stdx::Fault> {
        Ok(())
    }
}

thread_local! {
    static SERVED: (tokio::runtime::Runtime, axum::Router) = {
        let file = "etc/system/local/inputs.conf".to_owned();
        let layers = Layers::new([ConfSource { layer: Layer::SystemLocal, app: None, file, text: CONF.to_owned() }]);
        let (settings, props) = (HttpInputSettings::new(&layers), Arc::new(PropsResolver::new(&layers)));
        let store: Arc<dyn EventStore> = Arc::new(Nowhere);
        let collector = Collector::new(settings, BODY_BYTES, AckNumbers::default(), store, props, SystemClock::shared());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        (runtime, Arc::new(collector).router())
    };
}

/// The first byte chooses the path and the second the encoding; the other bytes are the body.
pub(crate) fn run(data: &[u8]) {
    let [path, form, body @ ..] = data else { return };
    answer(usize::from(*path), usize::from(*form), body);
}

/// Sends a request and returns the status of its answer.
pub(crate) fn answer(path: usize, form: usize, body: &[u8]) -> u16 {
    let request = Request::builder()
        .method("POST")
        .uri(PATHS[path % PATHS.len()])
        .header("authorization", TOKENS[form / 6 % TOKENS.len()])
        .header("content-type", KINDS[form % 2])
        .header("content-encoding", ENCODINGS[form / 2 % 3])
        .header("x-splunk-request-channel", CHANNEL)
        .body(Body::from(body.to_vec()))
        .expect("the parts of a request are good");
    let response = SERVED.with(|(runtime, router)| runtime.block_on(router.clone().call(request)));
    let status = response.unwrap_or_else(|never| match never {}).status();
    assert_ne!(status.as_u16(), 500, "a request is answered, not given up");
    status.as_u16()
}
