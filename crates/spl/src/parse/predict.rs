//! The command predict: series with names, a model, bounds.

use super::cursor::{Parser, Read};
use crate::ast::{PredictAlgorithm, PredictCommand};
use crate::diagnostic::Diagnostic;

/// Rows a prediction reaches at most.
const FUTURE_MAX: usize = 10_000;
/// Percent of values between the bounds unless said.
const BETWEEN: f64 = 95.0;
/// Options that are read; bounds have a number in their names.
const NAMES: [&str; 5] = ["algorithm", "correlate", "future_timespan", "holdback", "period"];

impl Parser<'_> {
    /// `predict FIELD [AS NAME] ... [algorithm=] [future_timespan=] [holdback=] [period=] [upperN=] [lowerN=]`.
    pub(crate) fn predict(&mut self) -> Read<PredictCommand> {
        let mut command = PredictCommand {
            series: Vec::new(),
            algorithm: PredictAlgorithm::TrendAndSeason,
            future: 5,
            correlate: None,
            holdback: 0,
            period: None,
            upper: (BETWEEN, None),
            lower: (BETWEEN, None),
        };
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.peek_option().is_some() {
                self.predict_option(&mut command)?;
                continue;
            }
            let field = self.expect_field("a field")?.text;
            let name = self.name_after_as()?.unwrap_or_else(|| format!("prediction({field})"));
            command.series.push((field, name));
        }
        if command.series.is_empty() {
            let remark = Diagnostic::error("predict: no field is given", self.here());
            return Err(remark.with_hint("write `timechart count | predict count`"));
        }
        let remark = |message: &str, hint: &str| Err(Diagnostic::error(message, self.here()).with_hint(hint));
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

    fn predict_option(&mut self, command: &mut PredictCommand) -> Read<()> {
        let option = self.read_option()?;
        match option.name.as_str() {
            "algorithm" => {
                command.algorithm = match option.value.to_ascii_uppercase().as_str() {
                    "LL" => PredictAlgorithm::Level,
                    "LLT" => PredictAlgorithm::Trend,
                    "LLP" => PredictAlgorithm::Season,
                    "LLP5" => PredictAlgorithm::TrendAndSeason,
                    "BILL" => PredictAlgorithm::TwoLevels,
                    "LLB" => PredictAlgorithm::Beside,
                    _ => {
                        self.unsupported(format!("option:predict:algorithm:{}", option.value.to_ascii_lowercase()));
                        return Err(option.refuse("LL, LLT, LLP, LLP5, LLB or BiLL"));
                    }
                }
            }
            "future_timespan" => command.future = option.number::<usize>()?.min(FUTURE_MAX),
            "holdback" => command.holdback = option.number()?,
            "period" => command.period = Some(option.number()?),
            "correlate" => command.correlate = Some(option.value),
            "suppress" | "nonnegative" => {
                self.unsupported(format!("option:predict:{}", option.name));
                let message = format!("predict: unsupported: `{}`", option.name);
                return Err(Diagnostic::error(message, option.name_span).with_hint("drop or change columns afterwards"));
            }
            name => {
                let percent = |prefix: &str| {
                    let digits = name.strip_prefix(prefix)?;
                    digits.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent < 100.0)
                };
                match (percent("upper"), percent("lower")) {
                    (Some(percent), _) => command.upper = (percent, Some(option.value)),
                    (_, Some(percent)) => command.lower = (percent, Some(option.value)),
                    _ => {
                        let remark = Diagnostic::error(format!("predict: unknown option `{name}`"), option.name_span);
                        return Err(self.suggest(remark, name, NAMES));
                    }
                }
            }
        }
        Ok(())
    }
}
