//! tstats: options and aggregates in any order, then FROM, WHERE and BY.
//!
//! WHERE is a search condition that ends at the word BY outside of quotes and brackets.

use quarry_event::time::Span as TimeSpan;

use super::cursor::{Parser, Read, Word};
use super::options::Known;
use super::quoted_len;
use super::search::has_inner_time;
use crate::ast::{
    Aggregate, AggregateArg, Command, DataModelName, SearchExpr, SeriesOptions, Span, StatsFunction, TimeModifiers,
    TstatsCommand, TstatsSource, TstatsSplit,
};
use crate::diagnostic::Diagnostic;

/// Options that change nothing here: all buckets are read at full detail, wherever they lie.
const TSTATS: Known = Known {
    command: "tstats",
    names: &["prestats", "append", "summariesonly", "fillnull_value"],
    ignored: &[
        "local",
        "allow_old_summaries",
        "include_reduced_buckets",
        "chunk_size",
        "use_summary_index_values",
        "use_native_index_values",
        "is_native",
        "add_orphan_field",
    ],
};

/// Options of mstats that end its condition.
const METRIC_OPTIONS: &[&str] = &[
    "span",
    "every",
    "prestats",
    "append",
    "fillnull_value",
    "chunk_size",
    "chart",
    "chart.limit",
    "chart.agg",
    "chart.useother",
    "chart.otherstr",
    "chart.usenull",
    "chart.nullstr",
    "chart.sep",
    "chart.format",
];

/// The same of mstats, which reads metrics.
const MSTATS: Known = Known {
    command: "mstats",
    names: &["prestats", "append", "fillnull_value", "chart", "earliest", "latest"],
    ignored: &["backfill", "update_period", "chunk_size"],
};

impl Parser<'_> {
    /// `mstats`: as tstats, with a span of its own and no FROM.
    pub(crate) fn mstats(&mut self) -> Read<Command> {
        let mut command = TstatsCommand { source: TstatsSource::Metrics, ..TstatsCommand::empty() };
        let (mut is_chart, mut series) = (false, SeriesOptions::default());
        loop {
            if self.peek_option().is_some_and(|name| name.eq_ignore_ascii_case("span")) {
                let option = self.read_option()?;
                let span = if option.value.eq_ignore_ascii_case("auto") { None } else { Some(option.time_span()?) };
                command.by.insert(0, TstatsSplit { field: "_time".to_owned(), span, place: option.name_span });
                continue;
            }
            while let Some(name) = self.peek_option().map(str::to_ascii_lowercase) {
                if name == "span" {
                    break;
                }
                let Some(option) = self.option(MSTATS)? else { break };
                match option.name.as_str() {
                    "prestats" => command.prestats = option.boolean()?,
                    "append" => command.append = option.boolean()?,
                    "chart" => is_chart = option.boolean()?,
                    "earliest" | "latest" => self.time_option(&option, &mut command.time)?,
                    _ => command.fill_null = Some(option.value),
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.at_chart_option() {
                self.chart_option(&mut series)?;
                continue;
            }
            if self.peek_option().is_some() {
                continue;
            }
            if self.eat_keyword("where") {
                self.tstats_where(&mut command)?;
            } else if self.eat_keyword("by") || self.eat_keyword("groupby") {
                self.metric_splits(&mut command)?;
            } else {
                let aggregate = self.aggregate("mstats")?;
                if let AggregateArg::Eval(_) = aggregate.arg {
                    return Err(Diagnostic::error("mstats: an aggregate takes a metric, not eval()", aggregate.span));
                }
                if aggregate.arg == AggregateArg::Rows {
                    let remark = Diagnostic::error("mstats: `count` needs a metric", aggregate.span);
                    return Err(remark.with_hint("write count(_value) or count(METRIC)"));
                }
                command.aggregates.push(aggregate);
            }
        }
        if command.aggregates.is_empty() {
            let remark = Diagnostic::error("mstats: no aggregate is given", self.here());
            return Err(remark.with_hint("write a function such as `avg(_value)` or `avg(cpu.idle)`"));
        }
        command.chart = is_chart.then_some(series);
        series_rates(&command)?;
        self.metric_chart(&command)?;
        Ok(Command::Tstats(command))
    }

    /// Whether an option `chart.NAME=` of mstats is next.
    fn at_chart_option(&self) -> bool {
        let rest = self.rest();
        let is_option = |name: &&str| {
            let named = rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
            name.starts_with("chart.") && named && rest[name.len()..].trim_start().starts_with('=')
        };
        METRIC_OPTIONS.iter().any(is_option)
    }

    fn chart_option(&mut self, series: &mut SeriesOptions) -> Read<()> {
        self.pos += "chart.".len();
        let option = self.read_option()?;
        self.series_option(&option, series, "timechart").map(drop)
    }

    /// What `chart=t` cannot be together with.
    fn metric_chart(&mut self, command: &TstatsCommand) -> Read<()> {
        if command.chart.is_none() {
            return Ok(());
        }
        if let Some(second) = command.by.iter().filter(|split| split.field != "_time").nth(1) {
            let remark = Diagnostic::error("mstats: chart=true splits by one field only", second.place);
            return Err(remark.with_hint("leave out chart=true, or the field"));
        }
        let is_pattern = |arg: &AggregateArg| matches!(arg, AggregateArg::Field(field) if field.is_wildcard());
        if let Some(aggregate) = command.aggregates.iter().find(|aggregate| is_pattern(&aggregate.arg)) {
            let remark = Diagnostic::error("mstats: chart=true takes no patterns", aggregate.span);
            return Err(remark.with_hint("name each metric"));
        }
        if command.prestats {
            return Err(Diagnostic::error("mstats: chart=true and prestats=true exclude each other", self.here()));
        }
        Ok(())
    }

    fn metric_splits(&mut self, command: &mut TstatsCommand) -> Read<()> {
        loop {
            self.skip_separators();
            if self.at_end() || self.at_keyword("where") || self.peek_option().is_some() || self.at_chart_option() {
                return Ok(());
            }
            let word = self.expect_field("a BY field")?;
            if word.text != "_time" {
                command.by.push(TstatsSplit { field: word.text, span: None, place: word.span });
            }
        }
    }

    pub(crate) fn tstats(&mut self) -> Read<Command> {
        let mut command = TstatsCommand::empty();
        loop {
            while let Some(option) = self.option(TSTATS)? {
                match option.name.as_str() {
                    "prestats" => command.prestats = option.boolean()?,
                    "append" => command.append = option.boolean()?,
                    "summariesonly" => command.summaries_only = option.boolean()?,
                    _ => command.fill_null = Some(option.value),
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("from") {
                command.source = self.tstats_source()?;
            } else if self.eat_keyword("where") {
                self.tstats_where(&mut command)?;
            } else if self.eat_keyword("by") || self.eat_keyword("groupby") {
                self.tstats_splits(&mut command)?;
            } else {
                command.aggregates.push(self.tstats_aggregate()?);
            }
        }
        if command.aggregates.is_empty() {
            let remark = Diagnostic::error("tstats: no aggregate is given", self.here());
            return Err(remark.with_hint("write a function such as `count` or `dc(host)`"));
        }
        if command.append && !command.prestats {
            let remark = Diagnostic::error("tstats: append=true needs prestats=true", self.here());
            return Err(remark.with_hint("write `tstats prestats=t append=t ...`"));
        }
        Ok(Command::Tstats(command))
    }

    fn tstats_aggregate(&mut self) -> Read<Aggregate> {
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

    /// `datamodel=M.O`, `sid=ID` or a namespace.
    fn tstats_source(&mut self) -> Read<TstatsSource> {
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

    /// `MODEL`, `MODEL.OBJECT` or `MODEL.ROOT.CHILD`, quoted or not.
    pub(crate) fn data_model_name(&mut self) -> Read<DataModelName> {
        let start = self.pos;
        self.skip_blank();
        if self.has_stand_in(start, self.pos) {
            return Ok(DataModelName { model: "macro".to_owned(), object: None, span: self.here() });
        }
        let Word { mut text, mut span, .. } = self.expect_field("the name of a data model")?;
        // Each part may have quotes of its own.
        while self.text[self.pos..self.end].starts_with(".\"") {
            self.bump();
            if let Some(part) = self.quoted() {
                text = format!("{text}.{}", part.text);
                span.end = part.span.end;
            }
        }
        let mut parts = text.split('.').map(|part| part.trim().trim_matches('"'));
        let model = parts.next().unwrap_or_default().to_owned();
        let object = parts.next_back().map(str::to_owned);
        if model.is_empty() || object.as_deref() == Some("") {
            return Err(Diagnostic::error(format!("`{text}` is not MODEL or MODEL.OBJECT"), span));
        }
        Ok(DataModelName { model, object, span })
    }

    fn tstats_where(&mut self, command: &mut TstatsCommand) -> Read<()> {
        let outer = self.end;
        let options = if command.source == TstatsSource::Metrics { METRIC_OPTIONS } else { &[] };
        self.end = self.split_clause(options);
        let read = self.search_condition().and_then(|filter| self.take_time(filter, &mut command.time));
        let at_end = self.at_end();
        let unexpected = self.found();
        let here = self.here();
        self.end = outer;
        let filter = read?;
        if has_inner_time(&filter) {
            self.unsupported("feature:time-modifier-in-or".to_owned());
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

    /// Where the word BY stands that ends a condition; the end of the command without one.
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

    /// Fields after BY; `span=` belongs to `_time`, or else to the field before it.
    fn tstats_splits(&mut self, command: &mut TstatsCommand) -> Read<()> {
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
                Some(name) if TSTATS.names.contains(&name) || TSTATS.ignored.contains(&name) => break,
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

/// What `rate_avg` and `rate_sum` cannot be together with.
fn series_rates(command: &TstatsCommand) -> Read<()> {
    let is_rate = |aggregate: &&Aggregate| matches!(aggregate.function, StatsFunction::SeriesRate { .. });
    for aggregate in command.aggregates.iter().filter(is_rate) {
        let remark = |message: &str, hint: &str| Err(Diagnostic::error(message, aggregate.span).with_hint(hint));
        match &aggregate.arg {
            _ if command.prestats => return remark("mstats: prestats=true has no rates of series", "leave it out"),
            _ if command.chart.is_some() && !command.by.iter().any(|split| split.span.is_some()) => {
                return remark("mstats: chart=true needs a span for rates of series", "write e.g. span=1m");
            }
            AggregateArg::Field(field) if field.is_wildcard() => {
                return remark("mstats: rates of series take no patterns", "name each metric");
            }
            _ => {}
        }
    }
    Ok(())
}

impl TstatsCommand {
    /// One that has nothing yet.
    fn empty() -> TstatsCommand {
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

fn set_span(by: &mut [TstatsSplit], span: Option<TimeSpan>, place: Span) -> Read<()> {
    let at = by.iter().position(|split| split.field == "_time").or(by.len().checked_sub(1));
    let Some(split) = at.and_then(|at| by.get_mut(at)) else {
        return Err(
            Diagnostic::error("tstats: span= needs a field before it", place).with_hint("write `by _time span=1h`")
        );
    };
    split.span = span;
    Ok(())
}
