//! statsd lines as metric events: `name:value|type`, optionally followed by `|@rate` and `|#tag:value,...`.
//!
//! Every line is one event; aggregation is left to searches. A datagram with any other line is stored as text. Rules of
//! transforms.conf (`[statsd-dims:NAME]`) extract dimensions that senders encode in names.

use std::sync::Arc;

use quarry_conf::IndexRule;
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_pipeline::{Groups, Pattern};
use quarry_stdx::number::u32_of;
use serde_json::{Map, Number, Value};

/// Types of measurements.
const TYPES: [&str; 6] = ["c", "g", "ms", "h", "s", "d"];
/// Separator of the segments of a metric's name.
const SEGMENT_END: char = '.';

/// Conversion of the lines of a sourcetype to metrics.
#[derive(Debug)]
pub(crate) struct Statsd {
    rules: Vec<DimensionRule>,
    /// Error in the first rule that cannot be used.
    pub(crate) error: Option<String>,
}

/// A rule that extracts dimensions from the name of a metric.
#[derive(Debug)]
struct DimensionRule {
    pattern: Pattern,
    /// Names of its groups.
    names: Vec<Option<String>>,
    removes: bool,
}

impl Statsd {
    /// Compiles rules; those with an invalid pattern are skipped.
    pub(crate) fn new(rules: &[Arc<IndexRule>]) -> Statsd {
        let mut statsd = Statsd { rules: Vec::new(), error: None };
        for rule in rules {
            let text = rule.pattern.as_deref().unwrap_or_default();
            match Pattern::new(text) {
                Ok(pattern) => {
                    let (names, removes) = (pattern.group_names(), rule.removes_dimensions);
                    statsd.rules.push(DimensionRule { pattern, names, removes });
                }
                Err(reason) => {
                    let error = format!("transforms.conf [{}] REGEX = {text}: {reason}", rule.name);
                    statsd.error.get_or_insert(error);
                }
            }
        }
        statsd
    }

    /// Appends the event of a line; `false` if it is not a measurement.
    pub(crate) fn push(&self, line: &str, time: TimeNs, metadata: &Metadata, batch: &mut EventBatch) -> bool {
        let line = line.trim();
        let Some(Measurement { name, value, dimensions }) = measurement(line) else { return false };
        // Patterns may end with the colon after the name.
        let (name, mut extracted) = self.extract(&line[..name.len() + 1]);
        // A tag of the sender takes precedence over a dimension from the name.
        extracted.retain(|(name, _)| !dimensions.iter().any(|(given, _)| given == name));
        let field = format!("metric_name:{name}");
        let mut text = Map::new();
        let number = serde_json::from_str::<Number>(value).map(Value::Number);
        text.insert(field.clone(), number.unwrap_or_else(|_| Value::String(value.to_owned())));
        let dimensions: Vec<(&str, &str)> = extracted.into_iter().chain(dimensions).collect();
        for (name, value) in &dimensions {
            text.insert((*name).to_owned(), Value::String((*value).to_owned()));
        }
        let (meta, row) = (batch.intern(metadata), u32_of(batch.len()));
        batch.push(Value::Object(text).to_string().as_bytes(), time, meta);
        let fields = [(field.as_str(), value)].into_iter().chain(dimensions);
        batch.fields.extend(fields.map(|(name, value)| (row, name, value)));
        true
    }

    /// Extracts dimensions from a name and the colon after it. Returns the name, without removed dimensions and the
    /// segments that they leave empty, and all dimensions. If several dimensions have one name, the first one counts.
    fn extract<'a>(&'a self, text: &'a str) -> (String, Vec<(&'a str, &'a str)>) {
        let name = text.trim_end_matches(':');
        let (mut dimensions, mut removed) = (Vec::<(&str, &str)>::new(), vec![false; name.len()]);
        for rule in &self.rules {
            let mut groups: Groups = rule.pattern.groups();
            if rule.pattern.find_groups(text.as_bytes(), 0, &mut groups).is_none() {
                continue;
            }
            for (number, dimension) in rule.names.iter().enumerate() {
                let (Some(dimension), Some(range)) = (dimension, groups.get(number)) else { continue };
                // A byte pattern may split a character; such a group is not text.
                let within = range.start.min(name.len())..range.end.min(name.len());
                let Some(value) = name.get(within.clone()).filter(|value| !value.is_empty()) else { continue };
                if !dimensions.iter().any(|(known, _)| known == dimension) {
                    dimensions.push((dimension.as_str(), value));
                }
                removed[within].iter_mut().for_each(|is_removed| *is_removed |= rule.removes);
            }
        }
        let letters = name.char_indices().filter(|(at, _)| !removed[*at]).map(|(_, letter)| letter);
        let rest: String = letters.collect();
        let segments: Vec<&str> = rest.split(SEGMENT_END).filter(|segment| !segment.is_empty()).collect();
        // A name that consists only of dimensions is kept, because a metric must have a name.
        match removed.contains(&true) && !segments.is_empty() {
            true => (segments.join("."), dimensions),
            false => (name.to_owned(), dimensions),
        }
    }
}

/// Parsed statsd line.
struct Measurement<'a> {
    name: &'a str,
    value: &'a str,
    dimensions: Vec<(&'a str, &'a str)>,
}

/// Whether a value is a finite number; `inf` and `nan` do not count, as in other metric inputs.
fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(f64::is_finite)
}

fn measurement(line: &str) -> Option<Measurement<'_>> {
    let (name, rest) = line.split_once(':')?;
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

    use super::Statsd;

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
            assert_eq!(Statsd::new(&[]).push(line, 5, &metadata, &mut batch), text.is_some(), "{line}");
            if let Some(text) = text {
                let raw: serde_json::Value = serde_json::from_slice(batch.raw(before)).unwrap();
                assert_eq!(raw, serde_json::from_str::<serde_json::Value>(text).unwrap(), "{line}");
                assert!(
                    batch.fields.iter().any(|field| field.row as usize == before && &**field.name == "metric_type")
                );
            }
        }
    }
}
