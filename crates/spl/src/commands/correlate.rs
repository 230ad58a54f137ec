//! `correlate`: measures how often each pair of fields occurs in the same rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("correlate", &[]).ignoring(&["type"]);

/// `correlate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrelateCommand;

impl Syntax for CorrelateCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "correlate",
        summary: "Measures how often fields occur together",
        group: Group::Patterns,
        kind: Kind::Blocking,
        page: Some("associate"),
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<CorrelateCommand> {
        while parser.option(OPTIONS)?.is_some() {}
        Ok(CorrelateCommand)
    }
}

impl Semantics for CorrelateCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.all = true;
        after
    }
}
