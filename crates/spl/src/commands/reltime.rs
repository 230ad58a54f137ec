//! `reltime`: describes how long ago a time is; rewritten to `eval`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::analyse::TIME;
use crate::ast::{Assignment, BinaryOp, CompareOp, EvalCommand, Expr, NodeBuilder};
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("reltime", &["timefield", "prefix"]);

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "reltime [timefield=FIELD] [prefix=TEXT]",
    summary: "Describes how long ago a time is",
    group: Group::Fields,
    kind: Kind::Row,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    let (mut fields, mut prefix) = (Vec::new(), "reltime_".to_owned());
    while let Some(option) = parser.option(OPTIONS)? {
        match option.name.as_str() {
            "timefield" => fields.extend(option.value.split(',').map(|name| name.trim().to_owned())),
            _ => prefix = option.value,
        }
    }
    let make = parser.builder();
    let mut assignments: Vec<Assignment> =
        fields.iter().map(|name| make.assignment(&format!("{prefix}{name}"), relative_time(make, name))).collect();
    if fields.is_empty() {
        assignments.push(make.assignment("reltime", relative_time(make, TIME)));
    }
    Ok(Command::Eval(EvalCommand { assignments }).into())
}

/// Age of the time in a field in words, such as `5 minutes ago`; null for times in the future.
fn relative_time(make: NodeBuilder, name: &str) -> Expr {
    let age = || make.binary(BinaryOp::Sub, make.nullary("now"), make.field(name));
    let below = |limit: u32| make.compare(CompareOp::Lt, age(), make.number(limit));
    let of_unit = |unit: &str, seconds: u32| {
        let count = || make.call("floor", [make.binary(BinaryOp::Div, age(), make.number(seconds))]);
        let is_one = make.compare(CompareOp::Eq, count(), make.number(1));
        let (one, many) = (make.text(&format!(" {unit} ago")), make.text(&format!(" {unit}s ago")));
        let word = make.call("if", [is_one, one, many]);
        make.binary(BinaryOp::Concat, make.call("tostring", [count()]), word)
    };
    let mut cases = vec![below(0), make.nullary("null")];
    let units = [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400), ("month", 2_592_000)];
    let limits = [60, 3_600, 86_400, 2_592_000, 31_536_000];
    for ((unit, seconds), limit) in units.into_iter().zip(limits) {
        cases.extend([below(limit), of_unit(unit, seconds)]);
    }
    let is_time = make.call("isnum", [age()]);
    cases.extend([is_time, of_unit("year", 31_536_000)]);
    make.call("case", cases)
}
