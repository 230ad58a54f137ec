//! `outlier`: truncates numbers far from most other numbers, or removes their rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("outlier", &["action", "param", "uselower", "mark"]).ignoring(&["type"]);

/// `outlier`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutlierCommand {
    /// Whether the row of an outlier is dropped (`action=rm`) rather than the number truncated.
    pub removes: bool,
    /// `mark=` (default `f`): whether truncated numbers are prefixed with `000`.
    pub marks: bool,
    /// `param=` (default `2.5`): distance from the median, in interquartile ranges.
    pub factor: f64,
    /// `uselower=` (default `f`): whether low numbers are outliers too.
    pub lower: bool,
    /// Fields; if empty, all.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for OutlierCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "outlier [action=rm|tf] [param=N] [uselower=] [mark=] [FIELD...]",
        summary: "Removes or caps outliers",
        group: Group::Patterns,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<OutlierCommand> {
        let mut command =
            OutlierCommand { removes: false, marks: false, factor: 2.5, lower: false, fields: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match (option.name.as_str(), option.value.to_ascii_lowercase().as_str()) {
                    ("action", "rm" | "remove") => command.removes = true,
                    ("action", "tf" | "transform") => command.removes = false,
                    ("action", _) => return Err(option.invalid_value("rm or tf")),
                    ("param", _) => command.factor = option.number()?,
                    ("uselower", _) => command.lower = option.boolean()?,
                    _ => command.marks = option.boolean()?,
                }
            }
            parser.skip_separators();
            match parser.field_word() {
                Some(word) => command.fields.push(word.field()),
                None => return Ok(command),
            }
        }
    }
}

impl Semantics for OutlierCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(&self.fields);
        after
    }
}
