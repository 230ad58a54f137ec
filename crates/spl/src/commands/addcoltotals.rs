//! `addcoltotals`: shorthand for `addtotals` of columns only.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("addcoltotals", &["labelfield", "label"]).ignoring(&["row", "col", "fieldname"]);

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "addcoltotals [labelfield=FIELD] [label=TEXT] [FIELD...]",
    summary: "Adds the sums of columns as a last row",
    group: Group::Reporting,
    kind: Kind::Blocking,
    page: Some("addtotals"),
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    super::addtotals::totals(parser, OPTIONS, false).map(Command::from)
}
