//! `require`: fails if a search has no rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `require`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequireCommand;

impl Syntax for RequireCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "require",
        summary: "Fails if there are no rows",
        group: Group::Searching,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(_: &mut Parser<'_>, _: Call<'_>) -> ParseResult<RequireCommand> {
        Ok(RequireCommand)
    }
}

impl Semantics for RequireCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }
}
