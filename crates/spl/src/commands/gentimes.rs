//! `gentimes`: generates a row for each step of a time range.

use quarry_event::time::{Span as TimeSpan, SpanUnit};
use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("gentimes", &["start", "end", "increment"]);

/// `gentimes start=TIME [end=TIME] [increment=N(s|m|h|d)]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenTimesCommand {
    /// `start=`: start of the time range.
    pub start: GenTime,
    /// `end=`; midnight today if absent.
    pub end: Option<GenTime>,
    /// `increment=` (default `1d`): number and unit `s`, `m`, `h` or `d`.
    pub increment: TimeSpan,
}

/// A time of `gentimes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GenTime {
    /// Midnight this many days from today.
    Days(i64),
    /// Year, month, day, hour, minute and second in the user's time zone.
    Date([i16; 6]),
}

impl Syntax for GenTimesCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "gentimes start=TIME [end=TIME] [increment=N(s|m|h|d)]",
        summary: "Generates a row for each step of a time range",
        group: Group::Generating,
        kind: Kind::Generating,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<GenTimesCommand> {
        let (mut start, mut end, mut increment) = (None, None, TimeSpan::new(1, SpanUnit::Day));
        while let Some(option) = parser.option(OPTIONS)? {
            let wants = "MM/DD/YYYY, MM/DD/YYYY:HH:MM:SS or a number of days such as -5";
            let time = || gen_time(&option.value).ok_or_else(|| option.invalid_value(wants));
            match option.name.as_str() {
                "start" => start = Some(time()?),
                "end" => end = Some(time()?),
                _ => increment = gen_increment(&option)?,
            }
        }
        let Some(start) = start else {
            let remark = Diagnostic::error("gentimes: no start is given", parser.here());
            return Err(remark.with_hint("write `gentimes start=-7`"));
        };
        Ok(GenTimesCommand { start, end, increment })
    }
}

impl Semantics for GenTimesCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}

/// Parses `MM/DD/YYYY[:HH:MM:SS]` or a number of days.
fn gen_time(text: &str) -> Option<GenTime> {
    /// Century of years written with two digits.
    const CENTURY: i16 = 2000;
    if let Ok(days) = text.parse() {
        return Some(GenTime::Days(days));
    }
    let (date, clock) = text.split_once(':').unwrap_or((text, "0:0:0"));
    let three = |text: &str, mark: char| -> Option<[i16; 3]> {
        let parts: Option<Vec<i16>> = text.split(mark).map(|part| part.parse().ok()).collect();
        <[i16; 3]>::try_from(parts?).ok()
    };
    let ([month, day, year], [hour, minute, second]) = (three(date, '/')?, three(clock, ':')?);
    let year = if (0..100).contains(&year) { CENTURY + year } else { year };
    let valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (1..=9999).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second);
    valid.then_some(GenTime::Date([year, month, day, hour, minute, second]))
}

/// Parses a whole number with unit `s`, `m`, `h` or `d`.
fn gen_increment(option: &OptionArg) -> ParseResult<TimeSpan> {
    let wrong = || option.invalid_value("a whole number with s, m, h or d, such as 12h");
    let unit = match option.value.chars().last() {
        Some('s') => SpanUnit::Second,
        Some('m') => SpanUnit::Minute,
        Some('h') => SpanUnit::Hour,
        Some('d') => SpanUnit::Day,
        _ => return Err(wrong()),
    };
    let amount: u64 = option.value[..option.value.len() - 1].parse().map_err(|_| wrong())?;
    if amount == 0 { Err(wrong()) } else { Ok(TimeSpan::new(amount, unit)) }
}
