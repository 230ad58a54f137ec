//! `reverse`: the rows in the opposite order.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, MadeFields, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `reverse`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReverseCommand;

impl Syntax for ReverseCommand {
    const INFO: CommandInfo = CommandInfo {
        names: &["reverse"],
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

    fn makes(&self) -> Option<MadeFields> {
        MadeFields::none()
    }
}
