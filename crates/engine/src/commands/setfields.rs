//! `setfields`: sets fields to constant texts.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows;
use quarry_spl::ast::SetFieldsCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for SetFieldsCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![constants(self.fields.clone())])
    }
}

/// A step that sets fields to the same text in every row.
pub(super) fn constants(fields: Vec<(String, String)>) -> Step {
    row(move || Constants(fields.clone()))
}

struct Constants(Vec<(String, String)>);

impl RowCommand for Constants {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for (name, text) in self.0.iter() {
            let texts = std::iter::repeat_n(Some(text.as_str()), rows.num_rows());
            let column: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
            debug_assert_eq!(column.len(), rows.num_rows());
            rows = rows::with_column(&rows, name, column)?;
        }
        Ok(rows)
    }
}
