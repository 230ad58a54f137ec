//! Measures the cost of commands: a wrapper around each of a command's steps passes calls on and meters them.
//!
//! A command within brackets (`appendpipe [...]`) counts as part of the command around it.
//!
//! Not here: the counters ([`quarry_eval::costs`]).

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::{AggregatePlan, Folder};
use quarry_eval::command::{MakeRowCommand, Reduce, RowCommand};
use quarry_eval::context::CommandContext;
use quarry_eval::costs::Meter;
use quarry_eval::rows::{RowIter, event_count};
use quarry_event::TimeNs;

use crate::blocking::Blocking;
use crate::lowering::Step;

/// The steps of a command, metered.
pub(crate) fn metered(steps: Vec<Step>, meter: &Meter) -> Vec<Step> {
    let of = |step| match step {
        Step::Row { make, ordered } => {
            let meter = meter.clone();
            let make: MakeRowCommand = Arc::new(move || Box::new(MeteredRow { command: make(), meter: meter.clone() }));
            Step::Row { make, ordered }
        }
        Step::Reduce(reduce) => Step::Reduce(Arc::new(MeteredReduce { reduce, meter: meter.clone() })),
        Step::Blocking(blocking) => Step::Blocking(Arc::new(MeteredBlocking { blocking, meter: meter.clone() })),
    };
    steps.into_iter().map(of).collect()
}

struct MeteredRow {
    command: Box<dyn RowCommand>,
    meter: Meter,
}

impl RowCommand for MeteredRow {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        // A row of a scan may represent several events.
        let made = self.meter.call(event_count(&rows), || self.command.apply(rows))?;
        self.meter.add_rows_out(event_count(&made));
        Ok(made)
    }

    fn is_done(&self) -> bool {
        self.command.is_done()
    }
}

struct MeteredReduce {
    reduce: Arc<dyn Reduce>,
    meter: Meter,
}

impl Reduce for MeteredReduce {
    fn needs_bounds(&self, context: &CommandContext) -> bool {
        self.reduce.needs_bounds(context)
    }

    fn accepts_extremes(&self) -> bool {
        self.reduce.accepts_extremes()
    }

    fn accepts_counts(&self) -> bool {
        self.reduce.accepts_counts()
    }

    fn prepare(&self, data: Option<(TimeNs, TimeNs)>, context: &CommandContext) {
        self.reduce.prepare(data, context);
    }

    fn fold_name(&self, context: &CommandContext) -> Option<String> {
        self.reduce.fold_name(context)
    }

    fn aggregates(&self) -> &AggregatePlan {
        self.reduce.aggregates()
    }

    fn folder(&self, context: &CommandContext) -> Result<Folder, EngineError> {
        Ok(self.reduce.folder(context)?.with_meter(self.meter.clone()))
    }

    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        self.meter.meter_rows(Box::new(std::iter::empty()), |_| self.reduce.finish(folders, context))
    }

    fn finish_unordered(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        self.meter.meter_rows(Box::new(std::iter::empty()), |_| self.reduce.finish_unordered(folders, context))
    }
}

struct MeteredBlocking {
    blocking: Arc<dyn Blocking>,
    meter: Meter,
}

impl Blocking for MeteredBlocking {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        self.meter.meter_rows(rows, |rows| self.blocking.run(rows, context))
    }
}
