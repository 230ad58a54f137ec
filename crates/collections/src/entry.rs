//! Index entries of accelerated fields: a document's values, encoded so that the bytes sort like the values.
//!
//! A value is a type byte followed by the value: numbers as order-preserving float bits, texts with escaped zero bytes
//! and a double zero terminator. Several fields are concatenated. Long texts are truncated and integers beyond a
//! float's precision are rounded, so entries only narrow a search; each document found is then compared with the query
//! itself. A field with an array has one entry per element.

use serde_json::Value;

use crate::definition::Acceleration;
use crate::document::Object;
use crate::field_path::FieldPath;
use crate::{CollectionError, KEY, USER};

/// Maximum bytes of a text in an entry.
const TEXT_BYTES_MAX: usize = 1_024;
/// Maximum number of entries of one document per acceleration.
const ENTRIES_MAX: usize = 1_000;
/// Byte that, appended to a prefix, sorts after every entry with that prefix.
pub(crate) const PREFIX_END: u8 = 0xff;
/// Type byte of an empty array.
const EMPTY: u8 = 0x08;
const NULL: u8 = 0x10;
const NUMBER: u8 = 0x20;
const TEXT: u8 = 0x30;
const OBJECT: u8 = 0x40;
const ARRAY: u8 = 0x50;
const FLAG: u8 = 0x60;

/// Entries of one document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) values: Vec<Vec<u8>>,
    /// Whether there is a single entry that sorts exactly like the values.
    pub(crate) is_exact: bool,
}

/// The type byte of values that a comparison with this value can match; `None` for objects and arrays, whose entries
/// cannot be compared.
pub(crate) fn type_byte(value: &Value) -> Option<u8> {
    match value {
        Value::Null => Some(NULL),
        Value::Number(_) => Some(NUMBER),
        Value::String(_) => Some(TEXT),
        Value::Bool(_) => Some(FLAG),
        Value::Object(_) | Value::Array(_) => None,
    }
}

/// Appends a value to an entry; returns whether the encoding is exact.
pub(crate) fn encode(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Null => {
            out.push(NULL);
            true
        }
        Value::Bool(flag) => {
            out.extend([FLAG, u8::from(*flag)]);
            true
        }
        Value::Number(number) => {
            let float = number.as_f64().unwrap_or_default();
            // Maps -0.0 to 0.0.
            let bits = (float + 0.0).to_bits();
            let sorted = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
            out.push(NUMBER);
            out.extend(sorted.to_be_bytes());
            const WHOLE_MAX: u64 = 1 << 53;
            number.is_f64() || number.as_i64().is_some_and(|whole| whole.unsigned_abs() <= WHOLE_MAX)
        }
        Value::String(text) => encode_text(TEXT, text, out),
        // Objects do not sort in the order of their texts.
        Value::Object(_) => {
            encode_text(OBJECT, &value.to_string(), out);
            false
        }
        Value::Array(_) => {
            encode_text(ARRAY, &value.to_string(), out);
            false
        }
    }
}

fn encode_text(kind: u8, text: &str, out: &mut Vec<u8>) -> bool {
    out.push(kind);
    let bytes = text.as_bytes();
    for byte in &bytes[..bytes.len().min(TEXT_BYTES_MAX)] {
        out.push(*byte);
        if *byte == 0 {
            out.push(PREFIX_END);
        }
    }
    out.extend([0, 0]);
    bytes.len() <= TEXT_BYTES_MAX
}

/// A document to be indexed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedDocument<'d> {
    pub(crate) user: &'d str,
    pub(crate) key: &'d str,
    /// Members of the document, without key and user.
    pub(crate) members: &'d Object,
}

/// The entries of a document in an acceleration.
pub(crate) fn entries(acceleration: &Acceleration, document: IndexedDocument<'_>) -> Result<Entries, CollectionError> {
    let mut entries = Entries { values: vec![Vec::new()], is_exact: true };
    for field in &acceleration.fields {
        let (parts, is_exact) = parts_of(field, document);
        entries.is_exact &= is_exact && parts.len() == 1;
        if entries.values.len().saturating_mul(parts.len()) > ENTRIES_MAX {
            return Err(CollectionError::invalid(format!(
                "the accelerated fields {} have more than {ENTRIES_MAX} values, the maximum for a document",
                acceleration.name
            )));
        }
        let joined = |value: &Vec<u8>| parts.iter().map(|part| [value.as_slice(), part].concat()).collect::<Vec<_>>();
        entries.values = entries.values.iter().flat_map(joined).collect();
    }
    entries.values.sort_unstable();
    entries.values.dedup();
    Ok(entries)
}

fn parts_of(field: &FieldPath, document: IndexedDocument<'_>) -> (Vec<Vec<u8>>, bool) {
    if matches!(field.name(), KEY | USER) {
        let mut part = Vec::new();
        let text = if field.name() == KEY { document.key } else { document.user };
        let is_exact = encode_text(TEXT, text, &mut part);
        return (vec![part], is_exact);
    }
    let (mut parts, mut is_exact) = (Vec::new(), true);
    let mut add = |value: &Value| {
        let mut part = Vec::new();
        is_exact &= encode(value, &mut part);
        parts.push(part);
    };
    let values = field.values(document.members);
    for value in &values {
        match value {
            Value::Array(elements) => elements.iter().for_each(&mut add),
            value => add(value),
        }
    }
    match (parts.is_empty(), values.is_empty()) {
        (true, true) => (vec![vec![NULL]], true),
        (true, false) => (vec![vec![EMPTY]], false),
        _ => {
            parts.sort_unstable();
            parts.dedup();
            is_exact &= !values.iter().any(|value| value.is_array()) && values.len() == 1;
            (parts, is_exact)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::value_order::compare;

    fn encoded(value: &Value) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let is_exact = encode(value, &mut out);
        (out, is_exact)
    }

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1_000i64..1_000).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a\u{0}\u{ff}b]{0,6}".prop_map(Value::from),
        ]
    }

    proptest! {
        #[test]
        fn entries_sort_like_their_values(left in scalar(), right in scalar()) {
            let ((a, exact_a), (b, exact_b)) = (encoded(&left), encoded(&right));
            let order = compare(&left, &right);
            if exact_a && exact_b {
                prop_assert_eq!(a.cmp(&b), order, "{} {}", left, right);
            } else {
                prop_assert!(a.cmp(&b) == order || a == b, "{} {}", left, right);
            }
        }
    }

    #[test]
    fn a_document_has_an_entry_for_each_value() {
        let acceleration = |names: &[&str]| Acceleration {
            name: "x".to_owned(),
            fields: names.iter().map(|name| FieldPath::new(name).unwrap()).collect(),
        };
        let of = |names: &[&str], document: &Value| {
            let members = document.as_object().unwrap();
            entries(&acceleration(names), IndexedDocument { user: "nobody", key: "k", members })
        };
        let document = json!({"n": 1, "l": [3, 2, 3], "e": [], "t": "x".repeat(2_000)});
        assert_eq!(of(&["n"], &document).unwrap(), Entries { values: vec![encoded(&json!(1)).0], is_exact: true });
        let lists = of(&["l", "n"], &document).unwrap();
        assert_eq!((lists.values.len(), lists.is_exact), (2, false));
        assert_eq!(of(&["none"], &document).unwrap().values, [vec![NULL]]);
        assert_eq!(of(&["e"], &document).unwrap().values, [vec![EMPTY]]);
        assert!(!of(&["t"], &document).unwrap().is_exact);
        assert_eq!(of(&["_key"], &document).unwrap().values, [encoded(&json!("k")).0]);
        let many = json!({"a": (0..100).collect::<Vec<_>>(), "b": (0..11).collect::<Vec<_>>()});
        assert!(of(&["a"], &many).is_ok() && of(&["a", "b"], &many).is_err());
    }
}
