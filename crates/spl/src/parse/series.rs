//! Series of `chart` and `timechart`: split fields, and the options that limit and name series.
//!
//! Binning options after a split field belong to that field.

use super::cursor::{ParseResult, Parser};
use super::options::OptionArg;
use crate::ast::{Aggregate, AggregateArg, BinOptions, CompareOp, SeriesFilter, SeriesOptions, SeriesTest, SplitField};
use crate::diagnostic::Diagnostic;

/// Default of `limit=`.
const DEFAULT_SERIES: usize = 10;

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
    pub(crate) fn split_field(&mut self) -> ParseResult<SplitField> {
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

    pub(crate) fn require_chart(&mut self, empty: bool, command: &str) -> ParseResult<()> {
        if empty {
            let remark = Diagnostic::error(format!("{command}: no aggregate is given"), self.here());
            return Err(remark.with_hint("write a function such as `count` or `avg(field)`"));
        }
        Ok(())
    }

    /// Applies an option about series; returns false if it is about binning.
    pub(crate) fn series_option(
        &mut self,
        option: &OptionArg,
        series: &mut SeriesOptions,
        command: &str,
    ) -> ParseResult<bool> {
        match option.name.as_str() {
            "limit" => {
                let lower = option.value.to_ascii_lowercase();
                let digits = lower.strip_prefix("top").or_else(|| lower.strip_prefix("bottom")).unwrap_or(&lower);
                series.limit = digits.parse().map_err(|_| option.invalid_value("a number, topN or bottomN"))?;
                series.bottom = lower.starts_with("bottom");
            }
            "agg" => {
                // The function ranks series; the field in parentheses is always the field that the chart aggregates.
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

    /// Skips `(field)` after the function, if the chart aggregates that field.
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

    /// Parses the text after `where`: `sum in top10`, `max > 5`.
    pub(crate) fn series_filter(&mut self, command: &str, aggregates: &[Aggregate]) -> ParseResult<SeriesFilter> {
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
                self.report_unsupported(format!("option:{command}:where"));
                let remark = Diagnostic::error(format!("{command}: this where clause is not known"), self.since(start));
                Err(remark.with_hint("write `where sum in top10` or `where max > 5`"))
            }
        }
    }
}
