//! OpenTelemetry logs and metrics (OTLP, protobuf and JSON).
//!
//! A log record becomes an event whose text is the record's body, formatted as JSON unless it is a string. Attributes
//! of record and resource are indexed fields. A data point becomes a metric event like those of `/services/collector`.

use quarry_event::TimeNs;
use serde_json::{Map, Value};

use super::Events;
use super::metric::Metric;
use super::protobuf::{Kind, Schema, repeated, single};
use crate::hec::envelope::Envelope;

/// Attributes that set metadata; all others are indexed fields.
const METADATA_ATTRIBUTES: [(&str, MetadataTarget); 6] = [
    ("com.splunk.index", MetadataTarget::Index),
    ("com.splunk.source", MetadataTarget::Source),
    ("com.splunk.sourcetype", MetadataTarget::Sourcetype),
    ("host.name", MetadataTarget::Host),
    ("com.splunk.host", MetadataTarget::Host),
    ("service.name", MetadataTarget::Service),
];

#[derive(Clone, Copy)]
enum MetadataTarget {
    Index,
    Source,
    Sourcetype,
    Host,
    /// The default source, which is also an indexed field.
    Service,
}

static ANY: Schema = Schema(&[
    single(1, "stringValue", Kind::Text),
    single(2, "boolValue", Kind::Bool),
    single(3, "intValue", Kind::Signed),
    single(4, "doubleValue", Kind::Double),
    single(5, "arrayValue", Kind::Message(&ARRAY)),
    single(6, "kvlistValue", Kind::Message(&PAIRS)),
    single(7, "bytesValue", Kind::Bytes),
]);
static ARRAY: Schema = Schema(&[repeated(1, "values", Kind::Message(&ANY))]);
static PAIRS: Schema = Schema(&[repeated(1, "values", Kind::Message(&PAIR))]);
/// Schema of an attribute.
pub(super) static PAIR: Schema = Schema(&[single(1, "key", Kind::Text), single(2, "value", Kind::Message(&ANY))]);
pub(super) static RESOURCE: Schema = Schema(&[repeated(1, "attributes", Kind::Message(&PAIR))]);
static RECORD: Schema = Schema(&[
    single(1, "timeUnixNano", Kind::Fixed),
    single(2, "severityNumber", Kind::Signed),
    single(3, "severityText", Kind::Text),
    single(5, "body", Kind::Message(&ANY)),
    repeated(6, "attributes", Kind::Message(&PAIR)),
    single(9, "traceId", Kind::Bytes),
    single(10, "spanId", Kind::Bytes),
    single(11, "observedTimeUnixNano", Kind::Fixed),
    single(12, "eventName", Kind::Text),
]);
static SCOPE_LOGS: Schema = Schema(&[repeated(2, "logRecords", Kind::Message(&RECORD))]);
static RESOURCE_LOGS: Schema =
    Schema(&[single(1, "resource", Kind::Message(&RESOURCE)), repeated(2, "scopeLogs", Kind::Message(&SCOPE_LOGS))]);
/// Schema of a request with logs.
pub(super) static LOGS: Schema = Schema(&[repeated(1, "resourceLogs", Kind::Message(&RESOURCE_LOGS))]);

static QUANTILE: Schema = Schema(&[single(1, "quantile", Kind::Double), single(2, "value", Kind::Double)]);
static POINT: Schema = Schema(&[
    single(3, "timeUnixNano", Kind::Fixed),
    single(4, "asDouble", Kind::Double),
    single(6, "asInt", Kind::SignedFixed),
    repeated(7, "attributes", Kind::Message(&PAIR)),
]);
static HISTOGRAM_POINT: Schema = Schema(&[
    single(3, "timeUnixNano", Kind::Fixed),
    single(4, "count", Kind::Fixed),
    single(5, "sum", Kind::Double),
    repeated(6, "bucketCounts", Kind::Fixed),
    repeated(7, "explicitBounds", Kind::Double),
    repeated(9, "attributes", Kind::Message(&PAIR)),
]);
static SUMMARY_POINT: Schema = Schema(&[
    single(3, "timeUnixNano", Kind::Fixed),
    single(4, "count", Kind::Fixed),
    single(5, "sum", Kind::Double),
    repeated(6, "quantileValues", Kind::Message(&QUANTILE)),
    repeated(7, "attributes", Kind::Message(&PAIR)),
]);
static POINTS: Schema = Schema(&[repeated(1, "dataPoints", Kind::Message(&POINT))]);
static HISTOGRAM: Schema = Schema(&[repeated(1, "dataPoints", Kind::Message(&HISTOGRAM_POINT))]);
static SUMMARY: Schema = Schema(&[repeated(1, "dataPoints", Kind::Message(&SUMMARY_POINT))]);
static METRIC: Schema = Schema(&[
    single(1, "name", Kind::Text),
    single(3, "unit", Kind::Text),
    single(5, "gauge", Kind::Message(&POINTS)),
    single(7, "sum", Kind::Message(&POINTS)),
    single(9, "histogram", Kind::Message(&HISTOGRAM)),
    single(11, "summary", Kind::Message(&SUMMARY)),
]);
static SCOPE_METRICS: Schema = Schema(&[repeated(2, "metrics", Kind::Message(&METRIC))]);
static RESOURCE_METRICS: Schema = Schema(&[
    single(1, "resource", Kind::Message(&RESOURCE)),
    repeated(2, "scopeMetrics", Kind::Message(&SCOPE_METRICS)),
]);
/// Schema of a request with metrics.
pub(super) static METRICS: Schema = Schema(&[repeated(1, "resourceMetrics", Kind::Message(&RESOURCE_METRICS))]);

/// Adds the events of a logs request.
pub(super) fn logs(request: &Value, events: &mut Events) -> Option<()> {
    for of_resource in list(request, "resourceLogs") {
        let resource = list(&of_resource["resource"], "attributes");
        for record in list(of_resource, "scopeLogs").iter().flat_map(|scope| list(scope, "logRecords")) {
            let mut event = Envelope::default();
            add_attributes(&mut event, resource);
            add_attributes(&mut event, list(record, "attributes"));
            event.raw = text_of(&unwrap_value(&record["body"]));
            let time = nanos(&record["timeUnixNano"]).or_else(|| nanos(&record["observedTimeUnixNano"]));
            event.time = time;
            let named = [("severityText", "severity_text"), ("traceId", "trace_id"), ("spanId", "span_id")];
            for (key, name) in
                named.into_iter().chain([("severityNumber", "severity_number"), ("eventName", "event_name")])
            {
                let text = text_of(&record[key]);
                if !text.is_empty() {
                    event.fields.push((name.to_owned(), text));
                }
            }
            if event.raw.is_empty() {
                // A record without a body gets its attributes as text.
                event.raw = Value::Object(object(list(record, "attributes"))).to_string();
            }
            events.push(event)?;
        }
    }
    Some(())
}

/// Adds the events of a metrics request.
pub(super) fn metrics(request: &Value, events: &mut Events) -> Option<()> {
    for of_resource in list(request, "resourceMetrics") {
        let mut place = Envelope::default();
        add_attributes(&mut place, list(&of_resource["resource"], "attributes"));
        for metric in list(of_resource, "scopeMetrics").iter().flat_map(|scope| list(scope, "metrics")) {
            let name = metric["name"].as_str().unwrap_or_default();
            for kind in ["gauge", "sum"] {
                for point in list(&metric[kind], "dataPoints") {
                    let value = if point["asInt"].is_null() { &point["asDouble"] } else { &point["asInt"] };
                    events.push(event_of(&place, point, [(name.to_owned(), text_of(value))], &[]))?;
                }
            }
            for point in list(&metric["histogram"], "dataPoints") {
                histogram(&place, name, point, events)?;
            }
            for point in list(&metric["summary"], "dataPoints") {
                events.push(event_of(&place, point, totals(name, point), &[]))?;
                for part in list(point, "quantileValues") {
                    let quantile = [("quantile".to_owned(), text_of(&part["quantile"]))];
                    events.push(event_of(&place, point, [(name.to_owned(), text_of(&part["value"]))], &quantile))?;
                }
            }
        }
    }
    Some(())
}

/// Adds the events of a histogram: count, sum and cumulative buckets, as in Prometheus.
fn histogram(place: &Envelope, name: &str, point: &Value, events: &mut Events) -> Option<()> {
    events.push(event_of(place, point, totals(name, point), &[]))?;
    let bounds = list(point, "explicitBounds");
    let mut below = 0_u64;
    for (at, count) in list(point, "bucketCounts").iter().enumerate() {
        below = below.saturating_add(text_of(count).parse().unwrap_or(0));
        let bound = bounds.get(at).map_or_else(|| "+Inf".to_owned(), text_of);
        let le = [("le".to_owned(), bound)];
        events.push(event_of(place, point, [(format!("{name}_bucket"), below.to_string())], &le))?;
    }
    Some(())
}

fn totals(name: &str, point: &Value) -> Vec<(String, String)> {
    let both = [(format!("{name}_count"), text_of(&point["count"])), (format!("{name}_sum"), text_of(&point["sum"]))];
    both.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn event_of(
    place: &Envelope,
    point: &Value,
    values: impl IntoIterator<Item = (String, String)>,
    more: &[(String, String)],
) -> Envelope {
    let mut event = place.clone();
    add_attributes(&mut event, list(point, "attributes"));
    event.fields.extend_from_slice(more);
    event.time = nanos(&point["timeUnixNano"]);
    Metric { values: values.into_iter().collect() }.into_event(event)
}

/// Applies attributes to an event as metadata or indexed fields.
pub(super) fn add_attributes(event: &mut Envelope, attributes: &[Value]) {
    for attribute in attributes {
        let (Some(key), value) = (attribute["key"].as_str(), unwrap_value(&attribute["value"])) else { continue };
        let text = text_of(&value);
        let place = METADATA_ATTRIBUTES.iter().find(|(name, _)| *name == key).map(|(_, place)| *place);
        match place {
            Some(MetadataTarget::Index) => event.index = Some(text),
            Some(MetadataTarget::Source) => event.source = Some(text),
            Some(MetadataTarget::Sourcetype) => event.sourcetype = Some(text),
            Some(MetadataTarget::Host) => event.host = Some(text),
            Some(MetadataTarget::Service) | None => {
                if matches!(place, Some(MetadataTarget::Service)) && event.source.is_none() {
                    event.source = Some(text.clone());
                }
                match value {
                    Value::Array(parts) => {
                        event.fields.extend(parts.iter().map(|part| (key.to_owned(), text_of(part))));
                    }
                    _ => event.fields.push((key.to_owned(), text)),
                }
            }
        }
    }
}

/// A list in an object; empty if absent.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Attributes as an object.
pub(super) fn object(pairs: &[Value]) -> Map<String, Value> {
    let pair = |pair: &Value| Some((pair["key"].as_str()?.to_owned(), unwrap_value(&pair["value"])));
    pairs.iter().filter_map(pair).collect()
}

/// A value without OTLP's type wrapper.
fn unwrap_value(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|object| object.iter().next()) else { return Value::Null };
    match kind.as_str() {
        "arrayValue" => Value::Array(list(inner, "values").iter().map(unwrap_value).collect()),
        "kvlistValue" => Value::Object(object(list(inner, "values"))),
        // In OTLP's JSON, 64-bit integers are strings.
        "intValue" => {
            inner.as_str().and_then(|text| text.parse::<i64>().ok()).map_or_else(|| inner.clone(), Value::from)
        }
        _ => inner.clone(),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Time in nanoseconds since 1970, which may be a string in JSON; `None` for 0.
pub(super) fn nanos(value: &Value) -> Option<TimeNs> {
    let nanos = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    TimeNs::try_from(nanos).ok().filter(|nanos| *nanos > 0)
}
