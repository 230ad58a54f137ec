//! A JSON document that preserves the order of keys, and paths into it.
//!
//! A path consists of keys joined by dots; after a key, `{}` selects all elements of its array and `{N}` a single one,
//! counted from zero: `a.b{}.c`. The `json_*` functions, `spath()` and the `spath` command use such paths.

use std::cell::Cell;
use std::fmt;

use quarry_event::value::write_nanos;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// Maximum number of steps of a path along which [`Json::set`] creates objects: deeper documents cannot be parsed, and
/// the functions on documents are recursive.
const NESTING_MAX: usize = 127;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A time in nanoseconds, with more digits than a double has. Occurs only in output, never in parsed documents.
    Instant(i64),
    /// A parsed number with more digits than a double has, as written.
    Long(Box<str>),
    /// A text.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// Keys and values in order; among equal keys the last one wins.
    Object(Vec<(String, Json)>),
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// All elements of an array.
    Each,
    /// One element of an array; negative indices count from the end.
    At(i64),
}

impl Json {
    /// Parses a document; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Json> {
        let text = text.trim();
        let numbers = WrittenNumbers { text, at: Cell::new(0), passed: Cell::new(0) };
        let mut reader = serde_json::Deserializer::from_str(text);
        let json = JsonReader(&numbers).deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        Some(json)
    }

    /// Parses a document if it is an object or an array.
    pub fn parse_container(text: &str) -> Option<Json> {
        if text.trim_start().starts_with(['{', '[']) { Json::parse(text) } else { None }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(entries) => entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The value as a field text: scalars plain, objects and arrays as JSON, null as no value.
    pub fn field_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::Text(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// All values that the path matches, in document order.
    pub fn find<'j>(&'j self, path: &[Step], found: &mut Vec<&'j Json>) {
        let Some((step, rest)) = path.split_first() else {
            found.push(self);
            return;
        };
        match (step, self) {
            (Step::Key(key), _) => {
                if let Some(value) = self.get(key) {
                    value.find(rest, found);
                }
            }
            (Step::Each, Json::Array(items)) => items.iter().for_each(|item| item.find(rest, found)),
            (Step::At(at), Json::Array(items)) => {
                if let Some(item) = element_index(*at, items.len()).and_then(|at| items.get(at)) {
                    item.find(rest, found);
                }
            }
            _ => {}
        }
    }

    /// Sets every value at a path. Where a key or its object is missing, it is created, unless an index follows or the
    /// path has more than [`NESTING_MAX`] steps. Values that do not fit the path are unchanged.
    pub fn set(&mut self, path: &[Step], value: &Json) {
        let Some((step, rest)) = path.split_first() else {
            *self = value.clone();
            return;
        };
        let is_creatable = path.len() <= NESTING_MAX && rest.iter().all(|step| matches!(step, Step::Key(_)));
        match (step, self) {
            (Step::Key(key), document @ Json::Null) if is_creatable => {
                *document = Json::Object(vec![(key.clone(), Json::Null)]);
                document.set(path, value);
            }
            (Step::Key(key), Json::Object(entries)) => match entries.iter().rposition(|(name, _)| name == key) {
                Some(at) => entries[at].1.set(rest, value),
                None if is_creatable => {
                    let mut created = Json::Null;
                    created.set(rest, value);
                    entries.push((key.clone(), created));
                }
                None => {}
            },
            (Step::At(at), Json::Array(items)) => {
                if let Some(item) = element_index(*at, items.len()).and_then(|at| items.get_mut(at)) {
                    item.set(rest, value);
                }
            }
            (Step::Each, Json::Array(items)) => items.iter_mut().for_each(|item| item.set(rest, value)),
            _ => {}
        }
    }

    /// Passes every value at a path to `change`.
    pub fn change_each(&mut self, path: &[Step], change: &mut dyn FnMut(&mut Json)) {
        let Some((step, rest)) = path.split_first() else { return change(self) };
        match (step, self) {
            (Step::Key(key), Json::Object(entries)) => {
                if let Some((_, value)) = entries.iter_mut().rev().find(|(name, _)| name == key) {
                    value.change_each(rest, change);
                }
            }
            (Step::At(at), Json::Array(items)) => {
                if let Some(item) = element_index(*at, items.len()).and_then(|at| items.get_mut(at)) {
                    item.change_each(rest, change);
                }
            }
            (Step::Each, Json::Array(items)) => items.iter_mut().for_each(|item| item.change_each(rest, change)),
            _ => {}
        }
    }

    /// Removes every value at a path.
    pub fn remove(&mut self, path: &[Step]) {
        match (path, self) {
            ([Step::Key(key)], Json::Object(entries)) => entries.retain(|(name, _)| name != key),
            ([Step::At(at)], Json::Array(items)) => {
                if let Some(at) = element_index(*at, items.len()) {
                    items.remove(at);
                }
            }
            ([Step::Each], Json::Array(items)) => items.clear(),
            ([Step::Key(key), rest @ ..], Json::Object(entries)) => {
                entries.iter_mut().filter(|(name, _)| name == key).for_each(|(_, value)| value.remove(rest));
            }
            ([Step::At(at), rest @ ..], Json::Array(items)) => {
                if let Some(item) = element_index(*at, items.len()).and_then(|at| items.get_mut(at)) {
                    item.remove(rest);
                }
            }
            ([Step::Each, rest @ ..], Json::Array(items)) => items.iter_mut().for_each(|item| item.remove(rest)),
            _ => {}
        }
    }
}

/// The position of an index in an array of `len` elements; `None` if out of range.
fn element_index(at: i64, len: usize) -> Option<usize> {
    let at = if at < 0 { at.checked_add(i64::try_from(len).ok()?)? } else { at };
    usize::try_from(at).ok().filter(|at| *at < len)
}

/// Splits a path into its steps; `\.` is a dot inside a key.
pub fn parse_path(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut key = String::new();
    let mut rest = path;
    let flush = |key: &mut String, steps: &mut Vec<Step>| {
        if !key.is_empty() {
            steps.push(Step::Key(std::mem::take(key)));
        }
    };
    while let Some(character) = rest.chars().next() {
        let mut taken = character.len_utf8();
        match character {
            '\\' if rest[1..].starts_with('.') => {
                key.push('.');
                taken = 2;
            }
            '.' => flush(&mut key, &mut steps),
            '{' => match rest.split_once('}') {
                Some((inner, _)) if is_index(&inner[1..]) => {
                    flush(&mut key, &mut steps);
                    steps.push(inner[1..].parse().map_or(Step::Each, Step::At));
                    taken = inner.len() + 1;
                }
                _ => key.push('{'),
            },
            other => key.push(other),
        }
        rest = &rest[taken..];
    }
    flush(&mut key, &mut steps);
    steps
}

fn is_index(text: &str) -> bool {
    text.is_empty() || text.parse::<i64>().is_ok()
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(value) => write!(out, "{value}"),
            Json::Instant(ns) => {
                let mut text = String::new();
                write_nanos(*ns, &mut text);
                out.write_str(&text)
            }
            Json::Long(text) => out.write_str(text),
            Json::Text(text) => write_quoted(text, out),
            Json::Array(items) => {
                out.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    out.write_str(if at > 0 { "," } else { "" })?;
                    item.fmt(out)?;
                }
                out.write_str("]")
            }
            Json::Object(entries) => {
                out.write_str("{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    out.write_str(if at > 0 { "," } else { "" })?;
                    write_quoted(key, out)?;
                    out.write_str(":")?;
                    value.fmt(out)?;
                }
                out.write_str("}")
            }
        }
    }
}

fn write_quoted(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
}

/// The numbers of a document as written, in document order. Parsing follows the same order but provides only doubles.
struct WrittenNumbers<'t> {
    text: &'t str,
    at: Cell<usize>,
    /// Count of the numbers after `at` that were parsed without reading their text.
    passed: Cell<usize>,
}

impl WrittenNumbers<'_> {
    /// Records that a number was parsed whose text is not needed.
    fn skip(&self) {
        self.passed.set(self.passed.get() + 1);
    }

    /// The text of the number just parsed.
    fn current(&self) -> &str {
        for _ in 0..self.passed.take() {
            self.read();
        }
        self.read()
    }

    fn read(&self) -> &str {
        let bytes = self.text.as_bytes();
        let mut at = self.at.get();
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => at = string_end(bytes, at + 1),
                b'-' | b'0'..=b'9' => break,
                _ => at += 1,
            }
        }
        let start = at.min(bytes.len());
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let end = start + bytes[start..].iter().take_while(|byte| is_part(byte)).count();
        self.at.set(end);
        &self.text[start..end]
    }
}

/// The position after a string's closing quote.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// Number of decimal digits that a double preserves (`f64::DIGITS`).
const DOUBLE_DIGITS_MAX: usize = 15;

/// Whether a double may lose digits of the number; a number with an exponent is treated as a double.
fn may_exceed_double(number: &str) -> bool {
    let digits = number.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0').count();
    digits > DOUBLE_DIGITS_MAX && !number.contains(['e', 'E'])
}

#[derive(Clone, Copy)]
struct JsonReader<'n, 't>(&'n WrittenNumbers<'t>);

impl<'de> DeserializeSeed<'de> for JsonReader<'_, '_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonReader<'_, '_> {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        self.0.skip();
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        self.0.skip();
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        let text = self.0.current();
        if may_exceed_double(text) {
            return Ok(Json::Long(text.into()));
        }
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(key) = entries.next_key()? {
            object.push((key, entries.next_value_seed(self)?));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Documents with numbers of all kinds; serialization must reproduce their text.
    fn documents() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "-?[1-9][0-9]{0,8}",
            "-?[1-9][0-9]{16,40}",
            "-?[1-9][0-9]{0,9}\\.[0-9]{16,24}",
            "0\\.00[1-9]{16,20}",
            Just("1.5".to_owned()),
            Just("true".to_owned()),
            Just("null".to_owned()),
            Just(r#""1.5 \\\" 2.25""#.to_owned()),
            Just(r#""-7 \\\\""#.to_owned()),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(inner, 0..6).prop_map(|items| {
                    let entries = items.iter().enumerate().map(|(at, item)| format!("\"k {at}.{at}\":{item}"));
                    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn numbers_keep_their_written_digits(text in documents()) {
            prop_assert_eq!(Json::parse(&text).map(|json| json.to_string()), Some(text));
        }
    }

    #[test]
    fn invalid_documents_are_none() {
        for text in ["", "1.5 2", "{\"a\":1.12345678901234567", "1.1234567890123456.7", "[1.5,]"] {
            assert_eq!(Json::parse(text), None, "{text}");
        }
    }
}
