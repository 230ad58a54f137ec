//! Rows that a search has produced but its client has not read yet, returned in small pieces.
//!
//! A command may produce many long rows at once. The client receives them piece by piece. Pieces that wait for a slow
//! client can be moved to a file ([`PendingRows::spill`]).

use std::collections::VecDeque;

use arrow::record_batch::RecordBatch;
use quarry_engine::{EngineError, ResultRows, split_by_bytes};

/// Maximum size of a piece, unless a single row is larger.
const CHUNK_BYTES: usize = 1 << 20;

type SpilledRows = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

/// Rows produced but not read yet.
#[derive(Default)]
pub(crate) struct PendingRows {
    held: VecDeque<RecordBatch>,
    /// Rows in a file; these rows precede the rows in `held`.
    filed: Option<SpilledRows>,
}

impl PendingRows {
    /// Appends rows.
    pub(crate) fn add(&mut self, rows: &RecordBatch) {
        self.held.extend(split_by_bytes(rows, CHUNK_BYTES));
    }

    /// The next piece, in buffers that hold only its own rows.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        if let Some(filed) = &mut self.filed {
            if let Some(piece) = filed.next() {
                return piece.map(Some);
            }
            self.filed = None;
        }
        self.held.pop_front().map(|piece| Ok(quarry_engine::compact(&piece)?.0)).transpose()
    }

    /// Moves the rows in `held` to a file created by `file`, if they are more than one piece.
    pub(crate) fn spill(&mut self, file: impl FnOnce() -> ResultRows) -> Result<(), EngineError> {
        // If a file exists already, `held` contains at most the output of one command step, which stays in memory.
        if self.held.len() < 2 || self.filed.is_some() {
            return Ok(());
        }
        let mut rows = file();
        self.held.iter().try_for_each(|piece| rows.push(piece))?;
        rows.spill()?;
        self.held.clear();
        self.filed = Some(rows.into_batches());
        Ok(())
    }
}
