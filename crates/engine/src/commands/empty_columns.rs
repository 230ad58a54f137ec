//! Removes columns without values from results that may omit such fields: either over all rows, or batch by batch if
//! rows are passed on as they arrive.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, RowBuffer, RowIter};

use crate::blocking::Blocking;

/// Removes the columns in which no row of the result has a value.
pub(crate) struct DropEmptyColumns;

impl Blocking for DropEmptyColumns {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut filled = BTreeSet::new();
        let mut kept = RowBuffer::new("rows whose columns may be empty", &context.dataflow);
        for batch in rows {
            let batch = batch?;
            filled.extend(columns_with_values(&batch).map(str::to_owned));
            kept.push(&batch)?;
        }
        let shown = kept.into_rows().map(move |batch| rows::drop_columns(&batch?, |name| !filled.contains(name)));
        Ok(Box::new(shown))
    }
}

/// Removes the columns of a batch in which no row of the batch has a value.
pub(crate) struct DropEmptyBatchColumns;

impl RowCommand for DropEmptyBatchColumns {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let filled: BTreeSet<&str> = columns_with_values(&rows).collect();
        match filled.len() == rows.num_columns() {
            true => Ok(rows),
            false => rows::drop_columns(&rows, |name| !filled.contains(name)),
        }
    }
}

fn columns_with_values(rows: &RecordBatch) -> impl Iterator<Item = &str> {
    let has_value = |(_, column): &(_, &ArrayRef)| column.logical_null_count() < column.len();
    let columns = rows.schema_ref().fields().iter().zip(rows.columns());
    columns.filter(has_value).map(|(field, _)| field.name().as_str())
}
