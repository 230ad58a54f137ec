//! Digests of the search-time fields of a slab, with which verification compares the fields that the slab stores.
//!
//! Extracting the fields takes most of the time of a merge. A merge encodes all slabs before it reads them back, and
//! the fields of all slabs together would take much memory, so the merge keeps only their digests.

use std::sync::Arc;

use quarry_event::template::{ExtractedNames, StoredExtraction};
use xxhash_rust::xxh3::Xxh3;

use crate::encode::SlabSource;

/// Digests of the search-time fields that were passed to the encoder for a slab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractionDigest {
    fields: Vec<FieldDigest>,
    pub(crate) names: Option<ExtractedNames>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldDigest {
    name: Arc<str>,
    rules: u128,
    values: ValuesDigest,
}

/// Digests of the rows of a field, of the ends of its values, and of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValuesDigest([u128; 3]);

impl ExtractionDigest {
    /// Digests of the fields of this slab.
    pub fn of(slab: &SlabSource<'_>) -> ExtractionDigest {
        let fields = slab.extractions.iter().map(|field| {
            let mut values = ValuesHasher::default();
            values.add(field.rows.iter().copied(), &field.ends, &field.bytes);
            FieldDigest { name: Arc::clone(&field.name), rules: field.rules, values: values.finish() }
        });
        ExtractionDigest { fields: fields.collect(), names: slab.extracted_names.cloned() }
    }

    /// Digest of the values of a stored field; `None` if there is no such field.
    pub(crate) fn values_of(&self, stored: &StoredExtraction) -> Option<ValuesDigest> {
        let is_same = |field: &&FieldDigest| (&field.name, field.rules) == (&stored.name, stored.rules);
        self.fields.iter().find(is_same).map(|field| field.values)
    }
}

/// Computes the digest of values that come in several parts.
#[derive(Default)]
pub(crate) struct ValuesHasher {
    rows: Xxh3,
    ends: Xxh3,
    bytes: Xxh3,
    len: u32,
    scratch: Vec<u8>,
}

impl ValuesHasher {
    /// Adds the values of these rows of the slab; `ends` are the ends of the values in `bytes`.
    pub(crate) fn add(&mut self, rows: impl Iterator<Item = u32>, ends: &[u32], bytes: &[u8]) {
        self.scratch.clear();
        self.scratch.extend(rows.flat_map(u32::to_le_bytes));
        self.rows.update(&self.scratch);
        // Ends that were decoded wrongly may have any value, so these sums wrap.
        let start = self.len;
        self.scratch.clear();
        self.scratch.extend(ends.iter().flat_map(|end| end.wrapping_add(start).to_le_bytes()));
        self.ends.update(&self.scratch);
        self.bytes.update(bytes);
        self.len = self.len.wrapping_add(ends.last().copied().unwrap_or(0));
    }

    pub(crate) fn finish(&self) -> ValuesDigest {
        ValuesDigest([self.rows.digest128(), self.ends.digest128(), self.bytes.digest128()])
    }
}
