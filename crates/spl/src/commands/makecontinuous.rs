//! `makecontinuous`: adds rows for values of a time or number that are missing between the existing values.

use quarry_event::time::Span as TimeSpan;
use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Default of `bins=`.
const DEFAULT_BINS_MAX: usize = 100;

const OPTIONS: OptionNames =
    OptionNames::new("makecontinuous", &["span", "bins", "start", "end"]).ignoring(&["aligntime"]);

/// `makecontinuous`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MakeContinuousCommand {
    /// Field whose gaps are filled.
    pub field: String,
    /// Distance between its values.
    pub step: ContinuousStep,
    /// `start=` and `end=`, for numbers.
    pub bounds: (Option<f64>, Option<f64>),
}

/// Distance between the values of a continuous field.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ContinuousStep {
    /// Default: the smallest usual span that gives at most this many rows.
    Bins(usize),
    /// `span=5m`.
    Time(TimeSpan),
    /// `span=10`.
    Number(f64),
}

impl Syntax for MakeContinuousCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "makecontinuous [FIELD] [span=|bins=] [start=] [end=]",
        summary: "Adds rows where the values of a field have gaps",
        group: Group::Reporting,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MakeContinuousCommand> {
        let mut command = MakeContinuousCommand {
            field: "_time".to_owned(),
            step: ContinuousStep::Bins(DEFAULT_BINS_MAX),
            bounds: (None, None),
        };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "span" => {
                        command.step = match option.value.parse::<f64>() {
                            Ok(number) if number > 0.0 && number.is_finite() => ContinuousStep::Number(number),
                            _ => ContinuousStep::Time(option.time_span()?),
                        }
                    }
                    "bins" => command.step = ContinuousStep::Bins(option.number::<usize>()?.max(1)),
                    "start" => command.bounds.0 = Some(option.number()?),
                    _ => command.bounds.1 = Some(option.number()?),
                }
            }
            match parser.field_word() {
                Some(word) => command.field = word.text,
                None => return Ok(command),
            }
        }
    }
}

impl Semantics for MakeContinuousCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
