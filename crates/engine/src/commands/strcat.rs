//! `strcat`: values and texts joined into a field.

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{StrcatCommand, StrcatSource};

use super::Execute;
use crate::EngineError;
use crate::command::RowCommand;
use crate::lower::{Lowering, Step, row};
use crate::rows::{self, ColumnBuilder, ColumnReader};

impl Execute for StrcatCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || command.clone())])
    }
}

impl RowCommand for StrcatCommand {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let readers: Vec<Option<ColumnReader>> = (self.sources.iter())
            .map(|source| match source {
                StrcatSource::Field(field) => Some(rows::reader(&rows, field)),
                StrcatSource::Text(_) => None,
            })
            .collect();
        let old = rows::reader(&rows, &self.target);
        let mut column = ColumnBuilder::new(rows.num_rows());
        let (mut joined, mut scratch) = (String::new(), String::new());
        for row in 0..rows.num_rows() {
            joined.clear();
            let mut is_complete = true;
            for (source, reader) in self.sources.iter().zip(&readers) {
                match (source, reader) {
                    (StrcatSource::Text(text), _) => joined.push_str(text),
                    (_, Some(reader)) => match reader.text(row, &mut scratch) {
                        Some(text) => joined.push_str(text),
                        None => is_complete = false,
                    },
                    (_, None) => {}
                }
            }
            if is_complete || !self.all_required {
                column.push_text(&joined);
            } else {
                column.push(old.value(row));
            }
        }
        rows::with_column(&rows, &self.target, column.finish())
    }
}
