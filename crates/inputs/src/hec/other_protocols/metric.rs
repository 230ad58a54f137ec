//! Metric values as events: each value is a field `metric_name:NAME`, and the event's text has the same fields as JSON.

use serde_json::{Map, Value};

use crate::hec::envelope::Envelope;

/// Values measured at the same time, for one event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metric {
    /// Names and values.
    pub(crate) values: Vec<(String, String)>,
}

impl Metric {
    /// Adds the values to `event`, whose fields are their dimensions.
    pub(crate) fn into_event(self, mut event: Envelope) -> Envelope {
        let mut text = Map::new();
        for (name, value) in &self.values {
            let number = serde_json::from_str::<serde_json::Number>(value).map(Value::Number);
            text.insert(format!("metric_name:{name}"), number.unwrap_or_else(|_| Value::String(value.clone())));
        }
        for (name, value) in &event.fields {
            text.insert(name.clone(), Value::String(value.clone()));
        }
        event.fields.extend(self.values.into_iter().map(|(name, value)| (format!("metric_name:{name}"), value)));
        event.raw = Value::Object(text).to_string();
        event
    }
}
