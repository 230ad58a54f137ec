//! `xyseries`: pivots a list of series, names and values into a table.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("xyseries", &["grouped", "sep", "format"]);

/// `xyseries [grouped=] ROWS COLUMNS CELLS... [sep=] [format=]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct XySeriesCommand {
    /// `grouped=` (default `f`): whether rows with the same row field are already adjacent.
    pub grouped: bool,
    /// Field of the rows.
    pub row: String,
    /// Field whose values become columns.
    pub name: String,
    /// Fields whose values are the cells.
    pub data: Vec<String>,
    /// `sep=` (default `": "`): separator of cell field and value in column names, if there are several cell fields.
    pub separator: String,
    /// `format=`: pattern for column names.
    pub format: Option<String>,
}

impl Syntax for XySeriesCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "xyseries [grouped=] ROWS COLUMNS CELLS... [sep=] [format=]",
        summary: "Pivots a list into a table",
        group: Group::Reporting,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<XySeriesCommand> {
        let (mut grouped, mut separator, mut format) = (false, ": ".to_owned(), None);
        let mut fields = Vec::new();
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "grouped" => grouped = option.boolean()?,
                    "sep" => separator = option.value,
                    _ => format = Some(option.value),
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            fields.push(parser.expect_field("a field")?.text);
        }
        let mut fields = fields.into_iter();
        let (Some(row), Some(name), data) = (fields.next(), fields.next(), fields.collect::<Vec<_>>()) else {
            return Err(three_fields(parser, "xyseries", "rows columns cells"));
        };
        if data.is_empty() {
            return Err(three_fields(parser, "xyseries", "rows columns cells"));
        }
        Ok(XySeriesCommand { grouped, row, name, data, separator, format })
    }
}

impl Semantics for XySeriesCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        [&self.row, &self.name].into_iter().chain(&self.data).for_each(|field| needs.add(field));
        needs
    }
}

/// The error for a command that lacks some of its three fields.
pub(super) fn three_fields(parser: &Parser<'_>, command: &str, example: &str) -> Diagnostic {
    let remark = Diagnostic::error(format!("{command}: three fields are needed"), parser.here());
    remark.with_hint(format!("write `{command} {example}`"))
}
