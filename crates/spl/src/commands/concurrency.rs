//! `concurrency`: counts, for each row, the rows whose intervals contain its start.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("concurrency", &["duration", "start", "output"]);

/// `concurrency`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyCommand {
    /// `duration=`: field with the duration of a row.
    pub duration: String,
    /// `start=` (default `_time`): field with the start of a row.
    pub start: String,
    /// `output=` (default `concurrency`): output field.
    pub output: String,
}

impl Syntax for ConcurrencyCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "concurrency duration=FIELD [start=FIELD] [output=FIELD]",
        summary: "Counts the rows in progress at the start of each row",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ConcurrencyCommand> {
        let (mut duration, mut start, mut output) = (None, "_time".to_owned(), "concurrency".to_owned());
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "duration" => duration = Some(option.value),
                "start" => start = option.value,
                _ => output = option.value,
            }
        }
        match duration {
            Some(duration) => Ok(ConcurrencyCommand { duration, start, output }),
            None => Err(Diagnostic::error("concurrency: no duration= is given", parser.here())
                .with_hint("write `concurrency duration=FIELD`")),
        }
    }
}

impl Semantics for ConcurrencyCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.duration);
        after.add(&self.start);
        after
    }
}
