//! `sichart`: returns rows for a summary index, from which `chart` computes its result later.

use super::sistats::summary_rows;
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "sichart AGG... [OVER ROW] [BY ROW [COLUMN]]",
    summary: "Prepares a summary index for chart",
    group: Group::Reporting,
    kind: Kind::Row,
    page: Some("sistats"),
    clauses: &["where"],
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    summary_rows(parser, "chart")
}
