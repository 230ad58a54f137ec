//! `nomv`: the values of a multivalue field joined into one.

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::NoMvCommand;

use super::Execute;
use super::delimiter::DELIMITER_KEY;
use crate::EngineError;
use crate::command::RowCommand;
use crate::lower::{Lowering, Step, row};
use crate::rows::{self, ColumnBuilder, MULTI_SEPARATOR, Value};

impl Execute for NoMvCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || command.clone())])
    }
}

impl RowCommand for NoMvCommand {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let Ok(field) = rows.schema_ref().field_with_name(&self.field) else { return Ok(rows) };
        let delimiter = field.metadata().get(DELIMITER_KEY).map_or(MULTI_SEPARATOR, String::as_str);
        let reader = rows::reader(&rows, &self.field);
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            match reader.value(row) {
                Value::Multi(values) => column.push_text(&values.join(delimiter)),
                value => column.push(value),
            }
        }
        rows::with_column(&rows, &self.field, column.finish())
    }
}
