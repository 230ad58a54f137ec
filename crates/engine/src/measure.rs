//! Benchmark entry for folds without a store: rows in, result rows out.
//!
//! Only with the feature `measure`. Not here: the benchmarks (`benches/aggregate.rs`).

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::{AggregatePlan, Folder};
use quarry_eval::command::Reduce;
use quarry_eval::context::{CommandContext, Stop, SubsearchDefaults, TransactionLimits};
use quarry_eval::dataflow::Dataflow;
use quarry_eval::expr::{ExprContext, ExprTables};
use quarry_eval::messages::Messages;
use quarry_event::TimeRange;
use quarry_spl::ast::{Command, PercentileMethod};

use crate::commands::stats::Stats;
use crate::commands::timechart::TimeChart;
use crate::commands::top::Top;

/// Memory limit of a measured search.
const MEMORY_BYTES: usize = 4 << 30;

/// A command that folds rows.
pub struct FoldMeasurement {
    reduce: Arc<dyn Reduce>,
    context: CommandContext,
    folder: Folder,
    next_row: u64,
}

impl std::fmt::Debug for FoldMeasurement {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FoldMeasurement").field("next_row", &self.next_row).finish_non_exhaustive()
    }
}

impl FoldMeasurement {
    /// The fold of the last command of a search, which must be stats, top or timechart.
    pub fn new(search: &str) -> Result<FoldMeasurement, EngineError> {
        let zone = jiff::tz::TimeZone::UTC;
        let expressions = ExprContext::new(0, zone.clone());
        let context = CommandContext {
            id: Arc::from(""),
            search: Arc::from(""),
            now: 0,
            zone,
            range: TimeRange::ALL,
            dataflow: Arc::new(Dataflow::new(MEMORY_BYTES, None)?),
            transactions: TransactionLimits::default(),
            subsearches: SubsearchDefaults::default(),
            percentiles: PercentileMethod::default(),
            tables: ExprTables::default(),
            messages: Arc::<Messages>::default(),
            stop: Arc::<Stop>::default(),
            holdings: Arc::default(),
            costs: Arc::default(),
            permissions: Arc::default(),
        };
        let parsed = quarry_spl::parse(search);
        let reduce: Arc<dyn Reduce> = match parsed.pipeline.commands.last().map(|stage| &stage.command) {
            Some(Command::Stats(stats)) => {
                let by = stats.by.iter().map(|field| field.text.clone()).collect();
                Arc::new(Stats(AggregatePlan::new(&stats.aggregates, by, &expressions)?))
            }
            Some(Command::Top(top)) => Arc::new(Top::new(top)),
            Some(Command::TimeChart(chart)) => Arc::new(TimeChart::new(chart, &expressions)?),
            _ => return Err(EngineError::invalid(format!("{search}: give stats, top or timechart"))),
        };
        let folder = reduce.folder(&context)?;
        Ok(FoldMeasurement { reduce, context, folder, next_row: 0 })
    }

    /// Folds a batch of rows.
    pub fn add(&mut self, rows: &RecordBatch) -> Result<(), EngineError> {
        self.folder.add(rows, 0, self.next_row)?;
        self.next_row += rows.num_rows() as u64;
        Ok(())
    }

    /// The result of the rows so far; resets the state.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>, EngineError> {
        let folder = std::mem::replace(&mut self.folder, self.reduce.folder(&self.context)?);
        self.reduce.finish(vec![folder], &self.context)?.collect()
    }
}
