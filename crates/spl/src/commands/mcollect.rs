//! `mcollect` and `meventcollect`: write measurements as events with JSON fields; rewritten to `eval`, `foreach` and
//! `collect`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::analyse::TIME;
use crate::ast::{
    AssignTarget, Assignment, BinaryOp, CollectCommand, EvalCommand, Expr, ForeachCommand, MeasurementsCommand,
    NamePart, NodeBuilder, ToJsonCommand,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("mcollect", &["index", "split", "prefix_field", "host", "source", "sourcetype", "marker"])
        .ignoring(&["spool", "file", "split_field", "run_in_preview"]);

const METRIC: &str = MeasurementsCommand::METRIC;
const PREFIX: &str = MeasurementsCommand::PREFIX;
/// Temporary field for the time of a row while the row's fields are written as JSON.
const ROW_TIME: &str = "_quarry_time";

pub(super) const INFO: CommandInfo = CommandInfo {
    aliases: &["meventcollect"],
    syntax: "mcollect index=INDEX [split=] [DIMENSION...]",
    summary: "Stores the rows as measurements of a metrics index",
    group: Group::Storing,
    capability: Some("run_mcollect"),
    kind: Kind::Blocking,
    page: Some("mcatalog"),
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<Vec<Command>> {
    let name = call.name;
    let (mut splits, mut prefix) = (false, None);
    let mut collect =
        CollectCommand { name: name.to_owned(), sourcetype: "mcollect_stash".to_owned(), ..CollectCommand::default() };
    let mut dimensions = Vec::new();
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "index" => collect.index = option.value,
                "split" => splits = option.value.eq_ignore_ascii_case("allnums") || option.boolean()?,
                "prefix_field" => prefix = Some(option.value),
                "marker" => {
                    let message = format!("{name}: measurements have no text that marker= could be added to");
                    let remark = Diagnostic::error(message, option.name_span);
                    return Err(remark.with_hint("add a dimension with eval"));
                }
                "host" => collect.host = Some(option.value),
                "source" => collect.source = Some(option.value),
                _ => collect.sourcetype = option.value,
            }
        }
        parser.skip_separators();
        match parser.field_word() {
            Some(word) => dimensions.push(word.text),
            None => break,
        }
    }
    if collect.index.is_empty() {
        let remark = Diagnostic::error(format!("{name}: no index is given"), parser.here());
        return Err(remark.with_hint(format!("write `{name} index=my_metrics`")));
    }
    let make = parser.builder();
    collect.index_span = make.span();
    let mut commands = vec![make.eval(ROW_TIME, make.field(TIME))];
    if splits {
        commands.push(each_number(make, prefix.as_deref(), &dimensions));
    } else {
        let named = make.binary(BinaryOp::Concat, make.text(PREFIX), make.field(METRIC));
        let is_null = make.call("isnull", [make.field(METRIC)]);
        let named = make.call("if", [is_null, make.nullary("null"), named]);
        let measured = Assignment { target: of_metric(), expr: make.field("_value") };
        commands.push(EvalCommand { assignments: vec![make.assignment("_metric", named), measured] }.into());
        commands.push(make.drop_fields(&[METRIC]));
    }
    commands.extend([
        make.drop_fields(&["_raw", "_metric", "_value"]),
        ToJsonCommand::default().into(),
        make.eval(TIME, make.field(ROW_TIME)),
        make.drop_fields(&[ROW_TIME]),
        collect.into(),
    ]);
    Ok(commands)
}

/// Turns every numeric field that is not a dimension into a measurement.
fn each_number(make: NodeBuilder, prefix: Option<&str>, dimensions: &[String]) -> Command {
    let field = || make.field(ForeachCommand::FIELD);
    let is_measured = || {
        let is_number = make.call("isnum", [field()]);
        if dimensions.is_empty() {
            return is_number;
        }
        let names = dimensions.iter().map(|name| make.text(name));
        let names: Vec<Expr> = [make.text(ForeachCommand::FIELD)].into_iter().chain(names).collect();
        make.binary(BinaryOp::And, make.not(make.call("in", names)), is_number)
    };
    let mut name = vec![make.text(PREFIX)];
    name.extend(prefix.into_iter().flat_map(|prefix| [make.field(prefix), make.text(".")]));
    name.push(make.text(ForeachCommand::FIELD));
    let measured = make.when(is_measured(), field());
    let left = make.call("if", [is_measured(), make.nullary("null"), field()]);
    make.each_field(
        "*",
        vec![
            make.assignment("_metric", make.join_operands(BinaryOp::Concat, name)),
            Assignment { target: of_metric(), expr: measured },
            make.assignment(ForeachCommand::FIELD, left),
        ],
    )
}

/// `{_metric}`: the field named by a row's `_metric`.
fn of_metric() -> AssignTarget {
    AssignTarget::Dynamic(vec![NamePart::Field("_metric".to_owned())])
}
