//! Slices: columns whose values are parts of the values of a text column, always at the same place, as a span id that is
//! the first half of the trace id. Only the text column and the place are stored. Compaction finds slices by comparing
//! ids, which cannot be compressed otherwise.

use bytes::Bytes;
use memchr::memmem;
use quarry_event::template::{Column, ColumnKind, ColumnValues, NumberFormat};
use quarry_stdx::number::u32_of;

use crate::columns::layout::{ChunkLocations, StoredColumn};
use crate::integers::range_of;
use crate::templates::{SlabColumn, SlabValues};
use crate::wire::Malformed;

/// Minimum bytes of a value. Shorter values take little space in columns of their own.
const VALUE_BYTES_MIN: u32 = 8;
/// Minimum range of numbers: ids, rather than numbers that repeat.
const NUMBER_RANGE_MIN: u64 = 1 << 32;
/// Maximum number of places that are tried in a text column. A value of an id is seldom found at several places.
const PLACES_MAX: usize = 4;

/// Values that are parts of the values of a text column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The text column.
    pub(crate) column: u32,
    /// Bytes before the part.
    pub(crate) start: u32,
}

/// For each of these columns, a column that contains its values, if there is one that is not a slice itself.
pub(super) fn find_slices(columns: &[SlabColumn], equal: &[Option<u32>]) -> Vec<Option<Slice>> {
    let mut slices: Vec<Option<Slice>> = vec![None; columns.len()];
    let is_text = |column: &SlabColumn| matches!(&*column.values, SlabValues::Texts { .. });
    let mut ids: Vec<usize> = (0..columns.len()).filter(|at| equal[*at].is_none() && is_id(&columns[*at])).collect();
    // A text that contains an id is longer. So whether it is a slice itself is known before.
    ids.sort_by_key(|at| std::cmp::Reverse(columns[*at].traits.max_len));
    for at in ids {
        let own = &columns[at];
        let mut texts = (0u32..).zip(columns).filter(|(number, text)| {
            is_text(text)
                && text.traits.min_len > own.traits.max_len
                && text.page_starts == own.page_starts
                && equal[*number as usize].is_none()
                && slices[*number as usize].is_none()
        });
        let found = texts.find_map(|(column, text)| Some(Slice { column, start: start_in(text, own)? }));
        slices[at] = found;
    }
    slices
}

/// Whether the values are texts or numbers of one length, nearly all of which are different.
fn is_id(column: &SlabColumn) -> bool {
    let has_length = column.traits.min_len == column.traits.max_len && column.traits.min_len >= VALUE_BYTES_MIN;
    has_length
        && match &*column.values {
            SlabValues::Texts { ends, .. } => !ends.is_empty(),
            SlabValues::Numbers { numbers, .. } => {
                let (min, max) = range_of(numbers);
                !numbers.is_empty() && max.abs_diff(min) >= NUMBER_RANGE_MIN
            }
            SlabValues::Templates { .. } | SlabValues::Dictionary { .. } => false,
        }
}

/// The number of bytes before the value of `own` in each value of `text`, if it is always the same.
fn start_in(text: &SlabColumn, own: &SlabColumn) -> Option<u32> {
    let SlabValues::Texts { bytes, ends } = &*text.values else { return None };
    let (least, len) = (text.traits.min_len as usize, own.traits.max_len as usize);
    let mut first = Vec::new();
    put_value(&own.values, 0, &mut first);
    let mut places = memmem::find_iter(bytes.get(..least)?, &first).take(PLACES_MAX);
    places
        .find(|start| {
            let mut begin = 0;
            let mut part_of = |end: &u32| {
                let from = std::mem::replace(&mut begin, *end as usize) + start;
                bytes.get(from..from + len)
            };
            (0..).zip(ends).all(|(at, end)| part_of(end).is_some_and(|part| is_value(&own.values, at, part)))
        })
        .map(u32_of)
}

fn put_value(values: &SlabValues, at: usize, out: &mut Vec<u8>) {
    match values {
        SlabValues::Numbers { format, numbers } => format.write(numbers[at], out),
        SlabValues::Texts { bytes, ends } => out.extend_from_slice(text_at(bytes, ends, at)),
        SlabValues::Templates { .. } | SlabValues::Dictionary { .. } => {}
    }
}

fn is_value(values: &SlabValues, at: usize, part: &[u8]) -> bool {
    match values {
        SlabValues::Numbers { format, numbers } => format.parse(part) == Some(numbers[at]),
        SlabValues::Texts { bytes, ends } => text_at(bytes, ends, at) == part,
        SlabValues::Templates { .. } | SlabValues::Dictionary { .. } => false,
    }
}

fn text_at<'a>(bytes: &'a [u8], ends: &[u32], at: usize) -> &'a [u8] {
    let start = at.checked_sub(1).map_or(0, |before| ends[before] as usize);
    &bytes[start..ends[at] as usize]
}

/// Checks that slices are parts of columns that contain texts long enough.
pub(super) fn check_slices(columns: &[Column], stored: &[StoredColumn]) -> Result<(), Malformed> {
    for (number, (column, own)) in columns.iter().zip(stored).enumerate() {
        let ChunkLocations::Sliced(Slice { column: text, start }) = own.values else { continue };
        let has_length = column.traits.min_len == column.traits.max_len;
        let may_be_slice = matches!(column.kind, ColumnKind::Texts | ColumnKind::Numbers { .. });
        let contains = |(text, texts): (&Column, &StoredColumn)| {
            text.kind == ColumnKind::Texts
                && !matches!(texts.values, ChunkLocations::Sliced(_))
                && texts.counts == own.counts
                && start.checked_add(column.traits.max_len).is_some_and(|end| end <= text.traits.min_len)
        };
        let text = columns.get(text as usize).zip(stored.get(text as usize));
        if !has_length || !may_be_slice || own.dictionary.is_some() || !text.is_some_and(contains) {
            return Err(Malformed(format!("the values of column {number} cannot be parts of another column")));
        }
    }
    Ok(())
}

/// The parts of `texts` that are the values of a column.
pub(super) fn slice_values(texts: &ColumnValues, start: u32, column: &Column) -> Result<ColumnValues, Malformed> {
    let ColumnValues::Texts { bytes, ends } = texts else {
        return Err(Malformed::new("values cannot be parts of codes or numbers"));
    };
    let (start, len) = (start as usize, column.traits.max_len as usize);
    let begins = std::iter::once(&0).chain(ends);
    let parts = begins.zip(ends).map(|(begin, end)| part_of(&bytes[*begin as usize..*end as usize], start, len));
    match &column.kind {
        ColumnKind::Numbers { format, .. } => {
            let numbers: Result<Vec<i64>, Malformed> = parts.map(|part| number_of(part?, *format)).collect();
            Ok(ColumnValues::Numbers(numbers?))
        }
        _ => {
            let mut own = Vec::with_capacity(ends.len() * len);
            for part in parts {
                own.extend_from_slice(text_of(part?)?);
            }
            let ends = (1..=ends.len()).map(|count| u32_of(count * len)).collect();
            Ok(ColumnValues::Texts { bytes: Bytes::from(own), ends })
        }
    }
}

/// The part of a text with this start and length.
pub(super) fn part_of(text: &[u8], start: usize, len: usize) -> Result<&[u8], Malformed> {
    text.get(start..start + len)
        .ok_or_else(|| Malformed(format!("a text of {} bytes has no part of {len} at {start}", text.len())))
}

/// A part of a text that is a text.
pub(super) fn text_of(part: &[u8]) -> Result<&[u8], Malformed> {
    match std::str::from_utf8(part) {
        Ok(text) => Ok(text.as_bytes()),
        Err(_) => Err(Malformed::new("a part of a text is not UTF-8")),
    }
}

/// The number that a part of a text stands for.
pub(super) fn number_of(part: &[u8], format: NumberFormat) -> Result<i64, Malformed> {
    format.parse(part).ok_or_else(|| Malformed::new("a part of a text is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::tests::{batch_of, open};
    use crate::{EncodeOptions, Locators, MAX_PAGE_EVENTS, encode, verify_against};

    const EVENTS: u64 = MAX_PAGE_EVENTS as u64 + 900;

    fn id(number: u64) -> u64 {
        let number = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (number ^ number >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn event(at: u64) -> String {
        let (high, low, other) = (id(at), id(at + EVENTS), id(at + 2 * EVENTS));
        format!(
            r#"{{"trace":"{high:016x}{low:016x}","span":"{low:016x}","link":"{high:016x}","root":"{high:016x}","user":"{other:016x}"}}"#
        )
    }

    #[test]
    fn ids_that_are_parts_of_other_ids_are_not_stored_again() {
        let events = [batch_of((0..EVENTS).map(event))];
        let options = |zstd_level| EncodeOptions { zstd_level, templates: true, locators: Locators::included_if(true) };
        let encoded = encode(&events, &options(9)).unwrap();
        verify_against(&encoded, &events).unwrap();
        let reader = open(&encoded);
        reader.check().unwrap();
        let slices = |reader: &crate::BucketReader| -> Vec<(u32, u32)> {
            let columns = reader.columns(0).unwrap().unwrap();
            let of_column = |column: u32| Some((column, columns.layout.slice_of(column)?.start));
            (0..columns.layout.stored.len() as u32).filter_map(of_column).collect()
        };
        let found = slices(&reader);
        // The last one is equal to the second, and therefore stored in the same way.
        assert_eq!(found.iter().map(|(_, start)| *start).collect::<Vec<_>>(), [16, 0, 0]);
        for (column, start) in found {
            let number = |row: u64| {
                let at = row + MAX_PAGE_EVENTS as u64;
                (if start == 0 { id(at) } else { id(at + EVENTS) }).cast_signed()
            };
            let mut page = reader.template_page(0, 1).unwrap().unwrap();
            assert_eq!(page.contains_number(column, [number(7); 2]).unwrap(), None, "no numbers are stored");
            let some = page.column_of_rows(column, &[3, 90]).unwrap();
            assert!(matches!(&some.values, ColumnValues::Numbers(found) if *found == [number(3), number(90)]));
            let all = page.column(column).unwrap();
            let expected: Vec<i64> = (0..900).map(number).collect();
            assert!(matches!(&all.values, ColumnValues::Numbers(found) if *found == expected));
        }
        let sealed = encode(&events, &options(1)).unwrap();
        assert!(slices(&open(&sealed)).is_empty(), "sealing does not compare columns");
        verify_against(&sealed, &events).unwrap();
    }

    #[test]
    fn a_slice_fits_the_column_that_contains_it() {
        let encoded = encode(
            &[batch_of((0..EVENTS).map(event))],
            &EncodeOptions { zstd_level: 9, templates: true, locators: Locators::included_if(true) },
        );
        let reader = open(&encoded.unwrap());
        let layout = &reader.columns(0).unwrap().unwrap().layout;
        let columns = &layout.template_set.columns;
        let slice = (0..columns.len() as u32).find(|column| layout.slice_of(*column).is_some()).unwrap();
        let text = layout.slice_of(slice).unwrap().column;
        for (wrong, is_valid) in [
            (Slice { column: text, start: 0 }, true),
            (Slice { column: text, start: 16 }, true),
            (Slice { column: text, start: 17 }, false),
            (Slice { column: text, start: u32::MAX }, false),
            (Slice { column: slice, start: 0 }, false),
            (Slice { column: 0, start: 0 }, false),
            (Slice { column: columns.len() as u32, start: 0 }, false),
        ] {
            let mut stored = layout.stored.clone();
            stored[slice as usize].values = ChunkLocations::Sliced(wrong);
            assert_eq!(check_slices(columns, &stored).is_ok(), is_valid, "{wrong:?}");
        }
        let texts = ColumnValues::Texts { bytes: "ab0123456789abcdefzä".into(), ends: vec![21] };
        let facts = &columns[slice as usize];
        let numbers = slice_values(&texts, 2, facts).unwrap();
        assert!(matches!(numbers, ColumnValues::Numbers(numbers) if numbers == [0x0123_4567_89ab_cdef]));
        assert!(slice_values(&texts, 3, facts).is_err(), "a part with a z is not a number");
        assert!(slice_values(&texts, 6, facts).is_err(), "the text is too short");
        let kept = Column { kind: ColumnKind::Texts, ..facts.clone() };
        assert!(slice_values(&texts, 4, &kept).is_err(), "the last character is cut");
        assert!(slice_values(&ColumnValues::Codes(vec![0]), 0, facts).is_err());
    }
}
