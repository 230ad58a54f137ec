//! `history`: lists earlier searches.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("history", &[]).ignoring(&["events"]);

/// `history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCommand;

impl Syntax for HistoryCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "history",
        summary: "Lists earlier searches",
        group: Group::Generating,
        kind: Kind::Generating,
        page: Some("rest"),
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<HistoryCommand> {
        while parser.option(OPTIONS)?.is_some() {}
        Ok(HistoryCommand)
    }
}

impl Semantics for HistoryCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
