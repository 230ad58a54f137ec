//! Passes the rows and outcome of a finished search to the store of results.
//!
//! Rows are collected while the client reads them, up to [`STORED_BYTES_MAX`]. Larger results, partial results, and
//! results that the client did not read to the end are not stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use quarry_event::TimeNs;

/// Maximum bytes of rows stored per search; of a larger result, no rows are stored.
pub const STORED_BYTES_MAX: usize = 32 << 20;
/// Maximum bytes of rows collected by all running searches of a [`JobRecorder`]. A search that would exceed the limit
/// does not store its rows.
pub const COLLECTED_BYTES_MAX: usize = 64 << 20;

/// Number of bytes collected by running searches.
#[derive(Debug, Default)]
pub struct CollectedBytes(AtomicUsize);

impl CollectedBytes {
    /// Reserves bytes; returns false if the total would exceed the limit.
    fn reserve(&self, bytes: usize) -> bool {
        let taken = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= COLLECTED_BYTES_MAX;
        if !taken {
            self.release(bytes);
        }
        taken
    }

    fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Outcome of a search.
#[derive(Clone, Debug, Default)]
pub struct JobFacts {
    /// Id of the search.
    pub sid: String,
    /// User who ran the search.
    pub user: String,
    /// Text of the search.
    pub search: String,
    /// Name of the saved search that the search ran; `None` if the search did anything else.
    pub saved: Option<String>,
    /// Start time.
    pub started: TimeNs,
    /// Run time in milliseconds.
    pub elapsed_ms: u64,
    /// Number of events scanned.
    pub events_scanned: u64,
    /// Number of rows of the result that were read.
    pub rows: u64,
    /// Whether the rows are events.
    pub events: bool,
    /// Messages of the search.
    pub messages: Vec<String>,
}

/// Stores finished searches.
pub trait JobRecorder: Send + Sync {
    /// A unique id for a search that begins now; `None` if nothing can be stored.
    fn begin(&self, now: TimeNs) -> Option<String>;
    /// Stores the outcome of a search, with its rows if given.
    fn finish(&self, facts: &JobFacts, rows: Option<&[RecordBatch]>);
    /// Discards a search that ended without a result.
    fn abandon(&self, sid: &str);
    /// Number of bytes collected by running searches.
    fn collected_bytes(&self) -> &CollectedBytes;
}

/// A running search whose result may be stored.
pub(crate) struct ResultCollector {
    recorder: Arc<dyn JobRecorder>,
    pub(crate) facts: JobFacts,
    /// Rows collected so far; `None` if they will not be stored.
    rows: Option<Vec<RecordBatch>>,
    bytes: usize,
    ended: bool,
}

impl ResultCollector {
    /// A search that has begun. `keeps_rows` is false if the search returns only the displayed part of its result.
    pub(crate) fn new(recorder: Arc<dyn JobRecorder>, facts: JobFacts, keeps_rows: bool) -> ResultCollector {
        ResultCollector { recorder, facts, rows: keeps_rows.then(Vec::new), bytes: 0, ended: false }
    }

    /// Collects rows.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        self.facts.rows += batch.num_rows() as u64;
        let Some(rows) = &mut self.rows else { return };
        let own = copy_texts(batch);
        let bytes = own.get_array_memory_size();
        if self.bytes + bytes <= STORED_BYTES_MAX && self.recorder.collected_bytes().reserve(bytes) {
            self.bytes += bytes;
            rows.push(own);
        } else {
            self.stop_collecting();
        }
    }

    /// Stops collecting rows.
    fn stop_collecting(&mut self) {
        self.rows = None;
        self.recorder.collected_bytes().release(std::mem::take(&mut self.bytes));
    }

    /// Ends the search; its rows are stored if they are `complete`.
    pub(crate) fn end(&mut self, complete: bool) {
        if !std::mem::replace(&mut self.ended, true) {
            let rows = self.rows.take().filter(|_| complete);
            self.recorder.finish(&self.facts, rows.as_deref());
        }
    }
}

impl Drop for ResultCollector {
    fn drop(&mut self) {
        if !self.ended {
            self.recorder.abandon(&self.facts.sid);
        }
        self.stop_collecting();
    }
}

/// Copies the texts of rows, because texts from a scan point into pages, and the pages would otherwise stay in memory.
pub(crate) fn copy_texts(batch: &RecordBatch) -> RecordBatch {
    let own = |array: &ArrayRef| -> ArrayRef {
        match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            _ => Arc::clone(array),
        }
    };
    let columns = batch.columns().iter().map(own).collect();
    // The schema is unchanged; a batch without columns has nothing to copy.
    RecordBatch::try_new(batch.schema(), columns).unwrap_or_else(|_| batch.clone())
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{Field, Schema};

    use super::*;

    #[derive(Default)]
    struct Counting {
        remembered: CollectedBytes,
        with_rows: AtomicUsize,
    }

    impl JobRecorder for Counting {
        fn begin(&self, _: TimeNs) -> Option<String> {
            None
        }

        fn finish(&self, _: &JobFacts, rows: Option<&[RecordBatch]>) {
            self.with_rows.fetch_add(usize::from(rows.is_some()), Ordering::Relaxed);
        }

        fn abandon(&self, _: &str) {}

        fn collected_bytes(&self) -> &CollectedBytes {
            &self.remembered
        }
    }

    #[test]
    fn collected_rows_of_all_searches_are_bounded() {
        let recorder = Arc::new(Counting::default());
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![0; 1 << 20]))]).unwrap();
        let search = |batches: usize| {
            let mut collector = ResultCollector::new(recorder.clone(), JobFacts::default(), true);
            (0..batches).for_each(|_| collector.add(&batch));
            collector
        };
        assert!(search(5).rows.is_none(), "more than one search may");
        let running: Vec<ResultCollector> = (0..64).map(|_| search(2)).collect();
        let most = COLLECTED_BYTES_MAX / (2 * batch.get_array_memory_size());
        assert_eq!(running.iter().filter(|collector| collector.rows.is_some()).count(), most);
        running.into_iter().for_each(|mut collector| collector.end(true));
        assert_eq!(
            (recorder.with_rows.load(Ordering::Relaxed), recorder.remembered.0.load(Ordering::Relaxed)),
            (most, 0)
        );
    }
}
