//! Documents as received and as stored.

use std::fmt;

use quarry_stdx::random;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::{CollectionDefinition, CollectionError, KEY, USER};

/// Maximum size of a document, as in Splunk.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Maximum size of a key.
const KEY_BYTES_MAX: usize = 1_024;
/// Random bytes of a generated key.
const KEY_RANDOM_BYTES: usize = 12;

/// Members of a JSON object.
pub type Object = Map<String, Value>;
/// Consumer of documents.
pub type ObjectConsumer<'t> = &'t mut dyn FnMut(Object) -> Result<(), CollectionError>;

/// A validated document.
#[derive(Clone, Debug)]
pub(crate) struct PreparedDocument {
    pub(crate) key: Option<String>,
    pub(crate) members: Object,
    /// Members of the document as JSON, without key and user.
    pub(crate) body: String,
}

fn invalid_json(error: &serde_json::Error) -> CollectionError {
    CollectionError::invalid(format!("JSON in the request is invalid: {error}"))
}

/// Parses one document.
pub fn parse_object(bytes: &[u8]) -> Result<Object, CollectionError> {
    match serde_json::from_slice(bytes).map_err(|error| invalid_json(&error))? {
        Value::Object(members) => Ok(members),
        _ => Err(CollectionError::invalid("a document is a JSON object")),
    }
}

/// Parses a list of documents and passes each to `take`; stops at the first error.
pub fn parse_objects(bytes: &[u8], take: ObjectConsumer<'_>) -> Result<(), CollectionError> {
    let mut failed = None;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Documents { take, failed: &mut failed }.deserialize(&mut reader).and_then(|()| reader.end());
    match failed {
        Some(error) => Err(error),
        None => read.map_err(|error| invalid_json(&error)),
    }
}

struct Documents<'t> {
    take: &'t mut dyn FnMut(Object) -> Result<(), CollectionError>,
    failed: &'t mut Option<CollectionError>,
}

impl<'de> DeserializeSeed<'de> for Documents<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Documents<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of documents")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(members) = list.next_element::<Object>()? {
            if let Err(error) = (self.take)(members) {
                *self.failed = Some(error);
                return Err(serde::de::Error::custom("a document is refused"));
            }
        }
        Ok(())
    }
}

/// Validates a document and converts it to the types of its collection's definition.
pub(crate) fn prepare(
    mut members: Object,
    definition: &CollectionDefinition,
) -> Result<PreparedDocument, CollectionError> {
    let key = match members.remove(KEY) {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) if key.is_empty() => None,
        Some(Value::String(key)) => Some(key),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => return Err(CollectionError::invalid(format!("{KEY} is a text"))),
    };
    if let Some(key) = &key {
        check_key(key)?;
    }
    members.remove(USER);
    check_names(&members)?;
    definition.convert(&mut members)?;
    let body = serde_json::to_string(&members).map_err(|error| invalid_json(&error))?;
    if body.len() > DOCUMENT_BYTES_MAX {
        let text = format!("a document of {} bytes is over the limit of {DOCUMENT_BYTES_MAX} bytes", body.len());
        return Err(CollectionError::Invalid(text));
    }
    Ok(PreparedDocument { key, members, body })
}

pub(crate) fn check_key(key: &str) -> Result<(), CollectionError> {
    if key.len() > KEY_BYTES_MAX {
        return Err(CollectionError::invalid(format!("{KEY} exceeds the maximum of {KEY_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn check_names(members: &Object) -> Result<(), CollectionError> {
    match members.keys().find(|name| name.is_empty() || name.starts_with('$') || name.contains('\0')) {
        Some(name) => Err(CollectionError::invalid(format!("{name:?} cannot be the name of a field"))),
        None => Ok(()),
    }
}

/// A new unique key.
pub(crate) fn new_key() -> String {
    random::id::<KEY_RANDOM_BYTES>()
}

/// Writes a document in the form returned to clients, with user and key added to its members. `body` is a JSON object.
pub(crate) fn write_answer(user: &str, key: &str, body: &str, out: &mut String) {
    let members = body.strip_suffix('}').unwrap_or(body);
    out.push_str(members);
    if members.len() > 1 {
        out.push(',');
    }
    for (at, (name, text)) in [(USER, user), (KEY, key)].into_iter().enumerate() {
        out.push_str(if at > 0 { ",\"" } else { "\"" });
        out.push_str(name);
        out.push_str("\":");
        out.push_str(&Value::from(text).to_string());
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_one_by_one() {
        let mut seen = Vec::new();
        let mut take = |members: Object| {
            seen.push(members.len());
            if seen.len() < 3 { Ok(()) } else { Err(CollectionError::invalid("enough")) }
        };
        parse_objects(b" [{}, {\"a\": 1}] ", &mut take).unwrap();
        assert_eq!(parse_objects(b"[{},{}]", &mut take), Err(CollectionError::invalid("enough")));
        for wrong in [&b"{}"[..], b"[1]", b"[{}", b"[{}]]", b"", b"[{\"a\":\"\xff\"}]"] {
            let mut all = |_| Ok(());
            assert!(matches!(parse_objects(wrong, &mut all), Err(CollectionError::Invalid(_))));
        }
        assert!(parse_object(b"[]").is_err() && parse_object(b"{\"a\":1}").is_ok());
    }

    #[test]
    fn keys_must_be_texts_and_names_must_not_be_operators() {
        let prepared =
            |document: Value| prepare(document.as_object().cloned().unwrap(), &CollectionDefinition::default());
        let kept = prepared(json!({"_key": 7, "_user": "eva", "b": 1, "a": "x"})).unwrap();
        assert_eq!((kept.key.as_deref(), kept.body.as_str()), (Some("7"), "{\"a\":\"x\",\"b\":1}"));
        assert_eq!(prepared(json!({"_key": ""})).unwrap().key, None);
        for wrong in [json!({"_key": [1]}), json!({"$a": 1}), json!({"": 1}), json!({"_key": "k".repeat(2_000)})] {
            assert!(prepared(wrong).is_err());
        }
        let mut out = String::new();
        write_answer("nobody", "a\"b", "{}", &mut out);
        write_answer("nobody", "k", "{\"a\":1}", &mut out);
        assert_eq!(out, r#"{"_user":"nobody","_key":"a\"b"}{"a":1,"_user":"nobody","_key":"k"}"#);
        assert!(new_key() != new_key() && new_key().len() == 24);
    }
}
