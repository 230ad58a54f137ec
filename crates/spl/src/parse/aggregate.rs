//! Aggregates of the stats family.
//!
//! The output name of an aggregate is its `AS` name, or else the call as written. Functions that are valid only in
//! some commands are checked here.

use quarry_event::time::Span as TimeSpan;

use super::cursor::{ParseResult, Parser};
use super::options::OptionNames;
use crate::ast::{Aggregate, AggregateArg, FieldPattern, PercentileKind, PercentileMethod, Span, StatsFunction};
use crate::diagnostic::Diagnostic;
use crate::functions::{STATS_FUNCTIONS, stats_function};

/// Prefixes of time units that users write separately from the number, as in `5 min`.
const TIME_UNITS: [&str; 5] = ["sec", "min", "hour", "day", "week"];

impl Parser<'_> {
    pub(crate) fn require_aggregates(&mut self, aggregates: &[Aggregate], command: &str) -> ParseResult<()> {
        if aggregates.is_empty() {
            let remark = Diagnostic::error(format!("{command}: no aggregate is given"), self.here());
            return Err(remark.with_hint("write a function such as `count` or `sum(field)`"));
        }
        Ok(())
    }

    /// Parses the fields after BY, up to an option or the end.
    pub(crate) fn by_fields(&mut self, known: OptionNames) -> ParseResult<Vec<FieldPattern>> {
        let mut fields = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() || self.peek_option().is_some() {
                break;
            }
            fields.push(self.expect_field("a BY field")?.field());
        }
        if fields.is_empty() {
            let remark = Diagnostic::error(format!("{}: BY names no field", known.command), self.here());
            return Err(remark.with_hint("name a field or remove BY"));
        }
        Ok(fields)
    }

    /// Parses `function(arg) [AS name]`.
    pub(crate) fn aggregate(&mut self, command: &str) -> ParseResult<Aggregate> {
        self.skip_separators();
        let start = self.pos;
        let (function, arg, as_written) = self.aggregate_call(command)?;
        let mut aggregate = Aggregate { function, arg, name: as_written, renamed: false, span: self.since(start) };
        if self.eat_keyword("as") {
            aggregate.name = self.expect_field("a name after AS")?.text;
            aggregate.renamed = true;
            aggregate.span = self.since(start);
            if takes_all_fields(command) {
                check_wildcards(&aggregate, command)?;
            }
        }
        Ok(aggregate)
    }

    /// Parses the call of an aggregate; returns its function, its argument and the call as written.
    pub(crate) fn aggregate_call(&mut self, command: &str) -> ParseResult<(StatsFunction, AggregateArg, String)> {
        self.names_read += 1;
        self.skip_blank();
        let start = self.pos;
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(rest.len());
        let name = &rest[..length];
        if name.is_empty() {
            let message = format!("{command}: expected an aggregate, found {}", self.found_text());
            let remark = Diagnostic::error(message, self.here());
            return Err(match self.peek() {
                Some('/' | '*' | '+' | '-') => remark
                    .with_hint(format!("name the aggregate and compute after it: {command} ... as x | eval x=x/1024")),
                _ => remark,
            });
        }
        self.pos += length;
        let span = self.since(start);
        let lower = name.to_ascii_lowercase();
        if lower == "sparkline" {
            return self.sparkline(command, start);
        }
        let function = self.stats_function(&lower, span, command)?;
        let call = self.rest().trim_start().starts_with('(');
        if call {
            self.skip_blank();
        }
        let arg = if call { self.aggregate_arg(command)? } else { AggregateArg::Rows };
        let is_of_fields = matches!(arg, AggregateArg::Rows) && function != StatsFunction::Count;
        if is_of_fields && !takes_all_fields(command) {
            let remark = Diagnostic::error(format!("{command}: `{name}` needs a field"), span);
            return Err(remark.with_hint(format!("write {name}(field)")));
        }
        // `avg` alone is `avg(*)`.
        let arg = if is_of_fields { AggregateArg::Field(FieldPattern { text: "*".to_owned(), span }) } else { arg };
        let as_written = match &arg {
            AggregateArg::Rows => name.to_owned(),
            AggregateArg::Field(field) => format!("{name}({})", field.text),
            AggregateArg::Eval(_) => self.text[start..self.pos].to_owned(),
        };
        Ok((function, arg, as_written))
    }

    /// Parses `(field)`, `(eval(EXPR))` or `()`.
    fn aggregate_arg(&mut self, command: &str) -> ParseResult<AggregateArg> {
        self.expect('(', "before the argument")?;
        self.skip_blank();
        let arg = if self.eat_eval() {
            self.expect('(', "after eval")?;
            self.chain = 0;
            let expr = self.expression()?;
            self.expect(')', "after the expression")?;
            AggregateArg::Eval(expr)
        } else if self.peek() == Some(')') {
            AggregateArg::Rows
        } else {
            AggregateArg::Field(self.argument_field(command)?)
        };
        self.expect(')', "after the argument")?;
        Ok(arg)
    }

    /// Skips `eval` if a parenthesis follows.
    pub(crate) fn eat_eval(&mut self) -> bool {
        let name = self.peek_name();
        let is_eval = name.eq_ignore_ascii_case("eval") && self.rest()[name.len()..].trim_start().starts_with('(');
        if is_eval {
            self.pos += name.len();
        }
        is_eval
    }

    /// Parses the field inside the parentheses of an aggregate.
    fn argument_field(&mut self, command: &str) -> ParseResult<FieldPattern> {
        if let Some(word) = self.eat_quoted().or_else(|| self.eat_single_quoted()) {
            return Ok(word.field());
        }
        let start = self.pos;
        let rest = self.rest();
        let mut open = 0usize;
        let close = rest.char_indices().find(|(_, c)| {
            match c {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' | ',' => return true,
                _ => {}
            }
            false
        });
        let Some((length, _)) = close else {
            let message = format!("{command}: this parenthesis is never closed");
            return Err(Diagnostic::error(message, self.here()).with_hint("add `)`"));
        };
        self.pos += length;
        let span = self.since(start);
        Ok(FieldPattern { text: self.text[span.start..span.end].to_owned(), span })
    }

    /// Parses `sparkline`, `sparkline(agg)` or `sparkline(agg, span)`.
    fn sparkline(&mut self, command: &str, start: usize) -> ParseResult<(StatsFunction, AggregateArg, String)> {
        let mut inner = StatsFunction::Count;
        let mut arg = AggregateArg::Rows;
        let mut span = None;
        if self.peek() == Some('(') {
            self.bump();
            self.parse_nested(|parser| {
                if !parser.eat(')') {
                    (inner, arg, _) = parser.aggregate_call(command)?;
                    if parser.eat(',') {
                        span = Some(parser.sparkline_span()?);
                    }
                    parser.expect(')', "after sparkline")?;
                }
                Ok(())
            })?;
        }
        let written = self.text[start..self.pos].to_owned();
        Ok((StatsFunction::Sparkline { inner: Box::new(inner), span }, arg, written))
    }

    fn sparkline_span(&mut self) -> ParseResult<TimeSpan> {
        self.skip_blank();
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(|c: char| c == ')' || c.is_whitespace()).unwrap_or(rest.len());
        TimeSpan::parse(&self.text[start..self.pos])
            .map_err(|error| Diagnostic::error(format!("sparkline expects a span of time: {error}"), self.since(start)))
    }

    /// The stats function of this lower-case name.
    pub(crate) fn stats_function(&mut self, name: &str, span: Span, command: &str) -> ParseResult<StatsFunction> {
        if let Some(function) = stats_function(name).and_then(|row| row.function.clone()) {
            if matches!(function, StatsFunction::Per(_)) && command != "timechart" {
                let message = format!("{command}: `{name}` works in timechart only");
                return Err(Diagnostic::error(message, span));
            }
            return Ok(function);
        }
        if command == "mstats" && matches!(name, "rate_avg" | "rate_sum") {
            return Ok(StatsFunction::SeriesRate { sum: name == "rate_sum" });
        }
        if let Some((percent, kind)) = percentile(name) {
            if (0.0..=100.0).contains(&percent) {
                return Ok(StatsFunction::Percentile { percent, kind, method: PercentileMethod::default() });
            }
            return Err(Diagnostic::error(format!("{command}: a percentile must lie between 0 and 100"), span));
        }
        self.report_unsupported(format!("function:stats:{name}"));
        if name == "eval" {
            let remark = Diagnostic::error(format!("{command}: unsupported: an expression over aggregates"), span);
            return Err(remark.with_hint("name the aggregates and compute with eval afterwards"));
        }
        if matches!(name, "rate_avg" | "rate_sum") {
            return Err(Diagnostic::error(format!("{command}: `{name}` works in mstats only"), span));
        }
        if matches!(name, "perc" | "p" | "exactperc" | "upperperc") {
            let fault = Diagnostic::error(format!("{command}: `{name}` lacks its percentage"), span);
            return Err(fault.with_hint(format!("write it after the name, as in {name}95(field)")));
        }
        let remark = Diagnostic::error(format!("{command}: unknown aggregate `{name}`"), span);
        if let Some(hint) = crate::foreign_words::aggregate(name) {
            return Err(remark.with_hint(hint));
        }
        let before = self.text[..span.start].trim_end();
        if before.ends_with(|c: char| c.is_ascii_digit()) && TIME_UNITS.iter().any(|unit| name.starts_with(unit)) {
            return Err(remark.with_hint("write the span as one word, such as span=5m"));
        }
        let last = before.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
        if stats_function(last).is_some_and(|function| function.help.arity.max == Some(1)) && last != "count" {
            return Err(remark.with_hint(format!("write {last}({name})")));
        }
        // A misspelt word after an aggregate may also be meant as `by`.
        let by = (last != command).then_some("by");
        let known = STATS_FUNCTIONS.iter().map(|function| function.help.name).chain(by);
        let remark = self.suggest(remark, name, known);
        Err(match (&remark.hint, crate::foreign_words::near_aggregate(name)) {
            (Some(_), _) => remark,
            (None, Some(hint)) => remark.with_hint(hint),
            (None, None) if self.rest().trim_start().starts_with('(') => remark.with_hint(
                "aggregates are count, dc, sum, avg, min, max, median, perc95, stdev, values, list, first, last, ...",
            ),
            (None, None) => remark.with_hint(format!("write an aggregate such as `count` or `values({name})`")),
        })
    }
}

/// Checks that a pattern and its new name have the same number of `*`, because several fields cannot have one name.
pub(crate) fn check_wildcards(aggregate: &Aggregate, command: &str) -> ParseResult<()> {
    let AggregateArg::Field(field) = &aggregate.arg else { return Ok(()) };
    let stars = |text: &str| text.matches('*').count();
    if stars(&field.text) == 0 || stars(&field.text) == stars(&aggregate.name) {
        return Ok(());
    }
    let message = format!("{command}: `{}` and `{}` differ in their number of `*`", field.text, aggregate.name);
    let hint =
        "a function without an argument applies to all fields; give the new name as many `*`, as in `avg(*) AS *`";
    Err(Diagnostic::error(message, aggregate.span).with_hint(hint))
}

/// Whether a function without an argument applies to all fields in this command: true for commands that accept
/// patterns.
fn takes_all_fields(command: &str) -> bool {
    matches!(command, "stats" | "eventstats" | "chart" | "timechart")
}

/// Parses a name such as `perc95`, `p99.9`, `exactperc50` or `upperperc5`.
pub(crate) fn percentile(name: &str) -> Option<(f64, PercentileKind)> {
    let (digits, kind) = if let Some(digits) = name.strip_prefix("exactperc") {
        (digits, PercentileKind::Exact)
    } else if let Some(digits) = name.strip_prefix("upperperc") {
        (digits, PercentileKind::Upper)
    } else {
        (name.strip_prefix("perc").or_else(|| name.strip_prefix('p'))?, PercentileKind::Default)
    };
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit());
    digits.parse().ok().filter(|_| numeric).map(|percent| (percent, kind))
}
