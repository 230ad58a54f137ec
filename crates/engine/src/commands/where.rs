//! `where`: keeps the rows for which an expression is true.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::rows;
use quarry_spl::ast::WhereCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for WhereCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let condition = lowering.compile(&self.condition)?;
        Ok(vec![row(move || Where(Arc::clone(&condition)))])
    }
}

/// Keeps rows that meet the condition.
struct Where(Arc<CompiledExpr>);

impl RowCommand for Where {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        rows::filter(&rows, &self.0.matches(&rows)?)
    }
}
