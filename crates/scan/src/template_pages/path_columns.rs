//! Columns of the values at the paths of JSON texts (`spath`, `json_extract`), for some rows.
//!
//! If the location of a path in a field depends on the values, the path is evaluated on the values of the field.
//!
//! Not here: the locations ([`super::paths`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows;
use quarry_stdx::number::u32_of;

use super::columns::field_column;
use super::divided_keys::keys_of;
use super::field_locations::FieldLocations;
use super::page::{PageReader, Rows};
use super::value_location::ValueLocation;
use crate::event_scan::EventScan;
use crate::spath::{PushedPaths, TEXT_FIELD, with_values};

impl EventScan {
    /// Adds the values at the pushed-down paths.
    pub(super) fn add_paths(
        &self,
        mut rows: RecordBatch,
        sure: &Rows,
        reader: &mut PageReader<'_>,
    ) -> Result<RecordBatch, EngineError> {
        let slab = reader.slab;
        for (of_text, located) in self.rexes.paths().iter().zip(slab.paths()) {
            let Some(located) = located else {
                rows = of_text.apply(rows)?;
                continue;
            };
            let by_value = match of_text.source == TEXT_FIELD {
                true => None,
                false => values_of_rows(of_text, located, sure, reader)?,
            };
            for (at, (path, field)) in of_text.paths.iter().zip(located).enumerate() {
                let stored = field_column(field, sure, reader)?;
                let found = match (stored, by_value.as_ref().map(|columns| &columns[at])) {
                    (Some(stored), Some(made)) => rows::coalesce(&stored, made),
                    (Some(found), None) => found,
                    (None, Some(made)) => Arc::clone(made),
                    (None, None) => continue,
                };
                rows = with_values(&rows, &path.output, found)?;
            }
        }
        Ok(rows)
    }
}

/// The values at the paths in a field's texts, evaluated on the texts in the rows in which the location of a path
/// depends on the values; `None` if there are no such rows.
fn values_of_rows(
    of_text: &PushedPaths,
    located: &[Arc<FieldLocations>],
    sure: &Rows,
    reader: &mut PageReader<'_>,
) -> Result<Option<Vec<ArrayRef>>, EngineError> {
    let is_open = |field: &Arc<FieldLocations>| field.locations.contains(&ValueLocation::Text);
    let Some(source) = reader.slab.field(&of_text.source).filter(|_| located.iter().any(is_open)) else {
        return Ok(None);
    };
    let keys = keys_of(source, reader)?;
    let is_by_value = |key: usize| {
        located.iter().any(|field| field.locations.get(key).is_none_or(|place| *place == ValueLocation::Text))
    };
    let by_key: Vec<bool> = (0..source.locations.len()).map(is_by_value).collect();
    let is_asked = |row: u32| by_key.get(keys[row as usize] as usize).copied().unwrap_or(true);
    let asked: Vec<u32> = sure.iter().filter(|row| is_asked(*row)).collect();
    let count = asked.len();
    if count == 0 {
        return Ok(None);
    }
    let Some(texts) = field_column(source, &Rows::Some(asked), reader)? else { return Ok(None) };
    let columns = of_text.columns(&texts)?;
    assert!(columns.iter().all(|column| column.len() == count), "each text has its values");
    let mut next = 0..u32_of(count);
    let places: UInt32Array = sure.iter().map(|row| if is_asked(row) { next.next() } else { None }).collect();
    columns.iter().map(|column| Ok(take(column, &places, None)?)).collect::<Result<_, EngineError>>().map(Some)
}
