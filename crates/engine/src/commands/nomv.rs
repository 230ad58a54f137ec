//! `nomv`: joins the values of a multivalue field into one.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder, MULTI_SEPARATOR, Value};
use quarry_spl::ast::NoMvCommand;

use super::Execute;
use super::delimiter::DELIMITER_KEY;
use crate::lowering::{Lowering, Step, row};

impl Execute for NoMvCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || NoMv(command.clone()))])
    }
}

/// `nomv` on rows.
struct NoMv(NoMvCommand);

impl RowCommand for NoMv {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let Ok(field) = rows.schema_ref().field_with_name(&self.0.field) else { return Ok(rows) };
        let delimiter = field.metadata().get(DELIMITER_KEY).map_or(MULTI_SEPARATOR, String::as_str);
        let reader = rows::reader(&rows, &self.0.field);
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            match reader.value(row) {
                Value::Multi(values) => column.push_text(&values.join(delimiter)),
                value => column.push(value),
            }
        }
        rows::with_column(&rows, &self.0.field, column.finish())
    }
}
