//! `strcat`: concatenates field values and strings into a field.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader};
use quarry_spl::ast::{StrcatCommand, StrcatSource};

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for StrcatCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || Strcat(command.clone()))])
    }
}

struct Strcat(StrcatCommand);

impl RowCommand for Strcat {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let readers: Vec<Option<ColumnReader>> = (self.0.sources.iter())
            .map(|source| match source {
                StrcatSource::Field(field) => Some(rows::reader(&rows, field)),
                StrcatSource::Text(_) => None,
            })
            .collect();
        let old = rows::reader(&rows, &self.0.target);
        let mut column = ColumnBuilder::new(rows.num_rows());
        let (mut joined, mut scratch) = (String::new(), String::new());
        for row in 0..rows.num_rows() {
            joined.clear();
            let mut is_complete = true;
            for (source, reader) in self.0.sources.iter().zip(&readers) {
                match (source, reader) {
                    (StrcatSource::Text(text), _) => joined.push_str(text),
                    (_, Some(reader)) => match reader.text(row, &mut scratch) {
                        Some(text) => joined.push_str(text),
                        None => is_complete = false,
                    },
                    (_, None) => {}
                }
            }
            if is_complete || !self.0.all_required {
                column.push_text(&joined);
            } else {
                column.push(old.value(row));
            }
        }
        rows::with_column(&rows, &self.0.target, column.finish())
    }
}
