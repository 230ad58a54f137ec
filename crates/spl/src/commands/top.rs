//! `top`: counts the most frequent values of fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Rows kept when no number is given.
const DEFAULT_ROWS: usize = 10;

/// Options of `top` and `rare`.
pub(super) const OPTION_NAMES: &[&str] =
    &["limit", "showcount", "showperc", "countfield", "percentfield", "useother", "otherstr"];

/// `top` or `rare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopCommand {
    /// Whether the least frequent values are kept (`rare`) rather than the most frequent values.
    pub rarest: bool,
    /// Rows kept (default 10); 0 for all.
    pub limit: usize,
    /// Fields counted.
    pub fields: Vec<FieldPattern>,
    /// BY fields.
    pub by: Vec<FieldPattern>,
    /// `showcount=` (default `t`): whether the counts are shown.
    pub show_count: bool,
    /// `showperc=` (default `t`): whether the percentages are shown.
    pub show_percent: bool,
    /// `countfield=` (default `count`): field with the count.
    pub count_field: String,
    /// `percentfield=` (default `percent`): field with the percentage.
    pub percent_field: String,
    /// `useother=` (default `f`): whether a last row sums up all other values.
    pub use_other: bool,
    /// `otherstr=` (default `OTHER`): value shown in the row of all other values.
    pub other_name: String,
}

impl Syntax for TopCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "top [N] FIELD... [BY FIELD...] [showperc=] [countfield=] [useother=]",
        summary: "Counts the most frequent values",
        group: Group::Reporting,
        kind: Kind::Fold,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TopCommand> {
        parser.top(OptionNames::new("top", OPTION_NAMES), false)
    }
}

impl Semantics for TopCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        needs.add_all(self.fields.iter().chain(&self.by));
        needs
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        let fields = self.fields.iter().chain(&self.by).map(|field| field.text.as_str());
        let counts = [(self.show_count, &self.count_field), (self.show_percent, &self.percent_field)];
        let shown = counts.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, name)| name.as_str());
        CreatedFields::exactly(fields.chain(shown))
    }

    fn name<'a>(&'a self, declared: &'a str) -> &'a str {
        if self.rarest { "rare" } else { declared }
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl Parser<'_> {
    /// Parses the arguments of `top` or `rare`.
    pub(super) fn top(&mut self, known: OptionNames, rarest: bool) -> ParseResult<TopCommand> {
        let mut command = TopCommand {
            rarest,
            limit: self.row_count(known.command)?.unwrap_or(DEFAULT_ROWS),
            fields: Vec::new(),
            by: Vec::new(),
            show_count: true,
            show_percent: true,
            count_field: "count".to_owned(),
            percent_field: "percent".to_owned(),
            use_other: false,
            other_name: "OTHER".to_owned(),
        };
        loop {
            while let Some(option) = self.option(known)? {
                match option.name.as_str() {
                    "limit" => command.limit = option.number()?,
                    "showcount" => command.show_count = option.boolean()?,
                    "showperc" => command.show_percent = option.boolean()?,
                    "countfield" => command.count_field = option.value,
                    "percentfield" => command.percent_field = option.value,
                    "useother" => command.use_other = option.boolean()?,
                    _ => command.other_name = option.value,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("by") {
                command.by = self.by_fields(known)?;
            } else {
                command.fields.push(self.expect_field("a field")?.field());
            }
        }
        if command.fields.is_empty() {
            return Err(Diagnostic::error(format!("{}: no field is given", known.command), self.here()));
        }
        command.rename_own_columns(known.command);
        Ok(command)
    }
}

impl TopCommand {
    /// Renames the columns for count and percentage if a counted field has the same name: `top count` must show both
    /// the values and how often they occur.
    fn rename_own_columns(&mut self, command: &str) {
        let fields: Vec<&str> = self.fields.iter().chain(&self.by).map(|field| field.text.as_str()).collect();
        while fields.contains(&self.count_field.as_str()) {
            self.count_field.insert_str(0, &format!("{command}_"));
        }
        while fields.contains(&self.percent_field.as_str()) || self.percent_field == self.count_field {
            self.percent_field.insert_str(0, &format!("{command}_"));
        }
    }
}
