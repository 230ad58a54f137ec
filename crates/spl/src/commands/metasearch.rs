//! `metasearch`: finds host, index, source and sourcetype of events; rewritten to `search` and `fields`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::FieldsCommand;
use crate::parse::{ParseResult, Parser};

/// Fields of events that `metasearch` returns.
const EVENT_FIELDS: [&str; 6] = ["_time", "host", "index", "source", "sourcetype", "splunk_server"];

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "metasearch EXPR",
    summary: "Finds the host, index, source, sourcetype and node of events",
    group: Group::Searching,
    kind: Kind::Row,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<Vec<Command>> {
    let search = parser.search_command(call.is_first)?;
    let make = parser.builder();
    let kept = FieldsCommand { removes: false, fields: make.patterns(&EVENT_FIELDS) };
    Ok(vec![search.into(), kept.into(), make.drop_fields(&["_raw"])])
}
