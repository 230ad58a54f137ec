//! Columns of texts without their common prefix: string views that begin after the prefix.
//!
//! Not here: which fields begin after a prefix ([`super::prefixed_values`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ByteView, MAX_INLINE_VIEW_LEN, StringViewArray, StringViewBuilder};
use quarry_eval::EngineError;
use quarry_event::template::{TemplatePart, TextSlice};
use quarry_stdx::number::u32_of;

use super::columns::{typed_column, value_positions};
use super::divided_keys::RowKeys;
use super::field_locations::FieldLocations;
use super::page::{PageReader, Rows};
use super::value_location::{Decoding, ValueLocation};

/// The values in these rows if all are in the same column of texts, each after a prefix of the same length.
pub(super) fn prefixed_column(
    field: &FieldLocations,
    rows: &Rows,
    keys: &RowKeys,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    let mut places = keys.used(field).map(|(_, place, _)| place);
    let Some(ValueLocation::Written(first)) = places.next().filter(|_| keys.is_complete) else { return Ok(None) };
    let is_same = |place: &ValueLocation| matches!(place, ValueLocation::Written(place) if place == first);
    let (Decoding::Slice(TextSlice::From(bytes)), [TemplatePart::Variable(column)]) = (first.decoding, &*first.parts)
    else {
        return Ok(None);
    };
    if !places.all(is_same) {
        return Ok(None);
    }
    let values = page.column_of_rows(*column, rows)?;
    let whole = typed_column(*column, &values, &value_positions(&values, rows), page)?;
    whole.as_string_view_opt().map(|whole| without_prefix(whole, bytes as usize)).transpose()
}

/// The texts without this many bytes at their start; null where a text is shorter.
fn without_prefix(texts: &StringViewArray, bytes: usize) -> Result<ArrayRef, EngineError> {
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    let first = texts.data_buffers().iter().map(|buffer| builder.append_block(buffer.clone())).min();
    for at in 0..texts.len() {
        let text = if texts.is_valid(at) { texts.value(at).get(bytes..) } else { None };
        let Some(text) = text else {
            builder.append_null();
            continue;
        };
        let view = ByteView::from(texts.views()[at]);
        match first {
            Some(first) if view.length > MAX_INLINE_VIEW_LEN => {
                builder.try_append_view(first + view.buffer_index, view.offset + u32_of(bytes), u32_of(text.len()))?;
            }
            _ => builder.append_value(text),
        }
    }
    Ok(Arc::new(builder.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_lose_their_prefix() {
        let texts = ["0x1f", "0x", "0xzo\u{eb}", "0x0123456789", "0x0123456789a", "0x0123456789abcdef", "0"];
        let all: StringViewArray = texts.iter().map(|text| Some(*text)).chain([None]).collect();
        let found = without_prefix(&all.slice(1, 7), 2).unwrap();
        let found: Vec<Option<&str>> = found.as_string_view().iter().collect();
        let expected: Vec<Option<&str>> = texts[1..].iter().map(|text| text.get(2..)).chain([None]).collect();
        assert_eq!(found, expected);
    }
}
