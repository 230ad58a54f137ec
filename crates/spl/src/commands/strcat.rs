//! `strcat`: concatenates values and texts into a field.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser, Word};

const OPTIONS: OptionNames = OptionNames::new("strcat", &["allrequired"]);

/// `strcat [allrequired=] SOURCE... TARGET`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrcatCommand {
    /// `allrequired=` (default `f`): whether the target is written only if all sources have values.
    pub all_required: bool,
    /// Values and texts to concatenate.
    pub sources: Vec<StrcatSource>,
    /// Field written.
    pub target: String,
}

/// One source of strcat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrcatSource {
    /// Value of a field.
    Field(String),
    /// Quoted text.
    Text(String),
}

impl Syntax for StrcatCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "strcat [allrequired=] SOURCE... TARGET",
        summary: "Joins values and texts into a field",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<StrcatCommand> {
        let mut all_required = false;
        let mut words: Vec<Word> = Vec::new();
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                all_required = option.boolean()?;
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            let quoted = parser.peek() == Some('"');
            let word = parser.expect_field("a field or a quoted text")?;
            words.push(Word { quoted, ..word });
        }
        let hint = "write `strcat field1 \"text\" field2 new`";
        let Some(target) = words.pop() else {
            return Err(Diagnostic::error("strcat: no field is given", parser.here()).with_hint(hint));
        };
        if words.is_empty() {
            let message = format!("strcat: nothing is joined into `{}`", target.text);
            return Err(Diagnostic::error(message, target.span).with_hint(hint));
        }
        let source =
            |word: Word| if word.quoted { StrcatSource::Text(word.text) } else { StrcatSource::Field(word.text) };
        Ok(StrcatCommand { all_required, sources: words.into_iter().map(source).collect(), target: target.text })
    }
}

impl Semantics for StrcatCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        for source in &self.sources {
            if let StrcatSource::Field(field) = source {
                after.add(field);
            }
        }
        after
    }
}
