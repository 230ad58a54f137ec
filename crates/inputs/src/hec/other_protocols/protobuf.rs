//! Decodes protobuf messages to JSON values, by small tables of the fields to decode.
//!
//! The same code then processes both encodings of a protocol, JSON and protobuf. Fields that are not in the tables are
//! skipped.

use quarry_stdx::hex;
use serde_json::{Map, Number, Value};

use crate::hec::json_memory::{OBJECT_BYTES, VALUE_BYTES};

/// Maximum nesting of messages.
const DEPTH_MAX: usize = 32;

/// The fields to decode in a message.
pub(super) struct Schema(pub(super) &'static [Field]);

pub(super) struct Field {
    pub(super) number: u64,
    /// Name of the field in JSON.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) is_repeated: bool,
}

/// Type of a field.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// Rendered as hexadecimal digits.
    Bytes,
    Bool,
    Signed,
    Fixed,
    SignedFixed,
    Double,
    Message(&'static Schema),
}

/// A field with at most one value.
pub(super) const fn single(number: u64, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_repeated: false }
}

/// A repeated field.
pub(super) const fn repeated(number: u64, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_repeated: true }
}

/// Reserves memory; returns `None` if the budget is spent.
pub(super) type TakeMemory<'a> = &'a mut dyn FnMut(usize) -> Option<()>;

/// Decodes a message; `None` if it is invalid or there is no memory for it.
pub(super) fn decode(bytes: &[u8], schema: &Schema, memory: TakeMemory<'_>) -> Option<Value> {
    message(bytes, schema, 0, memory)
}

fn message(mut bytes: &[u8], schema: &Schema, depth: usize, memory: TakeMemory<'_>) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    if !bytes.is_empty() {
        memory(OBJECT_BYTES)?;
    }
    let mut object = Map::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Number(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Number(u64::from(u32::from_le_bytes(take(&mut bytes, 4)?.try_into().ok()?))),
            _ => return None,
        };
        let Some(field) = schema.0.iter().find(|field| field.number == tag >> 3) else { continue };
        if !field.is_repeated {
            object.insert(field.name.to_owned(), value(&wire, field.kind, depth, memory)?);
            continue;
        }
        let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?;
        match (wire, field.kind) {
            // A packed repeated field.
            (Wire::Bytes(packed), Kind::Fixed | Kind::SignedFixed | Kind::Double) => {
                for eight in packed.chunks_exact(8) {
                    let number = Wire::Number(u64::from_le_bytes(eight.try_into().ok()?));
                    list.push(value(&number, field.kind, depth, memory)?);
                }
            }
            (wire, kind) => list.push(value(&wire, kind, depth, memory)?),
        }
    }
    Some(Value::Object(object))
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn value(wire: &Wire<'_>, kind: Kind, depth: usize, memory: TakeMemory<'_>) -> Option<Value> {
    let text_bytes = match (kind, wire) {
        (Kind::Text, Wire::Bytes(bytes)) => bytes.len(),
        (Kind::Bytes, Wire::Bytes(bytes)) => 2 * bytes.len(),
        _ => 0,
    };
    memory(VALUE_BYTES + text_bytes)?;
    Some(match (kind, wire) {
        (Kind::Text, Wire::Bytes(bytes)) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        (Kind::Bytes, Wire::Bytes(bytes)) => Value::String(hex::encode(bytes)),
        (Kind::Message(schema), Wire::Bytes(bytes)) => message(bytes, schema, depth + 1, memory)?,
        (Kind::Bool, Wire::Number(number)) => Value::Bool(*number != 0),
        (Kind::Fixed, Wire::Number(number)) => Value::from(*number),
        (Kind::Signed | Kind::SignedFixed, Wire::Number(number)) => Value::from(number.cast_signed()),
        // JSON has no non-finite numbers, so these become strings.
        (Kind::Double, Wire::Number(bits)) => {
            let double = f64::from_bits(*bits);
            Number::from_f64(double).map_or_else(|| Value::String(double.to_string()), Value::Number)
        }
        _ => return None,
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Kind, Schema, Value, repeated, single};

    fn decode(bytes: &[u8], schema: &Schema) -> Option<Value> {
        super::decode(bytes, schema, &mut |_| Some(()))
    }

    static INNER: Schema = Schema(&[single(1, "text", Kind::Text), repeated(2, "again", Kind::Message(&INNER))]);
    static OUTER: Schema = Schema(&[
        repeated(1, "inner", Kind::Message(&INNER)),
        single(2, "signed", Kind::Signed),
        single(3, "double", Kind::Double),
        repeated(4, "packed", Kind::Fixed),
        single(5, "id", Kind::Bytes),
    ]);

    #[test]
    fn schema_fields_are_decoded_and_others_skipped() {
        let mut bytes = b"\x0a\x07\x0a\x01a\x12\x02\x0a\x00\x0a\x03\x0a\x01b".to_vec();
        bytes.extend(b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x19\0\0\0\0\0\0\xf8\x3f\x7a\x02zz\x2a\x02\x01\xab");
        bytes.extend(b"\x22\x10\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
        let expected = json!({
            "inner": [{"text": "a", "again": [{"text": ""}]}, {"text": "b"}],
            "signed": -1, "double": 1.5, "id": "01ab", "packed": [1, 2]
        });
        assert_eq!(decode(&bytes, &OUTER), Some(expected));
        assert_eq!(decode(b"\x0a\x05x", &OUTER), None);
    }

    #[test]
    fn depth_is_bounded() {
        let mut bytes = Vec::new();
        for _ in 0..40 {
            let mut next = vec![0x12, bytes.len() as u8];
            next.append(&mut bytes);
            bytes = next;
        }
        assert_eq!(decode(&bytes, &INNER), None);
    }

    #[test]
    fn messages_beyond_the_memory_limit_are_refused() {
        let mut left = 10_000_usize;
        let mut memory = |bytes| left.checked_sub(bytes).map(|rest| left = rest);
        assert!(super::decode(&b"\x0a\x00".repeat(10), &OUTER, &mut memory).is_some());
        assert!(super::decode(&b"\x0a\x00".repeat(1_000), &OUTER, &mut memory).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(decode(&bytes, &OUTER));
        }
    }
}
