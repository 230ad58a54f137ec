//! Elasticsearch's `_bulk`: pairs of lines, each an action and a document.
//!
//! The text of a document becomes an event unchanged, with `@timestamp` as its time. The event goes to the index that
//! the action names if the token may write there, else to the token's index; the name is kept as `source`. Documents
//! can only be added: each update or deletion is refused individually.

use axum::http::StatusCode;
use quarry_event::TimeNs;
use serde_json::{Value, json};

use super::DocumentRefusal;
use crate::hec::body::MemoryReservation;
use crate::hec::envelope::Envelope;
use crate::hec::json_memory::with_json;

const NANOS_PER_MILLISECOND: i64 = 1_000_000;

/// A document of a bulk request.
pub(super) struct Document {
    /// `index`, `create`, `update` or `delete`, as in the answer.
    pub(super) action: String,
    /// The sender's index name.
    pub(super) index: String,
    pub(super) id: Option<String>,
    /// The event, or the reason why the document is refused.
    pub(super) event: Result<Envelope, &'static str>,
}

/// Memory of a document and its answer, besides the texts.
const DOCUMENT_BYTES: usize = 1 << 10;
/// Upper bound of the copies of the index name held per document: here, as source, and in the answer.
const INDEX_COPIES: usize = 4;

/// Parses a bulk request; `None` if it is malformed or memory runs out. `lend` provides a temporary share of the memory
/// budget.
pub(super) fn documents(
    body: &str,
    of_path: Option<&str>,
    share: &mut MemoryReservation,
    lend: &dyn Fn() -> MemoryReservation,
) -> Option<Vec<Document>> {
    let mut documents = Vec::new();
    let mut lines = body.lines().filter(|line| !line.trim().is_empty());
    while let Some(line) = lines.next() {
        let mut lent = lend();
        let action = with_json(line, &mut lent, |action| {
            let (action, about) = action.as_object()?.iter().next()?;
            let said = |key: &str| about[key].as_str().map(str::to_owned);
            Some((action.clone(), said("_index"), said("_id")))
        });
        let Some(action) = action else { return share.refuse_as(lent) };
        let (action, index, id) = action?;
        let index = index.or_else(|| of_path.map(str::to_owned)).unwrap_or_default();
        share.reserve(DOCUMENT_BYTES + line.len() + INDEX_COPIES * index.len())?;
        let event = match action.as_str() {
            "index" | "create" => Ok(event_of(lines.next()?, &index, share, lend)?),
            "delete" => Err("events cannot be deleted"),
            "update" => {
                lines.next()?;
                Err("events cannot be updated")
            }
            _ => return None,
        };
        documents.push(Document { action, index, id, event });
    }
    Some(documents)
}

/// Parses a single document, which must be an object; `None` if memory runs out.
pub(super) fn document(
    body: &str,
    index: &str,
    share: &mut MemoryReservation,
    lend: &dyn Fn() -> MemoryReservation,
) -> Option<Result<Envelope, &'static str>> {
    let mut lent = lend();
    let is_object = with_json(body, &mut lent, Value::is_object);
    if is_object.is_none() && lent.is_refused() {
        return share.refuse_as(lent);
    }
    drop(lent);
    if is_object != Some(true) {
        return Some(Err("failed to parse: the document is not a JSON object"));
    }
    event_of(body, index, share, lend).map(Ok)
}

fn event_of(
    line: &str,
    index: &str,
    share: &mut MemoryReservation,
    lend: &dyn Fn() -> MemoryReservation,
) -> Option<Envelope> {
    share.reserve(2 * line.len())?;
    let mut lent = lend();
    let read = with_json(line, &mut lent, |document| {
        let host = match &document["host"] {
            Value::String(name) => Some(name.clone()),
            about => about["name"].as_str().map(str::to_owned),
        };
        (time_of(&document["@timestamp"]), host)
    });
    if read.is_none() && lent.is_refused() {
        return share.refuse_as(lent);
    }
    let (time, host) = read.unwrap_or_default();
    let source = Some(index.to_owned()).filter(|name| !name.is_empty());
    Some(Envelope { raw: line.to_owned(), time, host, source, ..Envelope::default() })
}

/// Time in RFC 3339 or in milliseconds since the epoch.
fn time_of(value: &Value) -> Option<TimeNs> {
    if let Some(milliseconds) = value.as_i64() {
        return milliseconds.checked_mul(NANOS_PER_MILLISECOND);
    }
    let text = value.as_str()?;
    let time = text.parse::<jiff::Timestamp>().or_else(|_| format!("{text}Z").parse()).ok()?;
    TimeNs::try_from(time.as_nanosecond()).ok()
}

/// Elasticsearch's name for the error of a document with this status.
pub(super) fn error_type(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "es_rejected_execution_exception",
        status if status.is_server_error() => "exception",
        _ => "illegal_argument_exception",
    }
}

/// The item of the answer for a document.
pub(super) fn item(document: &Document, number: u32, outcome: Result<(), DocumentRefusal>) -> Value {
    // Documents cannot be requested by id, but senders expect an id.
    let id = document.id.clone().unwrap_or_else(|| number.to_string());
    let about = match outcome {
        Ok(()) => json!({
            "_index": document.index, "_type": "_doc", "_id": id, "_version": 1, "result": "created", "status": 201,
            "_shards": {"total": 1, "successful": 1, "failed": 0}
        }),
        Err((status, reason)) => json!({
            "_index": document.index, "_type": "_doc", "_id": id, "status": status.as_u16(),
            "error": {"type": error_type(status), "reason": reason}
        }),
    };
    json!({ document.action.as_str(): about })
}

#[cfg(test)]
mod tests {
    use crate::hec::body::{Budget, MemoryReservation};

    fn documents(body: &str, of_path: Option<&str>) -> Option<Vec<super::Document>> {
        let budget = Budget::new(1 << 20);
        super::documents(body, of_path, &mut MemoryReservation::new(&budget), &|| MemoryReservation::new(&budget))
    }

    #[test]
    fn documents_become_events_unchanged() {
        let body = "{\"index\":{\"_index\":\"a\",\"_id\":\"7\"}}\n{\"@timestamp\":\"2026-11-20T10:00:00.5Z\",  \"n\":1.0}\n\n\
                    {\"create\":{}}\n{\"@timestamp\":1795225170001,\"host\":{\"name\":\"h\"}}\n\
                    {\"update\":{}}\n{\"doc\":{}}\n{\"delete\":{\"_id\":\"1\"}}\n";
        let read = documents(body, Some("of-path")).unwrap();
        let reported: Vec<String> = read
            .iter()
            .map(|document| match &document.event {
                Ok(event) => format!("{} {:?} {:?} {}", document.index, event.time, event.host, event.raw),
                Err(reason) => format!("{} {reason}", document.action),
            })
            .collect();
        let expected = [
            "a Some(1795168800500000000) None {\"@timestamp\":\"2026-11-20T10:00:00.5Z\",  \"n\":1.0}",
            "of-path Some(1795225170001000000) Some(\"h\") {\"@timestamp\":1795225170001,\"host\":{\"name\":\"h\"}}",
            "update events cannot be updated",
            "delete events cannot be deleted",
        ];
        assert_eq!(reported, expected);
        assert!(documents("nonsense\n", None).is_none());
    }
}
