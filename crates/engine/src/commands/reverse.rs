//! `reverse`: reverses the order of rows.

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowBuffer, RowIter, reverse};
use quarry_spl::ast::ReverseCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for ReverseCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Reverse)])
    }
}

/// Emits the rows from last to first.
struct Reverse;

impl Blocking for Reverse {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = RowBuffer::collect("reverse", rows, &context.dataflow)?;
        Ok(Box::new(kept.into_rows_backwards().map(|batch| reverse(&batch?))))
    }
}
