//! What a command is to the engine: the three shapes every SPL command has.
//!
//! *Row* commands look at rows as they pass (eval, where, rex, head). *Reduce* commands fold rows into mergeable
//! states (stats, top, chart). *Blocking* commands need all rows at once (sort, eventstats, join). `lower/` turns a
//! syntax tree into a chain of these; `run` drives the chain.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion_execution::TaskContext;
use futures::stream::BoxStream;

use crate::EngineError;

/// Rows on their way between commands; schemas may differ from batch to batch.
pub(crate) type RowStream = BoxStream<'static, Result<RecordBatch, EngineError>>;

/// What a command may know about the search it runs in.
#[derive(Clone)]
pub(crate) struct CommandContext {
    /// Start of the search; `now()`.
    pub now: quarry_event::TimeNs,
    /// Time zone of the user.
    pub zone: jiff::tz::TimeZone,
    /// Range the search reads; `timechart` and `addinfo` show it.
    pub range: quarry_event::TimeRange,
    /// Memory pool and spill files.
    pub task: Arc<TaskContext>,
    /// Messages for the user: limits reached, things skipped.
    pub messages: Arc<Messages>,
}

/// Messages collected while a search runs, each once, at most [`Messages::LIMIT`].
#[derive(Debug, Default)]
pub struct Messages(std::sync::Mutex<Vec<String>>);

impl Messages {
    /// Most messages kept.
    pub const LIMIT: usize = 100;

    /// Adds a message unless it is already there.
    pub fn push(&self, message: impl Into<String>) {
        let message = message.into();
        let mut all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if all.len() < Self::LIMIT && !all.contains(&message) {
            all.push(message);
        }
    }

    /// The messages so far.
    pub fn list(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// A command that turns each batch of rows into another.
pub(crate) trait RowCommand: Send {
    /// Whether it keeps state from row to row, so that rows must come in order and through one instance.
    fn is_ordered(&self) -> bool;
    /// Transforms a batch.
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError>;
    /// Whether it wants no more rows (head reached its limit).
    fn is_done(&self) -> bool {
        false
    }
}

/// A command that folds rows into states which merge in any grouping of the input.
pub(crate) trait Reduce: Send + Sync {
    /// Whether the result depends on the order rows arrive in (first, last, list).
    fn needs_order(&self) -> bool;
    /// Folds the rows of one slice, in their order. `slice` ascends with arrival order so that ordered states merge right.
    fn partial(&self, rows: Vec<RecordBatch>, slice: u64, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError>;
    /// Merges states of all slices into result rows.
    fn finish(&self, states: RowStream, context: &CommandContext) -> Result<RowStream, EngineError>;
}

/// A command that needs every row before it can answer.
pub(crate) trait Blocking: Send {
    /// Consumes all rows and gives the result.
    fn run(self: Box<Self>, rows: RowStream, context: &CommandContext) -> Result<RowStream, EngineError>;
}
