//! `outputcsv`: writes rows to a CSV file; rewritten to `outputlookup` of a table with a special name.

use super::outputlookup::OutputLookupCommand;
use super::{Call, Command, CommandInfo, Group, Kind, Syntax};
use crate::ast::NoopCommand;
use crate::parse::{ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "outputcsv [append=] [create_empty=] [override_if_empty=] [csv_safe=] [NAME]",
    summary: "Writes the rows to a CSV file",
    group: Group::Storing,
    capability: Some("output_file"),
    kind: Kind::Blocking,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<Command> {
    if parser.at_end() {
        // A file without a name could not be read later, so it is not written.
        return Ok(Command::Noop(NoopCommand));
    }
    let mut command = OutputLookupCommand::parse(parser, call).map_err(|mut remark| {
        remark.message = remark.message.replace("outputlookup", "outputcsv");
        remark
    })?;
    command.table = table_of(&command.table);
    command.name = "outputcsv".to_owned();
    Ok(command.into())
}

/// Name of the lookup table for a result file.
pub(super) fn table_of(name: &str) -> String {
    format!("results.{}.csv", name.strip_suffix(".csv").unwrap_or(name))
}
