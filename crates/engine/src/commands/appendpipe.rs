//! `appendpipe`: appends the result of a subpipeline on the current rows.

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowBuffer, RowIter};
use quarry_spl::ast::AppendPipeCommand;

use super::Execute;
use super::append::append;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};
use crate::run::apply;

impl Execute for AppendPipeCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(AppendPipe(lowering.steps_of(&self.pipeline)?))])
    }
}

struct AppendPipe(Vec<Step>);

impl Blocking for AppendPipe {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = Arc::new(RowBuffer::collect("appendpipe", rows, &context.dataflow)?);
        let appended = apply(kept.iter_shared(), self.0.clone(), context)?;
        Ok(append(kept.iter_shared(), appended))
    }
}
