//! Dictionary-coded columns of fields that have a dictionary for the whole slab ([`super::coded_fields`]): the codes are
//! read column by column, a row costs a lookup, and no text is written. Only the exceptions, values without a code, are
//! read as texts; they extend the dictionary of the batch.
//!
//! Not here: fields that one column contains in all rows and fields with many values ([`super::columns`]); numbers
//! ([`super::number_columns`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, StringViewArray};
use arrow::compute::concat;
use arrow::datatypes::UInt32Type;
use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues};
use quarry_stdx::number::u32_of;

use super::coded_fields::{CodedField, LocationCodes};
use super::cursors::{Cursors, for_each_value};
use super::divided_keys::RowKeys;
use super::field_locations::FieldLocations;
use super::interner::ABSENT;
use super::page::{PageReader, Rows};
use super::text_arrays::dictionary_keys;

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
    keys: &RowKeys,
    page: &mut PageReader<'_>,
    read_texts: ReadTexts,
) -> Result<Option<ArrayRef>, EngineError> {
    if rows.len() < ROWS_MIN {
        return Ok(None);
    }
    let Some(coded) = page.slab.coded_field(field)? else { return Ok(None) };
    let RowCodes { mut codes, exceptions } = coded.codes_of(rows, keys, page)?;
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
    Ok(Some(Arc::new(DictionaryArray::<UInt32Type>::try_new(dictionary_keys(codes), texts)?)))
}

/// The codes of a field in some rows.
pub(super) struct RowCodes {
    /// [`ABSENT`] in rows without a value, and in the exceptions.
    pub codes: Vec<u32>,
    /// Rows whose value has no code.
    pub exceptions: Vec<u32>,
}

impl CodedField {
    /// The location of a key, with its codes.
    #[inline]
    fn place(&self, key: u32) -> &LocationCodes {
        let place = self.place_of.get(key as usize).and_then(|place| self.places.get(*place as usize));
        place.unwrap_or(&LocationCodes::Absent)
    }

    /// The codes of the field in these rows. Columns are read one after another, because a column with few values need
    /// not be looked at for each row.
    pub(super) fn codes_of(
        &self,
        rows: &Rows,
        keys: &RowKeys,
        page: &mut PageReader<'_>,
    ) -> Result<RowCodes, EngineError> {
        let mut found = RowCodes { codes: vec![ABSENT; rows.len()], exceptions: Vec::new() };
        let (mut columns, mut whole_rows, mut has_others) = (Vec::new(), 0, false);
        let mut add = |column: u32| {
            if !columns.contains(&column) {
                columns.push(column);
            }
        };
        for (key, count) in (0u32..).zip(&keys.counts).filter(|(_, count)| **count > 0) {
            match self.place(key) {
                LocationCodes::Absent => {}
                LocationCodes::Composite { columns, .. } if columns.len() == 1 => {
                    whole_rows += *count as usize;
                    add(columns[0].0);
                }
                LocationCodes::Nested(nested) => nested.iter().for_each(|(column, _)| add(*column)),
                _ => has_others = true,
            }
        }
        for column in columns {
            whole_rows = whole_rows.saturating_sub(self.read_column(column, rows, keys, &mut found, page)?);
        }
        if whole_rows > 0 {
            return Err(missing());
        }
        if has_others {
            self.read_rows(rows, keys, &mut found, page)?;
        }
        found.exceptions.sort_unstable();
        found.exceptions.dedup();
        Ok(found)
    }

    /// Reads the codes of the rows whose values are values of this column. Returns the number of rows that must have a
    /// value in it and have one.
    fn read_column(
        &self,
        column: u32,
        rows: &Rows,
        keys: &RowKeys,
        found: &mut RowCodes,
        page: &mut PageReader<'_>,
    ) -> Result<usize, EngineError> {
        let codes_here: Vec<Option<ColumnCodes<'_>>> = self.places.iter().map(|place| place.codes_in(column)).collect();
        let smallest = match &page.template_set().columns[column as usize].kind {
            ColumnKind::Numbers { min, .. } => *min,
            _ => 0,
        };
        let values = page.column_of_rows(column, rows)?;
        let (mut read, mut has_all) = (0, true);
        for_each_value(&values, rows, |at, row, place| {
            let location = keys.keys.get(row as usize).and_then(|key| self.place_of.get(*key as usize));
            match location.and_then(|location| codes_here.get(*location as usize).copied().flatten()) {
                Some(_) if found.codes[at] != ABSENT => {}
                Some(ColumnCodes::Exceptions) => found.exceptions.push(row),
                Some(ColumnCodes::Codes { codes, is_whole }) => {
                    match code_at(&values.values, place, smallest).and_then(|code| codes.get(code as usize)) {
                        Some(code) => found.codes[at] = *code,
                        None => has_all = false,
                    }
                    read += usize::from(is_whole);
                }
                None => {}
            }
        });
        if has_all { Ok(read) } else { Err(missing()) }
    }

    /// Reads the codes of the rows whose values are constants, exceptions, or in several columns.
    fn read_rows(
        &self,
        rows: &Rows,
        keys: &RowKeys,
        found: &mut RowCodes,
        page: &mut PageReader<'_>,
    ) -> Result<(), EngineError> {
        let mut cursors = Cursors::new(page);
        for (row, found_code) in rows.iter().zip(&mut found.codes) {
            match self.place(keys.keys[row as usize]) {
                LocationCodes::Constant(code) => *found_code = *code,
                LocationCodes::Exception => found.exceptions.push(row),
                LocationCodes::Composite { columns, codes } if columns.len() > 1 => {
                    let mut index = 0;
                    for (column, weight) in columns {
                        index += cursors.code(*column, row, page)?.ok_or_else(missing)? as usize * weight;
                    }
                    *found_code = codes.get(index).copied().ok_or_else(missing)?;
                }
                LocationCodes::Absent | LocationCodes::Composite { .. } | LocationCodes::Nested(_) => {}
            }
        }
        Ok(())
    }
}

/// The field's codes of a column's values at one location.
#[derive(Clone, Copy)]
enum ColumnCodes<'c> {
    /// By the column's code. If `is_whole`, every row of the location has a value in the column.
    Codes { codes: &'c [u32], is_whole: bool },
    /// The values are exceptions.
    Exceptions,
}

impl LocationCodes {
    /// The codes of a column's values, if the column alone contains values at this location.
    fn codes_in(&self, column: u32) -> Option<ColumnCodes<'_>> {
        match self {
            LocationCodes::Composite { columns, codes } => match **columns {
                [(known, _)] if known == column => Some(ColumnCodes::Codes { codes, is_whole: true }),
                _ => None,
            },
            LocationCodes::Nested(columns) => {
                let (_, codes) = columns.iter().find(|(known, _)| *known == column)?;
                Some(match codes {
                    Some(codes) => ColumnCodes::Codes { codes, is_whole: false },
                    None => ColumnCodes::Exceptions,
                })
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
