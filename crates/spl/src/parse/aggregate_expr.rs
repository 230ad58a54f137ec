//! `eval(EXPR)` in place of an aggregate of chart and timechart: an expression over aggregates.
//!
//! The aggregates inside become parts with internal names, which are computed like other aggregates; the expression
//! refers to them by these names. `max(x)` of a plain field is the aggregate, `max(avg(x), 5)` the eval function.
//! `per_second` and similar functions are refused: they are scaled when the span is known, after series have been
//! ranked.

use super::aggregate::percentile;
use super::cursor::{ParseResult, Parser};
use crate::analyse::expr_fields;
use crate::ast::{Aggregate, ComputedAggregate, Expr, ExprKind, PART_PREFIX, StatsFunction};
use crate::diagnostic::Diagnostic;
use crate::functions::{eval_function, stats_function};

/// Maximum number of aggregates of a command, counted up to the last aggregate inside `eval(...)`.
const PARTS_MAX: usize = 256;

/// The aggregates inside an `eval(...)`.
pub(crate) struct Parts {
    /// Aggregates read so far.
    found: Vec<Aggregate>,
    /// Number of the next aggregate.
    next: usize,
    /// Command that contains the aggregates.
    command: &'static str,
}

impl Parser<'_> {
    /// An aggregate of chart or timechart, or an expression over aggregates.
    pub(crate) fn chart_aggregate(
        &mut self,
        command: &'static str,
        aggregates: &mut Vec<Aggregate>,
        computed: &mut Vec<ComputedAggregate>,
    ) -> ParseResult<()> {
        self.skip_separators();
        let start = self.pos;
        if !self.eat_eval() {
            aggregates.push(self.aggregate(command)?);
            return Ok(());
        }
        self.expect('(', "after eval")?;
        self.chain = 0;
        self.parts = Some(Parts { found: Vec::new(), next: aggregates.len(), command });
        let expr = self.expression();
        let parts = self.parts.take().map(|parts| parts.found).unwrap_or_default();
        let expr = expr?;
        self.expect(')', "after the expression")?;
        let mut name = self.text[start..self.pos].to_owned();
        if parts.is_empty() {
            let remark = Diagnostic::error(format!("{command}: eval(...) has no aggregate in it"), self.since(start));
            return Err(remark.with_hint("write e.g. eval(round(avg(field), 2))"));
        }
        if let Some(field) = expr_fields(&expr).into_iter().find(|field| !field.starts_with(PART_PREFIX)) {
            let remark = Diagnostic::error(format!("{command}: `{field}` is not an aggregate"), self.since(start));
            return Err(remark.with_hint(format!("name a function of it, such as sum({field})")));
        }
        if self.eat_keyword("as") {
            name = self.expect_field("a name after AS")?.text;
        }
        let span = self.since(start);
        computed.push(ComputedAggregate { at: aggregates.len(), parts: parts.len(), expr, name, span });
        aggregates.extend(parts);
        Ok(())
    }

    /// Parses the aggregate whose name starts at `start` and returns a reference to it; `None` if this is not an
    /// aggregate.
    pub(crate) fn part(&mut self, name: &str, start: usize) -> ParseResult<Option<Expr>> {
        if self.parts.is_none() || !self.is_part(name, start) {
            return Ok(None);
        }
        let Some(mut parts) = self.parts.take() else { return Ok(None) };
        self.pos = start;
        let (function, arg, _) = self.aggregate_call(parts.command)?;
        let span = self.since(start);
        if matches!(function, StatsFunction::Per(_)) {
            let remark = Diagnostic::error(format!("{}: unsupported: {name} inside eval(...)", parts.command), span);
            return Err(remark.with_hint("take sum and divide by the seconds of the span"));
        }
        if parts.next >= PARTS_MAX {
            let message = format!("{}: more than {PARTS_MAX} aggregates", parts.command);
            return Err(Diagnostic::error(message, span));
        }
        let hidden = format!("{PART_PREFIX}{}", parts.next);
        parts.next += 1;
        parts.found.push(Aggregate { function, arg, name: hidden.clone(), renamed: true, span });
        self.parts = Some(parts);
        Ok(Some(Expr { kind: ExprKind::Field(hidden), span }))
    }

    /// Whether the name at `start` begins an aggregate. If eval has a function of the same name, a call is an aggregate
    /// only with a plain field as its argument.
    fn is_part(&self, name: &str, start: usize) -> bool {
        if stats_function(name).is_none_or(|row| row.function.is_none()) && percentile(name).is_none() {
            return false;
        }
        let rest = self.text[start + name.len()..self.end].trim_start();
        let Some(argument) = rest.strip_prefix('(').map(str::trim_start) else {
            return matches!(name, "count" | "c");
        };
        if eval_function(name).is_none() {
            return true;
        }
        let is_eval = argument.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("eval"));
        let end = argument.find(['(', ')', ',']);
        (is_eval && argument[4..].trim_start().starts_with('('))
            || end.is_some_and(|end| argument[end..].starts_with(')'))
    }
}
