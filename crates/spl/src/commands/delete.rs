//! `delete`: deletes the events of a search, so that later searches do not find them.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `delete`, which returns counts instead of the deleted events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteCommand;

impl Syntax for DeleteCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "SEARCH | delete",
        summary: "Permanently hides the events of a search from later searches",
        group: Group::Storing,
        capability: Some("delete_by_keyword"),
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(_: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DeleteCommand> {
        Ok(DeleteCommand)
    }
}

impl Semantics for DeleteCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        Some(Effect::Other)
    }

    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
