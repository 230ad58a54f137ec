//! `sitimechart`: returns rows for a summary index, from which `timechart` computes its result later.

use super::sistats::summary_rows;
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "sitimechart [span=] AGG... [BY FIELD]",
    summary: "Prepares a summary index for timechart",
    group: Group::Reporting,
    kind: Kind::Row,
    page: Some("sistats"),
    clauses: &["where"],
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    summary_rows(parser, "timechart")
}
