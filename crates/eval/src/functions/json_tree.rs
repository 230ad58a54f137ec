//! A JSON document that keeps the order of its keys, and the paths that look into it.
//!
//! A path is keys joined by dots; `{}` behind a key means all elements of its array and `{N}` one of them, counted
//! from zero: `a.b{}.c`. Used by the `json_*` functions, `spath()` and the `spath` command.

use std::fmt;

use quarry_event::value::write_nanos;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A number in billionths that has more digits than a double: a time. Only what is written has it, not what is read.
    Instant(i64),
    /// A text.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// Keys and values as they come; of equal keys the last counts.
    Object(Vec<(String, Json)>),
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// All elements of an array.
    Each,
    /// One element of an array; negative counts from the end.
    At(i64),
}

impl Json {
    /// Reads a document; `None` if it is none.
    pub fn parse(text: &str) -> Option<Json> {
        serde_json::from_str(text.trim()).ok()
    }

    /// Reads a document if it is an object or an array.
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

    /// The text a field shows: scalars plain, objects and arrays as JSON, null as nothing.
    pub fn field_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::Text(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Every value the path leads to, in document order.
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
                if let Some(item) = place(*at, items.len()).and_then(|at| items.get(at)) {
                    item.find(rest, found);
                }
            }
            _ => {}
        }
    }

    /// Puts `value` where the path leads, making objects on the way; false if something else is in the way.
    pub fn set(&mut self, path: &[Step], value: Json) -> bool {
        match path.split_first() {
            None => *self = value,
            Some((Step::Key(key), rest)) => {
                if *self == Json::Null {
                    *self = Json::Object(Vec::new());
                }
                let Json::Object(entries) = self else { return false };
                let at = entries.iter().rposition(|(name, _)| name == key).unwrap_or_else(|| {
                    entries.push((key.clone(), Json::Null));
                    entries.len() - 1
                });
                return entries[at].1.set(rest, value);
            }
            Some((Step::At(at), rest)) => {
                let Json::Array(items) = self else { return false };
                let Some(item) = place(*at, items.len()).and_then(|at| items.get_mut(at)) else { return false };
                return item.set(rest, value);
            }
            Some((Step::Each, rest)) => {
                let Json::Array(items) = self else { return false };
                return items.iter_mut().all(|item| item.set(rest, value.clone()));
            }
        }
        true
    }

    /// Removes what the path leads to.
    pub fn remove(&mut self, path: &[Step]) {
        match (path, self) {
            ([Step::Key(key)], Json::Object(entries)) => entries.retain(|(name, _)| name != key),
            ([Step::At(at)], Json::Array(items)) => {
                if let Some(at) = place(*at, items.len()) {
                    items.remove(at);
                }
            }
            ([Step::Each], Json::Array(items)) => items.clear(),
            ([Step::Key(key), rest @ ..], Json::Object(entries)) => {
                entries.iter_mut().filter(|(name, _)| name == key).for_each(|(_, value)| value.remove(rest));
            }
            ([Step::At(at), rest @ ..], Json::Array(items)) => {
                if let Some(item) = place(*at, items.len()).and_then(|at| items.get_mut(at)) {
                    item.remove(rest);
                }
            }
            ([Step::Each, rest @ ..], Json::Array(items)) => items.iter_mut().for_each(|item| item.remove(rest)),
            _ => {}
        }
    }
}

/// An index inside an array of `len` elements.
fn place(at: i64, len: usize) -> Option<usize> {
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

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
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
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
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
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            object.push(entry);
        }
        Ok(Json::Object(object))
    }
}
