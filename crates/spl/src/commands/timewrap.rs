//! `timewrap`: turns each period of a time chart into its own series.

use quarry_event::time::{Span as TimeSpan, SpanUnit};
use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("timewrap", &["align", "series", "time_format"]);

/// `timewrap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeWrapCommand {
    /// Length of a period.
    pub span: TimeSpan,
    /// Name of the unit, such as `day` or `week`.
    pub unit: String,
    /// Whether periods end now (`align=now`) rather than at the end of the range.
    pub ends_now: bool,
    /// `series=`: naming of the series.
    pub series: WrapSeries,
}

/// Naming of the series of `timewrap`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WrapSeries {
    /// `latest_day`, `1day_before`.
    Relative,
    /// `s0`, `s1`.
    Short,
    /// The start of the period in this format.
    Exact(String),
}

impl Syntax for TimeWrapCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "timewrap SPAN [series=relative|short|exact] [time_format=] [align=end|now]",
        summary: "Compares the periods of a time chart as series",
        group: Group::Reporting,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TimeWrapCommand> {
        let (mut span, mut ends_now, mut series, mut format) = (None, false, WrapSeries::Relative, None);
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match (option.name.as_str(), option.value.to_ascii_lowercase().as_str()) {
                    ("align", "now") => ends_now = true,
                    ("align", "end") => ends_now = false,
                    ("align", _) => return Err(option.invalid_value("now or end")),
                    ("series", "relative") => series = WrapSeries::Relative,
                    ("series", "short") => series = WrapSeries::Short,
                    ("series", "exact") => series = WrapSeries::Exact(String::new()),
                    ("series", _) => return Err(option.invalid_value("relative, exact or short")),
                    _ => format = Some(option.value),
                }
            }
            let Some(word) = parser.field_word() else { break };
            // A unit without a number means one.
            let text = if word.text.starts_with(|c: char| c.is_ascii_digit()) {
                word.text.clone()
            } else {
                format!("1{}", word.text)
            };
            let read = TimeSpan::parse(&text).ok().and_then(|span| unit_name(span.unit).map(|unit| (span, unit)));
            span = Some(read.ok_or_else(|| {
                let message = format!("timewrap: `{}` is not the length of a period", word.text);
                Diagnostic::error(message, word.span).with_hint("write `timewrap 1day` or `timewrap 1week`")
            })?);
        }
        if let WrapSeries::Exact(_) = series {
            series = WrapSeries::Exact(format.unwrap_or_else(|| "%Y-%m-%d %H:%M:%S".to_owned()));
        }
        match span {
            Some((span, unit)) => Ok(TimeWrapCommand { span, unit: unit.to_owned(), ends_now, series }),
            None => Err(Diagnostic::error("timewrap: no length of a period is given", parser.here())
                .with_hint("write `timewrap 1day`")),
        }
    }
}

impl Semantics for TimeWrapCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.all = true;
        after
    }
}

fn unit_name(unit: SpanUnit) -> Option<&'static str> {
    Some(match unit {
        SpanUnit::Second => "second",
        SpanUnit::Minute => "minute",
        SpanUnit::Hour => "hour",
        SpanUnit::Day => "day",
        SpanUnit::Week => "week",
        SpanUnit::Month => "month",
        SpanUnit::Quarter => "quarter",
        SpanUnit::Year => "year",
        _ => return None,
    })
}
