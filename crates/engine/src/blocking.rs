//! Blocking commands: those that need every row before they can produce a result (sort, eventstats, join), and external
//! programs, which take rows at their own pace.
//!
//! Not here: row commands and folds ([`quarry_eval::command`]).

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowIter, of_batches};

/// A command that needs every row before it can produce a result.
pub(crate) trait Blocking: Send + Sync {
    /// Consumes the rows and returns the result. Rows that have to be buffered go into
    /// [`quarry_eval::rows::RowBuffer`], which bounds memory; a result that is small or already in memory is returned
    /// with [`quarry_eval::rows::of_batches`].
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError>;
}

/// A blocking command whose result is a list of batches in memory.
pub(crate) trait BlockingTable: Send + Sync {
    /// Consumes all rows and returns the result.
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError>;
}

impl<T: BlockingTable> Blocking for T {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        BlockingTable::run(self, rows, context).map(of_batches)
    }
}
