//! Rows of a search that were made and not read yet, handed out in small pieces.
//!
//! A command may give many long rows at once. They go to the reader piece by piece; while it reads nothing, all but one piece
//! is in a file.

use std::collections::VecDeque;

use arrow::record_batch::RecordBatch;
use quarry_engine::{EngineError, ResultRows, pieces};

/// Bytes of a piece, where no row has more.
const PIECE_BYTES: usize = 1 << 20;

type FiledRows = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

/// What is still to be read of the rows that were made.
#[derive(Default)]
pub(crate) struct PendingRows {
    held: VecDeque<RecordBatch>,
    /// Comes before what is held.
    filed: Option<FiledRows>,
}

impl PendingRows {
    /// Adds rows behind those there are.
    pub(crate) fn add(&mut self, rows: &RecordBatch) {
        self.held.extend(pieces(rows, PIECE_BYTES));
    }

    /// The next piece, without text that no row of it needs.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        if let Some(filed) = &mut self.filed {
            if let Some(piece) = filed.next() {
                return piece.map(Some);
            }
            self.filed = None;
        }
        self.held.pop_front().map(|piece| Ok(quarry_engine::compact(&piece)?.0)).transpose()
    }

    /// Moves what is held into a file, made by `file`, where that is more than a piece.
    pub(crate) fn leave_memory(&mut self, file: impl FnOnce() -> ResultRows) -> Result<(), EngineError> {
        // Where some is in a file, what is held came after it was made: at most what a command gives at once.
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
