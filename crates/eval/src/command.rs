//! Traits for commands, by the way in which they process rows.
//!
//! *Row* commands process rows as they pass (eval, where, rex, head). *Reduce* commands fold rows into groups (stats,
//! top, chart). Blocking commands need all rows at once (sort, eventstats, join); they are in the engine, which builds
//! a search from commands of all three kinds.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use crate::EngineError;
use crate::aggregate::{AggregatePlan, Folder};
use crate::context::CommandContext;
use crate::rows::RowIter;

/// A command that turns each batch of rows into another.
pub trait RowCommand: Send {
    /// Transforms a batch.
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError>;
    /// Whether the command needs no more rows, such as `head` at its limit.
    fn is_done(&self) -> bool {
        false
    }
}

/// Makes one instance of a row command per worker.
pub type MakeRowCommand = Arc<dyn Fn() -> Box<dyn RowCommand> + Send + Sync>;

/// A command that folds rows into groups, worker by worker.
pub trait Reduce: Send + Sync {
    /// Whether [`Reduce::prepare`] needs the time range of the rows, so that all of them must be seen first.
    fn needs_bounds(&self, _context: &CommandContext) -> bool {
        false
    }
    /// Whether events that differ only in `_time` may be passed as two rows, the first and the last, with the number
    /// of events that each represents in the column [`crate::rows::EVENTS`].
    fn accepts_extremes(&self) -> bool {
        false
    }
    /// Whether events with equal values may be passed as one row without `_time`, with the number of events in the
    /// column [`crate::rows::EVENTS`].
    fn accepts_counts(&self) -> bool {
        false
    }
    /// Called once before the first row. `data` is the time range of the rows; it may be too wide but never too
    /// narrow.
    fn prepare(&self, _data: Option<(quarry_event::TimeNs, quarry_event::TimeNs)>, _context: &CommandContext) {}
    /// Part of the key under which partial states of the fold are cached: everything on which they depend besides the
    /// command and the rows. `None` if this is known only after rows were read; the states are then not cached.
    fn fold_name(&self, _context: &CommandContext) -> Option<String> {
        Some(String::new())
    }
    /// The aggregates of the fold; its states have their [layout](AggregatePlan::layout).
    fn aggregates(&self) -> &AggregatePlan;
    /// Creates the [`Folder`] for the rows of one worker.
    fn folder(&self, context: &CommandContext) -> Result<Folder, EngineError> {
        Ok(Folder::new(self.aggregates(), context))
    }
    /// The result rows from the [`Folder`]s of all workers.
    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError>;
    /// Like [`Reduce::finish`], with the rows in any order, for callers to which the order does not matter.
    fn finish_unordered(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        self.finish(folders, context)
    }
}
