//! `tail`: keeps the last rows, in reverse order.

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowBuffer, RowIter, conform, reverse};
use quarry_spl::ast::TailCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for TailCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Tail(self.count))])
    }
}

/// Keeps the last rows, up to this number, and returns them in reverse order.
struct Tail(usize);

impl Blocking for Tail {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut held = RowBuffer::new("tail", &context.dataflow);
        for batch in rows {
            held.push(&batch?)?;
            while held.first_rows().is_some_and(|first| held.num_rows() - first >= self.0) {
                held.pop_front();
            }
        }
        let (mut left, schema) = (self.0, held.schema());
        let last = held.into_rows_backwards().map(move |batch| {
            let batch = conform(&batch?, &schema)?;
            let skipped = batch.num_rows().saturating_sub(left);
            left -= batch.num_rows() - skipped;
            reverse(&batch.slice(skipped, batch.num_rows() - skipped))
        });
        Ok(Box::new(last))
    }
}
