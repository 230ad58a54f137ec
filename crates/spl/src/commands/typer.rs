//! `typer`: adds the event types of each row.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("typer", &[]).ignoring(&["eventtype", "maxlen"]);

/// `typer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TyperCommand;

impl Syntax for TyperCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "typer",
        summary: "Adds event types to rows",
        group: Group::Fields,
        page: Some("tags"),
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TyperCommand> {
        while parser.option(OPTIONS)?.is_some() {}
        Ok(TyperCommand)
    }
}

impl Semantics for TyperCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // Event types have conditions on fields that are known only at run time.
        after.all = true;
        after
    }
}
