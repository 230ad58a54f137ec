//! Sparse rows: many columns, few values.
//!
//! A batch has a cell for each row in each column. For events with many different keys, there are hundreds of empty
//! cells per value. Such a batch is split into short batches: a column without values in these few rows takes no space,
//! and a column with values has cells for these rows only. Names and order of columns are kept.
//!
//! Not here: readers of such rows (scan).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use quarry_stdx::number::u32_of;

use super::take;
use crate::EngineError;

/// Number of rows of a short batch.
const SHORT_ROWS: usize = 64;
/// Minimum number of columns for which splitting pays off.
const WIDE_COLUMNS: usize = 32;
/// Minimum number of cells per value for which a batch is split.
const CELLS_PER_VALUE: usize = 8;

/// Splits a sparse batch into short batches; any other batch is returned whole.
pub(super) fn split_sparse(batch: RecordBatch) -> Result<Vec<RecordBatch>, EngineError> {
    if !is_sparse(&batch) {
        return Ok(vec![batch]);
    }
    let positions: Vec<u32> = (0..u32_of(batch.num_rows())).collect();
    split_rows(&batch, &positions)
}

/// The rows at these positions, in this order, as batches split in the same way.
pub fn take_sparse(batch: &RecordBatch, positions: &UInt32Array) -> Result<Vec<RecordBatch>, EngineError> {
    if is_sparse(batch) { split_rows(batch, positions.values()) } else { Ok(vec![take(batch, positions)?]) }
}

fn is_sparse(batch: &RecordBatch) -> bool {
    let (rows, columns) = (batch.num_rows(), batch.num_columns());
    if columns < WIDE_COLUMNS || rows <= SHORT_ROWS {
        return false;
    }
    let values: usize = batch.columns().iter().map(|column| rows - column.logical_null_count()).sum();
    values.saturating_mul(CELLS_PER_VALUE) <= rows.saturating_mul(columns)
}

fn split_rows(batch: &RecordBatch, positions: &[u32]) -> Result<Vec<RecordBatch>, EngineError> {
    let missing: Vec<FieldRef> = (batch.schema_ref().fields().iter())
        .map(|field| match field.data_type() {
            DataType::Null => Arc::clone(field),
            _ => Arc::new(Field::new(field.name(), DataType::Null, true)),
        })
        .collect();
    let nulls: Vec<Option<NullBuffer>> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
    positions.chunks(SHORT_ROWS).map(|positions| build_batch(batch, positions, &missing, &nulls)).collect()
}

/// Some rows of a batch; columns without values in these rows take no space.
fn build_batch(
    batch: &RecordBatch,
    positions: &[u32],
    missing: &[FieldRef],
    nulls: &[Option<NullBuffer>],
) -> Result<RecordBatch, EngineError> {
    let nothing: ArrayRef = Arc::new(NullArray::new(positions.len()));
    let taken = UInt32Array::from(positions.to_vec());
    let (mut fields, mut arrays) = (Vec::with_capacity(missing.len()), Vec::with_capacity(missing.len()));
    let columns = batch.schema_ref().fields().iter().zip(batch.columns()).zip(missing.iter().zip(nulls));
    for ((field, array), (missing, nulls)) in columns {
        if nulls.as_ref().is_some_and(|nulls| positions.iter().all(|row| nulls.is_null(*row as usize))) {
            fields.push(Arc::clone(missing));
            arrays.push(Arc::clone(&nothing));
        } else {
            fields.push(Arc::clone(field));
            // A slice would keep all cells alive.
            arrays.push(arrow::compute::take(array, &taken, None)?);
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;
    use crate::rows::{batch_of, concat_rows};

    /// Rows with a value in one of `keys` columns, and with a value in another column that has no nulls.
    fn rows_with_keys(rows: usize, keys: usize) -> RecordBatch {
        let column = |key: usize| -> ArrayRef {
            let value = |row: usize| (row * 7 % keys == key).then(|| format!("a value of its own {row}"));
            Arc::new((0..rows).map(value).collect::<StringViewArray>())
        };
        let full: ArrayRef = Arc::new((0..rows as i64).collect::<arrow::array::Int64Array>());
        let sparse = (0..keys).map(|key| (format!("key{key}"), column(key)));
        batch_of(sparse.chain([("full".to_owned(), full)]), rows).unwrap()
    }

    #[test]
    fn splitting_keeps_rows_and_reduces_their_bytes() {
        let rows = rows_with_keys(1_000, 500);
        let parts = split_sparse(rows.clone()).unwrap();
        assert_eq!(parts.len(), 1_000usize.div_ceil(SHORT_ROWS));
        assert!(parts.iter().all(|part| {
            part.schema().fields().iter().eq(rows
                .schema()
                .fields()
                .iter()
                .map(|field| {
                    part.schema_ref()
                        .field_with_name(field.name())
                        .map(|own| own.clone().into())
                        .unwrap_or(field.clone())
                })
                .collect::<Vec<FieldRef>>()
                .iter())
        }));
        let bytes =
            |batch: &RecordBatch| batch.columns().iter().map(crate::rows::row_buffer::value_bytes).sum::<usize>();
        let narrow: usize = parts.iter().map(bytes).sum();
        assert!(narrow * 4 < bytes(&rows), "{narrow} of {}", bytes(&rows));
        assert_eq!(concat_rows(parts).unwrap(), rows);
    }

    #[test]
    fn dense_narrow_and_short_rows_stay_as_they_are() {
        for rows in [rows_with_keys(1_000, 4), rows_with_keys(30, 100), rows_with_keys(1_000, 31).slice(0, 0)] {
            assert_eq!(split_sparse(rows.clone()).unwrap(), [rows]);
        }
    }
}
