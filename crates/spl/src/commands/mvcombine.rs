//! `mvcombine`: combines rows that differ in one field into one row, whose field has all the values.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("mvcombine", &["delim"]);

/// `mvcombine [delim=TEXT] FIELD`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MvCombineCommand {
    /// Field whose values are collected.
    pub field: String,
    /// `delim=` (default `" "`): separator if the values are used as one text.
    pub delimiter: String,
}

impl Syntax for MvCombineCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "mvcombine [delim=TEXT] FIELD",
        summary: "Combines rows that differ in only one field",
        group: Group::Fields,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MvCombineCommand> {
        let (mut delimiter, mut field) = (" ".to_owned(), None);
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                delimiter = option.value;
            }
            if parser.at_end() {
                break;
            }
            if field.is_some() {
                let message = format!("mvcombine: unexpected {}", parser.found_text());
                return Err(Diagnostic::error(message, parser.here()).with_hint("mvcombine takes one field"));
            }
            field = Some(parser.expect_field("a field")?.text);
        }
        match field {
            Some(field) => Ok(MvCombineCommand { field, delimiter }),
            None => Err(Diagnostic::error("mvcombine: no field is given", parser.here())),
        }
    }
}

impl Semantics for MvCombineCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::all_fields()
    }
}
