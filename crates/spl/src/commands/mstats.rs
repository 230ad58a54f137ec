//! `mstats`: `tstats` over metrics, with an option `span=` and without FROM.

use super::tstats::{TstatsCommand, TstatsSource, TstatsSplit};
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{Aggregate, AggregateArg, SeriesOptions, StatsFunction};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Options that end the condition.
const END_OPTIONS: &[&str] = &[
    "span",
    "every",
    "prestats",
    "append",
    "fillnull_value",
    "chunk_size",
    "chart",
    "chart.limit",
    "chart.agg",
    "chart.useother",
    "chart.otherstr",
    "chart.usenull",
    "chart.nullstr",
    "chart.sep",
    "chart.format",
];

const OPTIONS: OptionNames =
    OptionNames::new("mstats", &["prestats", "append", "fillnull_value", "chart", "earliest", "latest"]).ignoring(&[
        "backfill",
        "update_period",
        "chunk_size",
    ]);

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "mstats AGG(_value|METRIC)... [where EXPR] [by FIELD...] [span=]",
    summary: "Aggregates metrics",
    group: Group::Searching,
    kind: Kind::Generating,
    clauses: &["where"],
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    let mut command = TstatsCommand { source: TstatsSource::Metrics, ..TstatsCommand::empty() };
    let (mut is_chart, mut series) = (false, SeriesOptions::default());
    loop {
        if parser.peek_option().is_some_and(|name| name.eq_ignore_ascii_case("span")) {
            let option = parser.read_option()?;
            let span = if option.value.eq_ignore_ascii_case("auto") { None } else { Some(option.time_span()?) };
            command.by.insert(0, TstatsSplit { field: "_time".to_owned(), span, place: option.name_span });
            continue;
        }
        while let Some(name) = parser.peek_option().map(str::to_ascii_lowercase) {
            if name == "span" {
                break;
            }
            let Some(option) = parser.option(OPTIONS)? else { break };
            match option.name.as_str() {
                "prestats" => command.prestats = option.boolean()?,
                "append" => command.append = option.boolean()?,
                "chart" => is_chart = option.boolean()?,
                "earliest" | "latest" => parser.time_option(&option, &mut command.time)?,
                _ => command.fill_null = Some(option.value),
            }
        }
        parser.skip_separators();
        if parser.at_end() {
            break;
        }
        if parser.at_chart_option() {
            parser.chart_option(&mut series)?;
            continue;
        }
        if parser.peek_option().is_some() {
            continue;
        }
        if parser.eat_keyword("where") {
            parser.tstats_where(&mut command, END_OPTIONS)?;
        } else if parser.eat_keyword("by") || parser.eat_keyword("groupby") {
            parser.metric_splits(&mut command)?;
        } else {
            let aggregate = parser.aggregate("mstats")?;
            if let AggregateArg::Eval(_) = aggregate.arg {
                return Err(Diagnostic::error("mstats: an aggregate takes a metric, not eval()", aggregate.span));
            }
            if aggregate.arg == AggregateArg::Rows {
                let remark = Diagnostic::error("mstats: `count` needs a metric", aggregate.span);
                return Err(remark.with_hint("write count(_value) or count(METRIC)"));
            }
            command.aggregates.push(aggregate);
        }
    }
    if command.aggregates.is_empty() {
        let remark = Diagnostic::error("mstats: no aggregate is given", parser.here());
        return Err(remark.with_hint("write a function such as `avg(_value)` or `avg(cpu.idle)`"));
    }
    command.chart = is_chart.then_some(series);
    check_series_rates(&command)?;
    parser.check_metric_chart(&command)?;
    Ok(command.into())
}

impl Parser<'_> {
    /// Whether an option `chart.NAME=` is next.
    fn at_chart_option(&self) -> bool {
        let rest = self.rest();
        let is_option = |name: &&str| {
            let named = rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
            name.starts_with("chart.") && named && rest[name.len()..].trim_start().starts_with('=')
        };
        END_OPTIONS.iter().any(is_option)
    }

    fn chart_option(&mut self, series: &mut SeriesOptions) -> ParseResult<()> {
        self.pos += "chart.".len();
        let option = self.read_option()?;
        self.series_option(&option, series, "timechart").map(drop)
    }

    /// Refuses arguments that cannot be combined with `chart=t`.
    fn check_metric_chart(&mut self, command: &TstatsCommand) -> ParseResult<()> {
        if command.chart.is_none() {
            return Ok(());
        }
        if let Some(second) = command.by.iter().filter(|split| split.field != "_time").nth(1) {
            let remark = Diagnostic::error("mstats: chart=true splits by one field only", second.place);
            return Err(remark.with_hint("leave out chart=true, or the field"));
        }
        let is_pattern = |arg: &AggregateArg| matches!(arg, AggregateArg::Field(field) if field.is_wildcard());
        if let Some(aggregate) = command.aggregates.iter().find(|aggregate| is_pattern(&aggregate.arg)) {
            let remark = Diagnostic::error("mstats: chart=true takes no patterns", aggregate.span);
            return Err(remark.with_hint("name each metric"));
        }
        if command.prestats {
            return Err(Diagnostic::error("mstats: chart=true and prestats=true exclude each other", self.here()));
        }
        Ok(())
    }

    fn metric_splits(&mut self, command: &mut TstatsCommand) -> ParseResult<()> {
        loop {
            self.skip_separators();
            if self.at_end() || self.at_keyword("where") || self.peek_option().is_some() || self.at_chart_option() {
                return Ok(());
            }
            let word = self.expect_field("a BY field")?;
            if word.text != "_time" {
                command.by.push(TstatsSplit { field: word.text, span: None, place: word.span });
            }
        }
    }
}

/// Refuses arguments that cannot be combined with `rate_avg` and `rate_sum`.
fn check_series_rates(command: &TstatsCommand) -> ParseResult<()> {
    let is_rate = |aggregate: &&Aggregate| matches!(aggregate.function, StatsFunction::SeriesRate { .. });
    for aggregate in command.aggregates.iter().filter(is_rate) {
        let remark = |message: &str, hint: &str| Err(Diagnostic::error(message, aggregate.span).with_hint(hint));
        match &aggregate.arg {
            _ if command.prestats => {
                return remark(
                    "mstats: rates of series cannot be combined with prestats=true",
                    "leave out prestats=true",
                );
            }
            _ if command.chart.is_some() && !command.by.iter().any(|split| split.span.is_some()) => {
                return remark("mstats: chart=true needs a span for rates of series", "write e.g. span=1m");
            }
            AggregateArg::Field(field) if field.is_wildcard() => {
                return remark("mstats: rates of series take no patterns", "name each metric");
            }
            _ => {}
        }
    }
    Ok(())
}
