//! What a command is to the engine: the three shapes every SPL command has.
//!
//! *Row* commands look at rows as they pass (eval, where, rex, head). *Reduce* commands fold rows into groups as
//! they come (stats, top, chart). *Blocking* commands need all rows at once (sort, eventstats, join). [`crate::lower`]
//! turns a syntax tree into a chain of these; [`crate::run`] drives the chain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::record_batch::RecordBatch;
use quarry_conf::Permissions;
use quarry_spl::ast::PercentileMethod;

use crate::EngineError;
use crate::aggregate::Folder;
use crate::dataflow::Dataflow;
use crate::expr::{ExprContext, ExprTables};
use crate::job::TransactionLimits;
use crate::losses::Loss;
use crate::pattern::{MATCH_STEPS_MAX, TEXT_BYTES_MAX};

/// Rows on their way between commands; schemas may differ from batch to batch.
pub(crate) type RowIter = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

/// Rows that are there already.
pub(crate) fn of_batches(batches: Vec<RecordBatch>) -> RowIter {
    Box::new(batches.into_iter().filter(|batch| batch.num_rows() > 0).map(Ok))
}

/// What a command may know about the search it runs in.
#[derive(Clone)]
pub(crate) struct CommandContext {
    /// Name of the search, unique among those of its server.
    pub id: Arc<str>,
    /// Text of the search as written.
    pub search: Arc<str>,
    /// Start of the search; `now()`.
    pub now: quarry_event::TimeNs,
    /// Time zone of the user.
    pub zone: jiff::tz::TimeZone,
    /// Range the search reads; `timechart` shows it.
    pub range: quarry_event::TimeRange,
    /// DataFusion with its memory pool and spill files.
    pub dataflow: Arc<Dataflow>,
    /// What `transaction` keeps open unless it says otherwise.
    pub transactions: TransactionLimits,
    /// How percentiles are read off.
    pub percentiles: PercentileMethod,
    /// What `lookup()` reads.
    pub tables: ExprTables,
    /// Messages for the user: limits reached, things skipped.
    pub messages: Arc<Messages>,
    /// Whether and how to stop.
    pub stop: Arc<Stop>,
    /// What the user may do.
    pub permissions: Arc<Permissions>,
}

impl CommandContext {
    /// What expressions may know of the search.
    pub(crate) fn expressions(&self) -> ExprContext {
        ExprContext {
            now: self.now,
            zone: self.zone.clone(),
            tables: self.tables.clone(),
            percentiles: self.percentiles,
        }
    }
}

/// A search's wish to end, set by its user.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    cancelled: AtomicBool,
    finishing: AtomicBool,
    partial: AtomicBool,
}

impl Stop {
    /// Ends the search without a result.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.partial.store(true, Ordering::Relaxed);
    }

    /// Reads no more events and answers from those read.
    pub(crate) fn finish_early(&self) {
        self.finishing.store(true, Ordering::Relaxed);
    }

    /// Whether the result must not be waited for.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether no more events are to be read.
    pub(crate) fn stops_reading(&self) -> bool {
        self.finishing.load(Ordering::Relaxed) || self.is_cancelled()
    }

    /// Notes that the answer lacks something.
    pub(crate) fn mark_partial(&self) {
        self.partial.store(true, Ordering::Relaxed);
    }

    /// Whether the answer lacks something.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial.load(Ordering::Relaxed)
    }
}

/// Messages collected while a search runs, each once, at most [`Messages::LIMIT`].
#[derive(Debug, Default)]
pub struct Messages {
    list: std::sync::Mutex<Vec<String>>,
    pushes: AtomicU64,
    /// Matches that were given up.
    matches_lost: AtomicU64,
    /// Texts that grew too long.
    texts_lost: AtomicU64,
}

impl Messages {
    /// Most messages kept.
    pub const LIMIT: usize = 100;

    /// Adds a message unless it is already there.
    pub fn push(&self, message: impl Into<String>) {
        let message = message.into();
        self.pushes.fetch_add(1, Ordering::Relaxed);
        let mut all = self.list.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if all.len() < Self::LIMIT && !all.contains(&message) {
            all.push(message);
        }
    }

    /// Counts a loss.
    pub(crate) fn note(&self, loss: Loss) {
        self.pushes.fetch_add(1, Ordering::Relaxed);
        let count = match loss {
            Loss::Match => &self.matches_lost,
            Loss::Text => &self.texts_lost,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something was to be added, also what was there.
    pub(crate) fn pushes(&self) -> u64 {
        self.pushes.load(Ordering::Relaxed)
    }

    /// The messages so far.
    pub fn list(&self) -> Vec<String> {
        let mut all = self.list.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let texts = |count: u64| if count == 1 { " 1 text".to_owned() } else { format!(" {count} texts") };
        match self.matches_lost.load(Ordering::Relaxed) {
            0 => {}
            count => all.push(format!(
                "a regular expression was given up on{} after {MATCH_STEPS_MAX} steps; that counts as no match: make it simpler",
                texts(count)
            )),
        }
        match self.texts_lost.load(Ordering::Relaxed) {
            0 => {}
            count => all.push(format!("{} longer than {TEXT_BYTES_MAX} bytes became null", texts(count).trim())),
        }
        all
    }
}

/// A command that turns each batch of rows into another.
pub(crate) trait RowCommand: Send {
    /// Transforms a batch.
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError>;
    /// Whether it wants no more rows (head reached its limit).
    fn is_done(&self) -> bool {
        false
    }
}

/// Makes one instance of a row command per worker.
pub(crate) type MakeRowCommand = Arc<dyn Fn() -> Box<dyn RowCommand> + Send + Sync>;

/// A command that folds rows into groups, worker by worker.
pub(crate) trait Reduce: Send + Sync {
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

/// A command that needs every row before it can answer.
pub(crate) trait Blocking: Send + Sync {
    /// Takes the rows and gives the result. Rows that have to wait are kept in [`crate::rows::KeptRows`], which bounds
    /// memory; a result that is small or held anyway goes out by [`crate::command::of_batches`].
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
