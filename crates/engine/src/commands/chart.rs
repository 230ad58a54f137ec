//! `chart`: aggregates by a row field and, optionally, one column per value of another field.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::display_key;
use quarry_eval::aggregate::{AggregatePlan, Folder, expand_wildcards, has_wildcards};
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
use super::series_table::{SERIES, SeriesTable, row_order, series, table};
use super::sorted_positions::sorted_positions;
use super::stats::sort_by_fields;
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
            let by: Vec<String> = self.row.iter().cloned().collect();
            let mut result = self.plan.values(folded, context)?;
            if self.outputs.has_computed() {
                result = self.outputs.select_output(&self.outputs.add_computed(result)?, &by)?;
            }
            return Ok(of_batches(vec![sorted_rows(&result, &by, &context.stop)?]));
        };
        let merged = self.plan.states(folded, context)?;
        let pivot = SeriesTable { plan: &self.plan, outputs: &self.outputs, options: &self.command.series };
        let pivot = pivot.columns(merged, context)?;
        let compare = |a: usize, b: usize| text_order(&pivot.rows[a], &pivot.rows[b]);
        let order = sorted_positions(pivot.rows.len(), compare, &context.stop)?;
        let mut keys = ColumnBuilder::new(order.len());
        order.iter().for_each(|at| keys.push_text(&pivot.rows[*at]));
        let keys: ArrayRef = display_key(row, &keys.finish());
        Ok(of_batches(table((row.clone(), keys), &pivot, &self.outputs, &order, &context.stop)?))
    }
}

/// Rows in ascending order of the row field; numeric spans sort by their start.
fn sorted_rows(rows: &RecordBatch, by: &[String], stop: &Stop) -> Result<RecordBatch, EngineError> {
    let [field] = by else { return sort_by_fields(rows, by, stop) };
    debug_assert!(names_of(rows).contains(field));
    let texts = rows::as_text_array(&rows::column_or_null(rows, field));
    let positions = sorted_positions(rows.num_rows(), |a, b| text_order(texts.value(a), texts.value(b)), stop)?;
    rows::take(rows, &UInt32Array::from_iter_values(positions.into_iter().map(u32_of)))
}

/// Order of texts, independent of the input order.
fn text_order(a: &str, b: &str) -> std::cmp::Ordering {
    row_order(a, b).then_with(|| a.cmp(b))
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
