//! OpenTelemetry traces (OTLP, protobuf and JSON): each span is an event.
//!
//! The text is a JSON object with the names used by OpenTelemetry's Splunk exporter (`trace_id`, `start_time` in
//! nanoseconds, `kind` as `SPAN_KIND_SERVER` …), so that searches written for that exporter work. Attributes of the
//! resource are in `resource` and, as for logs, also indexed fields.
//!
//! Not here: assembling traces; a search by `trace_id` does that.

use quarry_event::TimeNs;
use serde_json::{Map, Value, json};

use super::Events;
use super::protobuf::{Kind, Schema, repeated, single};
use super::telemetry::{PAIR, RESOURCE, add_attributes, list, nanos, object};
use crate::hec::envelope::Envelope;

/// Default sourcetype.
const SOURCETYPE: &str = "otel:trace";
/// Span kinds by number.
const KINDS: [&str; 6] = [
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];
/// Span statuses by number.
const STATUSES: [&str; 3] = ["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

static EVENT: Schema = Schema(&[
    single(1, "timeUnixNano", Kind::Fixed),
    single(2, "name", Kind::Text),
    repeated(3, "attributes", Kind::Message(&PAIR)),
]);
static LINK: Schema = Schema(&[
    single(1, "traceId", Kind::Bytes),
    single(2, "spanId", Kind::Bytes),
    single(3, "traceState", Kind::Text),
    repeated(4, "attributes", Kind::Message(&PAIR)),
]);
static STATUS: Schema = Schema(&[single(2, "message", Kind::Text), single(3, "code", Kind::Signed)]);
static SPAN: Schema = Schema(&[
    single(1, "traceId", Kind::Bytes),
    single(2, "spanId", Kind::Bytes),
    single(3, "traceState", Kind::Text),
    single(4, "parentSpanId", Kind::Bytes),
    single(5, "name", Kind::Text),
    single(6, "kind", Kind::Signed),
    single(7, "startTimeUnixNano", Kind::Fixed),
    single(8, "endTimeUnixNano", Kind::Fixed),
    repeated(9, "attributes", Kind::Message(&PAIR)),
    repeated(11, "events", Kind::Message(&EVENT)),
    repeated(13, "links", Kind::Message(&LINK)),
    single(15, "status", Kind::Message(&STATUS)),
]);
static SCOPE: Schema = Schema(&[single(1, "name", Kind::Text), single(2, "version", Kind::Text)]);
static SCOPE_SPANS: Schema =
    Schema(&[single(1, "scope", Kind::Message(&SCOPE)), repeated(2, "spans", Kind::Message(&SPAN))]);
static RESOURCE_SPANS: Schema =
    Schema(&[single(1, "resource", Kind::Message(&RESOURCE)), repeated(2, "scopeSpans", Kind::Message(&SCOPE_SPANS))]);
/// Schema of a request with traces.
pub(super) static TRACES: Schema = Schema(&[repeated(1, "resourceSpans", Kind::Message(&RESOURCE_SPANS))]);

/// Adds the events of a request with traces.
pub(super) fn traces(request: &Value, events: &mut Events) -> Option<()> {
    for of_resource in list(request, "resourceSpans") {
        let attributes = list(&of_resource["resource"], "attributes");
        let mut place = Envelope::default();
        add_attributes(&mut place, attributes);
        place.sourcetype.get_or_insert_with(|| SOURCETYPE.to_owned());
        let resource = object(attributes);
        for of_scope in list(of_resource, "scopeSpans") {
            for span in list(of_scope, "spans") {
                let mut event = place.clone();
                event.time = nanos(&span["startTimeUnixNano"]).or_else(|| nanos(&span["endTimeUnixNano"]));
                event.raw = text_of(span, &of_scope["scope"], &resource);
                events.push(event)?;
            }
        }
    }
    Some(())
}

/// Formats a span as the text of an event.
fn text_of(span: &Value, scope: &Value, resource: &Map<String, Value>) -> String {
    let (start, end) = (nanos(&span["startTimeUnixNano"]), nanos(&span["endTimeUnixNano"]));
    let mut text = Map::new();
    let mut put = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(object) => object.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !is_empty {
            text.insert(name.to_owned(), value);
        }
    };
    for (name, key) in
        [("trace_id", "traceId"), ("span_id", "spanId"), ("parent_span_id", "parentSpanId"), ("name", "name")]
    {
        put(name, span[key].clone());
    }
    put("kind", enum_name(&span["kind"], &KINDS));
    put("start_time", start.into());
    put("end_time", end.into());
    put("duration_ns", start.zip(end).and_then(|(start, end): (TimeNs, TimeNs)| end.checked_sub(start)).into());
    let status = &span["status"];
    put(
        "status",
        json!({"code": enum_name(&status["code"], &STATUSES), "message": status["message"].as_str().unwrap_or("")}),
    );
    put("attributes", Value::Object(object(list(span, "attributes"))));
    put("events", list(span, "events").iter().map(event_of).collect());
    put("links", list(span, "links").iter().map(link_of).collect());
    put("trace_state", span["traceState"].clone());
    put("scope", scope.clone());
    put("resource", Value::Object(resource.clone()));
    Value::Object(text).to_string()
}

fn event_of(event: &Value) -> Value {
    json!({
        "name": event["name"], "timestamp": nanos(&event["timeUnixNano"]),
        "attributes": object(list(event, "attributes")),
    })
}

fn link_of(link: &Value) -> Value {
    json!({
        "trace_id": link["traceId"], "span_id": link["spanId"], "trace_state": link["traceState"].as_str().unwrap_or(""),
        "attributes": object(list(link, "attributes")),
    })
}

/// Name of an enumeration value, which may be a number or already a name; a missing value gets the first name.
fn enum_name(value: &Value, words: &[&str]) -> Value {
    match value {
        Value::String(_) => value.clone(),
        _ => {
            let at = usize::try_from(value.as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
            words.get(at).map_or_else(|| value.clone(), |word| Value::from(*word))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Events, TRACES, traces};
    use crate::hec::other_protocols::protobuf;

    fn read(request: &Value) -> Vec<crate::hec::envelope::Envelope> {
        let mut events = Events::with(1 << 20);
        traces(request, &mut events).unwrap();
        events.read
    }

    #[test]
    fn spans_become_events_with_all_their_data() {
        let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        let request = json!({"resourceSpans": [{
            "resource": {"attributes": [attribute("service.name", "shop"), attribute("host.name", "web-1")]},
            "scopeSpans": [{"scope": {"name": "http"}, "spans": [{
                "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "parentSpanId": "00f067aa0ba902b7",
                "name": "GET /cart", "kind": 2, "startTimeUnixNano": "1795225170000000001", "endTimeUnixNano": "1795225170002000001",
                "attributes": [{"key": "http.status_code", "value": {"intValue": "200"}}],
                "events": [{"timeUnixNano": "1795225170001000000", "name": "cached", "attributes": []}],
                "status": {"code": 2, "message": "late"}
            }]}]
        }]});
        let events = read(&request);
        assert_eq!(events.len(), 1);
        let event = &events[0];
        assert_eq!(event.time, Some(1_795_225_170_000_000_001));
        assert_eq!(
            (event.host.as_deref(), event.source.as_deref(), event.sourcetype.as_deref()),
            (Some("web-1"), Some("shop"), Some("otel:trace"))
        );
        assert_eq!(event.fields, [("service.name".to_owned(), "shop".to_owned())]);
        let expected = json!({
            "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331", "parent_span_id": "00f067aa0ba902b7",
            "name": "GET /cart", "kind": "SPAN_KIND_SERVER",
            "start_time": 1_795_225_170_000_000_001_i64, "end_time": 1_795_225_170_002_000_001_i64, "duration_ns": 2_000_000,
            "status": {"code": "STATUS_CODE_ERROR", "message": "late"}, "attributes": {"http.status_code": 200},
            "events": [{"name": "cached", "timestamp": 1_795_225_170_001_000_000_i64, "attributes": {}}],
            "scope": {"name": "http"}, "resource": {"service.name": "shop", "host.name": "web-1"},
        });
        assert_eq!(serde_json::from_str::<Value>(&event.raw).unwrap(), expected);
    }

    #[test]
    fn protobuf_and_json_yield_the_same_events() {
        // A root span: ids, name, kind, times.
        let mut span = b"\x0a\x02\xab\xcd\x12\x01\x07\x2a\x03buy\x30\x03".to_vec();
        span.extend(b"\x39");
        span.extend(1_795_225_170_000_000_001_u64.to_le_bytes());
        span.extend(b"\x41");
        span.extend(1_795_225_170_000_000_005_u64.to_le_bytes());
        let message = |tag: u8, inner: Vec<u8>| [&[tag, u8::try_from(inner.len()).unwrap()][..], &inner].concat();
        let bytes = message(0x0a, message(0x12, message(0x12, span)));
        let decoded = protobuf::decode(&bytes, &TRACES, &mut |_| Some(())).unwrap();
        let request = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{
            "traceId": "abcd", "spanId": "07", "name": "buy", "kind": "SPAN_KIND_CLIENT",
            "startTimeUnixNano": 1_795_225_170_000_000_001_u64, "endTimeUnixNano": "1795225170000000005"
        }]}]}]});
        let (binary, text) = (read(&decoded), read(&request));
        assert_eq!((&binary[0].raw, binary[0].time), (&text[0].raw, text[0].time));
        assert!(
            binary[0].raw.contains(r#""duration_ns":4"#) && !binary[0].raw.contains("parent_span_id"),
            "{}",
            binary[0].raw
        );
    }
}
