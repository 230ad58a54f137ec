//! What becomes of a search that ended: its rows and what is known of it go to whoever keeps jobs.
//!
//! Rows are remembered while the client reads them, up to [`KEPT_BYTES_MAX`]; a larger result is not kept, and neither
//! is one that the client did not read to its end or that lacks something.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use quarry_event::TimeNs;

/// Bytes of rows that are kept of one search.
pub const KEPT_BYTES_MAX: usize = 32 << 20;

/// What is known of a search that ended.
#[derive(Clone, Debug, Default)]
pub struct JobFacts {
    /// Its id.
    pub sid: String,
    /// Its text.
    pub search: String,
    /// The saved search that it ran, where it did nothing else.
    pub saved: Option<String>,
    /// When it began.
    pub started: TimeNs,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Events read to answer.
    pub events_scanned: u64,
    /// Rows of the result that were read.
    pub rows: u64,
    /// Whether the rows are events.
    pub events: bool,
    /// What it had to say.
    pub messages: Vec<String>,
}

/// Keeps jobs.
pub trait JobKeeper: Send + Sync {
    /// An id for a search that begins now, unlike any that is kept; `None` where nothing can be kept.
    fn begin(&self, now: TimeNs) -> Option<String>;
    /// Takes over what a search gave; without rows only what is known of it.
    fn finish(&self, facts: &JobFacts, rows: Option<&[RecordBatch]>);
    /// A search ended without a result.
    fn abandon(&self, sid: &str);
}

/// A search on its way to its keeper.
pub(crate) struct Keeping {
    keeper: Arc<dyn JobKeeper>,
    pub(crate) facts: JobFacts,
    /// Rows so far; `None` when they are not kept.
    rows: Option<Vec<RecordBatch>>,
    bytes: usize,
    ended: bool,
}

impl Keeping {
    /// A search that began; `keeps_rows` unless its rows are not those of its text.
    pub(crate) fn new(keeper: Arc<dyn JobKeeper>, facts: JobFacts, keeps_rows: bool) -> Keeping {
        Keeping { keeper, facts, rows: keeps_rows.then(Vec::new), bytes: 0, ended: false }
    }

    /// Remembers rows.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        self.facts.rows += batch.num_rows() as u64;
        let Some(rows) = &mut self.rows else { return };
        let own = owned(batch);
        self.bytes += own.get_array_memory_size();
        if self.bytes > KEPT_BYTES_MAX {
            self.rows = None;
        } else {
            rows.push(own);
        }
    }

    /// The search ended; its rows are kept if they are `complete`.
    pub(crate) fn end(&mut self, complete: bool) {
        if !std::mem::replace(&mut self.ended, true) {
            let rows = self.rows.take().filter(|_| complete);
            self.keeper.finish(&self.facts, rows.as_deref());
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if !self.ended {
            self.keeper.abandon(&self.facts.sid);
        }
    }
}

/// The rows with texts of their own: those of a scan lie in pages that would stay in memory.
fn owned(batch: &RecordBatch) -> RecordBatch {
    let own = |array: &ArrayRef| -> ArrayRef {
        match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            _ => Arc::clone(array),
        }
    };
    let columns = batch.columns().iter().map(own).collect();
    // The columns are those the schema is of; a batch without columns has nothing to copy.
    RecordBatch::try_new(batch.schema(), columns).unwrap_or_else(|_| batch.clone())
}
