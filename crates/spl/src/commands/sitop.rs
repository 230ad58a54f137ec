//! `sitop`: returns rows for a summary index, from which `top` computes its result later.

use super::sistats::summary_rows;
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "sitop [N] FIELD... [BY FIELD...]",
    summary: "Prepares a summary index for top",
    group: Group::Reporting,
    kind: Kind::Row,
    page: Some("sistats"),
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    summary_rows(parser, "top")
}
