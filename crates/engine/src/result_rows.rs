//! Result rows that must be complete before the first can be shown.
//!
//! A table's header names the columns of all rows, so the rows are first collected in the memory of searches, or
//! spilled to a file.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::dataflow::Dataflow;
use quarry_eval::field_names::SeenNames;
use quarry_eval::rows::{RowBuffer, RowIter, split_by_bytes};

/// Bytes of the rows that are stored, or read back, together; a single row may have more.
const CHUNK_BYTES: usize = 1 << 20;

/// All rows of a result, which can be read repeatedly.
pub struct ResultRows {
    kept: RowBuffer,
    names: SeenNames,
}

impl ResultRows {
    pub(crate) fn new(dataflow: &Arc<Dataflow>) -> ResultRows {
        ResultRows { kept: RowBuffer::new("result", dataflow), names: SeenNames::default() }
    }

    /// For rows that may be read slowly: only one batch stays in memory.
    pub(crate) fn for_slow_reader(dataflow: &Arc<Dataflow>) -> ResultRows {
        ResultRows { kept: RowBuffer::with_limit(CHUNK_BYTES, "result", dataflow), names: SeenNames::default() }
    }

    /// Adds rows at the end.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), EngineError> {
        self.names.add(rows);
        split_by_bytes(rows, CHUNK_BYTES).iter().try_for_each(|piece| self.kept.push(piece))
    }

    /// Spills the rows to a file, so that they occupy no search memory while they are read slowly.
    pub fn spill(&mut self) -> Result<(), EngineError> {
        self.kept.spill()
    }

    /// Column names, including those of empty batches.
    pub fn names(&self) -> &[String] {
        self.names.all()
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.kept.num_rows()
    }

    /// Average bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.kept.row_bytes()
    }

    /// The rows in order; each batch is dropped after it is read.
    pub fn into_batches(self) -> RowIter {
        self.kept.into_rows()
    }

    /// The rows in order, in batches whose columns may differ.
    pub fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, EngineError>> + '_ {
        self.kept.iter()
    }
}
