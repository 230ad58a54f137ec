//! `appendpipe`: appends the result of a subpipeline on the current rows.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::RowIter;
use quarry_spl::ast::AppendPipeCommand;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};
use crate::run::apply;

impl Execute for AppendPipeCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(AppendPipe(lowering.steps_of(&self.pipeline)?))])
    }
}

struct AppendPipe(Vec<Step>);

impl BlockingTable for AppendPipe {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let mut all = rows.collect::<Result<Vec<_>, _>>()?;
        let again: RowIter = Box::new(all.clone().into_iter().map(Ok));
        for batch in apply(again, self.0.clone(), context)? {
            all.push(batch?);
        }
        Ok(all)
    }
}
