//! `nomv`: joins the values of a multivalue field into one.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `nomv FIELD`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoMvCommand {
    /// Field whose values are joined into one.
    pub field: String,
}

impl Syntax for NoMvCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "nomv FIELD",
        summary: "Joins the values of a multivalue field into one",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<NoMvCommand> {
        Ok(NoMvCommand { field: parser.expect_field("a field")?.text })
    }
}

impl Semantics for NoMvCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }
}
