//! `tstats`: aggregates index-time fields or a data model.
//!
//! Options, aggregates, FROM, WHERE and BY are accepted in any order. WHERE is a search condition that ends at the word
//! BY outside of quotes and brackets.

use quarry_event::time::Span as TimeSpan;
use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{
    Aggregate, AggregateArg, DataModelName, Pipeline, SearchExpr, SeriesOptions, Span, Stage, StatsFunction,
    TimeModifiers,
};
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser, has_inner_time, quoted_len};

/// The ignored options have no effect: all buckets are read in full detail, wherever they are stored.
const OPTIONS: OptionNames = OptionNames::new("tstats", &["prestats", "append", "summariesonly", "fillnull_value"])
    .ignoring(&[
        "local",
        "allow_old_summaries",
        "include_reduced_buckets",
        "chunk_size",
        "use_summary_index_values",
        "use_native_index_values",
        "is_native",
        "add_orphan_field",
    ]);

/// `tstats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TstatsCommand {
    /// Aggregates, at least one.
    pub aggregates: Vec<Aggregate>,
    /// Data that is read.
    pub source: TstatsSource,
    /// `where`, without time modifiers.
    pub filter: SearchExpr,
    /// Time modifiers of `where`.
    pub time: TimeModifiers,
    /// `by`.
    pub by: Vec<TstatsSplit>,
    /// `prestats=` (default `f`): whether the aggregates are left to the next reporting command.
    pub prestats: bool,
    /// `append=` (default `f`): whether rows are added to the previous rows.
    pub append: bool,
    /// Limits of the series of `mstats chart=t`, which makes a column for each value of the BY field.
    pub chart: Option<SeriesOptions>,
    /// `summariesonly=` (default `f`): whether events without a summary are ignored.
    pub summaries_only: bool,
    /// `fillnull_value=`: replacement for a missing BY value; without it the row is dropped.
    pub fill_null: Option<String>,
}

/// Data that `tstats` reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TstatsSource {
    /// Index-time fields of the indexes that `where` names.
    Indexes,
    /// `datamodel=MODEL[.OBJECT...]`.
    DataModel(DataModelName),
    /// Measurements of metrics: `mstats`.
    Metrics,
    /// A name given to `tscollect`, which is not supported: planning fails.
    Namespace(String, Span),
    /// `sid=`: the result of a `tscollect` job, which is not supported either.
    Job(String, Span),
}

/// One BY field of `tstats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TstatsSplit {
    /// Name as written, e.g. `host`, `Processes.dest`, `PREFIX(level=)`.
    pub field: String,
    /// `span=` after this field.
    pub span: Option<TimeSpan>,
    /// Position in the text.
    pub place: Span,
}

impl Syntax for TstatsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "tstats AGG... [from datamodel=MODEL.OBJECT] [where EXPR] [by FIELD... [_time span=]] [prestats=] [append=]",
        summary: "Aggregates index-time fields or a data model",
        group: Group::Searching,
        kind: Kind::Generating,
        returns_table: true,
        clauses: &["from", "where"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TstatsCommand> {
        let mut command = TstatsCommand::empty();
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "prestats" => command.prestats = option.boolean()?,
                    "append" => command.append = option.boolean()?,
                    "summariesonly" => command.summaries_only = option.boolean()?,
                    _ => command.fill_null = Some(option.value),
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.eat_keyword("from") {
                command.source = parser.tstats_source()?;
            } else if parser.eat_keyword("where") {
                parser.tstats_where(&mut command, &[])?;
            } else if parser.eat_keyword("by") || parser.eat_keyword("groupby") {
                parser.tstats_splits(&mut command)?;
            } else {
                command.aggregates.push(parser.tstats_aggregate()?);
            }
        }
        if command.aggregates.is_empty() {
            let remark = Diagnostic::error("tstats: no aggregate is given", parser.here());
            return Err(remark.with_hint("write a function such as `count` or `dc(host)`"));
        }
        if command.append && !command.prestats {
            let remark = Diagnostic::error("tstats: append=true needs prestats=true", parser.here());
            return Err(remark.with_hint("write `tstats prestats=t append=t ...`"));
        }
        Ok(command)
    }
}

impl Semantics for TstatsCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        match self.append {
            // The rows before `tstats` pass to the next command, whose needs are in `after`.
            true => after,
            false => FieldNeeds::default(),
        }
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Aggregates(self)
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        self.filter.subsearches()
    }

    fn add_dependencies(&self, _: &[Stage], needs: &mut Dependencies) {
        if let TstatsSource::DataModel(name) = &self.source {
            needs.add_model(name);
        }
    }
}

impl TstatsCommand {
    /// A command without any arguments yet.
    pub(super) fn empty() -> TstatsCommand {
        TstatsCommand {
            aggregates: Vec::new(),
            source: TstatsSource::Indexes,
            filter: SearchExpr::All,
            time: TimeModifiers::default(),
            by: Vec::new(),
            prestats: false,
            append: false,
            chart: None,
            summaries_only: false,
            fill_null: None,
        }
    }
}

impl Parser<'_> {
    fn tstats_aggregate(&mut self) -> ParseResult<Aggregate> {
        let aggregate = self.aggregate("tstats")?;
        match &aggregate.arg {
            AggregateArg::Field(field) if field.is_wildcard() && field.text != "*" => {
                let remark = Diagnostic::error(format!("tstats: `{}` names no field", field.text), field.span);
                Err(remark.with_hint("tstats takes no wildcards; name each field"))
            }
            AggregateArg::Eval(_) => {
                let remark = Diagnostic::error("tstats: an aggregate takes a field, not eval()", aggregate.span);
                Err(remark.with_hint("count by the field and compute with eval afterwards"))
            }
            _ if aggregate.function == StatsFunction::Mode => {
                Err(Diagnostic::error("tstats: `mode` is not a function of tstats", aggregate.span))
            }
            _ => Ok(aggregate),
        }
    }

    /// Parses `datamodel=M.O`, `sid=ID` or a name given to `tscollect`.
    fn tstats_source(&mut self) -> ParseResult<TstatsSource> {
        self.skip_blank();
        if self.peek_name().eq_ignore_ascii_case("datamodel") {
            self.pos += "datamodel".len();
            if !self.eat('=') {
                self.eat(':');
            }
            return Ok(TstatsSource::DataModel(self.data_model_name()?));
        }
        if self.peek_name().eq_ignore_ascii_case("sid") && self.peek_option().is_some() {
            let option = self.read_option()?;
            return Ok(TstatsSource::Job(option.value, option.value_span));
        }
        let word = self.expect_field("a data model, a namespace or sid= after FROM")?;
        Ok(TstatsSource::Namespace(word.text, word.span))
    }

    /// Parses the condition after WHERE, up to the word BY or one of the options `ending`.
    pub(super) fn tstats_where(&mut self, command: &mut TstatsCommand, ending: &[&str]) -> ParseResult<()> {
        let outer = self.end;
        self.end = self.split_clause(ending);
        let read = self.search_condition().and_then(|filter| self.take_time(filter, &mut command.time));
        let at_end = self.at_end();
        let unexpected = self.found_text();
        let here = self.here();
        self.end = outer;
        let filter = read?;
        if has_inner_time(&filter) {
            self.report_unsupported("feature:time-modifier-in-or".to_owned());
            let remark = Diagnostic::error("unsupported: a time modifier inside OR or NOT", here);
            return Err(remark.with_hint("use one tstats for each time, the later ones with append=true"));
        }
        if !at_end {
            return Err(Diagnostic::error(format!("tstats: unexpected {unexpected}"), here));
        }
        command.filter = match std::mem::replace(&mut command.filter, SearchExpr::All) {
            SearchExpr::All => filter,
            before => SearchExpr::And(vec![before, filter]),
        };
        Ok(())
    }

    /// Position of the word BY, or of the option, that ends a condition; otherwise the end of the command.
    fn split_clause(&self, options: &[&str]) -> usize {
        let bytes = self.text.as_bytes();
        let (mut at, mut open) = (self.pos, 0usize);
        let is_edge = |byte: Option<&u8>| {
            byte.is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b','))
        };
        while at < self.end {
            let word = |word: &str| {
                let end = at + word.len();
                end <= self.end
                    && bytes[at..end].eq_ignore_ascii_case(word.as_bytes())
                    && is_edge(bytes[..at].last())
                    && bytes.get(end).is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''))
                    && !self.text[end..self.end].trim_start().starts_with(['=', '!', '<', '>'])
            };
            let is_option = |name: &str| {
                let end = at + name.len();
                end <= self.end
                    && bytes[at..end].eq_ignore_ascii_case(name.as_bytes())
                    && is_edge(bytes[..at].last())
                    && self.text.get(end..self.end).is_some_and(|rest| rest.trim_start().starts_with('='))
            };
            match bytes[at] {
                b'"' => at += quoted_len(&self.text[at..self.end]).unwrap_or(self.end - at) - 1,
                b'\\' => at += 1,
                b'(' | b'[' => open += 1,
                b')' | b']' => open = open.saturating_sub(1),
                b'b' | b'B' | b'g' | b'G' if open == 0 && (word("by") || word("groupby")) => return at,
                _ if open == 0 && options.iter().any(|name| is_option(name)) => return at,
                _ => {}
            }
            at += 1;
        }
        self.end
    }

    /// Parses the fields after BY. `span=` applies to `_time`, or to the field before it if `_time` is not listed.
    fn tstats_splits(&mut self, command: &mut TstatsCommand) -> ParseResult<()> {
        loop {
            self.skip_separators();
            if self.at_end() || self.at_keyword("where") || self.at_keyword("from") {
                break;
            }
            match self.peek_option().map(str::to_ascii_lowercase).as_deref() {
                Some("span") => {
                    let option = self.read_option()?;
                    let span = if option.value.eq_ignore_ascii_case("auto") { None } else { Some(option.time_span()?) };
                    set_span(&mut command.by, span, option.name_span)?;
                }
                Some(name) if OPTIONS.names.contains(&name) || OPTIONS.ignored.contains(&name) => break,
                _ => {
                    let word = self.expect_field("a BY field")?;
                    if word.text.contains('*') {
                        let remark = Diagnostic::error(format!("tstats: `{}` names no field", word.text), word.span);
                        return Err(remark.with_hint("BY takes no wildcards; name each field"));
                    }
                    command.by.push(TstatsSplit { field: word.text, span: None, place: word.span });
                }
            }
        }
        if command.by.is_empty() {
            return Err(
                Diagnostic::error("tstats: BY names no field", self.here()).with_hint("name a field or remove BY")
            );
        }
        Ok(())
    }
}

fn set_span(by: &mut [TstatsSplit], span: Option<TimeSpan>, place: Span) -> ParseResult<()> {
    let at = by.iter().position(|split| split.field == "_time").or(by.len().checked_sub(1));
    let Some(split) = at.and_then(|at| by.get_mut(at)) else {
        return Err(
            Diagnostic::error("tstats: span= needs a field before it", place).with_hint("write `by _time span=1h`")
        );
    };
    split.span = span;
    Ok(())
}
