//! `streamstats`: adds to each row aggregates over the rows up to it.

use quarry_event::time::Span as TimeSpan;
use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, TIME};
use crate::ast::{Aggregate, Expr, FieldPattern};
use crate::diagnostic::Diagnostic;
use crate::lints::find_in_report;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "streamstats",
    &["current", "window", "global", "time_window", "reset_on_change", "reset_before", "reset_after", "allnum"],
);

/// `streamstats AGG... [BY FIELD...]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamStatsCommand {
    /// Aggregates in order.
    pub aggregates: Vec<Aggregate>,
    /// BY fields.
    pub by: Vec<FieldPattern>,
    /// `current=` (default `t`): whether the row itself is included.
    pub current: bool,
    /// `window=` (default `0`): number of rows in the window; 0 for all.
    pub window: usize,
    /// `global=` (default `t`): whether all groups share one window.
    pub global: bool,
    /// `time_window=`: length of the window in time.
    pub time_window: Option<TimeSpan>,
    /// `reset_on_change=` (default `f`): whether the aggregates restart when a BY value changes.
    pub reset_on_change: bool,
    /// `reset_before=(EXPR)`: condition on which the aggregates restart before a row.
    pub reset_before: Option<Expr>,
    /// `reset_after=(EXPR)`: condition on which the aggregates restart after a row.
    pub reset_after: Option<Expr>,
    /// `allnum=` (default `f`): whether numeric functions require all values to be numbers.
    pub all_num: bool,
}

impl Syntax for StreamStatsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "streamstats [window=N] [current=] [reset_on_change=] AGG... [BY FIELD...]",
        summary: "Computes running aggregates",
        group: Group::Reporting,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<StreamStatsCommand> {
        let mut command = StreamStatsCommand::default();
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if let Some(name) = parser.peek_option().map(str::to_ascii_lowercase)
                && matches!(name.as_str(), "reset_before" | "reset_after")
            {
                let condition = parser.reset_condition(name.len())?;
                let slot = if name == "reset_before" { &mut command.reset_before } else { &mut command.reset_after };
                *slot = Some(condition);
            } else if let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "current" => command.current = option.boolean()?,
                    "window" => command.window = option.number()?,
                    "global" => command.global = option.boolean()?,
                    "time_window" => command.time_window = Some(option.time_span()?),
                    "reset_on_change" => command.reset_on_change = option.boolean()?,
                    _ => command.all_num = option.boolean()?,
                }
            } else if parser.eat_keyword("by") {
                command.by = parser.by_fields(OPTIONS)?;
            } else if !parser.at_end() {
                command.aggregates.push(parser.aggregate("streamstats")?);
            }
        }
        parser.require_aggregates(&command.aggregates, "streamstats")?;
        Ok(command)
    }
}

impl Default for StreamStatsCommand {
    fn default() -> StreamStatsCommand {
        StreamStatsCommand {
            aggregates: Vec::new(),
            by: Vec::new(),
            current: true,
            window: 0,
            global: true,
            time_window: None,
            reset_on_change: false,
            reset_before: None,
            reset_after: None,
            all_num: false,
        }
    }
}

impl Semantics for StreamStatsCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.remove_results(&self.aggregates);
        after.add_aggregates(&self.aggregates);
        after.add_all(&self.by);
        for expr in [&self.reset_before, &self.reset_after].into_iter().flatten() {
            after.add_expr(expr);
        }
        if self.time_window.is_some() {
            after.add(TIME);
        }
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::adding(self.aggregates.iter().map(|aggregate| aggregate.name.as_str()))
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        find_in_report(place.text, &self.aggregates, found);
    }
}

impl Parser<'_> {
    /// Parses `reset_before=(EXPR)` or `reset_after=(EXPR)`; the condition may be in quotes.
    fn reset_condition(&mut self, name_len: usize) -> ParseResult<Expr> {
        self.skip_blank();
        self.pos += name_len;
        self.expect('=', "after the name of the option")?;
        self.skip_blank();
        let Some('"') = self.peek() else {
            return self.expression();
        };
        let start = self.pos;
        if self.rest().starts_with("\"(\"") {
            return self.condition_between_quotes();
        }
        let end = self.eat_quoted().map_or(start, |word| word.span.end);
        let inner = self.text[start + 1..end].strip_suffix('"').map_or(end, |text| start + 1 + text.len());
        let outer = std::mem::replace(&mut self.end, inner);
        self.pos = start + 1;
        let expr = self.whole_expression();
        self.end = outer;
        self.pos = end;
        expr
    }

    /// Parses `"("EXPR")"`, where the expression may contain quoted texts.
    fn condition_between_quotes(&mut self) -> ParseResult<Expr> {
        self.pos += "\"(\"".len();
        let rest = self.rest();
        let mut length = rest.find("\")\"").unwrap_or(rest.len());
        // If the expression ends with a quoted text inside a call, the first match is the end of that text.
        while rest[length..].starts_with("\")\")\"") {
            length += 2;
        }
        let end = self.pos + length;
        let outer = std::mem::replace(&mut self.end, end);
        let expr = self.whole_expression();
        self.end = outer;
        self.pos = (end + "\")\"".len()).min(outer);
        expr
    }
}
