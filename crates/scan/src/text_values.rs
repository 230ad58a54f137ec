//! Functions of texts: their length in characters, and whether a pattern matches.
//!
//! Not here: the same functions on templates and columns ([`crate::template_pages`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array};
use quarry_eval::pattern::Regex;
use quarry_eval::rows::ColumnReader;

/// Number of characters of a UTF-8 text, which is the number of bytes that begin a character.
#[inline]
pub(crate) fn char_count(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// The length of each text in characters; null for a null.
pub(crate) fn char_counts(texts: &ArrayRef) -> ArrayRef {
    let (reader, mut scratch) = (ColumnReader::new(texts), String::new());
    let count = |row| reader.text(row, &mut scratch).map(|text| char_count(text.as_bytes()) as i64);
    Arc::new((0..texts.len()).map(count).collect::<Int64Array>())
}

/// 1 for each text that matches, 0 for each that does not, null for a null.
pub(crate) fn match_flags(regex: &Regex, texts: &ArrayRef) -> ArrayRef {
    let (reader, mut scratch) = (ColumnReader::new(texts), String::new());
    let is_match = |row| reader.text(row, &mut scratch).map(|text| i64::from(regex.is_match(text)));
    Arc::new((0..texts.len()).map(is_match).collect::<Int64Array>())
}
