//! `mvexpand`: returns a row for each value of a field.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("mvexpand", &["limit"]);

/// `mvexpand FIELD [limit=N]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MvExpandCommand {
    /// Field expanded.
    pub field: String,
    /// `limit=` (default `0`): maximum values per row; 0 for all.
    pub limit: usize,
}

impl Syntax for MvExpandCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "mvexpand FIELD [limit=N]",
        summary: "Creates a row for each value of a field",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MvExpandCommand> {
        let (mut field, mut limit) = (None, 0);
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                limit = option.number()?;
            }
            if parser.at_end() {
                break;
            }
            if field.is_some() {
                return Err(Diagnostic::error(format!("mvexpand: unexpected {}", parser.found_text()), parser.here()));
            }
            field = Some(parser.expect_field("a field")?.text);
        }
        let Some(field) = field else {
            return Err(Diagnostic::error("mvexpand: no field is given", parser.here()));
        };
        Ok(MvExpandCommand { field, limit })
    }
}

impl Semantics for MvExpandCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
