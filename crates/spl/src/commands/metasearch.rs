//! `metasearch`: host, index, source and sourcetype of events; rewritten to `search` and `fields`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{FieldPattern, FieldsCommand};
use crate::parse::{Parser, Read};

/// Fields of the events that it shows.
const EVENT_FIELDS: [&str; 6] = ["_time", "host", "index", "source", "sourcetype", "splunk_server"];

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["metasearch"],
    syntax: "metasearch EXPR",
    summary: "Finds the host, index, source, sourcetype and node of events",
    group: Group::Searching,
    kind: Kind::Row,
    ..CommandInfo::DEFAULT
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> Read<Vec<Command>> {
    let start = parser.pos - call.name.len();
    let search = parser.search_command(call.is_first)?;
    let pattern = |text: &str| FieldPattern { text: text.to_owned(), span: parser.since(start) };
    let kept = FieldsCommand { removes: false, fields: EVENT_FIELDS.map(pattern).to_vec() };
    let removed = FieldsCommand { removes: true, fields: vec![pattern("_raw")] };
    Ok(vec![search.into(), kept.into(), removed.into()])
}
