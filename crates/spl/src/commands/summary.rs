//! `summary`: describes a model.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{ModelName, Stage};
use crate::dependencies::Dependencies;
use crate::parse::{ParseResult, Parser};

/// `summary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryCommand(
    /// The model.
    pub ModelName,
);

impl Syntax for SummaryCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "summary [app:]MODEL",
        summary: "Shows the parameters of a model",
        group: Group::Generating,
        kind: Kind::Generating,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SummaryCommand> {
        parser.model_name("summary").map(SummaryCommand)
    }
}

impl Semantics for SummaryCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn add_dependencies(&self, _: &[Stage], needs: &mut Dependencies) {
        needs.models.insert(self.0.text.clone());
    }
}
