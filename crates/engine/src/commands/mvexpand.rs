//! `mvexpand`: returns a row for each value of a field.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::Stop;
use quarry_eval::messages::Messages;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_spl::ast::MvExpandCommand;
use quarry_stdx::number::u32_of;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

/// Number of rows made from a batch after which its other rows are dropped.
const EXPANDED_ROWS_MAX: usize = 10_000_000;

/// Number of values of a row between two checks for cancellation.
const CHECKED_ROWS: usize = 65_536;

impl Execute for MvExpandCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let context = lowering.environment.context();
        let (messages, stop) = (Arc::clone(&context.messages), Arc::clone(&context.stop));
        let expand = MvExpand { field: self.field.clone(), limit: self.limit, messages, stop };
        Ok(vec![row(move || expand.clone())])
    }
}

/// Repeats rows.
#[derive(Clone)]
struct MvExpand {
    field: String,
    /// Values per row; 0 means all.
    limit: usize,
    /// Receives the message that a limit was reached.
    messages: Arc<Messages>,
    /// Marks the result as incomplete, and ends a cancelled search.
    stop: Arc<Stop>,
}

impl RowCommand for MvExpand {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        if rows::column(&rows, &self.field).is_none() {
            return Ok(rows);
        }
        let reader = rows::reader(&rows, &self.field);
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        let (mut places, mut column) = (Vec::new(), ColumnBuilder::new(rows.num_rows()));
        for row in 0..rows.num_rows() {
            self.stop.check_cancelled()?;
            if places.len() >= EXPANDED_ROWS_MAX {
                self.stop.mark_partial();
                self.messages
                    .push(format!("mvexpand created {EXPANDED_ROWS_MAX} rows from one batch; the others are dropped"));
                break;
            }
            let start = places.len();
            for value in reader.values(row).take(limit.min(EXPANDED_ROWS_MAX)) {
                if places.len().is_multiple_of(CHECKED_ROWS) {
                    self.stop.check_cancelled()?;
                }
                places.push(u32_of(row));
                column.push_text(&value);
            }
            if places.len() == start {
                places.push(u32_of(row));
                column.push_null();
            }
        }
        // The multivalue itself is not repeated for each of its values.
        let others = rows::with_column(&rows, &self.field, rows::null_column(rows.num_rows()))?;
        let expanded = rows::take(&others, &UInt32Array::from(places))?;
        rows::with_column(&expanded, &self.field, column.finish())
    }
}
