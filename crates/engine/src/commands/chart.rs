//! `chart`: aggregates by a row field and, optionally, one column per value of another field.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::display_key;
use quarry_eval::aggregate::{AggregatePlan, FinishedGroups, Folder, expand_wildcards, has_wildcards};
use quarry_eval::command::Reduce;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::expr::ExprContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, RowBuffer, RowIter, of_batches};
use quarry_spl::ast::{ChartCommand, SplitField, TimeChartCommand};
use quarry_stdx::number::u32_of;

use super::Execute;
use super::aggregate_columns::Outputs;
use super::empty_columns::DropEmptyColumns;
use super::series_table::{SERIES, SeriesTable, row_positions, series, table};
use super::timechart::TimeChart;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};
use crate::run::fold;

impl Execute for ChartCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let mut steps = Vec::new();
        for bin in self.bins() {
            steps.extend(bin.steps(lowering)?);
        }
        steps.push(match has_wildcards(&self.aggregates) {
            true => WildcardChart::step(AnyChart::Chart(self.clone()), lowering)?,
            false => Step::Reduce(Arc::new(Chart::new(self, &lowering.expressions())?)),
        });
        Ok(steps)
    }
}

/// The fold of `chart`. Split fields with spans have been binned by a preceding `bin`.
pub(crate) struct Chart {
    command: ChartCommand,
    plan: AggregatePlan,
    outputs: Outputs,
    row: Option<String>,
    column: Option<String>,
}

impl Chart {
    /// Compiles the command.
    pub(crate) fn new(command: &ChartCommand, context: &ExprContext) -> Result<Chart, EngineError> {
        let (row, column) = match (&command.row, &command.column) {
            // A column split without a row split becomes the row split.
            (None, Some(column)) => (Some(column.field.text.clone()), None),
            (row, column) => {
                let name =
                    |field: &Option<quarry_spl::ast::SplitField>| field.as_ref().map(|field| field.field.text.clone());
                (name(row), name(column))
            }
        };
        let by = row.iter().cloned().chain(column.iter().map(|_| SERIES.to_owned())).collect();
        let mut plan = AggregatePlan::new(&command.aggregates, by, context)?;
        plan.series = column.clone().map(series);
        let outputs = Outputs::new(&command.aggregates, &command.computed, context)?;
        Ok(Chart { command: command.clone(), plan, outputs, row, column })
    }
}

impl Reduce for Chart {
    fn aggregates(&self) -> &AggregatePlan {
        &self.plan
    }

    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        let folded = self.plan.gather(folders, context)?;
        let (Some(row), true) = (&self.row, self.column.is_some()) else {
            let groups = self.plan.finished(folded, context)?;
            let order = group_positions(&groups, &context.stop)?;
            let rows = groups.into_rows(&self.plan, order);
            if !self.outputs.has_computed() {
                return Ok(rows);
            }
            let (outputs, by) = (self.outputs.clone(), self.row.iter().cloned().collect::<Vec<_>>());
            let computed = move |rows| outputs.select_output(&outputs.add_computed(rows)?, &by);
            return Ok(Box::new(rows.map(move |rows| rows.and_then(&computed))));
        };
        let merged = self.plan.states(folded, context)?;
        let pivot = SeriesTable { plan: &self.plan, outputs: &self.outputs, options: &self.command.series };
        let pivot = pivot.columns(merged, context)?;
        let by_text = |a: usize, b: usize| pivot.rows[a].cmp(&pivot.rows[b]);
        let order = row_positions(&pivot.rows, by_text, &context.stop)?;
        let mut keys = ColumnBuilder::new(order.len());
        order.iter().for_each(|at| keys.push_text(&pivot.rows[*at]));
        let keys: ArrayRef = display_key(row, &keys.finish());
        Ok(of_batches(table((row.clone(), keys), &pivot, &self.outputs, &order, &context.stop)?))
    }
}

/// The groups in ascending order of the row field, if there is one; numeric spans sort by their start.
fn group_positions(groups: &FinishedGroups, stop: &Stop) -> Result<Vec<u32>, EngineError> {
    let all: Vec<u32> = (0..u32_of(groups.len())).collect();
    let keys = groups.keys(&all);
    let Some(keys) = keys.first() else { return Ok(all) };
    let texts = rows::as_text_array(keys);
    let texts: Vec<&str> = (0..texts.len()).map(|row| texts.value(row)).collect();
    let positions = row_positions(&texts, |a, b| texts[a].cmp(texts[b]), stop)?;
    Ok(positions.into_iter().map(u32_of).collect())
}

/// `chart` or `timechart`.
pub(super) enum AnyChart {
    Chart(ChartCommand),
    TimeChart(TimeChartCommand),
}

impl AnyChart {
    /// Whether the chart has expressions over aggregates.
    fn is_computed(&self) -> bool {
        match self {
            AnyChart::Chart(chart) => !chart.computed.is_empty(),
            AnyChart::TimeChart(chart) => !chart.computed.is_empty(),
        }
    }
}

/// A chart with wildcards in its functions; its columns are known only after all rows have arrived.
pub(super) struct WildcardChart {
    /// The command as written.
    chart: AnyChart,
    expressions: ExprContext,
}

impl WildcardChart {
    /// The step that runs the command.
    pub(super) fn step(chart: AnyChart, lowering: &Lowering<'_>) -> Result<Step, EngineError> {
        if chart.is_computed() {
            let message = "eval(...) cannot be combined with functions of patterns; name the fields".to_owned();
            return Err(EngineError::Invalid { message, span: Some(lowering.span) });
        }
        Ok(blocking(WildcardChart { chart, expressions: lowering.expressions() }))
    }

    /// The command with wildcards replaced by the fields of the rows.
    fn reduce(&self, names: &[String]) -> Result<Box<dyn Reduce>, EngineError> {
        let split_by = |split: &Option<SplitField>| split.as_ref().map(|split| split.field.text.clone());
        Ok(match &self.chart {
            AnyChart::Chart(chart) => {
                let by: Vec<String> = split_by(&chart.row).into_iter().chain(split_by(&chart.column)).collect();
                let aggregates = expand_wildcards(&chart.aggregates, &by, names);
                Box::new(Chart::new(&ChartCommand { aggregates, ..chart.clone() }, &self.expressions)?)
            }
            AnyChart::TimeChart(chart) => {
                let by: Vec<String> = split_by(&chart.column).into_iter().collect();
                let aggregates = expand_wildcards(&chart.aggregates, &by, names);
                Box::new(TimeChart::new(&TimeChartCommand { aggregates, ..chart.clone() }, &self.expressions)?)
            }
        })
    }
}

impl Blocking for WildcardChart {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let rows = RowBuffer::collect("chart", rows, &context.dataflow)?;
        let names = names_of(&RecordBatch::new_empty(rows.schema()));
        let reduce = self.reduce(&names)?;
        DropEmptyColumns.run(fold(rows.into_rows(), reduce.as_ref(), context)?, context)
    }
}
