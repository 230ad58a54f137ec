//! `addtotals`: adds the sum of each row as a field, and the sums of columns as a last row.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("addtotals", &["row", "col", "labelfield", "label", "fieldname"]);

/// `addtotals` and `addcoltotals`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddTotalsCommand {
    /// `row=`: whether a field with the sum of each row is added.
    pub row: bool,
    /// `col=`: whether a row with the sums of columns is added.
    pub column: bool,
    /// `fieldname=` (default `Total`): field with the sum of a row.
    pub field_name: String,
    /// `labelfield=`: field with the label of the last row.
    pub label_field: Option<String>,
    /// `label=` (default `Total`): label of the last row.
    pub label: String,
    /// Fields summed; if empty, all numeric fields.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for AddTotalsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "addtotals [row=] [col=] [fieldname=] [labelfield=] [label=] [FIELD...]",
        summary: "Adds the sums of rows and of columns",
        group: Group::Reporting,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AddTotalsCommand> {
        totals(parser, OPTIONS, true)
    }
}

impl Semantics for AddTotalsCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_list(&self.fields);
        after
    }

    fn kind(&self, declared: Kind) -> Kind {
        if self.column { declared } else { Kind::Row }
    }
}

impl AddTotalsCommand {
    /// `addtotals` without arguments: sums of rows.
    pub(super) fn of_rows() -> AddTotalsCommand {
        let (field_name, label) = ("Total".to_owned(), "Total".to_owned());
        AddTotalsCommand { row: true, column: false, field_name, label_field: None, label, fields: Vec::new() }
    }
}

/// Parses the options and fields of `addtotals` and `addcoltotals`; `row` is whether rows are summed by default.
pub(super) fn totals(parser: &mut Parser<'_>, known: OptionNames, row: bool) -> ParseResult<AddTotalsCommand> {
    let mut command = AddTotalsCommand { row, column: !row, ..AddTotalsCommand::of_rows() };
    loop {
        while let Some(option) = parser.option(known)? {
            match option.name.as_str() {
                "row" => command.row = option.boolean()?,
                "col" => command.column = option.boolean()?,
                "labelfield" => command.label_field = Some(option.value),
                "label" => command.label = option.value,
                _ => command.field_name = option.value,
            }
        }
        parser.skip_separators();
        if parser.at_end() {
            return Ok(command);
        }
        command.fields.push(parser.expect_field("a field")?.field());
    }
}
