//! `mcatalog`: lists metrics and dimensions; rewritten to `search` and `stats values`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::analyse::{TIME, search_fields};
use crate::ast::{
    AggregateArg, MeasurementsCommand, SearchCommand, SearchExpr, StatsCommand, StatsFunction, TableCommand,
    TimeModifiers, TstatsCommand,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, Parser, Read};

const OPTIONS: Known = Known {
    command: "mcatalog",
    names: &["prestats", "append", "earliest", "latest"],
    ignored: &["chunk_size", "connector"],
};

pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["mcatalog"],
    syntax: "mcatalog values(FIELD) [where EXPR] [by FIELD...]",
    summary: "Lists metrics and their dimensions",
    group: Group::Searching,
    kind: Kind::Generating,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Vec<Command>> {
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
                return Err(option.refuse("false: write `append [ | mcatalog ... ]`"));
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
            let mut aggregate = parser.aggregate("mcatalog")?;
            if aggregate.function != StatsFunction::Values {
                let remark = Diagnostic::error("mcatalog: it has the function `values` alone", aggregate.span);
                return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
            }
            if let AggregateArg::Field(field) = &mut aggregate.arg {
                kept.push(field.clone());
                if field.text == "_dims" {
                    field.text = "_dimensions".to_owned();
                    aggregate.name = aggregate.name.replace("(_dims)", "(_dimensions)");
                }
            }
            aggregates.push(aggregate);
        }
    }
    if aggregates.is_empty() {
        let remark = Diagnostic::error("mcatalog: no function is given", parser.here());
        return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
    }
    let (before, after) = match scope.filter {
        // The result of a subsearch may be names of metrics.
        filter if !filter.subsearches().is_empty() => (SearchExpr::All, filter),
        filter => (MeasurementsCommand::events_of(&filter), MeasurementsCommand::left_of(&filter)),
    };
    let indexes = if search_fields(&before).contains("index") { SearchExpr::All } else { make.equals("index", "*") };
    Ok(vec![
        SearchCommand { expr: SearchExpr::all_of(vec![indexes, before]), time: scope.time }.into(),
        Command::Measurements(MeasurementsCommand),
        SearchCommand { expr: after, time: TimeModifiers::default() }.into(),
        // With prestats=true the next command aggregates the rows.
        match scope.prestats {
            true => TableCommand { fields: kept }.into(),
            false => StatsCommand { by, ..make.stats(aggregates, &[]) }.into(),
        },
    ])
}
