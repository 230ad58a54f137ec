//! `accum`: computes a running sum.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_event::value::Number;
use quarry_spl::ast::AccumCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, ordered};

impl Execute for AccumCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let (field, output) = (self.field.clone(), self.output.clone());
        Ok(vec![ordered(move || RunningSum { field: field.clone(), output: output.clone(), sum: Number::Int(0) })])
    }
}

/// The sum of the numbers so far.
struct RunningSum {
    field: String,
    output: String,
    sum: Number,
}

impl RowCommand for RunningSum {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (reader, old) = (rows::reader(&rows, &self.field), rows::reader(&rows, &self.output));
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            match reader.exact_number(row) {
                Some(number) => {
                    self.sum = self.sum.plus(number);
                    column.push(Value::from_number(self.sum));
                }
                None => column.push(old.value(row)),
            }
        }
        rows::with_column(&rows, &self.output, column.finish())
    }
}
