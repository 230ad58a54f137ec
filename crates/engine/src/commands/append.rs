//! `append`: appends the rows of a subsearch.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::AppendCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for AppendCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let rows = lowering.subsearch(&self.subsearch, self.limits)?;
        Ok(vec![blocking(Append { rows })])
    }
}

/// Rows held in memory, emitted after the incoming rows.
pub(crate) struct Append {
    /// Result of the subsearch.
    pub rows: Vec<RecordBatch>,
}

impl Blocking for Append {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<RowIter, EngineError> {
        Ok(Box::new(rows.chain(of_batches(self.rows.clone()))))
    }
}
