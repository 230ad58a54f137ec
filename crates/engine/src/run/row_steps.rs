//! Rows through one row command, few at a time.
//!
//! Not here: rows of a scan, which workers pass through commands page by page (partial/work).

use arrow::record_batch::RecordBatch;

use crate::EngineError;
use crate::command::{RowCommand, RowIter};

/// Rows through one row command.
pub(super) struct RowSteps {
    rows: RowIter,
    /// Parts of a large batch still to come, the next one last.
    parts: Vec<RecordBatch>,
    command: Box<dyn RowCommand>,
    ended: bool,
    /// Rows it is given at once.
    step_rows: usize,
}

impl RowSteps {
    /// The rows of `command`, which is given so many at once.
    pub(super) fn new(rows: RowIter, command: Box<dyn RowCommand>, step_rows: usize) -> RowSteps {
        RowSteps { rows, parts: Vec::new(), command, ended: false, step_rows }
    }

    /// The next rows, few at a time, so that what a command makes of them stays small.
    fn next_part(&mut self) -> Option<Result<RecordBatch, EngineError>> {
        if self.parts.is_empty() {
            let rows = match self.rows.next()? {
                Ok(rows) => rows,
                Err(error) => return Some(Err(error)),
            };
            let starts = (0..rows.num_rows().max(1)).step_by(self.step_rows).rev();
            self.parts = starts.map(|start| rows.slice(start, self.step_rows.min(rows.num_rows() - start))).collect();
        }
        self.parts.pop().map(Ok)
    }
}

impl Iterator for RowSteps {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended && !self.command.is_done() {
            match self.next_part()?.and_then(|rows| self.command.apply(rows)) {
                Ok(rows) if rows.num_rows() == 0 => {}
                Ok(rows) => return Some(Ok(rows)),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
