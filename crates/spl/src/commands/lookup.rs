//! `lookup`: adds fields from matching rows of a lookup table.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Span, Stage};
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("lookup", &["event_time_field"]).ignoring(&["local", "update"]);

/// `lookup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookupCommand {
    /// Table: a transforms.conf stanza or a CSV file name.
    pub table: String,
    /// Position of the table name.
    pub table_span: Span,
    /// Input pairs: column of the table, field of the event.
    pub inputs: Vec<(String, String)>,
    /// Output pairs: column of the table, field of the event; empty for all other columns.
    pub outputs: Vec<(String, String)>,
    /// `OUTPUTNEW`.
    pub only_new: bool,
    /// `event_time_field=`: field with the time used for a time-based lookup; `_time` if absent.
    pub time_field: Option<String>,
}

impl Syntax for LookupCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "lookup TABLE COLUMN [AS FIELD]... [OUTPUT|OUTPUTNEW COLUMN [AS FIELD]...]",
        summary: "Adds fields of a lookup table",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<LookupCommand> {
        let mut time_field = None;
        while let Some(option) = parser.option(OPTIONS)? {
            time_field = Some(option.value);
        }
        let table = parser.expect_field("a lookup table")?;
        while let Some(option) = parser.option(OPTIONS)? {
            time_field = Some(option.value);
        }
        let mut command = LookupCommand {
            table: table.text,
            table_span: table.span,
            inputs: Vec::new(),
            outputs: Vec::new(),
            only_new: false,
            time_field,
        };
        let mut output = false;
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if !output && parser.eat_keyword("outputnew") {
                (output, command.only_new) = (true, true);
            } else if !output && parser.eat_keyword("output") {
                output = true;
            } else {
                let pair = parser.column_pair()?;
                if output { command.outputs.push(pair) } else { command.inputs.push(pair) }
            }
        }
        if command.inputs.is_empty() {
            let remark = Diagnostic::error("lookup: no input field is given", command.table_span);
            return Err(remark.with_hint("write `lookup table column AS field OUTPUT column`"));
        }
        Ok(command)
    }
}

impl Semantics for LookupCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        self.inputs.iter().map(|(_, field)| field).chain(&self.time_field).for_each(|field| after.add(field));
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        // Without a list every column of the table is written.
        let names = CreatedFields::adding(self.outputs.iter().map(|(_, field)| field.as_str()));
        names.filter(|_| !self.outputs.is_empty())
    }

    fn add_dependencies(&self, _: &[Stage], needs: &mut Dependencies) {
        needs.add_lookup(&self.table);
        let named = self.inputs.iter().chain(&self.outputs).map(|(column, _)| column.clone());
        needs.columns.entry(self.table.clone()).or_default().extend(named);
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        // Without a list every column of the table is written.
        let written = self.outputs.iter().map(|(_, field)| field.as_str()).collect();
        (!self.outputs.is_empty()).then_some(written)
    }
}

impl Parser<'_> {
    /// `column [AS field]`.
    fn column_pair(&mut self) -> ParseResult<(String, String)> {
        let column = self.expect_field("a column of the table")?.text;
        let field = if self.eat_keyword("as") { self.expect_field("a field after AS")?.text } else { column.clone() };
        Ok((column, field))
    }
}
