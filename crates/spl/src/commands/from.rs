//! `from`: reads a data model, a lookup table or a saved search; rewritten to the command that reads it.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{DataModelCommand, InputLookupCommand, SavedSearchCommand};
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser, Word};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "from datamodel:MODEL.OBJECT | lookup:NAME | savedsearch:NAME",
    summary: "Reads a data set by its name",
    group: Group::Searching,
    kind: Kind::Generating,
    ..CommandInfo::DEFAULT
};

/// `TYPE:NAME` with the name quoted or not, or `TYPE NAME`.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    parser.skip_blank();
    let start = parser.pos;
    // The whole argument may be quoted.
    let quoted = parser.peek() == Some('"');
    if quoted {
        parser.bump();
    }
    let kind = parser.peek_name().to_ascii_lowercase();
    parser.pos += kind.len();
    let known = matches!(kind.as_str(), "datamodel" | "lookup" | "inputlookup" | "savedsearch");
    if !known {
        parser.pos = start;
        let remark = Diagnostic::error(format!("from: unexpected {}", parser.found_text()), parser.here());
        return Err(remark.with_hint("write from datamodel:NAME, lookup:NAME or savedsearch:NAME"));
    }
    if !parser.eat(':') {
        parser.eat('=');
    }
    let command = match kind.as_str() {
        "datamodel" => DataModelCommand::events_of(parser.data_model_name()?).into(),
        "savedsearch" => {
            let Word { text: name, span, .. } = parser.expect_field("the name of a saved search")?;
            SavedSearchCommand { name, span, tokens: Vec::new(), substitutes: false }.into()
        }
        _ => {
            let Word { text, span, .. } = parser.expect_field("the name of a lookup")?;
            InputLookupCommand { table: text, table_span: span, strict: true, ..InputLookupCommand::default() }.into()
        }
    };
    if quoted {
        parser.eat('"');
    }
    Ok(command)
}
