//! `spath`: extracts fields from JSON or XML by path.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("spath", &["input", "output", "path"]);

/// `spath [input=FIELD] [output=FIELD] [path=PATH]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpathCommand {
    /// `input=` (default `_raw`): field with the text.
    pub input: String,
    /// `output=`; default the path.
    pub output: Option<String>,
    /// `path=`; `None` extracts all.
    pub path: Option<String>,
}

impl Syntax for SpathCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "spath [input=FIELD] [output=FIELD] [path=PATH]",
        summary: "Extracts fields from JSON or XML",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SpathCommand> {
        let mut command = SpathCommand { input: RAW.to_owned(), output: None, path: None };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "input" => command.input = option.value,
                    "output" => command.output = Some(option.value),
                    _ => command.path = Some(option.value),
                }
            }
            if parser.at_end() {
                break;
            }
            if command.path.is_some() {
                return Err(Diagnostic::error(format!("spath: unexpected {}", parser.found_text()), parser.here()));
            }
            command.path = Some(parser.expect_field("a path")?.text);
        }
        if command.output.is_some() && command.path.is_none() {
            return Err(Diagnostic::error("spath: output= needs a path", parser.here()).with_hint("write path=a.b"));
        }
        Ok(command)
    }
}

impl Semantics for SpathCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.input);
        after
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        // Without a path the command writes a field for each member.
        let path = self.path.as_ref()?;
        Some(vec![self.output.as_ref().unwrap_or(path).as_str()])
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
