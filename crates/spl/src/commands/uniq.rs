//! `uniq`: drops rows that equal the row before them.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `uniq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqCommand;

impl Syntax for UniqCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "uniq",
        summary: "Drops rows that repeat the row before them",
        group: Group::Searching,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(_: &mut Parser<'_>, _: Call<'_>) -> ParseResult<UniqCommand> {
        Ok(UniqCommand)
    }
}

impl Semantics for UniqCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // Rows are equal only if all their fields are.
        after.all = true;
        after
    }
}
