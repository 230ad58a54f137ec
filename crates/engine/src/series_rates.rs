//! `rate_avg` and `rate_sum` of mstats: the increase of a counter in each time series, then the mean or sum over the
//! series.
//!
//! A series consists of measurements with equal dimensions: all fields other than the measurement and its time. Each
//! series is folded separately, then the rates of a group are folded. If a span has a single point of a series, its
//! increase is relative to the last point of an earlier span. A decrease of a counter is taken as a reset; the increase
//! before it counts too.
//!
//! Not here: other aggregates of the same command; they are folded over the same rows, and the results are combined.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, KeptRows, RowIter, is_hidden};
use quarry_spl::ast::{
    Aggregate, AggregateArg, BinCommand, BinOptions, BinSpan, Command, FieldPattern, FillNullCommand, SeriesOptions,
    Span, SplitField, Stage, StatsCommand, StatsFunction, TimeChartCommand, TstatsCommand, TstatsSplit,
};

use crate::plan::Series;
use crate::run::Runner;

/// Field that identifies the time series of a measurement.
const SERIES: &str = "_timeseries";
/// Field with the time span of a measurement.
pub(crate) const SPAN: &str = "__span";
/// Prefix of measurement fields.
const MEASURED: &str = "metric_name:";
/// Event fields that are not dimensions: those of the text, and aliases of the time.
const NO_DIMENSIONS: &[&str] =
    &["punct", "linecount", "timestartpos", "timeendpos", "time", "timestamp", "splunk_server"];

/// Whether an `mstats` computes rates of several series.
pub(crate) fn has_series_rates(tstats: &TstatsCommand) -> bool {
    tstats.aggregates.iter().any(is_series_rate)
}

/// Whether it groups by time series.
pub(crate) fn groups_series(tstats: &TstatsCommand) -> bool {
    tstats.by.iter().any(|split| split.field == SERIES)
}

/// Adds the time series to the measurements, and keeps only the fields that the command reads.
fn keyed(measured: RowIter, made: &[String], tstats: &TstatsCommand) -> RowIter {
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
    pub(crate) fn series(&self, series: &Series, context: &CommandContext) -> Result<RowIter, EngineError> {
        let (tstats, span) = (&series.command, series.span);
        let keyed = keyed(self.execute(series.measured.clone())?, &series.metrics, tstats);
        if !has_series_rates(tstats) {
            return Ok(keyed);
        }
        let by: Vec<&str> = tstats.by.iter().map(field_of).collect();
        let keyed = self.chain(keyed, &prepared(tstats, span), context)?;
        let (rates, others): (Vec<Aggregate>, Vec<Aggregate>) =
            tstats.aggregates.iter().cloned().partition(is_series_rate);
        let run = |rows: RowIter, text: String| self.chain(rows, &stages_of(&text, span)?, context);
        if let Some(series) = &tstats.chart {
            return self.chart_of_rates(keyed, &rates, tstats, series, span, context);
        }
        let folds: String = rates.iter().enumerate().map(|(at, rate)| fold_of(at, rate)).collect();
        let folded = format!("| stats{folds} {}", by_text(&by));
        let (rates, shown) = (rates_text(&rates, &by) + &folded, format!("| rename {SPAN} AS _time"));
        if others.is_empty() {
            return run(keyed, rates + &shown);
        }
        let [mut ours, mut theirs] = [0, 1].map(|_| KeptRows::new("mstats", &context.dataflow));
        for batch in keyed {
            let batch = batch?;
            ours.push(&batch)?;
            theirs.push(&batch)?;
        }
        let others = self.stats_of(theirs.into_rows(), others, &by, span, context)?;
        let both = Box::new(others.chain(run(ours.into_rows(), rates)?));
        let first = tstats.aggregates.iter().map(|aggregate| format!("first({0}) AS {0}", quoted(&aggregate.name)));
        run(both, format!("| stats {} {} {shown}", first.collect::<Vec<_>>().join(" "), by_text(&by)))
    }

    /// `chart=t`: the rates of series are added as rows to the measurements, and `timechart` folds both, so that OTHER
    /// is the mean or sum of the rates of all series merged into it.
    fn chart_of_rates(
        &self,
        keyed: RowIter,
        rates: &[Aggregate],
        tstats: &TstatsCommand,
        series: &SeriesOptions,
        span: Span,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        let [mut ours, mut theirs] = [0, 1].map(|_| KeptRows::new("mstats", &context.dataflow));
        for batch in keyed {
            let batch = batch?;
            ours.push(&batch)?;
            theirs.push(&batch)?;
        }
        let by: Vec<&str> = tstats.by.iter().map(field_of).collect();
        let shown = format!("{}| eval _time={SPAN} | fields - {SPAN}", rates_text(rates, &by));
        let rates = self.chain(ours.into_rows(), &stages_of(&shown, span)?, context)?;
        let mut at = 0;
        let aggregates = tstats.aggregates.iter().map(|aggregate| {
            let StatsFunction::SeriesRate { sum } = &aggregate.function else { return aggregate.clone() };
            let field = FieldPattern { text: rate_name(at), span };
            at += 1;
            let function = if *sum { StatsFunction::Sum } else { StatsFunction::Avg };
            Aggregate { function, arg: AggregateArg::Field(field), ..aggregate.clone() }
        });
        let field = |split: &TstatsSplit| FieldPattern { text: split.field.clone(), span };
        let chart = Command::TimeChart(TimeChartCommand {
            aggregates: aggregates.collect(),
            computed: Vec::new(),
            column: tstats
                .by
                .iter()
                .find(|split| split.field != "_time")
                .map(|split| SplitField { field: field(split), bin: BinOptions::default() }),
            series: series.clone(),
            bin: BinOptions {
                span: tstats.by.iter().find_map(|split| split.span).map(BinSpan::Time),
                ..BinOptions::default()
            },
            cont: true,
            fixed_range: true,
            partial: true,
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
        let command = Command::Stats(StatsCommand {
            aggregates,
            by: by.iter().map(|name| FieldPattern { text: (*name).to_owned(), span }).collect(),
            all_num: false,
            delim: " ".to_owned(),
            dedup_split_values: false,
        });
        self.chain(rows, &[Stage { command, span }], context)
    }
}

/// The field used for a BY field: for times, the column with their spans, as the times themselves are kept.
fn field_of(split: &TstatsSplit) -> &str {
    if split.field == "_time" { SPAN } else { &split.field }
}

/// Adds spans and substitutes for the BY fields.
fn prepared(tstats: &TstatsCommand, span: Span) -> Vec<Stage> {
    let field = |text: &str| FieldPattern { text: text.to_owned(), span };
    let times = tstats.by.iter().filter(|split| split.field == "_time").map(|split| {
        let options = BinOptions { span: split.span.map(BinSpan::Time), ..BinOptions::default() };
        Command::Bin(BinCommand { field: field("_time"), output: Some(SPAN.to_owned()), options })
    });
    let mut commands: Vec<Command> = times.collect();
    let fields: Vec<FieldPattern> =
        tstats.by.iter().filter(|split| split.field != "_time").map(|split| field(&split.field)).collect();
    if let Some(value) = tstats.fill_null.as_ref().filter(|_| !fields.is_empty()) {
        commands.push(Command::FillNull(FillNullCommand { value: value.clone(), fields }));
    }
    commands.into_iter().map(|command| Stage { command, span }).collect()
}

/// Field with the rate of a series, for the n-th of these aggregates.
fn rate_name(at: usize) -> String {
    format!("__r{at}")
}

/// How the rates of series are combined for their group.
fn fold_of(at: usize, aggregate: &Aggregate) -> String {
    let sum = matches!(aggregate.function, StatsFunction::SeriesRate { sum: true });
    format!(" {}({}) AS {}", if sum { "sum" } else { "avg" }, rate_name(at), quoted(&aggregate.name))
}

/// The commands from measurements to the rates of their series, one row per series and span.
fn rates_text(rates: &[Aggregate], by: &[&str]) -> String {
    let (mut ends, mut before, mut growths) = (String::new(), String::new(), String::new());
    for (at, aggregate) in rates.iter().enumerate() {
        let field = quoted(argument_names(std::slice::from_ref(aggregate)).next().unwrap_or_default());
        ends.push_str(&format!(
            " earliest({field}) AS __e{at} latest({field}) AS __l{at} max({field}) AS __m{at} \
             earliest_time({field}) AS __s{at} latest_time({field}) AS __t{at}"
        ));
        before.push_str(&format!(" last(__l{at}) AS __p{at} last(__t{at}) AS __q{at}"));
        growths.push_str(&format!(
            "| eval __f{at}=if(__t{at}>__s{at}, __e{at}, __p{at}), __b{at}=if(__t{at}>__s{at}, __s{at}, __q{at}), \
             __r{at}=(__l{at}-__f{at}+if(max(__m{at},__f{at})>__l{at}, max(__m{at},__f{at}), 0))/(__t{at}-__b{at}) "
        ));
    }
    let of_series: Vec<&str> = by.iter().copied().filter(|name| *name != SERIES).chain([SERIES]).collect();
    let mut text = format!("| stats{ends} {} ", by_text(&of_series));
    if by.contains(&SPAN) {
        let series: Vec<&str> = of_series.iter().copied().filter(|name| *name != SPAN).collect();
        text.push_str(&format!("| sort 0 num({SPAN}) | streamstats current=f {before} {} ", by_text(&series)));
    }
    text.push_str(&growths);
    text
}

fn by_text(by: &[&str]) -> String {
    if by.is_empty() {
        return String::new();
    }
    format!("BY {}", by.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" "))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

fn argument_names(aggregates: &[Aggregate]) -> impl Iterator<Item = &str> {
    aggregates.iter().filter_map(|aggregate| match &aggregate.arg {
        AggregateArg::Field(field) => Some(field.text.as_str()),
        AggregateArg::Rows | AggregateArg::Eval(_) => None,
    })
}

/// Parses generated commands; all get the position of the command they replace.
fn stages_of(text: &str, span: Span) -> Result<Vec<Stage>, EngineError> {
    let parsed = quarry_spl::parse(&format!("| makeresults {text}"));
    if let Some(fault) = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error) {
        let message = format!("mstats: these rates cannot be computed: {fault}");
        return Err(EngineError::Invalid { message, span: Some(span) });
    }
    let stages = parsed.pipeline.commands.into_iter().skip(1);
    Ok(stages.map(|stage| Stage { command: stage.command, span }).collect())
}

/// The columns `wanted` and the series of each row: its dimensions in order of name.
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
    // Names matched by a wildcard begin like a measurement.
    let is_read = |name: &str| name == SERIES || name.starts_with(MEASURED) || wanted.iter().any(|read| read == name);
    rows::without(&keyed, |name| !is_read(name))
}

fn is_dimension(name: &str) -> bool {
    let is_label = name == "eventtype" || name == "tag" || name.starts_with("tag::") || name.starts_with("date_");
    !(is_hidden(name)
        || name.starts_with('_')
        || name.starts_with(MEASURED)
        || is_label
        || NO_DIMENSIONS.contains(&name))
}
