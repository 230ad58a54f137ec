//! `head`: keeps the first rows, up to a number or as long as a condition holds.

use std::sync::Arc;

use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::rows::ColumnReader;
use quarry_spl::ast::{Expr, ExprKind, HeadCommand};

use super::Execute;
use crate::lowering::{Lowering, Step, ordered};

impl Execute for HeadCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        // As in Splunk, a lone field name is an error: a field holds a text or a number, so the condition would never
        // be true.
        if let Some(Expr { kind: ExprKind::Field(name), span }) = &self.condition {
            let message = format!("head: `{name}` is neither a number of rows nor a condition");
            return Err(EngineError::Invalid { message, span: Some(*span) });
        }
        let condition = self.condition.as_ref().map(|expr| lowering.compile(expr)).transpose()?;
        let command = self.clone();
        Ok(vec![ordered(move || Head::new(&command, condition.clone()))])
    }
}

/// The command, with the number of rows still to be emitted (`left`; `None` without a limit).
struct Head {
    left: Option<usize>,
    condition: Option<Arc<CompiledExpr>>,
    null_is_true: bool,
    keep_last: bool,
    done: bool,
}

impl Head {
    /// The command with its condition compiled.
    fn new(command: &HeadCommand, condition: Option<Arc<CompiledExpr>>) -> Head {
        let left = command.limit;
        let (null_is_true, keep_last) = (command.null_is_true, command.keep_last);
        Head { left, condition, null_is_true, keep_last, done: left == Some(0) }
    }

    /// Number of rows to keep: those before the first row that fails the condition and, with `keeplast`, that row.
    fn count_while_true(&mut self, rows: &RecordBatch) -> Result<usize, EngineError> {
        let Some(condition) = &self.condition else { return Ok(rows.num_rows()) };
        let holds = condition.evaluate(rows)?;
        let holds = ColumnReader::new(&holds);
        for row in 0..rows.num_rows() {
            let passes = match &holds {
                ColumnReader::Bool(values) if values.is_valid(row) => values.value(row),
                _ => self.null_is_true,
            };
            if !passes {
                self.done = true;
                return Ok(row + usize::from(self.keep_last));
            }
        }
        Ok(rows.num_rows())
    }
}

impl RowCommand for Head {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        if self.done {
            return Ok(rows.slice(0, 0));
        }
        let mut count = self.count_while_true(&rows)?;
        if let Some(left) = &mut self.left {
            count = count.min(*left);
            *left -= count;
            self.done |= *left == 0;
        }
        Ok(rows.slice(0, count))
    }

    fn is_done(&self) -> bool {
        self.done
    }
}
