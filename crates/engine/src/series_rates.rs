//! `rate_avg` and `rate_sum` of mstats: the increase of a counter in each time series, then the mean or sum over the
//! series.
//!
//! A series consists of measurements with equal dimensions: all fields other than the measurement and its time. Each
//! series is folded separately, then the rates of a group are folded. If a span has a single point of a series, the
//! increase is relative to the last point of an earlier span. A decrease of a counter counts as a reset; the increase
//! before the reset is included.
//!
//! Other aggregates of the same command are folded by `stats` over the same rows; both results are then combined.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowBuffer, RowIter, is_hidden};
use quarry_spl::ast::{
    Aggregate, AggregateArg, BinCommand, BinOptions, BinSpan, BinaryOp, Command, CompareOp, EvalCommand, FieldPattern,
    FillNullCommand, NodeBuilder, SeriesOptions, SortKind, Span, Stage, StatsFunction, StreamStatsCommand,
    TimeChartCommand, TstatsCommand, TstatsSplit,
};

use crate::plan::Series;
use crate::run::Runner;

/// Field that identifies the time series of a measurement.
const SERIES: &str = "_timeseries";
/// Field with the time span of a measurement.
pub(crate) const SPAN: &str = "__span";
/// Prefix of measurement fields.
const MEASURED: &str = "metric_name:";
/// Event fields that are not dimensions: fields about the event's text and node, and aliases of the time.
const NO_DIMENSIONS: &[&str] =
    &["punct", "linecount", "timestartpos", "timeendpos", "time", "timestamp", "splunk_server"];

/// Whether an `mstats` computes rates of several series.
pub(crate) fn has_series_rates(tstats: &TstatsCommand) -> bool {
    tstats.aggregates.iter().any(is_series_rate)
}

/// Whether an `mstats` groups by time series.
pub(crate) fn groups_series(tstats: &TstatsCommand) -> bool {
    tstats.by.iter().any(|split| split.field == SERIES)
}

/// Adds the time series to the measurements, and keeps only the fields that the command reads.
fn add_series_key(measured: RowIter, made: &[String], tstats: &TstatsCommand) -> RowIter {
    let mut wanted: Vec<String> = tstats.by.iter().map(|split| split.field.clone()).collect();
    wanted.push("_time".to_owned());
    wanted.extend(argument_names(&tstats.aggregates).map(str::to_owned));
    let made = made.to_vec();
    Box::new(measured.map(move |batch| batch.and_then(|batch| with_series(&batch, &made, &wanted))))
}

fn is_series_rate(aggregate: &Aggregate) -> bool {
    matches!(aggregate.function, StatsFunction::SeriesRate { .. })
}

impl Runner {
    /// The rows of an `mstats` with time series: measurements with their series, or the result of folding the rates.
    pub(crate) fn series(
        &self,
        series: &Series,
        measured: RowIter,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        let (tstats, span) = (&series.command, series.span);
        let keyed = add_series_key(measured, &series.metrics, tstats);
        if !has_series_rates(tstats) {
            return Ok(keyed);
        }
        let by: Vec<&str> = tstats.by.iter().map(field_of).collect();
        let keyed = self.chain(keyed, &preparation_stages(tstats, span), context)?;
        let (rates, others): (Vec<Aggregate>, Vec<Aggregate>) =
            tstats.aggregates.iter().cloned().partition(is_series_rate);
        let make = NodeBuilder::at(span);
        if let Some(series) = &tstats.chart {
            return self.chart_of_rates(keyed, &rates, tstats, series, span, context);
        }
        let folds = rates
            .iter()
            .enumerate()
            .map(|(at, rate)| make.aggregate(combining_function(rate), &rate_name(at), &rate.name));
        let mut stages = rate_stages(make, &rates, &by);
        stages.push(make.stage(make.stats(folds.collect(), &by)));
        let shown = make.stage(make.rename(SPAN, "_time"));
        if others.is_empty() {
            stages.push(shown);
            return self.chain(keyed, &stages, context);
        }
        let [mut ours, mut theirs] = [0, 1].map(|_| RowBuffer::new("mstats", &context.dataflow));
        for batch in keyed {
            let batch = batch?;
            ours.push(&batch)?;
            theirs.push(&batch)?;
        }
        let others = self.stats_of(theirs.into_rows(), others, &by, span, context)?;
        let both = Box::new(others.chain(self.chain(ours.into_rows(), &stages, context)?));
        let names = tstats.aggregates.iter().map(|aggregate| &aggregate.name);
        let first = names.map(|name| make.aggregate(StatsFunction::First, name, name)).collect();
        self.chain(both, &[make.stage(make.stats(first, &by)), shown], context)
    }

    /// `chart=t`: the rates of series are added as rows to the measurements, and `timechart` folds both, so that OTHER
    /// is the mean or sum of the rates of all series merged into OTHER.
    fn chart_of_rates(
        &self,
        keyed: RowIter,
        rates: &[Aggregate],
        tstats: &TstatsCommand,
        series: &SeriesOptions,
        span: Span,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        let [mut ours, mut theirs] = [0, 1].map(|_| RowBuffer::new("mstats", &context.dataflow));
        for batch in keyed {
            let batch = batch?;
            ours.push(&batch)?;
            theirs.push(&batch)?;
        }
        let by: Vec<&str> = tstats.by.iter().map(field_of).collect();
        let make = NodeBuilder::at(span);
        let mut stages = rate_stages(make, rates, &by);
        stages.push(make.stage(make.eval("_time", make.field(SPAN))));
        stages.push(make.stage(make.drop_fields(&[SPAN])));
        let rates = self.chain(ours.into_rows(), &stages, context)?;
        let mut at = 0;
        let aggregates = tstats.aggregates.iter().map(|aggregate| {
            let StatsFunction::SeriesRate { sum } = &aggregate.function else { return aggregate.clone() };
            let field = make.pattern(&rate_name(at));
            at += 1;
            let function = if *sum { StatsFunction::Sum } else { StatsFunction::Avg };
            Aggregate { function, arg: AggregateArg::Field(field), ..aggregate.clone() }
        });
        let chart = Command::TimeChart(TimeChartCommand {
            aggregates: aggregates.collect(),
            column: tstats.by.iter().find(|split| split.field != "_time").map(|split| make.split(&split.field)),
            series: series.clone(),
            bin: BinOptions {
                span: tstats.by.iter().find_map(|split| split.span).map(BinSpan::Time),
                ..BinOptions::default()
            },
            ..TimeChartCommand::default()
        });
        let both = Box::new(rates.chain(theirs.into_rows()));
        self.chain(both, &[Stage { command: chart, span }], context)
    }

    /// The other aggregates of the command.
    fn stats_of(
        &self,
        rows: RowIter,
        aggregates: Vec<Aggregate>,
        by: &[&str],
        span: Span,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        let make = NodeBuilder::at(span);
        self.chain(rows, &[make.stage(make.stats(aggregates, by))], context)
    }
}

/// The column to group by for a BY field: for `_time` the column of spans, because the times themselves are still
/// needed.
fn field_of(split: &TstatsSplit) -> &str {
    if split.field == "_time" { SPAN } else { &split.field }
}

/// Commands that add spans and replace missing values of the BY fields.
fn preparation_stages(tstats: &TstatsCommand, span: Span) -> Vec<Stage> {
    let make = NodeBuilder::at(span);
    let times = tstats.by.iter().filter(|split| split.field == "_time").map(|split| {
        let options = BinOptions { span: split.span.map(BinSpan::Time), ..BinOptions::default() };
        Command::Bin(BinCommand { field: make.pattern("_time"), output: Some(SPAN.to_owned()), options })
    });
    let mut commands: Vec<Command> = times.collect();
    let fields: Vec<FieldPattern> =
        tstats.by.iter().filter(|split| split.field != "_time").map(|split| make.pattern(&split.field)).collect();
    if let Some(value) = tstats.fill_null.as_ref().filter(|_| !fields.is_empty()) {
        commands.push(Command::FillNull(FillNullCommand { value: value.clone(), fields }));
    }
    make.pipeline(commands).commands
}

/// Field with the rate of a series, for the n-th of these aggregates.
fn rate_name(at: usize) -> String {
    format!("__r{at}")
}

/// Function that combines the rates of several series into the rate of their group.
fn combining_function(aggregate: &Aggregate) -> StatsFunction {
    match aggregate.function {
        StatsFunction::SeriesRate { sum: true } => StatsFunction::Sum,
        _ => StatsFunction::Avg,
    }
}

/// The commands from measurements to the rates of their series, one row per series and span.
fn rate_stages(make: NodeBuilder, rates: &[Aggregate], by: &[&str]) -> Vec<Stage> {
    let (mut ends, mut before, mut assignments) = (Vec::new(), Vec::new(), Vec::new());
    for (at, aggregate) in rates.iter().enumerate() {
        let field = argument_names(std::slice::from_ref(aggregate)).next().unwrap_or_default();
        // First and last value of a series in a span, their times, and the largest value; then the last value and its
        // time in an earlier span, and the value and time from which the rate is computed.
        let [first, last, first_time, last_time, largest] =
            ["e", "l", "s", "t", "m"].map(|part| format!("__{part}{at}"));
        let [last_before, time_before, from, since] = ["p", "q", "f", "b"].map(|part| format!("__{part}{at}"));
        ends.extend([
            make.aggregate(StatsFunction::Earliest, field, &first),
            make.aggregate(StatsFunction::Latest, field, &last),
            make.aggregate(StatsFunction::Max, field, &largest),
            make.aggregate(StatsFunction::EarliestTime, field, &first_time),
            make.aggregate(StatsFunction::LatestTime, field, &last_time),
        ]);
        before.push(make.aggregate(StatsFunction::Last, &last, &last_before));
        before.push(make.aggregate(StatsFunction::Last, &last_time, &time_before));
        let has_two = || make.compare(CompareOp::Gt, make.field(&last_time), make.field(&first_time));
        let either = |one: &str, other: &str| make.call("if", [has_two(), make.field(one), make.field(other)]);
        assignments.push(make.assignment(&from, either(&first, &last_before)));
        assignments.push(make.assignment(&since, either(&first_time, &time_before)));
        // After a reset, the count before the reset is added.
        let peak = || make.call("max", [make.field(&largest), make.field(&from)]);
        let was_reset = make.compare(CompareOp::Gt, peak(), make.field(&last));
        let counted_before = make.call("if", [was_reset, peak(), make.number(0)]);
        let growth = make.binary(BinaryOp::Sub, make.field(&last), make.field(&from));
        let growth = make.binary(BinaryOp::Add, growth, counted_before);
        let seconds = make.binary(BinaryOp::Sub, make.field(&last_time), make.field(&since));
        assignments.push(make.assignment(&rate_name(at), make.binary(BinaryOp::Div, growth, seconds)));
    }
    let of_series: Vec<&str> = by.iter().copied().filter(|name| *name != SERIES).chain([SERIES]).collect();
    let mut stages = vec![make.stage(make.stats(ends, &of_series))];
    if by.contains(&SPAN) {
        stages.push(make.stage(make.sort(0, vec![make.sort_key(SPAN, false, SortKind::Num)])));
        let series: Vec<&str> = of_series.iter().copied().filter(|name| *name != SPAN).collect();
        let before = StreamStatsCommand { current: false, ..make.streamstats(before, &series) };
        stages.push(make.stage(before));
    }
    stages.push(make.stage(EvalCommand { assignments }));
    stages
}

fn argument_names(aggregates: &[Aggregate]) -> impl Iterator<Item = &str> {
    aggregates.iter().filter_map(|aggregate| match &aggregate.arg {
        AggregateArg::Field(field) => Some(field.text.as_str()),
        AggregateArg::Rows | AggregateArg::Eval(_) => None,
    })
}

/// The columns `wanted`, those of measurements, and a column that identifies each row's series: its dimensions, in
/// order of name.
fn with_series(batch: &RecordBatch, made: &[String], wanted: &[String]) -> Result<RecordBatch, EngineError> {
    let mut names = names_of(batch);
    names.retain(|name| is_dimension(name) && !made.contains(name));
    names.sort_unstable();
    let readers: Vec<(&String, ColumnReader)> = names.iter().map(|name| (name, rows::reader(batch, name))).collect();
    let mut series = ColumnBuilder::new(batch.num_rows());
    for row in 0..batch.num_rows() {
        let mut text = String::from("{");
        for (name, reader) in &readers {
            let values: Vec<String> = reader.values(row).map(std::borrow::Cow::into_owned).collect();
            let value = match values.as_slice() {
                [] => continue,
                [value] => serde_json::Value::from(value.as_str()),
                _ => serde_json::Value::from(values),
            };
            let comma = if text.len() > 1 { "," } else { "" };
            text.push_str(&format!("{comma}{}:{value}", serde_json::Value::from(name.as_str())));
        }
        text.push('}');
        series.push_text(&text);
    }
    let keyed = rows::with_column(batch, SERIES, series.finish())?;
    // A wildcard matches only measurement fields, so all of them are kept.
    let is_read = |name: &str| name == SERIES || name.starts_with(MEASURED) || wanted.iter().any(|read| read == name);
    rows::drop_columns(&keyed, |name| !is_read(name))
}

/// Whether a field of a measurement is one of its dimensions.
pub(crate) fn is_dimension(name: &str) -> bool {
    let is_label = name == "eventtype" || name == "tag" || name.starts_with("tag::") || name.starts_with("date_");
    !(is_hidden(name)
        || name.starts_with('_')
        || name.starts_with(MEASURED)
        || is_label
        || NO_DIMENSIONS.contains(&name))
}
