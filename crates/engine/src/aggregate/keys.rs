//! Group keys: the texts of the BY fields, interned to dense numbers.
//!
//! A key of one field is its text; a key of several is each text after its length, so that no two combinations look
//! alike. All keys lie in one buffer.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use quarry_event::time::parse_epoch;
use std::hash::BuildHasher;

/// Distinct byte strings, numbered in order of first appearance.
#[derive(Clone, Default)]
pub(crate) struct KeyTable {
    table: HashTable<u32>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyTable {
    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a key, new or known.
    #[inline]
    pub(crate) fn intern(&mut self, key: &[u8]) -> u32 {
        let KeyTable { table, bytes, ends } = self;
        let hash = FixedState::default().hash_one(key);
        let same = |at: &u32| key_at(bytes, ends, *at as usize) == key;
        if let Some(at) = table.find(hash, same) {
            return *at;
        }
        let at = ends.len() as u32;
        bytes.extend_from_slice(key);
        ends.push(bytes.len());
        let rehash = |at: &u32| FixedState::default().hash_one(key_at(bytes, ends, *at as usize));
        table.insert_unique(hash, at, rehash);
        at
    }

    /// The number of a key if it is known.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = FixedState::default().hash_one(key);
        self.table.find(hash, |at| self.key(*at as usize) == key).copied()
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.table.capacity() * (size_of::<u32>() + 1)
    }

    /// Key number `at`.
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        key_at(&self.bytes, &self.ends, at)
    }
}

fn key_at<'a>(bytes: &'a [u8], ends: &[usize], at: usize) -> &'a [u8] {
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &bytes[start..ends[at]]
}

/// Appends one field's text to a key of `parts` fields.
pub(crate) fn add_key_part(key: &mut Vec<u8>, text: &str, parts: usize) {
    if parts > 1 {
        key.extend_from_slice(&(text.len() as u32).to_le_bytes());
    }
    key.extend_from_slice(text.as_bytes());
}

/// The key column as shown: `_time` becomes an instant again.
pub(crate) fn shown_key(name: &str, keys: &ArrayRef) -> ArrayRef {
    if name != "_time" {
        return Arc::clone(keys);
    }
    let Some(texts) = keys.as_string_view_opt() else { return Arc::clone(keys) };
    let times = texts.iter().map(|text| text.map(parse_epoch)).map(|time| match time {
        Some(None) => None,
        Some(time) => Some(time),
        None => Some(None),
    });
    let times: Option<Vec<Option<i64>>> = times.collect();
    times.map_or_else(|| Arc::clone(keys), |times| Arc::new(TimestampNanosecondArray::from(times)) as ArrayRef)
}
