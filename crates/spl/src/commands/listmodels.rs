//! `listmodels`: lists the saved models.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `listmodels`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListModelsCommand;

impl Syntax for ListModelsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "listmodels",
        summary: "Lists the models",
        group: Group::Generating,
        kind: Kind::Generating,
        page: Some("summary"),
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(_: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ListModelsCommand> {
        Ok(ListModelsCommand)
    }
}

impl Semantics for ListModelsCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
