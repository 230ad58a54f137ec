//! `require`: fails the search if there are no rows.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::RowIter;
use quarry_spl::ast::RequireCommand;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for RequireCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Require)])
    }
}

/// The command.
struct Require;

impl BlockingTable for Require {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows.collect::<Result<Vec<_>, _>>()?;
        match all.iter().any(|rows| rows.num_rows() > 0) {
            true => Ok(all),
            false => Err(EngineError::invalid("require: there are no rows")),
        }
    }
}
