//! Rows that a search has produced but its client has not read yet, returned in small pieces.
//!
//! A command may produce many long rows at once. The reader receives them piece by piece; while it does not read, all
//! but one piece are in a file.

use std::collections::VecDeque;

use arrow::record_batch::RecordBatch;
use quarry_engine::{EngineError, ResultRows, split_by_bytes};

/// Size of a piece, unless a single row is larger.
const PIECE_BYTES: usize = 1 << 20;

type FiledRows = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

/// Rows made but not read.
#[derive(Default)]
pub(crate) struct PendingRows {
    held: VecDeque<RecordBatch>,
    /// Comes before `held`.
    filed: Option<FiledRows>,
}

impl PendingRows {
    /// Appends rows.
    pub(crate) fn add(&mut self, rows: &RecordBatch) {
        self.held.extend(split_by_bytes(rows, PIECE_BYTES));
    }

    /// The next piece, without text that none of its rows needs.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        if let Some(filed) = &mut self.filed {
            if let Some(piece) = filed.next() {
                return piece.map(Some);
            }
            self.filed = None;
        }
        self.held.pop_front().map(|piece| Ok(quarry_engine::compact(&piece)?.0)).transpose()
    }

    /// Moves held rows into a file created by `file`, if they are more than a piece.
    pub(crate) fn leave_memory(&mut self, file: impl FnOnce() -> ResultRows) -> Result<(), EngineError> {
        // If some rows are in a file, those held are newer: at most the output of one command step.
        if self.held.len() < 2 || self.filed.is_some() {
            return Ok(());
        }
        let mut rows = file();
        self.held.iter().try_for_each(|piece| rows.push(piece))?;
        rows.leave_memory()?;
        self.held.clear();
        self.filed = Some(rows.into_batches());
        Ok(())
    }
}
