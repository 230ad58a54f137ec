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
use quarry_event::template::{ColumnKind, ColumnValues, PageColumn};
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

    /// The codes of the field in these rows.
    pub(super) fn codes_of(
        &self,
        rows: &Rows,
        keys: &RowKeys,
        page: &mut PageReader<'_>,
    ) -> Result<RowCodes, EngineError> {
        let mut found = RowCodes { codes: vec![ABSENT; rows.len()], exceptions: Vec::new() };
        let (mut columns, mut rows_of_columns, mut has_others) = (Vec::new(), 0, false);
        for (key, count) in (0u32..).zip(&keys.counts).filter(|(_, count)| **count > 0) {
            match self.place(key).one_column() {
                Some((column, _)) => {
                    rows_of_columns += *count as usize;
                    if !columns.contains(&column) {
                        columns.push(column);
                    }
                }
                None => has_others |= !matches!(self.place(key), LocationCodes::Absent),
            }
        }
        for column in columns {
            rows_of_columns -= self.read_column(column, rows, keys, &mut found.codes, page)?.min(rows_of_columns);
        }
        if rows_of_columns > 0 {
            return Err(missing());
        }
        if has_others {
            self.read_rows(rows, keys, &mut found, page)?;
        }
        Ok(found)
    }

    /// Reads the codes of the rows whose values are the values of this column; returns their number.
    fn read_column(
        &self,
        column: u32,
        rows: &Rows,
        keys: &RowKeys,
        found: &mut [u32],
        page: &mut PageReader<'_>,
    ) -> Result<usize, EngineError> {
        // By location: the field's code by the column's code, if the value is in this column.
        let codes_here =
            |place| LocationCodes::one_column(place).filter(|(of, _)| *of == column).map(|(_, codes)| codes);
        let here: Vec<Option<&[u32]>> = self.places.iter().map(codes_here).collect();
        let values = page.column_of_rows(column, rows)?;
        let mut read = 0;
        for_each_code(&values, &page.template_set().columns[column as usize].kind, rows, |at, row, code| {
            let place = keys.keys.get(row as usize).and_then(|key| self.place_of.get(*key as usize));
            if let Some(Some(codes)) = place.and_then(|place| here.get(*place as usize))
                && let Some(code) = codes.get(code)
            {
                found[at] = *code;
                read += 1;
            }
        });
        Ok(read)
    }

    /// Reads the codes of the rows whose values are constants, or in several columns.
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
                LocationCodes::Absent => {}
                LocationCodes::Constant(code) => *found_code = *code,
                LocationCodes::Composite { columns, .. } if columns.len() == 1 => {}
                LocationCodes::Composite { columns, codes } => {
                    let mut index = 0;
                    for (column, weight) in columns {
                        index += cursors.code(*column, row, page)?.ok_or_else(missing)? as usize * weight;
                    }
                    *found_code = codes.get(index).copied().ok_or_else(missing)?;
                }
                LocationCodes::Nested(columns) => {
                    for (column, codes) in columns {
                        let Some(codes) = codes else {
                            if cursors.value_position(*column, row, page)?.is_some() {
                                found.exceptions.push(row);
                                break;
                            }
                            continue;
                        };
                        if let Some(code) = cursors.code(*column, row, page)? {
                            *found_code = codes.get(code as usize).copied().ok_or_else(missing)?;
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl LocationCodes {
    /// The column of which all values here are values, and the field's code by the column's code.
    #[inline]
    fn one_column(&self) -> Option<(u32, &[u32])> {
        match self {
            LocationCodes::Composite { columns, codes } => match **columns {
                [(column, _)] => Some((column, &**codes)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Calls `visit` for each of these rows that has a code in a column: with the position of the row among `rows`, the row,
/// and the code of its value. The codes of numbers begin at the smallest.
fn for_each_code(values: &PageColumn, kind: &ColumnKind, rows: &Rows, mut visit: impl FnMut(usize, u32, usize)) {
    match (&values.values, kind) {
        (ColumnValues::Codes(codes), _) => for_each_value(values, rows, |at, row, place| {
            if let Some(code) = codes.get(place) {
                visit(at, row, *code as usize);
            }
        }),
        (ColumnValues::Numbers(numbers), ColumnKind::Numbers { min, .. }) => {
            for_each_value(values, rows, |at, row, place| {
                let code = numbers.get(place).and_then(|number| number.checked_sub(*min));
                if let Some(code) = code.and_then(|code| usize::try_from(code).ok()) {
                    visit(at, row, code);
                }
            });
        }
        _ => {}
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
