//! `trendline`: computes moving averages.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// Allowed numbers of rows of a moving average.
const PERIOD_ROWS: std::ops::RangeInclusive<usize> = 2..=10_000;

/// `trendline (sma|ema|wma)N(FIELD) [AS NEW]...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrendLineCommand {
    /// Averages in order.
    pub trends: Vec<Trend>,
}

/// One moving average of `trendline`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Weighting of values.
    pub kind: TrendKind,
    /// Rows averaged.
    pub period: usize,
    /// Field averaged.
    pub field: String,
    /// Field written.
    pub output: String,
}

/// Moving averages of `trendline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrendKind {
    /// `sma`: the arithmetic mean.
    Simple,
    /// `wma`: weights fall linearly with age.
    Weighted,
    /// `ema`: weights fall exponentially with age.
    Exponential,
}

impl Syntax for TrendLineCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "trendline (sma|ema|wma)N(FIELD) [AS NEW]...",
        summary: "Computes moving averages",
        group: Group::Reporting,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TrendLineCommand> {
        let mut trends = Vec::new();
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            trends.push(trend(parser)?);
        }
        if trends.is_empty() {
            let remark = Diagnostic::error("trendline: no average is given", parser.here());
            return Err(remark.with_hint("write `trendline sma5(field)`"));
        }
        Ok(TrendLineCommand { trends })
    }
}

impl Semantics for TrendLineCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        self.trends.iter().for_each(|trend| after.add(&trend.field));
        after
    }
}

/// Parses a trend such as `sma5(field) [AS name]`.
fn trend(parser: &mut Parser<'_>) -> ParseResult<Trend> {
    let word = parser.expect_field("an average such as sma5(field)")?;
    let wrong = || {
        let message = format!("trendline: `{}` is not an average", word.text);
        let periods = format!("{} to {}", PERIOD_ROWS.start(), PERIOD_ROWS.end());
        let hint = format!("write sma, ema or wma, a number from {periods} and a field, as in sma5(field)");
        Diagnostic::error(message, word.span).with_hint(hint)
    };
    let lower = word.text.to_ascii_lowercase();
    let kind = match lower.get(..3) {
        Some("sma") => TrendKind::Simple,
        Some("ema") => TrendKind::Exponential,
        Some("wma") => TrendKind::Weighted,
        _ => return Err(wrong()),
    };
    let (period, field) = word.text[3..].split_once('(').ok_or_else(wrong)?;
    let period: usize = period.trim().parse().map_err(|_| wrong())?;
    let field = field.strip_suffix(')').map(str::trim).filter(|field| !field.is_empty()).ok_or_else(wrong)?;
    if !PERIOD_ROWS.contains(&period) {
        return Err(wrong());
    }
    let output = parser.name_after_as()?.unwrap_or_else(|| word.text.clone());
    Ok(Trend { kind, period, field: field.trim_matches('"').to_owned(), output })
}
