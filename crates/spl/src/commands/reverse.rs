//! `reverse`: reverses the order of the rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `reverse`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReverseCommand;

impl Syntax for ReverseCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "reverse",
        summary: "Reverses the order of rows",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(_: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ReverseCommand> {
        Ok(ReverseCommand)
    }
}

impl Semantics for ReverseCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }
}
