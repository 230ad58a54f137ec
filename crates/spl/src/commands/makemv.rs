//! `makemv`: splits a field into several values.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Pattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("makemv", &["delim", "tokenizer", "allowempty", "setsv"]);

/// `makemv [delim=TEXT|tokenizer=REGEX] FIELD`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MakeMvCommand {
    /// Field split.
    pub field: String,
    /// Method of splitting.
    pub split: MvSplit,
    /// `allowempty=` (default `f`): whether empty values are kept.
    pub allow_empty: bool,
    /// `setsv=` (default `f`): whether a later `nomv` joins the values with the original separator.
    pub set_sv: bool,
}

/// Method by which makemv splits a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MvSplit {
    /// `delim=" "`.
    Delimiter(String),
    /// `tokenizer=`: group 1 of each match.
    Tokenizer(Pattern),
}

impl Syntax for MakeMvCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "makemv [delim=TEXT|tokenizer=REGEX] [allowempty=] [setsv=] FIELD",
        summary: "Splits a field into values",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MakeMvCommand> {
        let mut split = MvSplit::Delimiter(" ".to_owned());
        let (mut allow_empty, mut set_sv, mut field) = (false, false, None);
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "delim" => split = MvSplit::Delimiter(option.value),
                    "tokenizer" => {
                        split = MvSplit::Tokenizer(Pattern { text: option.value, span: option.value_span });
                    }
                    "allowempty" => allow_empty = option.boolean()?,
                    _ => set_sv = option.boolean()?,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if field.is_some() {
                return Err(Diagnostic::error(format!("makemv: unexpected {}", parser.found_text()), parser.here()));
            }
            field = Some(parser.expect_field("a field")?.text);
        }
        let Some(field) = field else {
            return Err(Diagnostic::error("makemv: no field is given", parser.here()));
        };
        Ok(MakeMvCommand { field, split, allow_empty, set_sv })
    }
}

impl Semantics for MakeMvCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
