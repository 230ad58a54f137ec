//! Rows as a stream of batches.

use arrow::record_batch::RecordBatch;

use crate::EngineError;

/// Rows on their way between commands; schemas may differ from batch to batch.
pub type RowIter = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

/// Rows that are there already.
pub fn of_batches(batches: Vec<RecordBatch>) -> RowIter {
    Box::new(batches.into_iter().filter(|batch| batch.num_rows() > 0).map(Ok))
}
