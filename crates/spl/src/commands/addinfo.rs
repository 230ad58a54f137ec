//! `addinfo`: adds the time range and identifier of the search to every row.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `addinfo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddInfoCommand;

impl Syntax for AddInfoCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "addinfo",
        summary: "Adds the time range and the ID of the search to every row",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(_: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AddInfoCommand> {
        Ok(AddInfoCommand)
    }
}

impl Semantics for AddInfoCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }
}
