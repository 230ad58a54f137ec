//! `deletemodel`: removes a model.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::ModelName;
use crate::parse::{ParseResult, Parser};

/// `deletemodel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteModelCommand(
    /// The model.
    pub ModelName,
);

impl Syntax for DeleteModelCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "deletemodel [app:]MODEL",
        summary: "Removes a model",
        group: Group::Storing,
        capability: Some("output_file"),
        kind: Kind::Generating,
        returns_table: true,
        page: Some("summary"),
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DeleteModelCommand> {
        parser.model_name("deletemodel").map(DeleteModelCommand)
    }
}

impl Semantics for DeleteModelCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        Some(Effect::Model(&self.0.text))
    }

    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
