//! `sirare`: returns rows for a summary index, from which `rare` computes its result later.

use super::sistats::summary_rows;
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "sirare FIELD... [BY FIELD...]",
    summary: "Prepares a summary index for rare",
    group: Group::Reporting,
    kind: Kind::Row,
    page: Some("sistats"),
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    summary_rows(parser, "rare")
}
