//! Rows of a result that somebody needs all of before the first can be shown.
//!
//! They are kept within the memory of searches, beyond it in a file: a table's head names the columns of all its rows.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::dataflow::Dataflow;
use quarry_eval::field_names::SeenNames;
use quarry_eval::rows::{KeptRows, RowIter, split_by_bytes};

/// Bytes of what is kept, and read again, at once, where no row has more.
const PIECE_BYTES: usize = 1 << 20;

/// All rows of a result, to be read as often as needed; see the module.
pub struct ResultRows {
    kept: KeptRows,
    names: SeenNames,
}

impl ResultRows {
    pub(crate) fn new(dataflow: &Arc<Dataflow>) -> ResultRows {
        ResultRows { kept: KeptRows::new("result", dataflow), names: SeenNames::default() }
    }

    /// For rows that somebody may read slowly: one piece stays in memory.
    pub(crate) fn of_slow_reader(dataflow: &Arc<Dataflow>) -> ResultRows {
        ResultRows { kept: KeptRows::within(PIECE_BYTES, "result", dataflow), names: SeenNames::default() }
    }

    /// Adds rows at the end.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), EngineError> {
        self.names.add(rows);
        split_by_bytes(rows, PIECE_BYTES).iter().try_for_each(|piece| self.kept.push(piece))
    }

    /// Moves the rows to a file, so that they take no memory of searches while somebody reads them slowly.
    pub fn leave_memory(&mut self) -> Result<(), EngineError> {
        self.kept.leave_memory()
    }

    /// Names of the columns in the order they were first seen, also of batches without rows.
    pub fn names(&self) -> &[String] {
        self.names.all()
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.kept.num_rows()
    }

    /// Bytes of an average row.
    pub fn row_bytes(&self) -> usize {
        self.kept.row_bytes()
    }

    /// The rows in order; what was read is kept no longer.
    pub fn into_batches(self) -> RowIter {
        self.kept.into_rows()
    }

    /// The rows in order, in batches that may differ in columns.
    pub fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, EngineError>> + '_ {
        self.kept.iter()
    }
}
