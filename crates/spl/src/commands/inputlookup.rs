//! `inputlookup`: reads the rows of a lookup table.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, required_fields};
use crate::ast::{Pipeline, SearchExpr, Span, Stage};
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Default of `max=`.
const DEFAULT_ROWS: usize = 1_000_000_000;

const OPTIONS: OptionNames =
    OptionNames::new("inputlookup", &["append", "strict", "start", "max"]).ignoring(&["events", "dispatch"]);

/// `inputlookup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputLookupCommand {
    /// Table name.
    pub table: String,
    /// Position of the table name.
    pub table_span: Span,
    /// `append=` (default `f`): whether the rows are appended to existing rows.
    pub append: bool,
    /// Whether a missing table is an error rather than a warning.
    pub strict: bool,
    /// `start=` (default `0`): number of rows that are skipped.
    pub start: usize,
    /// `max=` (default `1000000000`): maximum number of rows read.
    pub max: usize,
    /// `where` search expression.
    pub filter: Option<SearchExpr>,
}

impl Syntax for InputLookupCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "inputlookup [append=] [start=] [max=] TABLE [where EXPR]",
        summary: "Reads a lookup table",
        group: Group::Generating,
        capability: Some("input_file"),
        kind: Kind::Generating,
        returns_table: true,
        clauses: &["where"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<InputLookupCommand> {
        // A missing table is an error, whatever `strict=` says.
        Ok(InputLookupCommand { strict: true, ..parser.inputlookup()? })
    }
}

impl Default for InputLookupCommand {
    fn default() -> InputLookupCommand {
        InputLookupCommand {
            table: String::new(),
            table_span: Span::default(),
            append: false,
            strict: false,
            start: 0,
            max: DEFAULT_ROWS,
            filter: None,
        }
    }
}

impl Semantics for InputLookupCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        match self.append {
            true => after,
            false => FieldNeeds::default(),
        }
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::LookupTable
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        self.filter.iter().flat_map(SearchExpr::subsearches).collect()
    }

    fn add_dependencies(&self, following: &[Stage], needs: &mut Dependencies) {
        needs.add_lookup(&self.table);
        let wanted = required_fields(following).fields;
        needs.columns.entry(self.table.clone()).or_default().extend(wanted);
    }
}

impl Parser<'_> {
    /// Parses the arguments of `inputlookup` or `inputcsv`.
    pub(super) fn inputlookup(&mut self) -> ParseResult<InputLookupCommand> {
        let mut command = InputLookupCommand { table_span: self.here(), ..InputLookupCommand::default() };
        loop {
            while let Some(option) = self.option(OPTIONS)? {
                match option.name.as_str() {
                    "append" => command.append = option.boolean()?,
                    "strict" => command.strict = option.boolean()?,
                    "start" => command.start = option.number()?,
                    _ => command.max = option.number()?,
                }
            }
            if self.at_end() {
                break;
            }
            if command.table.is_empty() {
                let table = self.expect_field("a lookup table")?;
                (command.table, command.table_span) = (table.text, table.span);
            } else if self.eat_keyword("where") {
                command.filter = Some(self.search_condition()?);
            } else {
                return Err(Diagnostic::error(format!("inputlookup: unexpected {}", self.found_text()), self.here()));
            }
        }
        if command.table.is_empty() {
            return Err(Diagnostic::error("inputlookup: no lookup table is given", self.here()));
        }
        Ok(command)
    }
}
