//! `xpath`: extracts the values selected by a path in XML.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::functions::xml::xpath_get;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_spl::ast::XPathCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for XPathCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = Arc::new(self.clone());
        Ok(vec![row(move || XPathValues(Arc::clone(&command)))])
    }
}

struct XPathValues(Arc<XPathCommand>);

impl RowCommand for XPathValues {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (texts, old) = (rows::reader(&rows, &self.0.field), rows::reader(&rows, &self.0.output));
        let (mut column, mut scratch) = (ColumnBuilder::new(rows.num_rows()), String::new());
        for row in 0..rows.num_rows() {
            let text = texts.text(row, &mut scratch);
            let values = text.map(|text| xpath_get(text, &self.0.path)).unwrap_or_default();
            match (values.is_empty(), &self.0.default) {
                (false, _) => column.push_multi(values),
                (true, Some(default)) => column.push_text(default),
                (true, None) => column.push(old.value(row)),
            }
        }
        rows::with_column(&rows, &self.0.output, column.finish())
    }
}
