//! `autoregress`: copies values of earlier rows into each row.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_spl::ast::AutoRegressCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, ordered};

impl Execute for AutoRegressCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = Arc::new(self.clone());
        Ok(vec![ordered(move || AutoRegress { command: Arc::clone(&command), last: VecDeque::new() })])
    }
}

struct AutoRegress {
    command: Arc<AutoRegressCommand>,
    /// The last values, newest first.
    last: VecDeque<Value<'static>>,
}

impl RowCommand for AutoRegress {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.command.field);
        let distances = self.command.first..=self.command.last;
        let mut columns: Vec<ColumnBuilder> = distances.clone().map(|_| ColumnBuilder::new(rows.num_rows())).collect();
        for row in 0..rows.num_rows() {
            for (column, distance) in columns.iter_mut().zip(distances.clone()) {
                match self.last.get(distance - 1) {
                    Some(value) => column.push(value.clone()),
                    None => column.push_null(),
                }
            }
            self.last.push_front(reader.value(row).into_owned());
            self.last.truncate(self.command.last);
        }
        let mut result = rows.clone();
        for (column, distance) in columns.into_iter().zip(distances) {
            let name = match &self.command.output {
                Some(output) => output.clone(),
                None => format!("{}_p{distance}", self.command.field),
            };
            result = rows::with_column(&result, &name, column.finish())?;
        }
        Ok(result)
    }
}
