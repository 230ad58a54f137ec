//! What becomes of a search that ended: its rows and what is known of it go to whoever keeps jobs.
//!
//! Rows are remembered while the client reads them, up to [`KEPT_BYTES_MAX`]; a larger result is not kept, and neither
//! is one that the client did not read to its end or that lacks something.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use quarry_event::TimeNs;

/// Bytes of rows that are kept of one search.
pub const KEPT_BYTES_MAX: usize = 32 << 20;
/// Bytes of rows that searches of a keeper remember together while they run; beyond, the rows of some are not kept.
pub const REMEMBERED_BYTES_MAX: usize = 64 << 20;

/// Bytes that running searches remember.
#[derive(Debug, Default)]
pub struct Remembered(AtomicUsize);

impl Remembered {
    /// Takes so many bytes more; whether there was room.
    fn take(&self, bytes: usize) -> bool {
        let taken = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= REMEMBERED_BYTES_MAX;
        if !taken {
            self.give_back(bytes);
        }
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What is known of a search that ended.
#[derive(Clone, Debug, Default)]
pub struct JobFacts {
    /// Its id.
    pub sid: String,
    /// Who asked.
    pub user: String,
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
    /// What its running searches remember together.
    fn remembered(&self) -> &Remembered;
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
        let bytes = own.get_array_memory_size();
        if self.bytes + bytes <= KEPT_BYTES_MAX && self.keeper.remembered().take(bytes) {
            self.bytes += bytes;
            rows.push(own);
        } else {
            self.forget();
        }
    }

    /// Remembers no rows any more.
    fn forget(&mut self) {
        self.rows = None;
        self.keeper.remembered().give_back(std::mem::take(&mut self.bytes));
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
        self.forget();
    }
}

/// The rows with texts of their own: those of a scan lie in pages that would stay in memory.
pub(crate) fn owned(batch: &RecordBatch) -> RecordBatch {
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

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{Field, Schema};

    use super::*;

    #[derive(Default)]
    struct Counting {
        remembered: Remembered,
        with_rows: AtomicUsize,
    }

    impl JobKeeper for Counting {
        fn begin(&self, _: TimeNs) -> Option<String> {
            None
        }

        fn finish(&self, _: &JobFacts, rows: Option<&[RecordBatch]>) {
            self.with_rows.fetch_add(usize::from(rows.is_some()), Ordering::Relaxed);
        }

        fn abandon(&self, _: &str) {}

        fn remembered(&self) -> &Remembered {
            &self.remembered
        }
    }

    #[test]
    fn searches_remember_no_more_rows_together_than_the_limit_says() {
        let keeper = Arc::new(Counting::default());
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![0; 1 << 20]))]).unwrap();
        let search = |batches: usize| {
            let mut keeping = Keeping::new(keeper.clone(), JobFacts::default(), true);
            (0..batches).for_each(|_| keeping.add(&batch));
            keeping
        };
        assert!(search(5).rows.is_none(), "more than one search may");
        let running: Vec<Keeping> = (0..64).map(|_| search(2)).collect();
        let most = REMEMBERED_BYTES_MAX / (2 * batch.get_array_memory_size());
        assert_eq!(running.iter().filter(|keeping| keeping.rows.is_some()).count(), most);
        running.into_iter().for_each(|mut keeping| keeping.end(true));
        assert_eq!((keeper.with_rows.load(Ordering::Relaxed), keeper.remembered.0.load(Ordering::Relaxed)), (most, 0));
    }
}
