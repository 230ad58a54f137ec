//! Streams of row batches.

use arrow::record_batch::RecordBatch;

use crate::EngineError;

/// Rows passed between commands; schemas may differ from batch to batch.
pub type RowIter = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

/// A stream of batches in memory.
pub fn of_batches(batches: Vec<RecordBatch>) -> RowIter {
    Box::new(batches.into_iter().filter(|batch| batch.num_rows() > 0).map(Ok))
}
