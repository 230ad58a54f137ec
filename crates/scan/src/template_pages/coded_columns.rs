//! Dictionary-coded columns of fields that have a dictionary for the whole slab ([`super::coded_fields`]): a row costs
//! a lookup, and no text is written. Only the exceptions, values without a code, are read as texts; they extend the
//! dictionary of the batch.
//!
//! Not here: fields that one column contains in all rows and fields with many values ([`super::columns`]); numbers
//! ([`super::number_columns`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, StringViewArray, UInt32Array};
use arrow::compute::concat;
use arrow::datatypes::UInt32Type;
use quarry_eval::EngineError;
use quarry_event::template::{ColumnValues, PageColumn};
use quarry_stdx::number::u32_of;

use super::coded_fields::{CodedField, LocationCodes};
use super::cursors::Cursors;
use super::divided_keys::keys_of_rows;
use super::field_locations::FieldLocations;
use super::interner::ABSENT;
use super::page::{PageReader, Rows};

/// Minimum number of rows for which a dictionary is made.
const ROWS_MIN: usize = 256;
/// At most one row in this many is an exception; otherwise the values are read as texts.
const ROWS_PER_EXCEPTION: usize = 8;

/// Reads the values of a field in some rows as texts.
pub(super) type ReadTexts = fn(&FieldLocations, &Rows, &mut PageReader<'_>) -> Result<ArrayRef, EngineError>;

/// The values of a field in these rows as codes; `None` if there are too many values or too few rows. Exceptions are read
/// by `read_texts`.
pub(super) fn coded_column(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
    read_texts: ReadTexts,
) -> Result<Option<ArrayRef>, EngineError> {
    if rows.len() < ROWS_MIN {
        return Ok(None);
    }
    let Some(coded) = page.slab.coded_field(field)? else { return Ok(None) };
    let keys = keys_of_rows(field, rows, page)?;
    let mut cursors = Cursors::new(page);
    let mut exceptions = Vec::new();
    let known = codes_of_one_column(&coded, rows, &keys, page)?;
    let rows_left: &[Rows] = if known.is_some() { &[] } else { std::slice::from_ref(rows) };
    let mut codes: Vec<u32> = known.unwrap_or_else(|| Vec::with_capacity(rows.len()));
    for row in rows_left.iter().flat_map(Rows::iter) {
        let place = coded.place_of.get(keys[row as usize] as usize);
        codes.push(match place.and_then(|place| coded.places.get(*place as usize)) {
            None | Some(LocationCodes::Absent) => ABSENT,
            Some(LocationCodes::Constant(code)) => *code,
            Some(LocationCodes::Composite { columns, codes }) => {
                let mut index = 0;
                for (column, weight) in columns {
                    index += cursors.code(*column, row, page)?.ok_or_else(missing)? as usize * weight;
                }
                codes.get(index).copied().ok_or_else(missing)?
            }
            Some(LocationCodes::Nested(columns)) => {
                let mut found = ABSENT;
                for (column, codes) in columns {
                    let Some(codes) = codes else {
                        if cursors.value_position(*column, row, page)?.is_some() {
                            exceptions.push(row);
                            break;
                        }
                        continue;
                    };
                    if let Some(code) = cursors.code(*column, row, page)? {
                        found = codes.get(code as usize).copied().ok_or_else(missing)?;
                        break;
                    }
                }
                found
            }
        });
    }
    if exceptions.len() > rows.len() / ROWS_PER_EXCEPTION {
        return Ok(None);
    }
    let texts = match exceptions.is_empty() {
        true => Arc::clone(&coded.texts),
        false => {
            let read = read_texts(field, &Rows::Some(exceptions.clone()), page)?;
            add_exceptions(&coded, rows, &exceptions, &read, &mut codes)?
        }
    };
    let keys: UInt32Array = match codes.contains(&ABSENT) {
        true => codes.into_iter().map(|code| (code != ABSENT).then_some(code)).collect(),
        false => codes.into(),
    };
    Ok(Some(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, texts)?)))
}

/// The codes of the rows if all values of the field are in one dictionary column that every row has.
fn codes_of_one_column(
    coded: &CodedField,
    rows: &Rows,
    keys: &[u32],
    page: &mut PageReader<'_>,
) -> Result<Option<Vec<u32>>, EngineError> {
    let mut places = coded.places.iter().filter(|place| !matches!(place, LocationCodes::Absent));
    let (Some(LocationCodes::Composite { columns, codes }), None) = (places.next(), places.next()) else {
        return Ok(None);
    };
    let [(column, _)] = **columns else { return Ok(None) };
    let column = page.column(column)?;
    let PageColumn { rows: None, values: ColumnValues::Codes(values) } = &*column else { return Ok(None) };
    let is_absent = |row: usize| {
        let place = coded.place_of.get(keys[row] as usize).and_then(|place| coded.places.get(*place as usize));
        matches!(place, None | Some(LocationCodes::Absent))
    };
    let code_of = |row: u32| match is_absent(row as usize) {
        true => Some(ABSENT),
        false => codes.get(*values.get(row as usize)? as usize).copied(),
    };
    rows.iter().map(code_of).collect::<Option<_>>().map(Some).ok_or_else(missing)
}

/// Sets the codes of the exceptions among these rows, whose values have been read. The dictionary is extended by the
/// texts that it lacks.
fn add_exceptions(
    coded: &CodedField,
    rows: &Rows,
    exceptions: &[u32],
    read: &ArrayRef,
    codes: &mut [u32],
) -> Result<ArrayRef, EngineError> {
    let mut new: Vec<&str> = Vec::new();
    let mut code_of = |text| match coded.codes.get(text) {
        Some(code) => *code,
        None => {
            let at = new.iter().position(|known| *known == text).unwrap_or_else(|| {
                new.push(text);
                new.len() - 1
            });
            u32_of(coded.texts.len() + at)
        }
    };
    let mut left = exceptions.iter().zip(read.as_string_view()).peekable();
    for (row, code) in rows.iter().zip(codes) {
        if let Some((_, text)) = left.next_if(|(exception, _)| **exception == row) {
            *code = text.map_or(ABSENT, &mut code_of);
        }
    }
    assert!(left.next().is_none(), "every exception is one of the rows");
    match new.is_empty() {
        true => Ok(Arc::clone(&coded.texts)),
        false => Ok(concat(&[&coded.texts, &StringViewArray::from_iter_values(new)])?),
    }
}

fn missing() -> EngineError {
    EngineError::invalid("a value of a bucket is missing; rebuild the bucket")
}
