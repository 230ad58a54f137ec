//! `sistats`: returns rows for a summary index, from which `stats` computes its result later.

use super::{Call, Command, CommandInfo, Group, Kind, entry};
use crate::analyse::required_fields;
use crate::ast::{NodeBuilder, NoopCommand};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "sistats AGG... [BY FIELD...]",
    summary: "Prepares a summary index for stats",
    group: Group::Reporting,
    kind: Kind::Row,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    summary_rows(parser, "stats")
}

/// Parses a command that returns rows for a summary index, from which the command `name` computes its result later.
pub(super) fn summary_rows(parser: &mut Parser<'_>, name: &str) -> ParseResult<Command> {
    let start = parser.pos;
    let commands = match entry(name) {
        Some(entry) => (entry.parse)(parser, Call { name, is_first: false })?,
        None => Vec::new(),
    };
    let span = parser.since(start);
    let needs = required_fields(&NodeBuilder::at(span).pipeline(commands).commands);
    if needs.all {
        return Ok(Command::Noop(NoopCommand));
    }
    let named = needs.fields.iter().filter(|field| *field != "_time").chain(&needs.patterns);
    let fields = std::iter::once("_time").chain(named.map(String::as_str));
    Ok(NodeBuilder::at(span).table(&fields.collect::<Vec<_>>()))
}
