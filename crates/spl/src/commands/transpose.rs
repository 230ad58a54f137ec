//! `transpose`: turns rows into columns.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Default number of rows.
const DEFAULT_ROWS: usize = 5;

const OPTIONS: OptionNames = OptionNames::new("transpose", &["int", "column_name", "header_field", "include_empty"]);

/// `transpose [N] [column_name=] [header_field=] [include_empty=]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransposeCommand {
    /// Maximum number of rows (default 5); 0 for all.
    pub limit: usize,
    /// `column_name=` (default `column`): name of the column with the field names.
    pub column_name: String,
    /// `header_field=`: field whose values name the columns.
    pub header_field: Option<String>,
    /// `include_empty=` (default `t`): whether fields without values get a row.
    pub include_empty: bool,
}

impl Syntax for TransposeCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "transpose [N] [column_name=] [header_field=] [include_empty=]",
        summary: "Turns rows into columns",
        group: Group::Reporting,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TransposeCommand> {
        let mut command = TransposeCommand {
            limit: DEFAULT_ROWS,
            column_name: "column".to_owned(),
            header_field: None,
            include_empty: true,
        };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "int" => command.limit = option.number()?,
                    "column_name" => command.column_name = option.value,
                    "header_field" => command.header_field = Some(option.value),
                    _ => command.include_empty = option.boolean()?,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                return Ok(command);
            }
            command.limit = parser.whole_number().ok_or_else(|| {
                let message = format!("transpose: expected a number of rows, found {}", parser.found_text());
                Diagnostic::error(message, parser.here())
            })?;
        }
    }
}

impl Semantics for TransposeCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::all_fields()
    }
}
