//! `multisearch`: merges the events of several searches, newest first.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Pipeline;
use crate::parse::{ParseResult, Parser};

/// `multisearch [ SEARCH ] [ SEARCH ]...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MultiSearchCommand {
    /// Searches whose events are merged.
    pub searches: Vec<Pipeline>,
}

impl Syntax for MultiSearchCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "multisearch [ SEARCH ] [ SEARCH ]...",
        summary: "Merges the events of several searches, newest first",
        group: Group::Searching,
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MultiSearchCommand> {
        Ok(MultiSearchCommand { searches: parser.subsearches("multisearch", 2, |_| Ok(None))? })
    }
}

impl Semantics for MultiSearchCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Subsearches
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        self.searches.iter().collect()
    }
}
