//! `predict`: forecasts future values of time series.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, TIME};
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// Maximum of `future_timespan=`, to which larger values are reduced.
const FUTURE_ROWS_MAX: usize = 10_000;
/// Default percentage of values expected between the bounds.
const DEFAULT_INTERVAL_PERCENT: f64 = 95.0;
/// Supported options except the bounds, whose names contain a number.
const NAMES: [&str; 5] = ["algorithm", "correlate", "future_timespan", "holdback", "period"];

/// `predict`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictCommand {
    /// Series, each with its output name.
    pub series: Vec<(String, String)>,
    /// `algorithm=` (default `LLP5`): the model.
    pub algorithm: PredictAlgorithm,
    /// `future_timespan=` (default `5`): rows added after the last.
    pub future: usize,
    /// `correlate=`: the series used by [`PredictAlgorithm::Beside`].
    pub correlate: Option<String>,
    /// `holdback=` (default `0`): number of rows at the end that the model ignores.
    pub holdback: usize,
    /// `period=`: number of rows in a season; detected if absent.
    pub period: Option<usize>,
    /// `upperNN=NAME`: percentage and name of the upper bound.
    pub upper: (f64, Option<String>),
    /// `lowerNN=NAME`: percentage and name of the lower bound.
    pub lower: (f64, Option<String>),
}

/// Models of `predict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PredictAlgorithm {
    /// A local level.
    Level,
    /// A local level with a local slope.
    Trend,
    /// A local level with a season.
    Season,
    /// The mean of two forecasts: one with level and slope, one with a season.
    TrendAndSeason,
    /// Local levels of two series with a common model.
    TwoLevels,
    /// A local level with another series as a regressor.
    Beside,
}

impl Syntax for PredictCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "predict FIELD [AS NAME]... [algorithm=LL|LLT|LLP|LLP5] [future_timespan=N] [period=N]",
        summary: "Predicts the future values of time series",
        group: Group::Patterns,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<PredictCommand> {
        let mut command = PredictCommand {
            series: Vec::new(),
            algorithm: PredictAlgorithm::TrendAndSeason,
            future: 5,
            correlate: None,
            holdback: 0,
            period: None,
            upper: (DEFAULT_INTERVAL_PERCENT, None),
            lower: (DEFAULT_INTERVAL_PERCENT, None),
        };
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.peek_option().is_some() {
                command.take_option(parser)?;
                continue;
            }
            let field = parser.expect_field("a field")?.text;
            let name = parser.name_after_as()?.unwrap_or_else(|| format!("prediction({field})"));
            command.series.push((field, name));
        }
        if command.series.is_empty() {
            let remark = Diagnostic::error("predict: no field is given", parser.here());
            return Err(remark.with_hint("write `timechart count | predict count`"));
        }
        let remark = |message: &str, hint: &str| Err(Diagnostic::error(message, parser.here()).with_hint(hint));
        match (command.algorithm, &command.correlate, command.series.len()) {
            (PredictAlgorithm::TwoLevels, _, count) if count != 2 => {
                remark("predict: BiLL predicts two series", "write `predict a b algorithm=BiLL`")
            }
            (PredictAlgorithm::Beside, None, _) | (PredictAlgorithm::Beside, _, 2..) => {
                remark("predict: LLB predicts one series with another", "write `predict a algorithm=LLB correlate=b`")
            }
            (algorithm, Some(_), _) if algorithm != PredictAlgorithm::Beside => {
                remark("predict: correlate= goes with algorithm=LLB only", "leave it out")
            }
            _ => Ok(command),
        }
    }
}

impl Semantics for PredictCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        let named = self.series.iter().map(|(field, _)| field);
        named.chain(&self.correlate).for_each(|field| after.add(field));
        after.add(TIME);
        after
    }
}

impl PredictCommand {
    /// Parses the option at the cursor.
    fn take_option(&mut self, parser: &mut Parser<'_>) -> ParseResult<()> {
        let option = parser.read_option()?;
        match option.name.as_str() {
            "algorithm" => {
                self.algorithm = match option.value.to_ascii_uppercase().as_str() {
                    "LL" => PredictAlgorithm::Level,
                    "LLT" => PredictAlgorithm::Trend,
                    "LLP" => PredictAlgorithm::Season,
                    "LLP5" => PredictAlgorithm::TrendAndSeason,
                    "BILL" => PredictAlgorithm::TwoLevels,
                    "LLB" => PredictAlgorithm::Beside,
                    _ => {
                        parser.report_unsupported(format!(
                            "option:predict:algorithm:{}",
                            option.value.to_ascii_lowercase()
                        ));
                        return Err(option.invalid_value("LL, LLT, LLP, LLP5, LLB or BiLL"));
                    }
                }
            }
            "future_timespan" => self.future = option.number::<usize>()?.min(FUTURE_ROWS_MAX),
            "holdback" => self.holdback = option.number()?,
            "period" => self.period = Some(option.number()?),
            "correlate" => self.correlate = Some(option.value),
            "suppress" | "nonnegative" => {
                parser.report_unsupported(format!("option:predict:{}", option.name));
                let message = format!("predict: unsupported: `{}`", option.name);
                return Err(Diagnostic::error(message, option.name_span).with_hint("drop or change columns afterwards"));
            }
            name => {
                let percent = |prefix: &str| {
                    let digits = name.strip_prefix(prefix)?;
                    digits.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent < 100.0)
                };
                match (percent("upper"), percent("lower")) {
                    (Some(percent), _) => self.upper = (percent, Some(option.value)),
                    (_, Some(percent)) => self.lower = (percent, Some(option.value)),
                    _ => {
                        let remark = Diagnostic::error(format!("predict: unknown option `{name}`"), option.name_span);
                        return Err(parser.suggest(remark, name, NAMES));
                    }
                }
            }
        }
        Ok(())
    }
}
