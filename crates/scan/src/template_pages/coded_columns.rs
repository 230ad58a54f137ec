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
use quarry_event::template::{ColumnKind, ColumnValues, PageColumn};
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
    let (mut codes, exceptions) = match codes_of_one_column(&coded, rows, &keys, page)? {
        Some(codes) => (codes, Vec::new()),
        None => codes_of_locations(&coded, rows, &keys, page)?,
    };
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

/// The codes of the rows, and the rows whose values are exceptions. Columns are read one after another, because a column
/// with few values need not be looked at for each row.
fn codes_of_locations(
    coded: &CodedField,
    rows: &Rows,
    keys: &[u32],
    page: &mut PageReader<'_>,
) -> Result<(Vec<u32>, Vec<u32>), EngineError> {
    // Rows that are not requested count as rows without the field, for which the first location stands.
    let mut place_of_row = vec![0u32; page.len()];
    let (mut rows_at, mut read_at) = (vec![0usize; coded.places.len()], vec![0usize; coded.places.len()]);
    let (mut codes, mut exceptions, mut composed) = (vec![ABSENT; page.len()], Vec::new(), Vec::new());
    for row in rows.iter() {
        let place = coded.place_of.get(keys[row as usize] as usize).copied().unwrap_or(0);
        place_of_row[row as usize] = place;
        let location = coded.places.get(place as usize).ok_or_else(missing)?;
        rows_at[place as usize] += 1;
        match location {
            LocationCodes::Constant(code) => codes[row as usize] = *code,
            LocationCodes::Exception => exceptions.push(row),
            LocationCodes::Composite { columns, .. } if columns.len() > 1 => composed.push(row),
            _ => {}
        }
    }
    let used = || coded.places.iter().zip(&rows_at).filter(|(_, rows)| **rows > 0).map(|(location, _)| location);
    for column in columns_of(used()) {
        let codes_at: Vec<Option<ColumnCodes<'_>>> =
            coded.places.iter().map(|location| location.codes_in(column)).collect();
        let base = match &page.template_set().columns[column as usize].kind {
            ColumnKind::Numbers { min, .. } => *min,
            _ => 0,
        };
        let values = page.column(column)?;
        for at in 0..values.values.len() {
            let row = values.rows.as_ref().map_or(at, |rows| rows[at] as usize);
            let place = place_of_row[row] as usize;
            match codes_at[place] {
                None => continue,
                Some(_) if codes[row] != ABSENT => continue,
                Some(ColumnCodes::Exceptions) => exceptions.push(u32_of(row)),
                Some(ColumnCodes::Codes(known)) => {
                    let code = code_at(&values.values, at, base).and_then(|code| known.get(code as usize));
                    codes[row] = *code.ok_or_else(missing)?;
                    read_at[place] += 1;
                }
            }
        }
    }
    let is_missing = |(at, location): (usize, &LocationCodes)| {
        matches!(location, LocationCodes::Composite { columns, .. } if columns.len() == 1) && read_at[at] < rows_at[at]
    };
    if coded.places.iter().enumerate().any(is_missing) {
        return Err(missing());
    }
    let mut cursors = Cursors::new(page);
    for row in composed {
        let place = place_of_row[row as usize] as usize;
        let LocationCodes::Composite { columns, codes: known } = &coded.places[place] else { return Err(missing()) };
        let mut index = 0;
        for (column, weight) in columns {
            index += cursors.code(*column, row, page)?.ok_or_else(missing)? as usize * weight;
        }
        codes[row as usize] = known.get(index).copied().ok_or_else(missing)?;
    }
    exceptions.sort_unstable();
    exceptions.dedup();
    let codes = match rows {
        Rows::All(_) => codes,
        Rows::Some(rows) => rows.iter().map(|row| codes[*row as usize]).collect(),
    };
    Ok((codes, exceptions))
}

/// The columns that alone contain values of these locations, each once.
fn columns_of<'l>(locations: impl Iterator<Item = &'l LocationCodes>) -> Vec<u32> {
    let mut columns = Vec::new();
    let mut add = |column: u32| {
        if !columns.contains(&column) {
            columns.push(column);
        }
    };
    for location in locations {
        match location {
            LocationCodes::Composite { columns, .. } if columns.len() == 1 => add(columns[0].0),
            LocationCodes::Nested(nested) => nested.iter().for_each(|(column, _)| add(*column)),
            _ => {}
        }
    }
    columns
}

/// The field's codes of a column's values at one location.
#[derive(Clone, Copy)]
enum ColumnCodes<'c> {
    /// By the column's code.
    Codes(&'c [u32]),
    /// The values are exceptions.
    Exceptions,
}

impl LocationCodes {
    /// The codes of a column's values, if the column alone contains values at this location.
    fn codes_in(&self, column: u32) -> Option<ColumnCodes<'_>> {
        match self {
            LocationCodes::Composite { columns, codes } => match **columns {
                [(known, _)] if known == column => Some(ColumnCodes::Codes(codes)),
                _ => None,
            },
            LocationCodes::Nested(columns) => {
                let (_, codes) = columns.iter().find(|(known, _)| *known == column)?;
                Some(codes.as_deref().map_or(ColumnCodes::Exceptions, ColumnCodes::Codes))
            }
            _ => None,
        }
    }
}

/// The code of a value in a dictionary or template column; for numbers, the difference from the smallest.
#[inline]
fn code_at(values: &ColumnValues, at: usize, smallest: i64) -> Option<u32> {
    match values {
        ColumnValues::Codes(codes) => codes.get(at).copied(),
        ColumnValues::Numbers(numbers) => u32::try_from(numbers.get(at)?.checked_sub(smallest)?).ok(),
        ColumnValues::Texts { .. } => None,
    }
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
