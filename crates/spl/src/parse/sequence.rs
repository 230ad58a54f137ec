//! Commands that look from row to row: autoregress, delta, trendline, uniq.

use super::cursor::{Parser, Read};
use super::options::{Known, OptionArg};
use crate::ast::{AutoRegressCommand, DeltaCommand, SequenceCommand, Trend, TrendKind};
use crate::diagnostic::Diagnostic;

/// Rows that autoregress and delta look back at most.
const DISTANCE_MAX: usize = 10_000;
/// Rows that a line of trendline averages, at least and at most.
const PERIODS: std::ops::RangeInclusive<usize> = 2..=10_000;

const AUTOREGRESS: Known = Known { command: "autoregress", names: &["p"], ignored: &[] };
const DELTA: Known = Known { command: "delta", names: &["p"], ignored: &[] };

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn sequence_command(&mut self, name: &str) -> Read<Option<SequenceCommand>> {
        let command = match name {
            "autoregress" | "ar" => SequenceCommand::AutoRegress(self.autoregress()?),
            "delta" => SequenceCommand::Delta(self.delta()?),
            "trendline" => SequenceCommand::TrendLine(self.trendline()?),
            "uniq" => SequenceCommand::Uniq,
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// `AS name`, if it is next.
    pub(crate) fn name_after_as(&mut self) -> Read<Option<String>> {
        if self.eat_keyword("as") { Ok(Some(self.expect_field("a name after AS")?.text)) } else { Ok(None) }
    }

    /// `FIELD [AS NEW]` and options before, between and after; gives each option to `take`.
    fn field_as(
        &mut self,
        known: Known,
        mut take: impl FnMut(&OptionArg) -> Read<()>,
    ) -> Read<(String, Option<String>)> {
        let (mut field, mut output) = (None, None);
        loop {
            while let Some(option) = self.option(known)? {
                take(&option)?;
            }
            if self.at_end() {
                break;
            }
            if field.is_some() && output.is_none() && self.at_keyword("as") {
                output = self.name_after_as()?;
            } else if field.is_none() {
                field = Some(self.expect_field("a field")?.text);
            } else {
                let message = format!("{}: unexpected {}", known.command, self.found());
                return Err(Diagnostic::error(message, self.here()));
            }
        }
        let Some(field) = field else {
            return Err(Diagnostic::error(format!("{}: no field is given", known.command), self.here()));
        };
        Ok((field, output))
    }

    fn autoregress(&mut self) -> Read<AutoRegressCommand> {
        let (mut first, mut last) = (1, 1);
        let mut place = self.here();
        let (field, output) = self.field_as(AUTOREGRESS, |option| {
            let wrong = || option.refuse(&format!("a number or a range such as 1-3, at most {DISTANCE_MAX}"));
            let (low, high) = option.value.split_once('-').unwrap_or((&option.value, &option.value));
            first = low.trim().parse().map_err(|_| wrong())?;
            last = high.trim().parse().map_err(|_| wrong())?;
            place = option.value_span;
            if first == 0 || first > last || last > DISTANCE_MAX { Err(wrong()) } else { Ok(()) }
        })?;
        if output.is_some() && first != last {
            let remark = Diagnostic::error("autoregress: AS names one field, p= asks for several", place);
            return Err(remark.with_hint("leave out AS; the fields are named FIELD_p1, FIELD_p2 and so on"));
        }
        Ok(AutoRegressCommand { field, output, first, last })
    }

    fn delta(&mut self) -> Read<DeltaCommand> {
        let mut distance = 1;
        let (field, output) = self.field_as(DELTA, |option| {
            distance = option.number()?;
            if distance == 0 || distance > DISTANCE_MAX {
                return Err(option.refuse(&format!("a number from 1 to {DISTANCE_MAX}")));
            }
            Ok(())
        })?;
        let output = output.unwrap_or_else(|| format!("delta({field})"));
        Ok(DeltaCommand { field, output, distance })
    }

    // ---- trendline ------------------------------------------------------------------------------------------------

    fn trendline(&mut self) -> Read<Vec<Trend>> {
        let mut trends = Vec::new();
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            trends.push(self.trend()?);
        }
        if trends.is_empty() {
            let remark = Diagnostic::error("trendline: no average is given", self.here());
            return Err(remark.with_hint("write `trendline sma5(field)`"));
        }
        Ok(trends)
    }

    /// `sma5(field) [AS name]`.
    fn trend(&mut self) -> Read<Trend> {
        let word = self.expect_field("an average such as sma5(field)")?;
        let wrong = || {
            let message = format!("trendline: `{}` is no average", word.text);
            let periods = format!("{} to {}", PERIODS.start(), PERIODS.end());
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
        if !PERIODS.contains(&period) {
            return Err(wrong());
        }
        let output = self.name_after_as()?.unwrap_or_else(|| word.text.clone());
        Ok(Trend { kind, period, field: field.trim_matches('"').to_owned(), output })
    }
}
