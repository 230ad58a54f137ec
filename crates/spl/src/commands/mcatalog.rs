//! `mcatalog`: lists metrics and dimensions; rewritten to `search` and `stats values`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::analyse::{TIME, search_fields};
use crate::ast::{
    AggregateArg, FieldPattern, MeasurementsCommand, MvExpandCommand, NodeBuilder, SearchCommand, SearchExpr,
    StatsCommand, StatsFunction, TableCommand, TimeModifiers, TstatsCommand,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("mcatalog", &["prestats", "append", "earliest", "latest"]).ignoring(&["chunk_size", "connector"]);

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "mcatalog values(FIELD) [where EXPR] [by FIELD...]",
    summary: "Lists metrics and their dimensions",
    group: Group::Searching,
    kind: Kind::Generating,
    clauses: &["where"],
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    let make = parser.builder();
    let (mut aggregates, mut by, mut kept) = (Vec::new(), Vec::new(), vec![make.pattern(TIME)]);
    let mut scope = TstatsCommand::empty();
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            if matches!(option.name.as_str(), "earliest" | "latest") {
                parser.time_option(&option, &mut scope.time)?;
                continue;
            }
            let is_set = option.boolean()?;
            if option.name == "prestats" {
                scope.prestats = is_set;
            } else if is_set {
                return Err(option.invalid_value("false: write `append [ | mcatalog ... ]`"));
            }
        }
        parser.skip_separators();
        if parser.at_end() {
            break;
        }
        if parser.eat_keyword("where") {
            parser.tstats_where(&mut scope, &[])?;
        } else if parser.eat_keyword("by") || parser.eat_keyword("groupby") {
            by = parser.by_fields(OPTIONS)?;
            kept.extend(by.iter().cloned());
        } else {
            let aggregate = parser.aggregate("mcatalog")?;
            if aggregate.function != StatsFunction::Values {
                let remark = Diagnostic::error("mcatalog supports only the function `values`", aggregate.span);
                return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
            }
            if let AggregateArg::Field(field) = &aggregate.arg {
                kept.push(field.clone());
            }
            aggregates.push(aggregate);
        }
    }
    if aggregates.is_empty() {
        let remark = Diagnostic::error("mcatalog: no function is given", parser.here());
        return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
    }
    // With prestats=true the next command aggregates the rows.
    let last: Command = match scope.prestats {
        true => TableCommand { fields: kept.clone() }.into(),
        false => StatsCommand { by, ..make.stats(aggregates, &[]) }.into(),
    };
    Ok(measurement_commands(make, scope.filter, scope.time, &kept, last))
}

/// Commands that return a row for each value of a field of data points, such as [`MeasurementsCommand::DIMENSIONS`];
/// the value is in the field `name`.
pub fn metric_values(make: NodeBuilder, field: &str, name: &str, condition: SearchExpr) -> Vec<Command> {
    let values = make.stats(vec![make.aggregate(StatsFunction::Values, field, name)], &[]).into();
    let mut commands = measurement_commands(make, condition, TimeModifiers::default(), &[make.pattern(field)], values);
    commands.push(MvExpandCommand { field: name.to_owned(), limit: 0 }.into());
    commands
}

/// Commands that run `command` on the data points that meet a condition; `read` lists the fields that `command`
/// reads.
fn measurement_commands(
    make: NodeBuilder,
    condition: SearchExpr,
    time: TimeModifiers,
    read: &[FieldPattern],
    command: Command,
) -> Vec<Command> {
    let (before, after) = match condition {
        // The result of a subsearch may be names of metrics.
        filter if !filter.subsearches().is_empty() => (SearchExpr::All, filter),
        filter => (MeasurementsCommand::event_condition(&filter), MeasurementsCommand::remaining_condition(&filter)),
    };
    let indexes = if search_fields(&before).contains("index") { SearchExpr::All } else { make.equals("index", "*") };
    let lists_dimensions = read.iter().any(|field| field.text == MeasurementsCommand::DIMENSIONS);
    vec![
        SearchCommand { expr: SearchExpr::conjunction(vec![indexes, before]), time }.into(),
        Command::Measurements(MeasurementsCommand { lists_dimensions }),
        SearchCommand { expr: after, time: TimeModifiers::default() }.into(),
        command,
    ]
}
