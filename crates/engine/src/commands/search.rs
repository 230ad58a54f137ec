//! `search` after a pipe: filters rows by a condition. At the start of a search, the scan tests events.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows;
use quarry_spl::ast::SearchCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for SearchCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let expr = lowering.environment.resolve_subsearches(&self.expr)?;
        let filter = Arc::new(RowFilter::new(&expr, &lowering.expressions())?);
        Ok(vec![row(move || Search(Arc::clone(&filter)))])
    }
}

/// Keeps matching rows.
struct Search(Arc<RowFilter>);

impl RowCommand for Search {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        rows::filter(&rows, &self.0.matches(&rows)?)
    }
}
