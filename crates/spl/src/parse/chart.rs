//! chart and timechart, with the series options they share.
//!
//! Options may stand before the aggregates or at the end; binning options after a split field belong to that field.

use super::cursor::{Parser, Read};
use super::options::{Known, OptionArg};
use crate::ast::{
    Aggregate, AggregateArg, BinOptions, BinSpan, ChartCommand, Command, CompareOp, SeriesFilter, SeriesOptions,
    SeriesTest, SplitField, TimeChartCommand,
};
use crate::diagnostic::Diagnostic;

/// Series shown when `limit=` is absent.
const DEFAULT_SERIES: usize = 10;

const CHART: Known = Known {
    command: "chart",
    names: &[
        "limit",
        "agg",
        "useother",
        "otherstr",
        "usenull",
        "nullstr",
        "sep",
        "format",
        "cont",
        "span",
        "bins",
        "minspan",
        "start",
        "end",
        "aligntime",
    ],
    ignored: &["dedup_splitvals"],
};
const TIMECHART: Known = Known {
    command: "timechart",
    names: &[
        "limit",
        "agg",
        "useother",
        "otherstr",
        "usenull",
        "nullstr",
        "sep",
        "format",
        "cont",
        "span",
        "bins",
        "minspan",
        "start",
        "end",
        "aligntime",
        "fixedrange",
        "partial",
    ],
    ignored: &["dedup_splitvals"],
};

impl Default for SeriesOptions {
    fn default() -> SeriesOptions {
        SeriesOptions {
            limit: DEFAULT_SERIES,
            bottom: false,
            agg: None,
            use_other: true,
            other_name: "OTHER".to_owned(),
            use_null: true,
            null_name: "NULL".to_owned(),
            filter: None,
            separator: ": ".to_owned(),
            format: None,
        }
    }
}

impl Parser<'_> {
    pub(crate) fn chart_command(&mut self) -> Read<Command> {
        let mut command = ChartCommand {
            aggregates: Vec::new(),
            computed: Vec::new(),
            row: None,
            column: None,
            series: SeriesOptions::default(),
            cont: true,
        };
        let mut bin = BinOptions::default();
        loop {
            while let Some(option) = self.option(CHART)? {
                match option.name.as_str() {
                    "cont" => command.cont = option.boolean()?,
                    _ if self.series_option(&option, &mut command.series, "chart")? => {}
                    _ => last_split(&mut command.row, &mut command.column).unwrap_or(&mut bin).take(&option)?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("over") {
                command.row = Some(self.split_field()?);
            } else if self.eat_keyword("by") {
                self.chart_splits(&mut command)?;
            } else if self.eat_keyword("where") {
                command.series.filter = Some(self.series_filter("chart", &command.aggregates)?);
            } else {
                self.chart_aggregate("chart", &mut command.aggregates, &mut command.computed)?;
            }
        }
        if let Some(row) = &mut command.row
            && row.bin == BinOptions::default()
        {
            row.bin = bin;
        }
        self.require_chart(command.aggregates.is_empty(), "chart")?;
        Ok(Command::Chart(command))
    }

    /// Fields after BY: the row unless OVER named it, then the column.
    fn chart_splits(&mut self, command: &mut ChartCommand) -> Read<()> {
        loop {
            let split = self.split_field()?;
            if command.row.is_none() {
                command.row = Some(split);
            } else if command.column.is_none() {
                command.column = Some(split);
            } else {
                let remark = Diagnostic::error("chart: more than one row and one column field", split.field.span);
                return Err(remark.with_hint("use stats for more fields"));
            }
            self.skip_separators();
            let split_follows = !self.at_end() && !self.at_keyword("where") && self.peek_option().is_none();
            if !split_follows {
                return Ok(());
            }
        }
    }

    fn split_field(&mut self) -> Read<SplitField> {
        self.skip_separators();
        let field = self.expect_field("a field to split by")?.field();
        let mut bin = BinOptions::default();
        while let Some(name) = self.peek_option().map(str::to_ascii_lowercase) {
            if !BinOptions::NAMES.contains(&name.as_str()) {
                break;
            }
            bin.take(&self.read_option()?)?;
        }
        Ok(SplitField { field, bin })
    }

    fn require_chart(&mut self, empty: bool, command: &str) -> Read<()> {
        if empty {
            let remark = Diagnostic::error(format!("{command}: no aggregate is given"), self.here());
            return Err(remark.with_hint("write a function such as `count` or `avg(field)`"));
        }
        Ok(())
    }

    pub(crate) fn timechart_command(&mut self) -> Read<Command> {
        let mut command = TimeChartCommand {
            aggregates: Vec::new(),
            computed: Vec::new(),
            column: None,
            series: SeriesOptions::default(),
            bin: BinOptions::default(),
            cont: true,
            fixed_range: true,
            partial: true,
        };
        loop {
            while let Some(option) = self.option(TIMECHART)? {
                match option.name.as_str() {
                    "cont" => command.cont = option.boolean()?,
                    "fixedrange" => command.fixed_range = option.boolean()?,
                    "partial" => command.partial = option.boolean()?,
                    _ if self.series_option(&option, &mut command.series, "timechart")? => {}
                    _ => command.bin.take(&option)?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("by") {
                if command.column.is_some() {
                    return Err(Diagnostic::error("timechart: BY is given twice", self.here()));
                }
                command.column = Some(self.split_field()?);
                self.one_split_only()?;
            } else if self.eat_keyword("where") {
                command.series.filter = Some(self.series_filter("timechart", &command.aggregates)?);
            } else {
                self.chart_aggregate("timechart", &mut command.aggregates, &mut command.computed)?;
            }
        }
        // A span of time after BY can only be meant for the time axis.
        if command.bin.span.is_none()
            && let Some(split) = &mut command.column
            && matches!(split.bin.span, Some(BinSpan::Time(_)))
        {
            command.bin.span = split.bin.span.take();
        }
        self.require_chart(command.aggregates.is_empty(), "timechart")?;
        Ok(Command::TimeChart(command))
    }

    fn one_split_only(&mut self) -> Read<()> {
        self.skip_separators();
        if self.at_end() || self.at_keyword("where") || self.peek_option().is_some() {
            return Ok(());
        }
        let remark =
            Diagnostic::error(format!("timechart: splits by one field only, found {}", self.found()), self.here());
        Err(remark.with_hint("join the fields with eval first"))
    }

    /// Takes an option about series; false when it is about binning.
    pub(crate) fn series_option(
        &mut self,
        option: &OptionArg,
        series: &mut SeriesOptions,
        command: &str,
    ) -> Read<bool> {
        match option.name.as_str() {
            "limit" => {
                let lower = option.value.to_ascii_lowercase();
                let digits = lower.strip_prefix("top").or_else(|| lower.strip_prefix("bottom")).unwrap_or(&lower);
                series.limit = digits.parse().map_err(|_| option.refuse("a number, topN or bottomN"))?;
                series.bottom = lower.starts_with("bottom");
            }
            "agg" => {
                // The function ranks series; the field in parentheses is that of the chart.
                let name = option.value.split('(').next().unwrap_or_default().to_ascii_lowercase();
                series.agg = Some(self.stats_function(&name, option.value_span, command)?);
            }
            "useother" => series.use_other = option.boolean()?,
            "otherstr" => series.other_name = option.value.clone(),
            "usenull" => series.use_null = option.boolean()?,
            "nullstr" => series.null_name = option.value.clone(),
            "sep" => series.separator = option.value.clone(),
            "format" => series.format = Some(option.value.clone()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `(field)` after the function, where it is the field of which the series are made.
    fn skip_series_argument(&mut self, aggregates: &[Aggregate]) {
        let place = self.pos;
        if self.eat('(')
            && let Some(word) = self.field_word()
            && self.eat(')')
            && aggregates.iter().any(|made| matches!(&made.arg, AggregateArg::Field(field) if field.text == word.text))
        {
            self.skip_blank();
        } else {
            self.pos = place;
        }
    }

    /// After `where`: `sum in top10`, `max > 5`.
    fn series_filter(&mut self, command: &str, aggregates: &[Aggregate]) -> Read<SeriesFilter> {
        self.skip_blank();
        let start = self.pos;
        let name = self.peek_name().to_ascii_lowercase();
        self.pos += self.peek_name().len();
        let function = self.stats_function(&name, self.since(start), command)?;
        self.skip_blank();
        self.skip_series_argument(aggregates);
        let place = self.pos;
        if self.eat_keyword("in") {
            self.skip_blank();
            let word = self.peek_name().to_ascii_lowercase();
            self.pos += self.peek_name().len();
            let top = word.starts_with("top");
            let count = word.strip_prefix(if top { "top" } else { "bottom" }).and_then(|digits| digits.parse().ok());
            let wrong =
                || Diagnostic::error(format!("{command}: expected topN or bottomN after IN"), self.since(place));
            return Ok(SeriesFilter { function, test: SeriesTest::In { top, count: count.ok_or_else(wrong)? } });
        }
        let op = self.compare_op();
        self.skip_blank();
        let number = self.pos;
        let rest = self.rest();
        self.pos += rest.find(char::is_whitespace).unwrap_or(rest.len());
        let value = self.text[number..self.pos].parse().ok();
        match (op, value) {
            (Some(op @ (CompareOp::Lt | CompareOp::Gt | CompareOp::Le | CompareOp::Ge)), Some(value)) => {
                Ok(SeriesFilter { function, test: SeriesTest::Compare { op, value } })
            }
            _ => {
                self.unsupported(format!("option:{command}:where"));
                let remark = Diagnostic::error(format!("{command}: this where clause is not known"), self.since(start));
                Err(remark.with_hint("write `where sum in top10` or `where max > 5`"))
            }
        }
    }
}

/// Binning of the split field read last.
fn last_split<'a>(row: &'a mut Option<SplitField>, column: &'a mut Option<SplitField>) -> Option<&'a mut BinOptions> {
    column.as_mut().or(row.as_mut()).map(|split| &mut split.bin)
}
