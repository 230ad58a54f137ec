//! Arrays of texts: concatenated texts of a bucket, keys of dictionaries, and the metadata of events.
//!
//! Not here: columns of fields ([`super::columns`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, StringArray, StringViewArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::UInt32Type;
use bytes::Bytes;
use quarry_eval::EngineError;
use quarry_event::Metadata;
use quarry_stdx::number::u32_of;

use super::interner::ABSENT;
use crate::event_fields::metadata_text;

/// A metadata field of a slab: its distinct texts, and the text of each metadata code.
pub(super) struct MetadataColumn {
    texts: ArrayRef,
    codes: Vec<u32>,
}

impl MetadataColumn {
    pub(super) fn new(metas: &[Metadata], field: &str) -> MetadataColumn {
        let mut texts: Vec<&str> = Vec::new();
        let codes = metas.iter().map(|meta| {
            let text = metadata_text(meta, field);
            let known = texts.iter().position(|known| *known == text);
            u32_of(known.unwrap_or_else(|| {
                texts.push(text);
                texts.len() - 1
            }))
        });
        let codes = codes.collect();
        MetadataColumn { texts: Arc::new(StringViewArray::from_iter_values(texts)), codes }
    }

    /// Whether all metadata codes have the same text.
    pub(super) fn is_uniform(&self) -> bool {
        self.texts.len() == 1
    }

    /// The field as a column, for events with these metadata codes of the slab.
    pub(super) fn column(&self, metas: impl Iterator<Item = u32>) -> Result<ArrayRef, EngineError> {
        let keys: Vec<u32> = metas.map(|meta| self.codes[meta as usize]).collect();
        let keys = UInt32Array::from(keys);
        Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(&self.texts))?))
    }
}

/// The codes as keys of a dictionary; null for [`ABSENT`].
pub(super) fn dictionary_keys(mut codes: Vec<u32>) -> UInt32Array {
    if !codes.contains(&ABSENT) {
        return codes.into();
    }
    let present = BooleanBuffer::collect_bool(codes.len(), |row| codes[row] != ABSENT);
    // The key of a null must not exceed the dictionary either.
    codes.iter_mut().for_each(|code| *code = if *code == ABSENT { 0 } else { *code });
    UInt32Array::new(codes.into(), Some(NullBuffer::new(present)))
}

/// A string view array over concatenated texts.
pub(super) fn text_array(bytes: &Bytes, ends: &[u32]) -> Result<ArrayRef, EngineError> {
    text_views(Buffer::from(bytes.clone()), ends, None)
}

/// Like [`text_array`], but with null texts. All bytes are validated at once, which costs much less than validating
/// each text.
pub(super) fn text_views(bytes: Buffer, ends: &[u32], nulls: Option<NullBuffer>) -> Result<ArrayRef, EngineError> {
    let too_long = |_| EngineError::invalid("the texts of a page exceed 2 GiB; rebuild the bucket");
    let offsets = std::iter::once(&0).chain(ends).map(|end| i32::try_from(*end));
    let offsets: Vec<i32> = offsets.collect::<Result<_, _>>().map_err(too_long)?;
    if !offsets.is_sorted() {
        return Err(EngineError::invalid("a text of a bucket ends before it starts; rebuild the bucket"));
    }
    let texts = StringArray::try_new(OffsetBuffer::new(offsets.into()), bytes, nulls)?;
    Ok(Arc::new(StringViewArray::from(&texts)))
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;

    use super::*;

    #[test]
    fn absent_codes_become_null_keys() {
        let keys = dictionary_keys(vec![2, ABSENT, 0, 1, ABSENT]);
        assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(2), None, Some(0), Some(1), None]);
        assert!(keys.values().iter().all(|key| *key <= 2));
        assert_eq!(dictionary_keys(vec![ABSENT; 3]).null_count(), 3);
        assert_eq!(dictionary_keys(vec![1, 0]).nulls(), None);
    }
}
