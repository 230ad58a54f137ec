//! The definition of a collection in `collections.conf`: field types (`field.NAME`), accelerated fields
//! (`accelerated_fields.NAME`), and whether types are enforced (`enforceTypes`).

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use crate::field_path::FieldPath;
use crate::{CollectionError, Pairs};

/// Prefix of settings with a field's type.
const FIELD: &str = "field.";
/// Prefix of settings with accelerated fields.
const ACCELERATED: &str = "accelerated_fields.";
/// Setting that refuses values that cannot be converted to their field's type, instead of dropping them.
const ENFORCE_TYPES: &str = "enforceTypes";
/// Maximum number of accelerations, regardless of limits.conf.
const ACCELERATIONS_MAX: usize = 100;

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// `number`.
    Number,
    /// `bool`.
    Flag,
    /// `string`.
    Text,
    /// `time`: seconds since 1970, or a text.
    Time,
    /// `array`.
    Array,
}

impl FieldType {
    /// Parses the type of a field; `None` for any other word, which has no effect.
    pub fn parse(word: &str) -> Option<FieldType> {
        match word.trim().to_ascii_lowercase().as_str() {
            "number" => Some(FieldType::Number),
            "bool" | "boolean" => Some(FieldType::Flag),
            "string" => Some(FieldType::Text),
            "time" => Some(FieldType::Time),
            "array" => Some(FieldType::Array),
            _ => None,
        }
    }

    /// Converts a value to this type; `None` if that is impossible.
    fn convert(self, value: Value) -> Option<Value> {
        match (self, value) {
            (_, Value::Null) => Some(Value::Null),
            (FieldType::Array, Value::Array(elements)) => Some(Value::Array(elements)),
            (FieldType::Array, other) => Some(Value::Array(vec![other])),
            (kind, Value::Array(elements)) => {
                elements.into_iter().map(|element| kind.convert(element)).collect::<Option<Vec<_>>>().map(Value::Array)
            }
            (_, Value::Object(_)) => None,
            (FieldType::Number | FieldType::Time, Value::Number(number)) => Some(Value::Number(number)),
            (FieldType::Number, Value::String(text)) => number_of(&text),
            (FieldType::Time, Value::String(text)) => number_of(&text).or(Some(Value::String(text))),
            (FieldType::Number | FieldType::Time, Value::Bool(_)) => None,
            (FieldType::Flag, Value::Bool(flag)) => Some(Value::Bool(flag)),
            (FieldType::Flag, Value::Number(number)) => number.as_f64().map(|number| Value::Bool(number != 0.0)),
            (FieldType::Flag, Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
                "1" | "t" | "true" | "yes" => Some(Value::Bool(true)),
                "0" | "f" | "false" | "no" => Some(Value::Bool(false)),
                _ => None,
            },
            (FieldType::Text, Value::String(text)) => Some(Value::String(text)),
            (FieldType::Text, other) => Some(Value::String(other.to_string())),
        }
    }
}

fn number_of(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Value::from(whole));
    }
    let looks_so = text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.'));
    let number = text.parse::<f64>().ok().filter(|number| looks_so && number.is_finite());
    number.and_then(Number::from_f64).map(Value::Number)
}

/// Fields with a sorted index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceleration {
    /// Name of the acceleration, which follows `accelerated_fields.`.
    pub name: String,
    /// The fields, most significant first.
    pub(crate) fields: Vec<FieldPath>,
}

/// The definition of a collection; the default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectionDefinition {
    types: Vec<(FieldPath, FieldType)>,
    /// Accelerations, by name.
    pub(crate) accelerations: Vec<Acceleration>,
    enforces_types: bool,
}

impl CollectionDefinition {
    /// Parses the settings of a stanza. Invalid accelerations are skipped and reported; unknown types are ignored.
    pub fn parse_settings(settings: &BTreeMap<String, String>) -> (CollectionDefinition, Vec<CollectionError>) {
        let (mut definition, mut faults) = (CollectionDefinition::default(), Vec::new());
        for (key, value) in settings {
            if let Some(name) = key.strip_prefix(FIELD) {
                let path = FieldPath::new(name);
                definition.types.extend(path.and_then(|path| Some((path, FieldType::parse(value)?))));
            } else if let Some(name) = key.strip_prefix(ACCELERATED) {
                match acceleration(name, value) {
                    Ok(found) => definition.accelerations.extend(found),
                    Err(fault) => faults.push(fault),
                }
            } else if key == ENFORCE_TYPES {
                definition.enforces_types = matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "t" | "true");
            }
        }
        if definition.accelerations.len() > ACCELERATIONS_MAX {
            faults
                .push(CollectionError::invalid(format!("more than the maximum of {ACCELERATIONS_MAX} accelerations")));
            definition.accelerations.truncate(ACCELERATIONS_MAX);
        }
        (definition, faults)
    }

    /// The number of accelerations, and the largest number of fields in an acceleration.
    pub fn acceleration_counts(&self) -> (usize, usize) {
        let widest = self.accelerations.iter().map(|acceleration| acceleration.fields.len()).max();
        (self.accelerations.len(), widest.unwrap_or_default())
    }

    /// Converts the fields of a document to their types.
    pub(crate) fn convert(&self, document: &mut Map<String, Value>) -> Result<(), CollectionError> {
        for (path, kind) in &self.types {
            let Some((object, name)) = path.holder(document) else { continue };
            let name = name.to_owned();
            let value = object.remove(&name).unwrap_or_default();
            match kind.convert(value) {
                Some(value) => drop(object.insert(name, value)),
                None if self.enforces_types => {
                    let text = format!("the value of the field {} is not of its type", path.name());
                    return Err(CollectionError::Invalid(text));
                }
                // The value is dropped, as in Splunk.
                None => {}
            }
        }
        Ok(())
    }
}

/// Parses `{"field": 1, "other": -1}`; `None` for an empty value. Directions are ignored, because entries can be read
/// both ways.
fn acceleration(name: &str, value: &str) -> Result<Option<Acceleration>, CollectionError> {
    if value.trim().is_empty() {
        return Ok(None);
    }
    let wrong =
        || CollectionError::invalid(format!("{ACCELERATED}{name}: give fields as {{\"name\": 1}}, not {value:.80}"));
    let pairs = Pairs::parse(value).ok_or_else(wrong)?.0;
    let is_direction = |value: &Value| value.as_f64().is_some_and(|number| number.abs() == 1.0);
    if pairs.is_empty() || !pairs.iter().all(|(field, direction)| !field.is_empty() && is_direction(direction)) {
        return Err(wrong());
    }
    let fields: Option<Vec<FieldPath>> = pairs.iter().map(|(field, _)| FieldPath::new(field)).collect();
    Ok(Some(Acceleration { name: name.to_owned(), fields: fields.ok_or_else(wrong)? }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(settings: &[(&str, &str)]) -> (CollectionDefinition, usize) {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (definition, faults) = CollectionDefinition::parse_settings(&settings);
        (definition, faults.len())
    }

    fn converted(definition: &CollectionDefinition, document: Value) -> Option<Value> {
        let Value::Object(mut document) = document else { return None };
        definition.convert(&mut document).ok().map(|()| Value::Object(document))
    }

    #[test]
    fn values_are_converted_to_their_field_types() {
        let types = [("field.n", "number"), ("field.b", "bool"), ("field.t", "string"), ("field.o.n", "number")];
        let (mut definition, _) = definition(&types);
        let given = json!({"n": "038", "b": "true", "t": 5, "o": {"n": "1.5"}, "other": "1"});
        let expected = json!({"n": 38, "b": true, "t": "5", "o": {"n": 1.5}, "other": "1"});
        assert_eq!(converted(&definition, given), Some(expected));
        assert_eq!(converted(&definition, json!({"n": ["1", 2], "b": 0})), Some(json!({"n": [1, 2], "b": false})));
        let bad = json!({"n": "inf", "b": "maybe", "t": {}, "a": 1});
        assert_eq!(converted(&definition, bad.clone()), Some(json!({"a": 1})));
        definition.enforces_types = true;
        assert_eq!(converted(&definition, bad), None);
    }

    #[test]
    fn accelerations_keep_the_order_of_their_fields() {
        let (found, faults) =
            definition(&[("accelerated_fields.x", "{\"b\": 1, \"a\": -1}"), ("accelerated_fields.y", "")]);
        let fields: Vec<&str> = found.accelerations[0].fields.iter().map(FieldPath::name).collect();
        assert_eq!((found.accelerations.len(), fields, faults), (1, vec!["b", "a"], 0));
        for wrong in ["nonsense", "{}", "[1]", "{\"a\": 2}", "{\"a\": \"1\"}", "{\"\": 1}"] {
            assert_eq!(definition(&[("accelerated_fields.x", wrong)]).1, 1, "{wrong}");
        }
        assert_eq!(definition(&[("field.a", "number1"), ("enforceTypes", "true")]).1, 0);
    }
}
