//! Other protocols on the collector's port, with its tokens: OpenTelemetry (OTLP over HTTP; over gRPC on its own port),
//! Elasticsearch's `_bulk` and `_doc`, Loki push, Prometheus remote write; collectd at the collector's own endpoint.
//!
//! A request is decoded into envelopes like those of `/services/collector/event`, and answered in the format of its
//! protocol when its events are on disk. The token is passed as `Authorization: Splunk`, `Bearer` or `ApiKey` (as the
//! part of the decoded key after its colon), or as a password.
//!
//! Not here: the query interfaces of these systems.

mod bulk;
pub(super) mod collectd;
mod documents;
pub(super) mod grpc;
mod metric;
mod protobuf;
mod spans;
mod streams;
mod telemetry;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use quarry_conf::HttpToken;
use serde_json::{Value, json};

use super::answer::{self, Answer, Code};
use super::body::{BodyError, BudgetedBody, MemoryReservation};
use super::envelope::Envelope;
use super::receive::{Receiver, RequestMetadata};
use super::{Collector, Query, TOO_SLOW_TEXT, decoded_too_large_text, default_host, json_memory, to_response};

/// Version reported to Elasticsearch's clients; they send requests that this version accepts.
const ELASTICSEARCH_VERSION: &str = "7.17.0";

/// Endpoints.
pub(super) fn router() -> Router<Arc<Collector>> {
    Router::new()
        .route("/v1/logs", post(logs))
        .route("/v1/metrics", post(metrics))
        .route("/v1/traces", post(traces))
        .route("/loki/api/v1/push", post(push))
        .route("/loki/ready", get(ready))
        .route("/api/v1/write", post(write))
        .route("/", get(about))
        .route("/_license", get(license))
        .route("/_cluster/health", get(health))
        .route("/_bulk", post(bulk_without_index).put(bulk_without_index))
        .route("/{index}/_bulk", post(bulk_of_index).put(bulk_of_index))
        .route("/{index}/{kind}/_bulk", post(bulk_of_kind).put(bulk_of_kind))
        .route("/{index}/_doc", post(documents::add))
        .route(
            "/{index}/_doc/{id}",
            post(documents::put).put(documents::put).get(documents::refuse_read).delete(documents::refuse_change),
        )
        .route("/{index}/_update/{id}", post(documents::refuse_change))
        .route("/{index}/_create/{id}", post(documents::put).put(documents::put))
}

#[derive(Clone, Copy)]
enum BodyEncoding {
    Json,
    Protobuf,
    /// Snappy-compressed protobuf.
    Snappy,
}

/// Decodes a request into events; `None` if that fails or memory runs out.
type Reader = fn(&[u8], BodyEncoding, &mut Events) -> Option<()>;

/// Events of a request, with the memory reserved for decoding and storing them.
struct Events {
    read: Vec<Envelope>,
    share: MemoryReservation,
}

impl Events {
    /// Creates an empty list of events with a budget for bodies of this size.
    #[cfg(test)]
    fn with(body_bytes_max: u64) -> Events {
        Events { read: Vec::new(), share: MemoryReservation::new(&super::body::Budget::new(body_bytes_max)) }
    }

    /// Adds an event; `None` if memory runs out.
    fn push(&mut self, event: Envelope) -> Option<()> {
        self.share.reserve(event.held_bytes())?;
        self.read.push(event);
        Some(())
    }
}

async fn logs(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    let form = body_encoding(request.headers(), BodyEncoding::Protobuf);
    telemetry_response(take(collector, request, form, read_logs).await, form)
}

async fn metrics(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    let form = body_encoding(request.headers(), BodyEncoding::Protobuf);
    telemetry_response(take(collector, request, form, read_metrics).await, form)
}

async fn traces(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    let form = body_encoding(request.headers(), BodyEncoding::Protobuf);
    telemetry_response(take(collector, request, form, read_traces).await, form)
}

fn read_traces(bytes: &[u8], form: BodyEncoding, events: &mut Events) -> Option<()> {
    spans::traces(&value(bytes, form, &spans::TRACES, &mut events.share)?, events)
}

fn read_logs(bytes: &[u8], form: BodyEncoding, events: &mut Events) -> Option<()> {
    telemetry::logs(&value(bytes, form, &telemetry::LOGS, &mut events.share)?, events)
}

fn read_metrics(bytes: &[u8], form: BodyEncoding, events: &mut Events) -> Option<()> {
    telemetry::metrics(&value(bytes, form, &telemetry::METRICS, &mut events.share)?, events)
}

async fn push(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    let form = body_encoding(request.headers(), BodyEncoding::Snappy);
    let taken = take(collector, request, form, |bytes, form, events| {
        streams::push(&value(bytes, form, &streams::PUSH, &mut events.share)?, events)
    });
    plain_response(taken.await, StatusCode::NO_CONTENT)
}

async fn write(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    let taken = take(collector, request, BodyEncoding::Snappy, |bytes, form, events| {
        streams::write(&value(bytes, form, &streams::WRITE, &mut events.share)?, events)
    });
    plain_response(taken.await, StatusCode::NO_CONTENT)
}

/// Encoding of a request: JSON, or `binary`, the protocol's binary encoding.
fn body_encoding(headers: &HeaderMap, binary: BodyEncoding) -> BodyEncoding {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/json") { BodyEncoding::Json } else { binary }
}

fn value(bytes: &[u8], form: BodyEncoding, schema: &protobuf::Schema, share: &mut MemoryReservation) -> Option<Value> {
    match form {
        BodyEncoding::Json => json_memory::read_json(bytes, share),
        BodyEncoding::Protobuf | BodyEncoding::Snappy => {
            protobuf::decode(bytes, schema, &mut |bytes| share.reserve(bytes))
        }
    }
}

/// Answers a request of Loki's or Prometheus' protocol, whose senders drop events after other statuses than 429 and
/// 5xx.
fn plain_response(outcome: Result<(), BodyError>, good: StatusCode) -> Response {
    match outcome {
        Ok(()) => good.into_response(),
        Err(BodyError::TooSlow) => (StatusCode::SERVICE_UNAVAILABLE, TOO_SLOW_TEXT).into_response(),
        Err(error) => to_response(Err(error)),
    }
}

/// Answers an OTLP request in its own encoding; an empty body means success.
fn telemetry_response(outcome: Result<(), BodyError>, form: BodyEncoding) -> Response {
    match (outcome, form) {
        (Err(error), form) => grpc::http_refusal(error, form),
        (Ok(()), BodyEncoding::Json) => answer::json(StatusCode::OK, &json!({})),
        (Ok(()), _) => {
            let kind = HeaderValue::from_static("application/x-protobuf");
            ([(header::CONTENT_TYPE, kind)], Vec::new()).into_response()
        }
    }
}

/// A received body with its headers and sender.
struct ReceivedRequest {
    collector: Arc<Collector>,
    token: Arc<HttpToken>,
    sender: String,
    kept: BudgetedBody,
    headers: HeaderMap,
}

async fn receive_request(collector: Arc<Collector>, mut request: Request) -> Result<ReceivedRequest, BodyError> {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // Like Splunk's collector, ours does not accept `Bearer`, so the scheme is replaced here.
    let token = shown.and_then(|value| value.strip_prefix("Bearer ")).map(|token| format!("Splunk {token}"));
    if let Some(value) = token.and_then(|value| HeaderValue::from_str(&value).ok()) {
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    let token = collector.authorise(&request, &Query::of(request.uri()))?;
    let (sender, headers) = (default_host(&request, &token), request.headers().clone());
    let kept = BudgetedBody::of(request, &collector.budget).await?;
    Ok(ReceivedRequest { collector, token, sender, kept, headers })
}

/// Stores the events of a request; stores nothing if the body cannot be decoded.
async fn take(collector: Arc<Collector>, request: Request, form: BodyEncoding, read: Reader) -> Result<(), BodyError> {
    store(receive_request(collector, request).await?, form, read).await
}

/// Stores the events of a body.
async fn store(sent: ReceivedRequest, form: BodyEncoding, read: Reader) -> Result<(), BodyError> {
    let ReceivedRequest { collector, token, sender, kept, mut headers } = sent;
    let (pool, bytes) = (Arc::clone(&collector.decoding_pool), kept.bytes.len());
    let is_packed = matches!(form, BodyEncoding::Snappy) || headers.contains_key(header::CONTENT_ENCODING);
    let work = move || {
        if matches!(form, BodyEncoding::Snappy) {
            // Snappy compression is part of the protocol, not an encoding of HTTP.
            headers.remove(header::CONTENT_ENCODING);
        }
        let repeatable = Collector::key_without_channel(&token, &sender, "", &kept);
        let mut kept = kept.decompress(&headers)?;
        if matches!(form, BodyEncoding::Snappy) {
            kept = kept.decompress_snappy()?;
        }
        let mut events = Events { read: Vec::new(), share: MemoryReservation::new(&collector.budget) };
        if read(&kept.bytes, form, &mut events).is_none() {
            return Err(events.share.refusal());
        }
        let mut receiver = Receiver::new(
            &collector.destination,
            &token,
            &RequestMetadata::default(),
            &sender,
            collector.clock.now_ns(),
        )
        .of_request(repeatable);
        let mut read = std::mem::take(&mut events.read);
        // All indexes are checked first, so that nothing of a request that is refused for good is stored.
        for (at, event) in read.iter_mut().enumerate() {
            if let Some(name) = event.index.take() {
                let refused = |code| BodyError::Refused(Answer::for_event(code, at as u64 + 1));
                event.index = receiver.allowed_index(&name).map_err(refused)?;
            }
        }
        let mut events = (0..).zip(read).filter(|(_, event)| !event.raw.is_empty());
        let taken = events.try_for_each(|(at, event)| receiver.event(event, at));
        let settled = receiver.finish().settle_and_record(&*collector.destination.store);
        settled.and(taken).map_err(BodyError::Refused)
    };
    pool.run(bytes, is_packed, work).await.unwrap_or_else(|code| Err(code.into()))
}

async fn ready() -> &'static str {
    "ready\n"
}

/// An answer acceptable to Elasticsearch's clients.
fn elastic_response(status: StatusCode, body: &Value) -> Response {
    mark_as_elastic(answer::json(status, body))
}

fn mark_as_elastic(mut response: Response) -> Response {
    response.headers_mut().insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
    response
}

async fn about() -> Response {
    let version = json!({
        "number": ELASTICSEARCH_VERSION, "build_flavor": "default", "build_type": "tar", "lucene_version": "8.11.1",
        "minimum_wire_compatibility_version": "6.8.0", "minimum_index_compatibility_version": "6.0.0-beta1"
    });
    let body = json!({
        "name": "quarry", "cluster_name": "quarry", "cluster_uuid": "quarry", "version": version,
        "tagline": "You Know, for Search"
    });
    elastic_response(StatusCode::OK, &body)
}

async fn license() -> Response {
    let license = json!({"status": "active", "type": "basic", "mode": "basic", "uid": "quarry"});
    elastic_response(StatusCode::OK, &json!({ "license": license }))
}

async fn health() -> Response {
    let body = json!({
        "cluster_name": "quarry", "status": "green", "timed_out": false, "number_of_nodes": 1, "number_of_data_nodes": 1
    });
    elastic_response(StatusCode::OK, &body)
}

async fn bulk_without_index(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    bulk(collector, None, request).await
}

async fn bulk_of_index(
    State(collector): State<Arc<Collector>>,
    Path(index): Path<String>,
    request: Request,
) -> Response {
    bulk(collector, Some(index), request).await
}

async fn bulk_of_kind(
    State(collector): State<Arc<Collector>>,
    Path((index, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    bulk(collector, Some(index), request).await
}

async fn bulk(collector: Arc<Collector>, index: Option<String>, request: Request) -> Response {
    let ReceivedRequest { collector, token, sender, kept, headers } = match receive_request(collector, request).await {
        Ok(sent) => sent,
        Err(error) => return elastic_error(error),
    };
    let (pool, bytes) = (Arc::clone(&collector.decoding_pool), kept.bytes.len());
    let is_packed = headers.contains_key(header::CONTENT_ENCODING);
    let work = move || {
        let kept = kept.decompress(&headers)?;
        let body = String::from_utf8_lossy(&kept.bytes);
        let mut share = MemoryReservation::new(&collector.budget);
        let lend = || MemoryReservation::new(&collector.budget);
        let Some(documents) = bulk::documents(&body, index.as_deref(), &mut share, &lend) else {
            return Err(share.refusal());
        };
        let mut receiver = Receiver::new(
            &collector.destination,
            &token,
            &RequestMetadata::default(),
            &sender,
            collector.clock.now_ns(),
        );
        let mut refusals = BTreeMap::new();
        for (number, document) in (0..).zip(&documents) {
            receiver.begin_item(number);
            if let Err(refusal) = store_document(document, u64::from(number), &mut receiver) {
                refusals.insert(number, refusal);
            }
        }
        // Events before and after a document may be in the batch that could not be stored, so the answer of each
        // document is known only now.
        let failed = receiver.finish_items();
        refusals.extend(failed.into_iter().map(|(number, answer)| (number, document_refusal(answer.code))));
        let asks_to_retry = |(status, _): &DocumentRefusal| *status == StatusCode::TOO_MANY_REQUESTS;
        if !documents.is_empty() && refusals.len() == documents.len() && refusals.values().all(asks_to_retry) {
            return Err(Code::Busy.into());
        }
        Ok(bulk_answer(&documents, refusals))
    };
    match pool.run(bytes, is_packed, work).await.unwrap_or_else(|code| Err(code.into())) {
        Ok(body) => mark_as_elastic(answer::json_text(StatusCode::OK, body)),
        Err(error) => elastic_error(error),
    }
}

/// The answer to a bulk request. It is formatted directly, because as JSON values it would take many times the memory
/// of the request.
fn bulk_answer(documents: &[bulk::Document], mut refusals: BTreeMap<u32, DocumentRefusal>) -> String {
    let has_errors = !refusals.is_empty();
    let mut items = String::new();
    for (number, document) in (0..).zip(documents) {
        if number > 0 {
            items.push(',');
        }
        let outcome = refusals.remove(&number).map_or(Ok(()), Err);
        items.push_str(&bulk::item(document, number, outcome).to_string());
    }
    format!("{{\"took\":0,\"errors\":{has_errors},\"items\":[{items}]}}")
}

/// Stores a document. The error has the status and the text for its sender.
fn store_document(document: &bulk::Document, at: u64, receiver: &mut Receiver<'_>) -> Result<(), DocumentRefusal> {
    let event = document.event.as_ref().map_err(|reason| (StatusCode::BAD_REQUEST, *reason))?;
    let index = receiver.allowed_index(&document.index).map_err(document_refusal)?;
    receiver.event(Envelope { index, ..event.clone() }, at).map_err(|answer| document_refusal(answer.code))
}

/// Status and text for the sender of a document that is not stored.
type DocumentRefusal = (StatusCode, &'static str);

fn document_refusal(code: Code) -> DocumentRefusal {
    let (_, status, text) = code.row();
    (elastic_status(status), text)
}

/// Status for Elasticsearch's clients, which repeat requests and documents refused with 429.
fn elastic_status(status: StatusCode) -> StatusCode {
    if status == StatusCode::SERVICE_UNAVAILABLE { StatusCode::TOO_MANY_REQUESTS } else { status }
}

/// An error in Elasticsearch's format, which its clients display.
fn elastic_error(error: BodyError) -> Response {
    let (status, reason) = match error {
        BodyError::TooLarge(bytes) => (StatusCode::PAYLOAD_TOO_LARGE, format!("a body may have at most {bytes} bytes")),
        BodyError::DecodedTooLarge(bytes) => (StatusCode::PAYLOAD_TOO_LARGE, decoded_too_large_text(bytes)),
        BodyError::TooSlow => (StatusCode::TOO_MANY_REQUESTS, TOO_SLOW_TEXT.to_owned()),
        BodyError::Refused(answer) => {
            let (_, status, text) = answer.code.row();
            (elastic_status(status), text.to_owned())
        }
    };
    let error = json!({ "type": "refused", "reason": reason });
    elastic_response(status, &json!({ "error": error, "status": status.as_u16() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_arrived_too_slowly_are_sent_again() {
        let status = |error| plain_response(Err(error), StatusCode::NO_CONTENT).status();
        assert_eq!(status(BodyError::TooSlow), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(BodyError::TooLarge(1)), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
