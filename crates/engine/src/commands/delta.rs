//! `delta`: computes the difference between a value and the value of an earlier row.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_spl::ast::DeltaCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, ordered};

impl Execute for DeltaCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = Arc::new(self.clone());
        Ok(vec![ordered(move || Delta { command: Arc::clone(&command), last: VecDeque::new() })])
    }
}

struct Delta {
    command: Arc<DeltaCommand>,
    /// The last values, oldest first.
    last: VecDeque<Value<'static>>,
}

/// `a - b`, if both are numbers.
fn difference(a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    match (a.exact_number(), b.exact_number()) {
        (Some(a), Some(b)) => Value::from_number(a.minus(b)),
        _ => Value::Null,
    }
}

impl RowCommand for Delta {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.command.field);
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            let value = reader.value(row);
            let earlier = if self.last.len() >= self.command.distance { self.last.pop_front() } else { None };
            column.push(earlier.map_or(Value::Null, |earlier| difference(&value, &earlier)));
            self.last.push_back(value.into_owned());
        }
        rows::with_column(&rows, &self.command.output, column.finish())
    }
}
