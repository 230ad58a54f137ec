//! `localize`: finds the time ranges in which rows lie close together.

use quarry_event::time::{Span as TimeSpan, SpanUnit};
use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, TIME};
use crate::parse::{OptionNames, ParseResult, Parser};

/// Defaults of `timebefore=` and `timeafter=`, in seconds.
const DEFAULT_WINDOW_SECONDS: u64 = 30;

const OPTIONS: OptionNames = OptionNames::new("localize", &["maxpause", "timeafter", "timebefore"]);

/// `localize`; a time of zero is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalizeCommand {
    /// `maxpause=` (default `1m`): maximum time between two rows of a range.
    pub max_pause: Option<TimeSpan>,
    /// `timebefore=` (default `30s`): time by which a range is extended at its start.
    pub before: Option<TimeSpan>,
    /// `timeafter=` (default `30s`): time by which a range is extended at its end.
    pub after: Option<TimeSpan>,
}

impl Syntax for LocalizeCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "localize [maxpause=] [timebefore=] [timeafter=]",
        summary: "Finds time ranges in which rows are close together",
        group: Group::Fields,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<LocalizeCommand> {
        let around = Some(TimeSpan::new(DEFAULT_WINDOW_SECONDS, SpanUnit::Second));
        let max_pause = Some(TimeSpan::new(1, SpanUnit::Minute));
        let mut command = LocalizeCommand { max_pause, before: around, after: around };
        while let Some(option) = parser.option(OPTIONS)? {
            let is_none = option.value.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0);
            let span = if is_none { None } else { Some(option.time_span()?) };
            match option.name.as_str() {
                "maxpause" => command.max_pause = span,
                "timebefore" => command.before = span,
                _ => command.after = span,
            }
        }
        Ok(command)
    }
}

impl Semantics for LocalizeCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(TIME);
        after
    }
}
