//! `fromjson`: extracts the members of a JSON object as fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("fromjson", &["prefix"]);

/// `fromjson FIELD [prefix=TEXT]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromJsonCommand {
    /// Field with the objects.
    pub field: String,
    /// Prefix for the names of the members.
    pub prefix: String,
}

impl Syntax for FromJsonCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "fromjson FIELD [prefix=]",
        summary: "Extracts the members of a JSON object as fields",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FromJsonCommand> {
        let (mut field, mut prefix) = (None, String::new());
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                prefix = option.value;
            }
            parser.skip_separators();
            if parser.at_end() || field.is_some() {
                break;
            }
            field = Some(parser.expect_field("a field with JSON objects")?.text);
        }
        let field = field.ok_or_else(|| Diagnostic::error("fromjson: no field is given", parser.here()))?;
        Ok(FromJsonCommand { field, prefix })
    }
}

impl Semantics for FromJsonCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
