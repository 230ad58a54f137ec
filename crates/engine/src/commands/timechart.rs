//! `timechart`: aggregates by time span and, optionally, one column per value of a field.
//!
//! The span is fixed before the first row is folded: from the command, the time range of the search, or the time range
//! of the data. Without `cont=false`, rows for empty spans are added at the end.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, TimestampNanosecondArray};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::{AggregatePlan, Folded, Folder, has_wildcards};
use quarry_eval::command::{Reduce, RowCommand};
use quarry_eval::context::CommandContext;
use quarry_eval::expr::ExprContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, of_batches};
use quarry_eval::spans::{SPANS_MAX, TimeSpans, length_of, time_span, usual_span};
use quarry_event::TimeNs;
use quarry_event::time::{Span, parse_epoch};
use quarry_event::value::Number;
use quarry_spl::ast::{StatsFunction, TimeChartCommand};
use quarry_stdx::number::u32_of;

use super::Execute;
use super::aggregate_columns::Outputs;
use super::chart::{AnyChart, WildcardChart};
use super::series_table::{SERIES, SeriesColumn, SeriesColumns, SeriesTable, series, table};
use crate::lowering::{Lowering, Step};

/// Hidden column with the original times of rows, while `_time` holds their spans.
const TIME_SERIES: &str = "__time_series";
/// Maximum number of rows of a timechart: Splunk's default of `maxbins` in `[discretize]`, which is not read here.
const ROWS_MAX: usize = 50_000;

impl Execute for TimeChartCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let mut steps = self.split_bin().map_or_else(|| Ok(Vec::new()), |bin| bin.steps(lowering))?;
        steps.push(match has_wildcards(&self.aggregates) {
            true => WildcardChart::step(AnyChart::TimeChart(self.clone()), lowering)?,
            false => Step::Reduce(Arc::new(TimeChart::new(self, &lowering.expressions())?)),
        });
        Ok(steps)
    }
}

/// The fold of `timechart`.
pub(crate) struct TimeChart {
    command: TimeChartCommand,
    plan: AggregatePlan,
    outputs: Outputs,
    column: Option<String>,
    span: OnceLock<Span>,
}

impl TimeChart {
    /// Compiles the command.
    pub(crate) fn new(command: &TimeChartCommand, context: &ExprContext) -> Result<TimeChart, EngineError> {
        let column = command.column.as_ref().map(|column| column.field.text.clone());
        let by = ["_time".to_owned()].into_iter().chain(column.iter().map(|_| SERIES.to_owned())).collect();
        let mut plan = AggregatePlan::new(&command.aggregates, by, context)?;
        // If series are times, they are the rows' own times, not the starts of spans.
        plan.series =
            column.as_deref().map(|field| series(if field == "_time" { TIME_SERIES } else { field }.to_owned()));
        let span = OnceLock::new();
        if let Some(given) = time_span(&command.bin) {
            span.get_or_init(|| given);
        }
        let outputs = Outputs::new(&command.aggregates, &command.computed, context)?;
        Ok(TimeChart { command: command.clone(), plan, outputs, column, span })
    }

    /// Chooses the span from the time range that is shown, unless the span is given or already fixed. The range is that
    /// of the search or, if this is open or `fixedrange=false`, that of the rows.
    pub(crate) fn fix_span(&self, data: Option<(TimeNs, TimeNs)>, context: &CommandContext) -> Span {
        *self.span.get_or_init(|| {
            let (from, to) = data.unwrap_or((context.now, context.now));
            let range = match (context.range.earliest, context.range.latest) {
                (Some(from), Some(to)) if self.command.fixed_range => (from, to),
                _ => (from, to),
            };
            usual_span(range.0, range.1, self.command.bin.bins.unwrap_or(SPANS_MAX), self.command.bin.min_time_span())
        })
    }

    /// Whether the time range of the search is shown, independent of the rows.
    fn shows_range(&self, context: &CommandContext) -> bool {
        self.command.fixed_range && context.range.earliest.is_some() && context.range.latest.is_some()
    }

    fn spans(&self, span: Span, context: &CommandContext) -> Result<TimeSpans, EngineError> {
        TimeSpans::new(span, self.command.bin.align_time.as_deref(), context)
    }

    /// Starts of all spans to show.
    fn starts(
        &self,
        seen: &[TimeNs],
        spans: &mut TimeSpans,
        context: &CommandContext,
    ) -> Result<Vec<TimeNs>, EngineError> {
        let (first, last) = (seen.first().copied(), seen.last().copied());
        if !self.command.cont {
            return Ok(seen.to_vec());
        }
        let fixed = self.command.fixed_range;
        let first = context.range.earliest.filter(|_| fixed).map(|time| spans.floor(time)).or(first);
        let last = context.range.latest.filter(|_| fixed).map(|time| spans.floor(time - 1)).or(last);
        let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
        let mut starts = Vec::new();
        let mut start = first;
        while start <= last {
            if starts.len() >= ROWS_MAX {
                let enough = usual_span(first, last, ROWS_MAX, None);
                let what = format!(
                    "timechart: the times of these events need a longer span, such as span={}{}, or a shorter time range",
                    enough.amount,
                    enough.unit.name()
                );
                return Err(EngineError::Limit { what, limit: "maxbins", value: ROWS_MAX as u64 });
            }
            starts.push(start);
            start = spans.next(start).max(start + 1);
        }
        if !self.command.partial {
            let range = context.range;
            starts.retain(|start| {
                range.earliest.is_none_or(|from| *start >= from)
                    && range.latest.is_none_or(|to| spans.next(*start) <= to)
            });
        }
        Ok(starts)
    }

    /// Rates per unit of time: sums divided by the length of the span.
    fn scale_rates(&self, groups: RecordBatch, span: &Span) -> Result<RecordBatch, EngineError> {
        let length = Number::Nanos(length_of(span));
        let mut groups = groups;
        for column in &self.plan.columns {
            let StatsFunction::Per(unit) = column.function else { continue };
            let sums = rows::reader(&groups, &column.name);
            let mut rates = ColumnBuilder::new(groups.num_rows());
            for row in 0..groups.num_rows() {
                let sum = sums.exact_number(row).map(|sum| sum.times(Number::Int(i64::from(unit))));
                let rate = sum.and_then(|sum| sum.divided_by(length));
                rates.push(rate.map_or(Value::Null, Value::from_number));
            }
            groups = rows::with_column(&groups, &column.name, rates.finish())?;
        }
        Ok(groups)
    }

    fn columns(&self, folded: Folded, context: &CommandContext) -> Result<SeriesColumns, EngineError> {
        if self.column.is_some() {
            let merged = self.plan.states(folded, context)?;
            let pivot = SeriesTable { plan: &self.plan, outputs: &self.outputs, options: &self.command.series };
            return pivot.columns(merged, context);
        }
        let groups = self.outputs.add_computed(self.plan.values(folded, context)?)?;
        let keys = rows::as_text_array(groups.column(0));
        let places: Vec<Option<u32>> = (0..u32_of(keys.len())).map(Some).collect();
        let columns = self.outputs.columns().iter().enumerate();
        let columns = columns
            .map(|(output, column)| SeriesColumn { output, name: column.name.clone(), places: places.clone() })
            .collect();
        let rows = keys.iter().map(|key| key.unwrap_or_default().to_owned()).collect();
        Ok(SeriesColumns { rows, columns, groups })
    }
}

/// Sets `_time` to the start of the span that contains it.
struct SpanStarts {
    spans: TimeSpans,
    keeps_times: bool,
}

impl RowCommand for SpanStarts {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let starts = self.spans.starts(&rows::reader(&rows, "_time"));
        let times = self.keeps_times.then(|| rows::column_or_null(&rows, "_time"));
        let rows = rows::with_column(&rows, "_time", starts)?;
        match times {
            Some(times) => rows::with_column(&rows, TIME_SERIES, times),
            None => Ok(rows),
        }
    }
}

impl Reduce for TimeChart {
    fn needs_bounds(&self, context: &CommandContext) -> bool {
        self.span.get().is_none() && !self.shows_range(context)
    }

    fn prepare(&self, data: Option<(TimeNs, TimeNs)>, context: &CommandContext) {
        self.fix_span(data, context);
    }

    fn fold_name(&self, context: &CommandContext) -> Option<String> {
        let is_known = self.shows_range(context) || self.span.get().is_some();
        is_known.then(|| format!("{:?}", self.fix_span(None, context)))
    }

    fn aggregates(&self) -> &AggregatePlan {
        &self.plan
    }

    fn folder(&self, context: &CommandContext) -> Result<Folder, EngineError> {
        let spans = self.spans(self.fix_span(None, context), context)?;
        let keeps_times = self.column.as_deref() == Some("_time");
        Ok(Folder::new(&self.plan, context).with_shape(Box::new(SpanStarts { spans, keeps_times })))
    }

    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        let span = self.fix_span(None, context);
        let mut pivot = self.columns(self.plan.gather(folders, context)?, context)?;
        pivot.groups = self.scale_rates(pivot.groups, &span)?;
        let mut seen: Vec<(TimeNs, usize)> =
            pivot.rows.iter().enumerate().filter_map(|(at, key)| Some((parse_epoch(key)?, at))).collect();
        seen.sort_unstable();
        let times: Vec<TimeNs> = seen.iter().map(|(time, _)| *time).collect();
        let starts = self.starts(&times, &mut self.spans(span, context)?, context)?;
        // A span without rows points past the last row, where every column is missing.
        let missing = pivot.rows.len();
        let order: Vec<usize> =
            starts.iter().map(|start| times.binary_search(start).map_or(missing, |at| seen[at].1)).collect();
        let column: ArrayRef = Arc::new(TimestampNanosecondArray::from(starts));
        debug_assert_eq!(column.len(), order.len());
        Ok(of_batches(table(("_time".to_owned(), column), &pivot, &self.outputs, &order, &context.stop)?))
    }
}
