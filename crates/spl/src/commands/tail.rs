//! `tail`: keeps the last rows, in reverse order.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// Rows kept when no number is given.
const DEFAULT_ROWS: usize = 10;

/// `tail [N]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailCommand {
    /// Rows kept.
    pub count: usize,
}

impl Syntax for TailCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "tail [N]",
        summary: "Keeps the last rows, in reverse order",
        group: Group::Searching,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TailCommand> {
        Ok(TailCommand { count: parser.row_count("tail")?.unwrap_or(DEFAULT_ROWS) })
    }
}

impl Semantics for TailCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }
}
