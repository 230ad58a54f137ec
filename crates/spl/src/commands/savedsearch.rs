//! `savedsearch`: returns the result of a saved search.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Span, Stage};
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `savedsearch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSearchCommand {
    /// Name of the saved search.
    pub name: String,
    /// Position of the name.
    pub span: Span,
    /// Values for `$key$` in the text of the saved search.
    pub tokens: Vec<(String, String)>,
    /// Whether `$key$` is replaced (`nosubstitution=f`).
    pub substitutes: bool,
}

impl Syntax for SavedSearchCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "savedsearch NAME [TOKEN=VALUE...]",
        summary: "Runs a saved search",
        group: Group::Searching,
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SavedSearchCommand> {
        let mut command =
            SavedSearchCommand { name: String::new(), span: parser.here(), tokens: Vec::new(), substitutes: true };
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.peek_option().is_some() {
                let start = parser.pos;
                let option = parser.read_option()?;
                // The name keeps its case, because the names in `$key$` are case-sensitive.
                let written = parser.text[start..parser.pos].trim_start();
                let name = written[..option.name.len().min(written.len())].to_owned();
                if option.name == "nosubstitution" {
                    command.substitutes = !option.boolean()?;
                } else {
                    command.tokens.push((name, option.value));
                }
                continue;
            }
            let word = parser.expect_field("the name of a saved search")?;
            if command.name.is_empty() {
                (command.name, command.span) = (word.text, word.span);
            } else {
                return Err(Diagnostic::error(format!("savedsearch: unexpected `{}`", word.text), word.span)
                    .with_hint("put a name with blanks in quotes"));
            }
        }
        if command.name.is_empty() {
            return Err(Diagnostic::error("savedsearch: no name is given", parser.here()));
        }
        Ok(command)
    }
}

impl Semantics for SavedSearchCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::SavedSearch(self)
    }

    fn add_dependencies(&self, _: &[Stage], needs: &mut Dependencies) {
        needs.saved_searches.insert(self.name.clone());
    }
}
