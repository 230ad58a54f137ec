//! `appendcols`: appends the columns of a subsearch, row by row.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, concat_rows, rows_in_memory};
use quarry_spl::ast::AppendColsCommand;
use quarry_stdx::number::u32_of;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for AppendColsCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let right = lowering.subsearch(&self.subsearch, self.limits)?;
        Ok(vec![blocking(AppendCols { right, replaces: self.replaces })])
    }
}

struct AppendCols {
    /// Result of the subsearch.
    right: Vec<RecordBatch>,
    /// Whether values of the subsearch override existing values.
    replaces: bool,
}

impl BlockingTable for AppendCols {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let left = rows_in_memory("appendcols", rows, context)?;
        let right = concat_rows(self.right.clone())?;
        let count = left.num_rows().max(right.num_rows());
        let names = names_of(&right).into_iter().filter(|name| !name.starts_with('_'));
        // Rows beyond the end of the shorter side lack that side's fields.
        let places = (0..u32_of(count)).map(|row| (row < u32_of(left.num_rows())).then_some(row));
        let mut joined = match left.num_rows() {
            0 => rows::batch_of(Vec::<(String, ArrayRef)>::new(), count)?,
            _ => rows::take(&left, &places.collect::<UInt32Array>())?,
        };
        for name in names.collect::<Vec<_>>() {
            let (old, new) = (rows::reader(&joined, &name), rows::reader(&right, &name));
            let mut column = ColumnBuilder::new(count);
            for row in 0..count {
                let value = if row < right.num_rows() { new.value(row) } else { Value::Null };
                let keeps = !old.is_null(row) && (value.is_null() || !self.replaces);
                column.push(if keeps { old.value(row) } else { value });
            }
            let column = column.finish();
            drop(old);
            joined = rows::with_column(&joined, &name, column)?;
        }
        Ok(vec![joined])
    }
}
