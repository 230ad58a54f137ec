//! Loki push (JSON and snappy-compressed protobuf) and Prometheus remote write.

use quarry_event::TimeNs;
use serde_json::Value;

use super::Events;
use super::metric::Metric;
use super::protobuf::{Kind, Schema, repeated, single};
use crate::hec::envelope::Envelope;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MILLISECOND: i64 = 1_000_000;
/// Labels used as host if there is no label `host`.
const HOST_LABELS: [&str; 2] = ["hostname", "instance"];

static LABEL: Schema = Schema(&[single(1, "name", Kind::Text), single(2, "value", Kind::Text)]);
static TIME: Schema = Schema(&[single(1, "seconds", Kind::Signed), single(2, "nanos", Kind::Signed)]);
static ENTRY: Schema = Schema(&[
    single(1, "timestamp", Kind::Message(&TIME)),
    single(2, "line", Kind::Text),
    repeated(3, "structuredMetadata", Kind::Message(&LABEL)),
]);
static STREAM: Schema = Schema(&[single(1, "labels", Kind::Text), repeated(2, "entries", Kind::Message(&ENTRY))]);
/// Schema of a Loki push request.
pub(super) static PUSH: Schema = Schema(&[repeated(1, "streams", Kind::Message(&STREAM))]);

static SAMPLE: Schema = Schema(&[single(1, "value", Kind::Double), single(2, "timestamp", Kind::Signed)]);
static SERIES: Schema =
    Schema(&[repeated(1, "labels", Kind::Message(&LABEL)), repeated(2, "samples", Kind::Message(&SAMPLE))]);
/// Schema of a Prometheus remote write request.
pub(super) static WRITE: Schema = Schema(&[repeated(1, "timeseries", Kind::Message(&SERIES))]);

/// Adds the events of a push request; `None` if it is invalid.
pub(super) fn push(request: &Value, events: &mut Events) -> Option<()> {
    for stream in request["streams"].as_array()? {
        let mut place = Envelope::default();
        match (&stream["stream"], &stream["labels"]) {
            (Value::Object(labels), _) => {
                labels.iter().for_each(|(name, value)| add_label(&mut place, name, value.as_str().unwrap_or_default()));
            }
            (_, Value::String(labels)) => {
                labels_of(labels)?.iter().for_each(|(name, value)| add_label(&mut place, name, value));
            }
            _ => return None,
        }
        for entry in stream["entries"].as_array().into_iter().flatten() {
            let mut event = place.clone();
            event.raw = entry["line"].as_str().unwrap_or_default().to_owned();
            event.time = match &entry["timestamp"] {
                Value::Null => text_time(&entry["ts"]),
                Value::Object(time) => {
                    let part = |name: &str| time.get(name).and_then(Value::as_i64).unwrap_or(0);
                    part("seconds").checked_mul(NANOS_PER_SECOND)?.checked_add(part("nanos"))
                }
                other => text_time(other),
            };
            for label in entry["structuredMetadata"].as_array().into_iter().flatten() {
                add_label(&mut event, label["name"].as_str()?, label["value"].as_str().unwrap_or_default());
            }
            events.push(event)?;
        }
        for pair in stream["values"].as_array().into_iter().flatten() {
            let mut event = place.clone();
            event.time = text_time(&pair[0]);
            event.raw = pair[1].as_str()?.to_owned();
            for (name, value) in pair[2].as_object().into_iter().flatten() {
                add_label(&mut event, name, value.as_str().unwrap_or_default());
            }
            events.push(event)?;
        }
    }
    Some(())
}

/// Nanoseconds since the epoch as digits, or an RFC 3339 time.
fn text_time(value: &Value) -> Option<TimeNs> {
    let text = value.as_str()?;
    text.parse().ok().or_else(|| TimeNs::try_from(text.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok())
}

fn add_label(event: &mut Envelope, name: &str, value: &str) {
    match name {
        "source" => event.source = Some(value.to_owned()),
        "sourcetype" => event.sourcetype = Some(value.to_owned()),
        "index" => event.index = Some(value.to_owned()),
        "host" => event.host = Some(value.to_owned()),
        name if HOST_LABELS.contains(&name) => {
            event.host.get_or_insert_with(|| value.to_owned());
            // The name is kept as a label as well, because searches of such data use it.
            event.fields.push((name.to_owned(), value.to_owned()));
        }
        name => event.fields.push((name.to_owned(), value.to_owned())),
    }
}

/// Parses labels in Loki's notation: `{job="a", level="b"}`.
fn labels_of(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=')?;
        let mut values = serde_json::Deserializer::from_str(behind).into_iter::<String>();
        let value = values.next()?.ok()?;
        let used = values.byte_offset();
        labels.push((name.trim().to_owned(), value));
        rest = behind.get(used..)?.trim_start().trim_start_matches(',').trim_start();
    }
    Some(labels)
}

/// Adds the events of a remote write; `None` if it is invalid.
pub(super) fn write(request: &Value, events: &mut Events) -> Option<()> {
    for series in request["timeseries"].as_array().into_iter().flatten() {
        let (mut place, mut metric) = (Envelope::default(), String::new());
        for label in series["labels"].as_array()? {
            match (label["name"].as_str()?, label["value"].as_str().unwrap_or_default()) {
                ("__name__", name) => metric = name.to_owned(),
                (name, value) => add_label(&mut place, name, value),
            }
        }
        for sample in series["samples"].as_array().into_iter().flatten() {
            let mut event = place.clone();
            event.time = sample["timestamp"].as_i64().and_then(|time| time.checked_mul(NANOS_PER_MILLISECOND));
            let value = match &sample["value"] {
                Value::Null => "0".to_owned(),
                // Prometheus sends NaN to mark the end of a series.
                Value::String(text) if text == "NaN" => continue,
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            events.push(Metric { values: vec![(metric.clone(), value)] }.into_event(event))?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Events, labels_of, push, write};

    #[test]
    fn json_and_protobuf_pushes_yield_the_same_events() {
        let line = "a \"line\"";
        let new = json!({"streams": [{
            "stream": {"job": "x", "host": "h", "index": "i"},
            "values": [["1795225170000000001", line, {"trace": "t"}]],
        }]});
        let old = json!({"streams": [{
            "labels": "{job=\"x\", host=\"h\",index=\"i\"}",
            "entries": [{
                "timestamp": {"seconds": 1_795_225_170, "nanos": 1},
                "line": line,
                "structuredMetadata": [{"name": "trace", "value": "t"}],
            }],
        }]});
        let read = |request| {
            let mut events = Events::with(1 << 20);
            push(request, &mut events).map(|()| events.read)
        };
        let (first, second) = (read(&new).unwrap(), read(&old).unwrap());
        assert_eq!((first.len(), first[0].time), (1, Some(1_795_225_170_000_000_001)));
        let sorted = |fields: &[(String, String)]| {
            let mut fields = fields.to_vec();
            fields.sort();
            fields
        };
        assert_eq!(sorted(&first[0].fields), sorted(&second[0].fields));
        assert_eq!(
            (&first[0].raw, &first[0].host, &first[0].index),
            (&second[0].raw, &second[0].host, &second[0].index)
        );
        assert!(read(&json!({"streams": [{"values": []}]})).is_none());
    }

    #[test]
    fn quoted_labels_are_parsed() {
        let labels = labels_of(r#"{a="x, y=\"z\"", b = "}"}"#).unwrap();
        let reported: Vec<String> = labels.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        assert_eq!(reported, ["a:x, y=\"z\"", "b:}"]);
        assert_eq!(labels_of("{}"), Some(Vec::new()));
        assert!(labels_of("{a=1}").is_none() && labels_of("a=\"1\"").is_none());
    }

    #[test]
    fn samples_are_metric_events() {
        let request = json!({"timeseries": [{
            "labels": [{"name": "__name__", "value": "up"}, {"name": "instance", "value": "h:9"}, {"name": "job", "value": "j"}],
            "samples": [{"value": 1.5, "timestamp": 1_795_225_170_001_i64}, {"value": "NaN", "timestamp": 1}],
        }]});
        let mut events = Events::with(1 << 20);
        write(&request, &mut events).unwrap();
        let events = events.read;
        assert_eq!((events.len(), events[0].time), (1, Some(1_795_225_170_001_000_000)));
        assert_eq!(
            (events[0].raw.as_str(), events[0].host.as_deref()),
            (r#"{"instance":"h:9","job":"j","metric_name:up":1.5}"#, Some("h:9"))
        );
        assert!(events[0].fields.contains(&("instance".to_owned(), "h:9".to_owned())));
    }

    #[test]
    fn host_label_takes_precedence_over_instance() {
        for names in [["instance", "host"], ["host", "instance"], ["hostname", "host"]] {
            let label = |name: &str| json!({"name": name, "value": format!("of-{name}")});
            let labels = [json!({"name": "__name__", "value": "up"}), label(names[0]), label(names[1])];
            let request = json!({"timeseries": [{"labels": labels, "samples": [{"value": 1.5, "timestamp": 1}]}]});
            let mut events = Events::with(1 << 20);
            write(&request, &mut events).unwrap();
            assert_eq!(events.read[0].host.as_deref(), Some("of-host"));
            let others = events.read[0].fields.iter().filter(|(name, _)| !name.starts_with("metric_name")).count();
            assert_eq!(others, 1, "the other label stays");
        }
    }
}
