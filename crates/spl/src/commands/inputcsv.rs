//! `inputcsv`: reads a file that `outputcsv` wrote; rewritten to `inputlookup`.

use super::outputcsv::table_of;
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "inputcsv [append=] [start=] [max=] NAME [where EXPR]",
    summary: "Reads a file that outputcsv wrote",
    group: Group::Generating,
    capability: Some("input_file"),
    kind: Kind::Generating,
    page: Some("outputcsv"),
    clauses: &["where"],
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    let mut command = parser.inputlookup().map_err(|mut remark| {
        remark.message = remark.message.replace("inputlookup", "inputcsv");
        remark
    })?;
    command.table = table_of(&command.table);
    Ok(command.into())
}
