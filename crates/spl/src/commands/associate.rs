//! `associate`: finds values that are informative about the values of other fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("associate", &["supcnt", "supfreq", "improv"]);

/// `associate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssociateCommand {
    /// `supcnt=` (default `100`): minimum number of rows that have the value.
    pub support: usize,
    /// `supfreq=` (default `0.1`): minimum share of rows that have the value.
    pub support_share: f64,
    /// `improv=` (default `0.5`): minimum reduction of entropy from knowing the value.
    pub improvement: f64,
    /// Fields; if empty, all.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for AssociateCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "associate [supcnt=N] [supfreq=N] [improv=N] [FIELD...]",
        summary: "Finds values that predict the values of other fields",
        group: Group::Patterns,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AssociateCommand> {
        let mut command = AssociateCommand { support: 100, support_share: 0.1, improvement: 0.5, fields: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "supcnt" => command.support = option.number()?,
                    "supfreq" => command.support_share = option.number()?,
                    _ => command.improvement = option.number()?,
                }
            }
            match parser.next_field() {
                Some(field) => command.fields.push(field),
                None => return Ok(command),
            }
        }
    }
}

impl Semantics for AssociateCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_list(&self.fields);
        after
    }
}
