//! `excerpt` and `abstract`: accepted without effect, as texts are never shortened.

use super::{Call, Command, CommandInfo, Group};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    aliases: &["abstract"],
    syntax: "excerpt [maxlines=N] [maxterms=N]",
    summary: "Changes nothing, with a warning",
    group: Group::NoEffect,
    page: Some("noop"),
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<Command> {
    Ok(super::noop::parse_without_effect(parser, call.name, "texts are not shortened"))
}
