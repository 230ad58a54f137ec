//! `require`: fails the search if there are no rows.

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowBuffer, RowIter};
use quarry_spl::ast::RequireCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for RequireCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Require)])
    }
}

struct Require;

impl Blocking for Require {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = RowBuffer::collect("require", rows, &context.dataflow)?;
        match kept.num_rows() {
            0 => Err(EngineError::invalid("require: there are no rows")),
            _ => Ok(kept.into_rows()),
        }
    }
}
