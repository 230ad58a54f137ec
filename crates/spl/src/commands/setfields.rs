//! `setfields`: sets fields to the same text in every row.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `setfields FIELD=TEXT [, ...]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetFieldsCommand {
    /// Fields and their texts.
    pub fields: Vec<(String, String)>,
}

impl Syntax for SetFieldsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "setfields FIELD=TEXT [, ...]",
        summary: "Sets fields to the same text in every row",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SetFieldsCommand> {
        let mut fields = Vec::new();
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.peek_option().is_none() {
                let message = format!("setfields: expected field=\"value\", found {}", parser.found_text());
                return Err(Diagnostic::error(message, parser.here()));
            }
            let option = parser.read_option()?;
            fields.push((parser.text[option.name_span.start..option.name_span.end].to_owned(), option.value));
        }
        if fields.is_empty() {
            let remark = Diagnostic::error("setfields: no field is given", parser.here());
            return Err(remark.with_hint("write `setfields field=\"value\"`"));
        }
        Ok(SetFieldsCommand { fields })
    }
}

impl Semantics for SetFieldsCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }
}
