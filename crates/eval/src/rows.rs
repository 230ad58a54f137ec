//! Reading and building the columns of row batches.
//!
//! Physical types: Utf8View, Int64, Float64, Boolean, Timestamp(ns) for `_time`, `List<Utf8View>` for multivalue, Null;
//! a scan also returns Dictionary(UInt32, Utf8View), UInt32 for IPv4 addresses, Decimal64 for decimals of one scale, and
//! a struct for columns of numbers and other texts ([`MixedColumn`]). The text form defines a value; the type is only
//! an optimisation (see `quarry_event::value`). [`ColumnReader`] reads any column by row, [`ColumnBuilder`] accepts
//! values of any type and chooses the column type at the end; the functions here transform whole batches. A missing
//! column is a column of nulls.
//!
//! Not here: commands and functions.

mod build;
mod cancellable_sort;
pub(crate) mod column_order;
mod column_type;
mod decode;
mod distinct_memo;
mod key_heads;
mod mixed_column;
mod present_columns;
pub mod rank;
mod read;
mod row_buffer;
mod sort;
mod sparse_rows;
mod split;
mod stream;
mod unify;
mod value;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, NullArray, RecordBatchOptions, StringViewArray};
use arrow::array::{AsArray, StringViewBuilder, UInt32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_stdx::number::{f64_of, u32_of};

use crate::EngineError;

pub use build::ColumnBuilder;
pub use cancellable_sort::{sort_cancellable, sort_first};
pub use column_type::ColumnType;
pub use decode::{DECIMAL_PRECISION, decode_column, decode_rows, decode_rows_except_numbers};
pub use distinct_memo::{DistinctMemo, NumberHandling};
pub use mixed_column::{MixedColumn, mixed_column};
pub use read::{ColumnReader, DictionaryColumn, write_address, write_decimal};
pub use row_buffer::{RowBuffer, RowsInMemory, compact, rows_in_memory};
pub use sort::{sort_rows, sort_rows_in_time};
pub use sparse_rows::take_sparse;
pub use split::{row_bytes, split_by_bytes};
pub use stream::{RowIter, of_batches};
pub use unify::{concat_rows, conform};
pub use value::{FALSE_TEXT, TRUE_TEXT, Value, time_seconds};

/// The type of `_time`.
pub const TIME_TYPE: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
/// Number of columns up to which names are compared linearly.
const LINEAR_LOOKUP_COLUMNS_MAX: usize = 32;
/// Separator of multivalues when a single text is needed.
pub const MULTI_SEPARATOR: &str = "\n";
/// Maximum number of values that the multivalues of one column of a batch may have after rows were repeated: 256 MiB of
/// references to texts. Beyond it, the search fails: a row with a long multivalue cannot be repeated for thousands of
/// rows.
pub const REPEATED_VALUES_MAX: usize = 16 << 20;

/// The type of a multivalue column.
pub fn multi_type() -> DataType {
    DataType::List(multi_item())
}

/// The Arrow field of the items of a multivalue column.
pub fn multi_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Utf8View, true))
}

/// Whether the name is internal to the engine and never shown.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with("__")
}

/// The column `name`; `None` means null in every row.
pub fn column<'a>(rows: &'a RecordBatch, name: &str) -> Option<&'a ArrayRef> {
    rows.column_by_name(name)
}

/// Column with the number of events that each row represents; no field has this name. See
/// [`crate::command::Reduce::accepts_extremes`].
pub const EVENTS: &str = "__events";

/// Number of events that the rows represent.
pub fn event_count(rows: &RecordBatch) -> u64 {
    match column(rows, EVENTS).and_then(|events| events.as_primitive_opt::<Int64Type>()) {
        Some(events) => events.values().iter().map(|events| events.unsigned_abs()).sum(),
        None => rows.num_rows() as u64,
    }
}

/// The column `name`, or a column of nulls.
pub fn column_or_null(rows: &RecordBatch, name: &str) -> ArrayRef {
    column(rows, name).cloned().unwrap_or_else(|| null_column(rows.num_rows()))
}

/// A reader of the column `name`; a missing column reads as null.
pub fn reader(rows: &RecordBatch, name: &str) -> ColumnReader {
    column(rows, name).map_or(ColumnReader::null(rows.num_rows()), ColumnReader::new)
}

/// A column of nulls.
pub fn null_column(rows: usize) -> ArrayRef {
    Arc::new(NullArray::new(rows))
}

/// A batch of named columns, all `rows` long. Of columns with the same name, the last is kept, at the position of the
/// first.
pub fn batch_of<N: Into<String>>(
    columns: impl IntoIterator<Item = (N, ArrayRef)>,
    rows: usize,
) -> Result<RecordBatch, EngineError> {
    let mut fields: Vec<Field> = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    // While there are few names, a linear search is fast enough.
    let mut positions: HashMap<String, usize, FixedState> = HashMap::default();
    for (name, array) in columns {
        let field = Field::new(name, array.data_type().clone(), true);
        let known = match fields.len() {
            ..LINEAR_LOOKUP_COLUMNS_MAX => fields.iter().position(|known| known.name() == field.name()),
            _ => {
                let noted = positions.len();
                positions.extend(fields[noted..].iter().zip(noted..).map(|(field, at)| (field.name().clone(), at)));
                positions.get(field.name()).copied()
            }
        };
        match known {
            Some(at) => {
                fields[at] = field;
                arrays[at] = array;
            }
            None => {
                fields.push(field);
                arrays.push(array);
            }
        }
    }
    rebuild(fields.into_iter().map(Arc::new).collect(), arrays, rows)
}

/// The rows with column `name` replaced, or added at the end.
pub fn with_column(rows: &RecordBatch, name: &str, array: ArrayRef) -> Result<RecordBatch, EngineError> {
    let mut fields: Vec<FieldRef> = rows.schema_ref().fields().to_vec();
    let mut arrays = rows.columns().to_vec();
    let field = Arc::new(Field::new(name, array.data_type().clone(), true));
    match fields.iter().position(|known| known.name() == name) {
        Some(at) => {
            fields[at] = field;
            arrays[at] = array;
        }
        None => {
            fields.push(field);
            arrays.push(array);
        }
    }
    rebuild(fields, arrays, rows.num_rows())
}

/// The rows without the columns whose names `drop` accepts.
pub fn drop_columns(rows: &RecordBatch, mut drop: impl FnMut(&str) -> bool) -> Result<RecordBatch, EngineError> {
    let kept = rows.schema_ref().fields().iter().zip(rows.columns()).filter(|(field, _)| !drop(field.name()));
    let (fields, arrays) = kept.map(|(field, array)| (Arc::clone(field), Arc::clone(array))).unzip();
    rebuild(fields, arrays, rows.num_rows())
}

/// Renames column `from` to `to`, replacing an existing column of that name. A missing `from` changes nothing.
pub fn rename(rows: &RecordBatch, from: &str, to: &str) -> Result<RecordBatch, EngineError> {
    if from == to || column(rows, from).is_none() {
        return Ok(rows.clone());
    }
    let kept = rows.schema_ref().fields().iter().zip(rows.columns()).filter(|(field, _)| field.name() != to);
    let renamed = kept.map(|(field, array)| {
        let field =
            if field.name() == from { Arc::new(field.as_ref().clone().with_name(to)) } else { Arc::clone(field) };
        (field, Arc::clone(array))
    });
    let (fields, arrays) = renamed.unzip();
    rebuild(fields, arrays, rows.num_rows())
}

/// Exactly the named columns in this order; a missing column is null.
pub fn select<N: AsRef<str>>(rows: &RecordBatch, names: &[N]) -> Result<RecordBatch, EngineError> {
    let columns = names.iter().map(|name| (name.as_ref(), column_or_null(rows, name.as_ref())));
    batch_of(columns, rows.num_rows())
}

/// The values of `first`, with nulls replaced by the values of `second`.
pub fn coalesce(first: &ArrayRef, second: &ArrayRef) -> ArrayRef {
    if let DataType::Null = first.data_type() {
        return Arc::clone(second);
    }
    let (values, second) = (ColumnReader::new(first), ColumnReader::new(second));
    if values.validity().is_none() {
        return Arc::clone(first);
    }
    let first = values;
    let mut column = ColumnBuilder::new(first.len());
    for row in 0..first.len() {
        column.push(if first.is_null(row) { second.value(row) } else { first.value(row) });
    }
    column.finish()
}

/// The rows where `keep` is true; null drops the row.
pub fn filter(rows: &RecordBatch, keep: &BooleanArray) -> Result<RecordBatch, EngineError> {
    if keep.null_count() == 0 && keep.true_count() == keep.len() {
        return Ok(rows.clone());
    }
    if rows.num_columns() == 0 {
        return rebuild(Vec::new(), Vec::new(), keep.true_count());
    }
    Ok(arrow::compute::filter_record_batch(rows, keep)?)
}

/// The rows at these positions, in this order.
pub fn take(rows: &RecordBatch, positions: &UInt32Array) -> Result<RecordBatch, EngineError> {
    if rows.num_columns() == 0 {
        return rebuild(Vec::new(), Vec::new(), positions.len());
    }
    rows.columns().iter().try_for_each(|column| check_repetition(column, positions))?;
    Ok(arrow::compute::take_record_batch(rows, positions)?)
}

/// The values of a column at these positions, in this order; null at a position that is null. Fails if multivalues
/// would have more than [`REPEATED_VALUES_MAX`] values.
pub fn take_column(column: &ArrayRef, positions: &UInt32Array) -> Result<ArrayRef, EngineError> {
    check_repetition(column, positions)?;
    Ok(arrow::compute::take(column, positions, None)?)
}

/// Number of values of the multivalue in a row; 1 for other columns, which share or copy a single value.
pub fn count_values(column: &ArrayRef, row: usize) -> usize {
    column.as_list_opt::<i32>().map_or(1, |lists| usize::try_from(lists.value_length(row)).unwrap_or_default())
}

/// Fails if the multivalues at these positions have more than [`REPEATED_VALUES_MAX`] values.
pub fn check_repetition(column: &ArrayRef, positions: &UInt32Array) -> Result<(), EngineError> {
    if column.as_list_opt::<i32>().is_none() {
        return Ok(());
    }
    let values: usize = positions.iter().flatten().map(|position| count_values(column, position as usize)).sum();
    if values <= REPEATED_VALUES_MAX {
        return Ok(());
    }
    let what = "a long multivalue is repeated for many rows".to_owned();
    Err(EngineError::Limit { what, limit: "values of repeated multivalues", value: REPEATED_VALUES_MAX as u64 })
}

/// The rows from the last to the first.
pub fn reverse(rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
    take(rows, &(0..u32_of(rows.num_rows())).rev().collect())
}

/// The column as texts; a multivalue becomes its values joined by newline.
pub fn as_text_array(array: &ArrayRef) -> StringViewArray {
    let reader = ColumnReader::new(array);
    if let ColumnReader::Text(texts) = reader {
        return texts;
    }
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut scratch = String::new();
    for row in 0..array.len() {
        builder.append_option(reader.text(row, &mut scratch));
    }
    builder.finish()
}

/// The column as numbers; non-numeric values become null.
pub fn as_number_array(array: &ArrayRef) -> Float64Array {
    match ColumnReader::new(array) {
        ColumnReader::Float(numbers) => numbers,
        ColumnReader::Int(numbers) => numbers.unary(f64_of),
        ColumnReader::Time(times) => times.unary(time_seconds),
        reader => (0..array.len()).map(|row| reader.number(row)).collect(),
    }
}

/// Builds a batch, which may have no columns.
fn rebuild(fields: Vec<FieldRef>, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, EngineError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

#[cfg(test)]
mod tests;
