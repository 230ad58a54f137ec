//! Dictionary-coded columns of fields that have a dictionary for the whole slab ([`super::coded_fields`]): a row costs
//! a lookup, and no text is written.
//!
//! Not here: fields that one column contains in all rows and fields with many values ([`super::columns`]); numbers
//! ([`super::number_columns`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, UInt32Array};
use arrow::datatypes::UInt32Type;
use quarry_eval::EngineError;

use super::coded_fields::LocationCodes;
use super::cursors::Cursors;
use super::divided_keys::keys_of_rows;
use super::field_locations::FieldLocations;
use super::interner::ABSENT;
use super::page::{PageReader, Rows};

/// Minimum number of rows for which a dictionary is made.
const ROWS_MIN: usize = 256;

/// The values of a field in these rows as codes; `None` if there are too many values or too few rows.
pub(super) fn coded_column(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    if rows.len() < ROWS_MIN {
        return Ok(None);
    }
    let Some(coded) = page.slab.coded_field(field)? else { return Ok(None) };
    let keys = keys_of_rows(field, rows, page)?;
    let mut cursors = Cursors::new(page);
    let mut codes: Vec<u32> = Vec::with_capacity(rows.len());
    for row in rows.iter() {
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
                    if let Some(code) = cursors.code(*column, row, page)? {
                        found = codes.get(code as usize).copied().ok_or_else(missing)?;
                        break;
                    }
                }
                found
            }
        });
    }
    let keys: UInt32Array = match codes.contains(&ABSENT) {
        true => codes.into_iter().map(|code| (code != ABSENT).then_some(code)).collect(),
        false => codes.into(),
    };
    Ok(Some(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(&coded.texts))?)))
}

fn missing() -> EngineError {
    EngineError::invalid("a value of a bucket is missing; rebuild the bucket")
}
