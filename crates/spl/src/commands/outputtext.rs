//! `outputtext`: copies the text of events to `_xml`; rewritten to `eval`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::EvalCommand;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("outputtext", &[]).ignoring(&["usexml"]);

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "outputtext",
    summary: "Copies the text to _xml",
    group: Group::Storing,
    kind: Kind::Row,
    page: Some("outputcsv"),
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    while parser.option(OPTIONS)?.is_some() {}
    let make = parser.builder();
    Ok(Command::Eval(EvalCommand { assignments: vec![make.assignment("_xml", make.field("_raw"))] }).into())
}
