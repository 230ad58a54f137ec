//! `arules`: finds association rules between the values of fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("arules", &["sup", "conf"]);

/// `arules`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArulesCommand {
    /// `sup=` (default `3`): minimum number of rows for which a rule holds.
    pub support: usize,
    /// `conf=` (default `0.5`): minimum confidence of a rule.
    pub confidence: f64,
    /// Fields whose values are related; at least two.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for ArulesCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "arules [sup=N] [conf=N] FIELD FIELD...",
        summary: "Finds association rules between values",
        group: Group::Patterns,
        kind: Kind::Blocking,
        page: Some("associate"),
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ArulesCommand> {
        let mut command = ArulesCommand { support: 3, confidence: 0.5, fields: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "sup" => command.support = option.number()?,
                    _ => command.confidence = option.number()?,
                }
            }
            match parser.next_field() {
                Some(field) => command.fields.push(field),
                None => break,
            }
        }
        if command.fields.len() < 2 {
            return Err(Diagnostic::error("arules: at least two fields are needed", parser.here()));
        }
        Ok(command)
    }
}

impl Semantics for ArulesCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(&self.fields);
        after
    }
}
