//! Elasticsearch's single-document endpoints: `POST /INDEX/_doc`, `PUT /INDEX/_doc/ID`, `PUT /INDEX/_create/ID`.
//!
//! A document is processed like one of a bulk request. Writing to an existing id adds another event: the earlier event
//! is not replaced, and every answer says `created`.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bulk::{self, Document};
use super::{
    DocumentRefusal, ReceivedRequest, bulk_of_kind, elastic_error, elastic_response, receive_request, store_document,
};
use crate::hec::Collector;
use crate::hec::body::{BodyError, MemoryReservation};
use crate::hec::receive::{Receiver, RequestMetadata};

/// Endpoint that old clients request below the type `_doc`.
const BULK: &str = "_bulk";

/// Adds a document without an id.
pub(super) async fn add(
    State(collector): State<Arc<Collector>>,
    Path(index): Path<String>,
    request: Request,
) -> Response {
    take(collector, index, None, request).await
}

/// Adds a document with an id.
pub(super) async fn put(
    State(collector): State<Arc<Collector>>,
    Path((index, id)): Path<(String, String)>,
    request: Request,
) -> Response {
    if id == BULK {
        return bulk_of_kind(State(collector), Path((index, id)), request).await;
    }
    take(collector, index, Some(id), request).await
}

/// Refuses to return a document: events can only be read by searches.
pub(super) async fn refuse_read() -> Response {
    refusal("documents are not read one by one: search for them over the management address")
}

/// Refuses to change a document: events are immutable.
pub(super) async fn refuse_change() -> Response {
    refusal("events cannot be updated or deleted one by one")
}

fn refusal(reason: &str) -> Response {
    let error = json!({ "type": "illegal_argument_exception", "reason": reason });
    elastic_response(StatusCode::BAD_REQUEST, &json!({ "error": error, "status": 400 }))
}

async fn take(collector: Arc<Collector>, index: String, id: Option<String>, request: Request) -> Response {
    let ReceivedRequest { collector, token, sender, kept, headers } = match receive_request(collector, request).await {
        Ok(sent) => sent,
        Err(error) => return elastic_error(error),
    };
    let (pool, bytes) = (Arc::clone(&collector.decoding_pool), kept.bytes.len());
    let is_packed = headers.contains_key(header::CONTENT_ENCODING);
    let work = move || {
        let kept = kept.decompress(&headers)?;
        let now = collector.clock.now_ns();
        let id = id.unwrap_or_else(|| format!("{:016x}", xxh3_64_with_seed(&kept.bytes, now.cast_unsigned())));
        let body = String::from_utf8_lossy(&kept.bytes);
        let mut share = MemoryReservation::new(&collector.budget);
        let lend = || MemoryReservation::new(&collector.budget);
        let Some(event) = bulk::document(body.trim(), &index, &mut share, &lend) else {
            return Err(share.refusal());
        };
        let document = Document { action: "index".to_owned(), index, id: Some(id), event };
        let mut receiver = Receiver::new(&collector.destination, &token, &RequestMetadata::default(), &sender, now);
        let outcome = store_document(&document, 0, &mut receiver);
        receiver.finish().settle().map_err(BodyError::Refused)?;
        Ok(document_response(&document, outcome))
    };
    match pool.run(bytes, is_packed, work).await.unwrap_or_else(|code| Err(code.into())) {
        Ok((status, body)) => elastic_response(status, &body),
        Err(error) => elastic_error(error),
    }
}

/// The answer for a single document.
fn document_response(document: &Document, outcome: Result<(), DocumentRefusal>) -> (StatusCode, Value) {
    match outcome {
        Ok(()) => {
            let body = json!({
                "_index": document.index, "_type": "_doc", "_id": document.id, "_version": 1, "result": "created",
                "_shards": {"total": 1, "successful": 1, "failed": 0}, "_seq_no": 0, "_primary_term": 1
            });
            (StatusCode::CREATED, body)
        }
        Err((status, reason)) => {
            let is_invalid = status == StatusCode::BAD_REQUEST;
            let kind = if is_invalid { "mapper_parsing_exception" } else { bulk::error_type(status) };
            let cause = json!({ "type": kind, "reason": reason });
            let body = json!({ "error": {
                "root_cause": [cause.clone()], "type": cause["type"], "reason": cause["reason"]
            }, "status": status.as_u16() });
            (status, body)
        }
    }
}
