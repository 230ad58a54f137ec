//! `untable`: unpivots a table into a list, the opposite of `xyseries`.

use serde::{Deserialize, Serialize};

use super::xyseries::three_fields;
use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{ParseResult, Parser};

/// `untable ROWS NAMES VALUES`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntableCommand {
    /// Field that is kept.
    pub row: String,
    /// Output field for the names of the other fields.
    pub name: String,
    /// Output field for the values of the other fields.
    pub value: String,
}

impl Syntax for UntableCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "untable ROWS NAMES VALUES",
        summary: "Unpivots a table into a list",
        group: Group::Reporting,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<UntableCommand> {
        let mut fields = parser.fields_to_end()?.into_iter().map(|field| field.text);
        match (fields.next(), fields.next(), fields.next(), fields.next()) {
            (Some(row), Some(name), Some(value), None) => Ok(UntableCommand { row, name, value }),
            _ => Err(three_fields(parser, "untable", "rows names values")),
        }
    }
}

impl Semantics for UntableCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::all_fields()
    }
}
