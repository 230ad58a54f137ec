//! `sendemail`: accepted without effect; searches send no mail.

use super::{Call, Command, CommandInfo, Group};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "sendemail to=ADDRESS [OPTIONS]",
    summary: "Changes nothing, with a warning",
    group: Group::NoEffect,
    page: Some("noop"),
    has_own_keywords: true,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<Command> {
    Ok(super::noop::parse_without_effect(parser, call.name, "searches send no mail"))
}
