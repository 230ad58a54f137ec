//! Runs the two halves of a plan separately: workers next to the data return the rows of its
//! [exchange](crate::plan::Exchange); the other commands of the plan run once, on these rows.
//!
//! The first half of a plan with two [rounds](Plan::rounds) runs twice. Workers first return the times of their rows;
//! once the plan contains the times of all workers, they return their groups.
//!
//! Each half checks the rows against the exchange, because the rows may come from another node. The rows of several
//! workers form one stream: events merged newest first, groups in any order.
//!
//! Not here: transport and merging of rows; undivided plans, whose workers pass their
//! [`Folder`]s in memory.

use quarry_eval::EngineError;
use quarry_eval::aggregate::Folder;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowIter, of_batches};

use super::bounds::bounds_of_rows;
use super::{PreparedFold, Runner};
use crate::plan::{Exchange, ExchangedRows, Plan, Source};

impl Runner {
    /// The rows that this node's workers return in the next round.
    pub(crate) fn map(&self, plan: &Plan) -> Result<RowIter, EngineError> {
        let exchange = exchange_of(plan)?;
        let scan = match &plan.source {
            Source::Scan(scan) => scan,
            Source::Search(inner) => return self.for_saved_search(inner.range).map(&inner.plan),
            Source::Series(series) => return self.map(&series.measured),
            Source::Nothing | Source::Row | Source::Command(_) | Source::Delete(_) => return Err(not_divisible_error()),
        };
        let context = self.context_of(plan);
        if plan.fold.is_none() {
            return self.events(scan, plan, &context);
        }
        let fold = self.prepared_fold(plan, &context)?;
        if exchange.rows == ExchangedRows::Times {
            let mut events = self.event_scan(scan, &context)?;
            let windows = events.windows(&context, None)?;
            let times = bounds_of_rows(&mut events, &windows, &plan.map, &fold.commands, &context)?;
            return Ok(of_batches(times.map(|times| exchange.times(times)).transpose()?.into_iter().collect()));
        }
        let folders = self.fold_events(scan, plan, &fold, &context, None)?;
        let aggregates = fold.reduce.aggregates();
        let states = aggregates.state_batches(aggregates.gather(folders, &context)?)?;
        Ok(Box::new(states.inspect(move |rows| {
            let is_admitted = |rows| exchange.accepts(rows);
            assert!(rows.as_ref().map_or(true, is_admitted), "states are those that the plan announces");
        })))
    }

    /// The result rows of a plan whose workers, here or on other nodes, returned `exchanged`.
    pub(crate) fn reduce(&self, plan: &Plan, exchanged: RowIter) -> Result<RowIter, EngineError> {
        let exchange = exchange_of(plan)?;
        if exchange.rows == ExchangedRows::Times {
            let message = "the times of all rows are unknown: run the first round, and add the times to the plan";
            return Err(EngineError::invalid(message));
        }
        let admitted = exchanged.map(move |rows| rows.and_then(|rows| exchange.check(&rows).map(|()| rows)));
        self.rows_of(plan, Some(Box::new(admitted)), &self.context_of(plan), None)
    }
}

impl PreparedFold {
    /// A [`Folder`] with the states of all workers.
    pub(super) fn folder_of(&self, states: RowIter, context: &CommandContext) -> Result<Folder, EngineError> {
        let mut folder = self.reduce.folder(context)?;
        for states in states {
            folder.add_states(&states?)?;
        }
        Ok(folder)
    }
}

/// The next exchange of a plan that can be divided.
fn exchange_of(plan: &Plan) -> Result<Exchange, EngineError> {
    plan.exchange().ok_or_else(not_divisible_error)
}

fn not_divisible_error() -> EngineError {
    EngineError::invalid("no part of this plan runs next to the data: run the whole plan")
}
