//! `mcatalog`: lists metrics and dimensions; rewritten to `search` and `stats values`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::analyse::search_fields;
use crate::ast::{
    AggregateArg, CompareOp, MeasurementsCommand, SearchCommand, SearchExpr, StatsFunction, TimeModifiers,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, Parser, Read, parse_condition, quote};

const OPTIONS: Known = Known {
    command: "mcatalog",
    names: &["prestats", "append", "earliest", "latest"],
    ignored: &["chunk_size", "connector"],
};

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["mcatalog"],
    syntax: "mcatalog values(FIELD) [where EXPR] [by FIELD...]",
    summary: "Lists metrics and their dimensions",
    group: Group::Searching,
    kind: Kind::Generating,
    ..CommandInfo::DEFAULT
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Vec<Command>> {
    let (mut aggregates, mut by, mut filter) = (Vec::new(), String::new(), String::new());
    let (mut kept, mut prestats, mut range) = (Vec::new(), false, String::new());
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            if matches!(option.name.as_str(), "earliest" | "latest") {
                range.push_str(&format!(" {}={}", option.name, quote(&option.value)));
                continue;
            }
            let is_set = option.boolean()?;
            if option.name == "prestats" {
                prestats = is_set;
            } else if is_set {
                return Err(option.refuse("false: write `append [ | mcatalog ... ]`"));
            }
        }
        parser.skip_separators();
        if parser.at_end() {
            break;
        }
        if parser.eat_keyword("where") {
            filter = condition_text(parser);
        } else if parser.eat_keyword("by") || parser.eat_keyword("groupby") {
            let fields = parser.by_fields(OPTIONS)?;
            let fields: Vec<String> = fields.iter().map(|field| quote(&field.text)).collect();
            by = format!("BY {}", fields.join(" "));
            kept.extend(fields);
        } else {
            let start = parser.pos;
            let aggregate = parser.aggregate("mcatalog")?;
            if aggregate.function != StatsFunction::Values {
                let remark = Diagnostic::error("mcatalog: it has the function `values` alone", aggregate.span);
                return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
            }
            aggregates.push(parser.text[start..parser.pos].to_owned());
            if let AggregateArg::Field(field) = &aggregate.arg {
                kept.push(quote(&field.text));
            }
        }
    }
    if aggregates.is_empty() {
        let remark = Diagnostic::error("mcatalog: no function is given", parser.here());
        return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
    }
    let aggregates = aggregates.join(" ").replace("(_dims)", "(_dimensions)");
    let filter = without_times(filter, &mut range);
    let (before, after) = conditions(parser, &filter)?;
    // With prestats=true the next command aggregates the rows.
    let fold = match prestats {
        true => format!("table _time {}", kept.join(" ")),
        false => format!("stats {aggregates} {by}"),
    };
    let scope = if search_fields(&before).contains("index") { "*" } else { "index=*" };
    let mut commands = parser.standing_for(&format!("search {scope}{range}"))?;
    if let Some(Command::Search(search)) = commands.first_mut() {
        search.expr = SearchExpr::And(vec![search.expr.clone(), before]);
    }
    commands.push(Command::Measurements(MeasurementsCommand));
    commands.push(SearchCommand { expr: after, time: TimeModifiers::default() }.into());
    commands.extend(parser.standing_for(&format!("| {fold}"))?);
    Ok(commands)
}

/// Splits a condition into conditions on events and on their measurements.
fn conditions(parser: &Parser<'_>, filter: &str) -> Read<(SearchExpr, SearchExpr)> {
    let expr = if filter.is_empty() { Ok(SearchExpr::All) } else { parse_condition(filter) };
    match expr {
        // The result of a subsearch may be names of metrics.
        Ok(expr) if !expr.subsearches().is_empty() => Ok((SearchExpr::All, expr)),
        Ok(expr) => Ok((MeasurementsCommand::events_of(&expr), MeasurementsCommand::left_of(&expr))),
        Err(faults) => {
            let fault = faults.first().map_or_else(String::new, |fault| fault.message.clone());
            Err(Diagnostic::error(fault, parser.since(parser.stage_start())))
        }
    }
}

/// The text of a condition up to BY or the end.
fn condition_text(parser: &mut Parser<'_>) -> String {
    let start = parser.pos;
    while !parser.at_end() && !parser.at_keyword("by") && !parser.at_keyword("groupby") {
        let (place, has_word) = (parser.pos, parser.quoted().is_some());
        if !has_word {
            let rest = parser.rest();
            let word = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
            parser.pos = place + word.max(1);
        }
    }
    parser.text[start..parser.pos].trim().to_owned()
}

/// A condition without its time modifiers, which are moved to `range`.
fn without_times(mut filter: String, range: &mut String) -> String {
    let Ok(expr) = parse_condition(&filter) else { return filter };
    let parts = match expr {
        SearchExpr::And(parts) => parts,
        single => vec![single],
    };
    for part in parts.into_iter().rev() {
        if let SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } = part
            && matches!(field.text.as_str(), "earliest" | "latest")
        {
            range.push_str(&format!(" {}={}", field.text, quote(&value.text)));
            filter.replace_range(field.span.start..value.span.end, "");
        }
    }
    filter.trim().to_owned()
}
