//! `accum`: computes a running sum.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `accum FIELD [AS NEW]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccumCommand {
    /// Field summed up.
    pub field: String,
    /// Field written.
    pub output: String,
}

impl Syntax for AccumCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "accum FIELD [AS NEW]",
        summary: "Computes a running sum of a field",
        group: Group::Fields,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AccumCommand> {
        let field = parser.expect_field("a field")?.text;
        let output = parser.name_after_as()?.unwrap_or_else(|| field.clone());
        Ok(AccumCommand { field, output })
    }
}

impl Semantics for AccumCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
