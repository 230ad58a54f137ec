//! statsd lines as metric events: `name:value|type`, optionally followed by `|@rate` and `|#tag:value,...`.
//!
//! Every line is one event; aggregation is left to searches. A datagram with any other line is stored as text.

use std::sync::Arc;

use quarry_event::{EventBatch, IndexedField, Metadata, TimeNs};
use quarry_stdx::number::u32_of;
use serde_json::{Map, Number, Value};

/// Sourcetype of statsd datagrams.
pub(super) const SOURCETYPE: &str = "statsd";
/// Types of measurements.
const TYPES: [&str; 6] = ["c", "g", "ms", "h", "s", "d"];

/// Appends the event of a line; `false` if it is not a measurement.
pub(super) fn push(line: &str, time: TimeNs, metadata: &Metadata, batch: &mut EventBatch) -> bool {
    let Some(Measurement { name, value, dimensions }) = measurement(line) else { return false };
    let field = format!("metric_name:{name}");
    let mut text = Map::new();
    let number = serde_json::from_str::<Number>(value).map(Value::Number);
    text.insert(field.clone(), number.unwrap_or_else(|_| Value::String(value.to_owned())));
    for (name, value) in &dimensions {
        text.insert((*name).to_owned(), Value::String((*value).to_owned()));
    }
    let (meta, row) = (batch.intern(metadata), u32_of(batch.len()));
    batch.push(Value::Object(text).to_string().as_bytes(), time, meta);
    let fields = [(field.as_str(), value)].into_iter().chain(dimensions);
    batch.fields.extend(fields.map(|(name, value)| IndexedField { row, name: Arc::from(name), value: value.into() }));
    true
}

/// Parsed statsd line.
struct Measurement<'a> {
    name: &'a str,
    value: &'a str,
    dimensions: Vec<(&'a str, &'a str)>,
}

/// Whether a value is a finite number; `inf` and `nan` are none, as in other metric inputs.
fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(f64::is_finite)
}

fn measurement(line: &str) -> Option<Measurement<'_>> {
    let (name, rest) = line.trim().split_once(':')?;
    let mut parts = rest.split('|');
    let (value, kind) = (parts.next()?, parts.next()?);
    if name.is_empty() || !TYPES.contains(&kind) || (kind != "s" && !is_number(value)) {
        return None;
    }
    let mut dimensions = vec![("metric_type", kind)];
    for part in parts {
        if let Some(rate) = part.strip_prefix('@') {
            dimensions.push(("sample_rate", rate));
        } else if let Some(tags) = part.strip_prefix('#') {
            dimensions.extend(tags.split(',').filter_map(|tag| tag.split_once(':')));
        }
    }
    // A gauge with a sign is a relative change; its plus is removed because JSON allows none.
    Some(Measurement { name, value: value.strip_prefix('+').unwrap_or(value), dimensions })
}

#[cfg(test)]
mod tests {
    use quarry_event::{EventBatch, Metadata};

    use super::push;

    #[test]
    fn measurements_are_metric_events_and_other_text_is_not() {
        let metadata =
            Metadata { index: "m".into(), host: "h".into(), source: "s".into(), sourcetype: "statsd".into() };
        let mut batch = EventBatch::default();
        for (line, text) in [
            ("shop.sold:3|c", Some(r#"{"metric_name:shop.sold":3,"metric_type":"c"}"#)),
            (
                "t:2.50|ms|@0.1|#city:bonn,x",
                Some(r#"{"city":"bonn","metric_name:t":2.50,"metric_type":"ms","sample_rate":"0.1"}"#),
            ),
            ("g:+4|g", Some(r#"{"metric_name:g":4,"metric_type":"g"}"#)),
            ("users:anna|s", Some(r#"{"metric_name:users":"anna","metric_type":"s"}"#)),
            ("g:four|g", None),
            ("g:nan|g", None),
            ("g:-inf|g", None),
            ("t:1e999|ms", None),
            ("users:nan|s", Some(r#"{"metric_name:users":"nan","metric_type":"s"}"#)),
            ("no measurement", None),
            (":1|c", None),
            ("a:1|z", None),
        ] {
            let before = batch.len();
            assert_eq!(push(line, 5, &metadata, &mut batch), text.is_some(), "{line}");
            if let Some(text) = text {
                let raw: serde_json::Value = serde_json::from_slice(batch.raw(before)).unwrap();
                assert_eq!(raw, serde_json::from_str::<serde_json::Value>(text).unwrap(), "{line}");
                assert!(batch.fields.iter().any(|field| field.row as usize == before && &*field.name == "metric_type"));
            }
        }
    }
}
