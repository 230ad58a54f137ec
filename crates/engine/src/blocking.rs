//! Commands that need every row before they can answer (sort, eventstats, join).
//!
//! Not here: commands that look at rows as they pass, and those that fold them ([`quarry_eval::command`]).

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowIter, of_batches};

/// A command that needs every row before it can answer.
pub(crate) trait Blocking: Send + Sync {
    /// Takes the rows and gives the result. Rows that have to wait are kept in [`quarry_eval::rows::KeptRows`], which bounds
    /// memory; a result that is small or held anyway goes out by [`quarry_eval::rows::of_batches`].
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError>;
}

/// A command that gives its result as batches that are there already.
pub(crate) trait BlockingTable: Send + Sync {
    /// Consumes all rows and gives the result.
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError>;
}

impl<T: BlockingTable> Blocking for T {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        BlockingTable::run(self, rows, context).map(of_batches)
    }
}
