//! `selfjoin`: joins rows with other rows of the same result.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("selfjoin", &["overwrite", "max", "keepsingle"]);

/// `selfjoin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfJoinCommand {
    /// `overwrite=` (default `t`): whether values of the other row take precedence.
    pub overwrites: bool,
    /// `max=` (default `1`): maximum other rows for each row; 0 for all.
    pub max: usize,
    /// `keepsingle=` (default `f`): whether rows without a match are kept.
    pub keeps_single: bool,
    /// Fields that must be equal.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for SelfJoinCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "selfjoin [overwrite=] [max=N] [keepsingle=] FIELD...",
        summary: "Joins rows of the result with one another",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SelfJoinCommand> {
        let mut command = SelfJoinCommand { overwrites: true, max: 1, keeps_single: false, fields: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "overwrite" => command.overwrites = option.boolean()?,
                    "max" => command.max = option.number()?,
                    _ => command.keeps_single = option.boolean()?,
                }
            }
            match parser.next_field() {
                Some(field) => command.fields.push(field),
                None => break,
            }
        }
        if command.fields.is_empty() {
            return Err(Diagnostic::error("selfjoin: no field is given", parser.here()));
        }
        Ok(command)
    }
}

impl Semantics for SelfJoinCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // The fields of the joined row are known only at run time.
        after.all = true;
        after
    }
}
