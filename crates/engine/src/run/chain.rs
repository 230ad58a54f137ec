//! Passes rows through the steps of commands, one after the other, on one thread.
//!
//! Not here: rows before the fold of a plan, which workers pass through commands (scan).

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::command::Reduce;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowBuffer, RowIter};
use quarry_eval::spans::time_bounds;

use super::row_steps::RowSteps;
use crate::lowering::Step;

/// Rows per slice if rows come from another command.
const SLICE_ROWS: u64 = 65_536;

/// Passes rows through steps, one after the other.
pub(crate) fn apply(rows: RowIter, steps: Vec<Step>, context: &CommandContext) -> Result<RowIter, EngineError> {
    pass(rows, steps, context, false)
}

/// Like [`apply`], for rows that are events: when the search finishes early, the steps up to the first one that needs
/// all rows end sooner than those that follow.
pub(crate) fn apply_to_events(
    rows: RowIter,
    steps: Vec<Step>,
    context: &CommandContext,
) -> Result<RowIter, EngineError> {
    pass(rows, steps, context, true)
}

fn pass(
    mut rows: RowIter,
    steps: Vec<Step>,
    context: &CommandContext,
    mut of_events: bool,
) -> Result<RowIter, EngineError> {
    for step in steps {
        rows = match step {
            Step::Row { make, .. } => {
                let (step_rows, stop) = (context.dataflow.step_rows(), Arc::clone(&context.stop));
                Box::new(RowSteps::new(rows, make(), step_rows, stop).over_events(of_events))
            }
            Step::Reduce(reduce) => {
                let rows = until_ended(rows, context, std::mem::take(&mut of_events));
                fold(rows, reduce.as_ref(), context)?
            }
            Step::Blocking(blocking) => {
                let rows = until_ended(rows, context, std::mem::take(&mut of_events));
                blocking.run(rows, context)?
            }
        };
    }
    Ok(rows)
}

/// Fails when the search is cancelled, so that a blocking step stops early. If the rows merely ended, the step would go
/// on to its result, and a command such as `outputlookup` would write a part of the rows. Some time after the search
/// was finalised, the rows end, and the step computes its result from the rows received so far; in a search that
/// writes, the rows do not end early.
fn until_ended(mut rows: RowIter, context: &CommandContext, of_events: bool) -> RowIter {
    let stop = Arc::clone(&context.stop);
    let (mut has_failed, mut work) = (false, None);
    Box::new(std::iter::from_fn(move || {
        if has_failed {
            return None;
        }
        let has_ended = match of_events {
            true => stop.should_end_input(),
            false => stop.should_end_rows(*work.get_or_insert_with(|| stop.begin_work())),
        };
        let next = if has_ended { None } else { rows.next() };
        // Steps before this one end their rows when the search is cancelled.
        match stop.check_cancelled() {
            Ok(()) => next,
            Err(error) => {
                has_failed = true;
                Some(Err(error))
            }
        }
    }))
}

/// The result of a fold over rows.
pub(crate) fn fold(rows: RowIter, reduce: &dyn Reduce, context: &CommandContext) -> Result<RowIter, EngineError> {
    let mut rows = rows;
    if reduce.needs_bounds(context) {
        let mut bounds = None;
        let mut kept = RowBuffer::new("rows before a fold", &context.dataflow);
        for batch in rows {
            let batch = batch?;
            bounds = time_bounds(bounds, &batch);
            kept.push(&batch)?;
        }
        reduce.prepare(bounds, context);
        rows = kept.into_rows();
    }
    let mut folder = reduce.folder(context)?;
    let (mut slice, mut place) = (0, 0);
    for batch in rows {
        let batch = batch?;
        folder.add(&batch, slice, place)?;
        place += batch.num_rows() as u64;
        if place >= SLICE_ROWS {
            (slice, place) = (slice + 1, 0);
        }
    }
    reduce.finish(vec![folder], context)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
