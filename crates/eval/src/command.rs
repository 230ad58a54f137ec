//! What a command is to execution: three shapes.
//!
//! *Row* commands look at rows as they pass (eval, where, rex, head). *Reduce* commands fold rows into groups as they
//! come (stats, top, chart). Others need all rows at once (sort, eventstats, join); they are the engine's, which turns a
//! search into a chain of these and drives it.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use crate::EngineError;
use crate::aggregate::Folder;
use crate::context::CommandContext;
use crate::rows::RowIter;

/// A command that turns each batch of rows into another.
pub trait RowCommand: Send {
    /// Transforms a batch.
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError>;
    /// Whether it wants no more rows (head reached its limit).
    fn is_done(&self) -> bool {
        false
    }
}

/// Makes one instance of a row command per worker.
pub type MakeRowCommand = Arc<dyn Fn() -> Box<dyn RowCommand> + Send + Sync>;

/// A command that folds rows into groups, worker by worker.
pub trait Reduce: Send + Sync {
    /// Whether [`Reduce::prepare`] must be told the range of the rows, so that all of them have to be seen first.
    fn needs_bounds(&self, _context: &CommandContext) -> bool {
        false
    }
    /// Whether events that differ in `_time` only may come as two rows, the first and the last of them, with a column
    /// [`crate::rows::EVENTS`] of how many events each stands for.
    fn takes_extremes(&self) -> bool {
        false
    }
    /// Whether events with the same values may come as one row, with a column [`crate::rows::EVENTS`] of how many it
    /// stands for and without `_time`.
    fn takes_counts(&self) -> bool {
        false
    }
    /// Told once, before the first row, between which instants the rows lie; not exactly, but never too narrow.
    fn prepare(&self, _data: Option<(quarry_event::TimeNs, quarry_event::TimeNs)>, _context: &CommandContext) {}
    /// What the states of folded rows depend on beside the command and the rows; `None` where that is not known before
    /// the rows are.
    fn fold_name(&self, _context: &CommandContext) -> Option<String> {
        Some(String::new())
    }
    /// Makes what folds the rows one worker reads.
    fn folder(&self, context: &CommandContext) -> Result<Folder, EngineError>;
    /// The result rows from the folders of all workers.
    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError>;
}
