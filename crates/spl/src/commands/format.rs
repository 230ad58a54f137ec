//! `format`: formats the rows as one search condition, in the field `search`.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("format", &["mvsep", "maxresults", "emptystr"]);

/// Number of texts that format puts around and between rows and fields.
const FORMAT_TEXTS: usize = 6;

/// `format [mvsep=] [maxresults=] [emptystr=] [SIX TEXTS]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormatCommand {
    /// `mvsep=` (default `OR`): operator between the values of a multivalue field.
    pub value_separator: String,
    /// `maxresults=` (default `0`): maximum number of rows; 0 is all.
    pub rows_max: usize,
    /// `emptystr=`: the condition if there are no rows.
    pub empty: String,
    /// Text before all rows.
    pub row_prefix: String,
    /// Text before the fields of a row.
    pub column_prefix: String,
    /// Text between fields.
    pub column_separator: String,
    /// Text after the fields of a row.
    pub column_end: String,
    /// Text between rows.
    pub row_separator: String,
    /// Text after all rows.
    pub row_end: String,
}

impl Syntax for FormatCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "format [mvsep=] [maxresults=] [emptystr=] [SIX TEXTS]",
        summary: "Formats the rows as one search condition",
        group: Group::Rows,
        kind: Kind::Blocking,
        returns_table: true,
        has_own_keywords: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FormatCommand> {
        let (mut command, mut texts) = (FormatCommand::default(), Vec::new());
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "mvsep" => command.value_separator = option.value,
                    "maxresults" => command.rows_max = option.number()?,
                    _ => command.empty = option.value,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            texts.push(parser.expect_field("a text in quotes")?.text);
        }
        if texts.is_empty() {
            return Ok(command);
        }
        let Ok([row_prefix, column_prefix, column_separator, column_end, row_separator, row_end]) =
            <[String; FORMAT_TEXTS]>::try_from(texts)
        else {
            let remark = Diagnostic::error("format: six texts are needed, or none", parser.here());
            return Err(remark.with_hint("write `format \"(\" \"(\" \"AND\" \")\" \"OR\" \")\"`"));
        };
        Ok(FormatCommand { row_prefix, column_prefix, column_separator, column_end, row_separator, row_end, ..command })
    }
}

impl Default for FormatCommand {
    fn default() -> FormatCommand {
        let [row_prefix, column_prefix, column_separator, column_end, row_separator, row_end] =
            ["(", "(", "AND", ")", "OR", ")"].map(str::to_owned);
        FormatCommand {
            value_separator: "OR".to_owned(),
            rows_max: 0,
            empty: "NOT( )".to_owned(),
            row_prefix,
            column_prefix,
            column_separator,
            column_end,
            row_separator,
            row_end,
        }
    }
}

impl Semantics for FormatCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::all_fields()
    }
}
