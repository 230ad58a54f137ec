//! A single value of a row, for row-wise evaluation.

use std::borrow::Cow;

use quarry_event::value::{Number, parse_exact_number, parse_number, write_integer, write_nanos, write_number};
use quarry_stdx::number::f64_of;

use super::MULTI_SEPARATOR;

/// Text of a true condition.
pub const TRUE_TEXT: &str = "True";
/// Text of a false condition.
pub const FALSE_TEXT: &str = "False";

/// A value of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value. An empty text is not null.
    Null,
    /// Result of a condition.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A time in nanoseconds; acts as a number of seconds.
    Time(i64),
    /// A text, which may be numeric.
    Text(Cow<'a, str>),
    /// Several texts, at least two; use [`Value::multi`].
    Multi(Vec<Cow<'a, str>>),
}

impl<'a> Value<'a> {
    /// A borrowed text.
    pub fn borrowed_text(text: &'a str) -> Value<'a> {
        Value::Text(Cow::Borrowed(text))
    }

    /// A new text.
    pub fn owned_text(text: String) -> Value<'a> {
        Value::Text(Cow::Owned(text))
    }

    /// A multivalue; without values it becomes null, and with a single value a plain text.
    pub fn multi(mut values: Vec<Cow<'a, str>>) -> Value<'a> {
        match values.len() {
            0 => Value::Null,
            1 => values.pop().map_or(Value::Null, Value::Text),
            _ => Value::Multi(values),
        }
    }

    /// A number; an integer if the double is exactly an integer.
    pub fn from_f64(value: f64) -> Value<'a> {
        match Number::of_float(value) {
            Number::Int(value) => Value::Int(value),
            Number::Float(_) | Number::Nanos(_) => Value::Float(value),
        }
    }

    /// A number; a time is converted to nanoseconds.
    pub fn from_number(number: Number) -> Value<'a> {
        match number {
            Number::Int(value) => Value::Int(value),
            Number::Float(value) => Value::from_f64(value),
            Number::Nanos(ns) => Value::Time(ns),
        }
    }

    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The canonical text; values of a multivalue are joined by newlines.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Value::Null => None,
            Value::Text(text) => Some(Cow::Borrowed(text)),
            Value::Bool(true) => Some(Cow::Borrowed(TRUE_TEXT)),
            Value::Bool(false) => Some(Cow::Borrowed(FALSE_TEXT)),
            Value::Multi(values) => Some(Cow::Owned(values.join(MULTI_SEPARATOR))),
            Value::Int(_) | Value::Float(_) | Value::Time(_) => {
                let mut text = String::new();
                self.write_number_text(&mut text);
                Some(Cow::Owned(text))
            }
        }
    }

    /// Like [`Value::text`], but keeps borrowed text borrowed.
    pub fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Value::Text(text) => Some(text),
            other => other.text().map(|text| Cow::Owned(text.into_owned())),
        }
    }

    /// The value as a number: numbers, times in seconds, and numeric texts.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(f64_of(*value)),
            Value::Float(value) => Some(*value),
            Value::Time(ns) => Some(time_seconds(*ns)),
            Value::Text(text) => parse_number(text),
            Value::Null | Value::Bool(_) | Value::Multi(_) => None,
        }
    }

    /// The value as a number with as many digits as possible.
    pub fn exact_number(&self) -> Option<Number> {
        match self {
            Value::Int(value) => Some(Number::Int(*value)),
            Value::Time(ns) => Some(Number::Nanos(*ns)),
            Value::Text(text) => parse_exact_number(text),
            other => other.number().map(Number::Float),
        }
    }

    /// Every value as text, in order; empty for null.
    pub fn values(&self) -> Vec<Cow<'_, str>> {
        match self {
            Value::Multi(values) => values.iter().map(|text| Cow::Borrowed(text.as_ref())).collect(),
            other => other.text().into_iter().collect(),
        }
    }

    /// Like [`Value::values`], but keeps borrowed texts borrowed.
    pub fn into_values(self) -> Vec<Cow<'a, str>> {
        match self {
            Value::Multi(values) => values,
            other => other.into_text().into_iter().collect(),
        }
    }

    /// A copy without borrowed texts.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Float(value) => Value::Float(value),
            Value::Time(value) => Value::Time(value),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Multi(values) => {
                Value::Multi(values.into_iter().map(|text| Cow::Owned(text.into_owned())).collect())
            }
        }
    }

    fn write_number_text(&self, out: &mut String) {
        match self {
            Value::Int(value) => write_integer(*value, out),
            Value::Float(value) => write_number(*value, out),
            Value::Time(ns) => write_nanos(*ns, out),
            _ => {}
        }
    }
}

/// A time as seconds since the epoch; digits beyond microseconds are rounded.
pub fn time_seconds(ns: i64) -> f64 {
    Number::Nanos(ns).as_f64()
}
