//! Functions on JSON texts. Except for tests and conversions, they return null for invalid JSON. Extraction also
//! returns null if the path matches nothing.

use std::borrow::Cow;

use quarry_event::value::{Number, parse_canonical_number};

use super::call::{Call, FunctionImpl, any_text, take};
use super::json_tree::{Json, Step, parse_path};
use super::xml::{is_xml, xml_get};
use crate::rows::Value;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("json_extract", |args, _| extract(args, parse_path)),
    ("json_extract_exact", |args, _| extract(args, exact_path)),
    ("spath", spath),
    ("json_object", json_object),
    ("json_array", json_array),
    ("json", json),
    ("json_valid", |args, _| {
        args.first().map_or(Value::Null, |value| any_text(value, |text| Json::parse(text).is_some()))
    }),
    ("json_keys", json_keys),
    ("json_entries", json_entries),
    ("toarray", to_array),
    ("toobject", |args, _| match document(args) {
        Some(Json::Object(_)) => take(args, 0),
        _ => Value::Null,
    }),
    ("tomv", |args, _| match document(args) {
        Some(Json::Array(items)) => Value::multi(items.iter().filter_map(Json::field_text).map(Cow::Owned).collect()),
        _ => take(args, 0),
    }),
    ("json_has_key_exact", |args, _| has_key(args, exact_path)),
    ("json_has_key", |args, _| has_key(args, parse_path)),
    ("json_set", |args, _| set(args, parse_path)),
    ("json_set_exact", |args, _| set(args, exact_path)),
    ("json_delete", json_delete),
    ("json_append", |args, _| append_to_arrays(args, false)),
    ("json_extend", |args, _| append_to_arrays(args, true)),
    ("json_array_to_mv", json_array_to_mv),
    ("mv_to_json_array", mv_to_json_array),
    ("isarray", |args, _| is_kind(args, |json| matches!(json, Json::Array(_)))),
    ("isobject", |args, _| is_kind(args, |json| matches!(json, Json::Object(_)))),
];

/// A path that consists of one key, including its dots.
fn exact_path(path: &str) -> Vec<Step> {
    vec![Step::Key(path.to_owned())]
}

fn document(args: &[Value<'_>]) -> Option<Json> {
    Json::parse(&args.first()?.text()?)
}

/// Converts a value to JSON: numbers and booleans keep their type, texts of JSON objects and arrays are nested.
fn to_json(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Multi(values) => Json::Array(values.iter().map(|text| text_to_json(text)).collect()),
        Value::Int(value) => Json::Number((*value).into()),
        single => single.text().map_or(Json::Null, |text| text_to_json(&text)),
    }
}

fn text_to_json(text: &str) -> Json {
    match parse_canonical_number(text) {
        Some(Number::Int(value)) => Json::Number(value.into()),
        Some(Number::Nanos(ns)) => Json::Instant(ns),
        Some(number) => serde_json::Number::from_f64(number.as_f64()).map_or(Json::Null, Json::Number),
        None => Json::parse_container(text).unwrap_or_else(|| Json::Text(text.to_owned())),
    }
}

/// Converts JSON to a field value.
fn to_value<'a>(json: &Json) -> Value<'a> {
    match json {
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => Value::Int(value),
            (None, Some(value), _) => Value::owned_text(value.to_string()),
            (None, None, Some(value)) => Value::from_f64(value),
            _ => Value::Null,
        },
        Json::Instant(ns) => Value::Time(*ns),
        other => other.field_text().map_or(Value::Null, Value::owned_text),
    }
}

fn extract<'a>(args: &mut [Value<'a>], read_path: fn(&str) -> Vec<Step>) -> Value<'a> {
    let Some(document) = document(args) else { return Value::Null };
    if args.len() == 1 {
        return to_value(&document);
    }
    let along = |path: &Value<'a>| -> Option<Json> {
        let steps = read_path(&path.text()?);
        let mut found = Vec::new();
        document.find(&steps, &mut found);
        if steps.contains(&Step::Each) {
            return (!found.is_empty()).then(|| Json::Array(found.into_iter().cloned().collect()));
        }
        found.first().map(|json| (*json).clone())
    };
    match &args[1..] {
        [path] => along(path).map_or(Value::Null, |json| to_value(&json)),
        paths => to_value(&Json::Array(paths.iter().map(|path| along(path).unwrap_or(Json::Null)).collect())),
    }
}

/// All values of the path in a JSON or XML text, as a multivalue.
fn spath<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    if let (Some(text), Some(path)) = (args.first().and_then(Value::text), args.get(1).and_then(Value::text))
        && is_xml(&text)
    {
        let values = xml_get(&text, &path).into_iter().map(|value| Cow::Owned(value.into_owned()));
        return Value::multi(values.collect());
    }
    let (Some(document), Some(path)) = (document(args), args.get(1).and_then(Value::text)) else { return Value::Null };
    let mut found = Vec::new();
    document.find(&parse_path(&path), &mut found);
    match found.as_slice() {
        [only] => to_value(only),
        all => Value::multi(all.iter().filter_map(|json| json.field_text()).map(Cow::Owned).collect()),
    }
}

fn json_object<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let mut entries: Vec<(String, Json)> = Vec::with_capacity(args.len() / 2);
    for pair in args.chunks(2) {
        let Some(key) = pair[0].text() else { continue };
        let value = pair.get(1).map_or(Json::Null, to_json);
        match entries.iter_mut().find(|(name, _)| *name == key) {
            Some(entry) => entry.1 = value,
            None => entries.push((key.into_owned(), value)),
        }
    }
    Value::owned_text(Json::Object(entries).to_string())
}

fn json_array<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    Value::owned_text(Json::Array(args.iter().map(to_json).collect()).to_string())
}

fn json<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let value = take(args, 0);
    let valid = value.text().is_some_and(|text| Json::parse(&text).is_some());
    if valid { value } else { Value::Null }
}

fn json_keys<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    match document(args) {
        Some(Json::Object(entries)) => {
            let keys = entries.into_iter().map(|(key, _)| Json::Text(key));
            Value::owned_text(Json::Array(keys.collect()).to_string())
        }
        _ => Value::Null,
    }
}

/// Converts each member of an object to an object with `key` and `value`.
fn json_entries<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let Some(Json::Object(entries)) = document(args) else { return Value::Null };
    let items = entries
        .into_iter()
        .map(|(key, value)| Json::Object(vec![("key".to_owned(), Json::Text(key)), ("value".to_owned(), value)]));
    Value::owned_text(Json::Array(items.collect()).to_string())
}

/// Returns an array unchanged, and anything else as the elements of an array.
fn to_array<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    if let Some(Json::Array(_)) = document(args) {
        return take(args, 0);
    }
    match to_json(&take(args, 0)) {
        Json::Null => Value::Null,
        array @ Json::Array(_) => Value::owned_text(array.to_string()),
        one => Value::owned_text(Json::Array(vec![one]).to_string()),
    }
}

fn has_key<'a>(args: &mut [Value<'a>], read_path: fn(&str) -> Vec<Step>) -> Value<'a> {
    let (Some(document), Some(path)) = (document(args), args.get(1).and_then(Value::text)) else { return Value::Null };
    let mut found = Vec::new();
    document.find(&read_path(&path), &mut found);
    Value::Bool(!found.is_empty())
}

fn set<'a>(args: &mut [Value<'a>], read_path: fn(&str) -> Vec<Step>) -> Value<'a> {
    let Some(mut document) = document(args) else { return Value::Null };
    for pair in args[1..].chunks_exact(2) {
        let Some(path) = pair[0].text() else { return Value::Null };
        document.set(&read_path(&path), &to_json(&pair[1]));
    }
    Value::owned_text(document.to_string())
}

fn json_delete<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let Some(mut document) = document(args) else { return Value::Null };
    for path in &args[1..] {
        if let Some(path) = path.text() {
            document.remove(&parse_path(&path));
        }
    }
    Value::owned_text(document.to_string())
}

/// Appends a value to every array at its path; `flatten` appends the elements of an array individually.
fn append_to_arrays<'a>(args: &mut [Value<'a>], flatten: bool) -> Value<'a> {
    let Some(mut document) = document(args) else { return Value::Null };
    for pair in args[1..].chunks_exact(2) {
        let Some(path) = pair[0].text() else { return Value::Null };
        let value = to_json(&pair[1]);
        document.change_each(&parse_path(&path), &mut |found| match (found, &value) {
            (Json::Array(items), Json::Array(more)) if flatten => items.extend_from_slice(more),
            (Json::Array(items), one) => items.push(one.clone()),
            _ => {}
        });
    }
    Value::owned_text(document.to_string())
}

/// The elements as a multivalue; a true second argument keeps strings quoted.
fn json_array_to_mv<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let quoted = is_true(args.get(1));
    match document(args) {
        Some(Json::Array(items)) => {
            let texts = items.iter().filter_map(|item| if quoted { Some(item.to_string()) } else { item.field_text() });
            Value::multi(texts.map(Cow::Owned).collect())
        }
        _ => Value::Null,
    }
}

/// The values as an array of strings; with a true second argument, numbers and JSON keep their type.
fn mv_to_json_array<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let infer = is_true(args.get(1));
    let values = take(args, 0);
    if values.is_null() {
        return Value::Null;
    }
    let typed = |text: &str| if infer { Json::parse(text) } else { None };
    let items =
        values.values().iter().map(|text| typed(text).unwrap_or_else(|| Json::Text(text.to_string()))).collect();
    Value::owned_text(Json::Array(items).to_string())
}

fn is_true(value: Option<&Value<'_>>) -> bool {
    match value {
        Some(Value::Bool(value)) => *value,
        Some(other) => {
            other.text().is_some_and(|text| matches!(text.to_ascii_lowercase().as_str(), "true" | "t" | "1"))
        }
        None => false,
    }
}

fn is_kind<'a>(args: &mut [Value<'a>], test: fn(&Json) -> bool) -> Value<'a> {
    Value::Bool(document(args).is_some_and(|json| test(&json)))
}
