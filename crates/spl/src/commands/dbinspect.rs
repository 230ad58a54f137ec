//! `dbinspect`: lists the buckets of indexes.

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};
use quarry_event::time::Span as TimeSpan;
use serde::{Deserialize, Serialize};

const OPTIONS: OptionNames = OptionNames::new("dbinspect", &["index", "timeformat", "span", "corruptonly", "alltime"])
    .ignoring(&["cached", "splunk_server", "splunk_server_group"]);

/// `dbinspect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DbInspectCommand {
    /// `index=`; if empty, the default indexes.
    pub indexes: Vec<String>,
    /// `timeformat=` (default `%m/%d/%Y:%H:%M:%S`): format of times.
    pub time_format: String,
    /// `span=`: if set, buckets are counted by the span of time in which they begin.
    pub span: Option<TimeSpan>,
    /// `corruptonly=` (default `f`): if true, nothing is listed, because `quarry bucket verify` reports damage instead.
    pub corrupt_only: bool,
    /// `alltime=` (default `f`): whether the time range of the search is ignored.
    pub all_time: bool,
}

impl Syntax for DbInspectCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "dbinspect [index=INDEX]... [timeformat=FORMAT]",
        summary: "Lists the buckets of indexes",
        group: Group::Searching,
        kind: Kind::Generating,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DbInspectCommand> {
        let mut command = DbInspectCommand::default();
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "index" => command.indexes.push(option.value),
                "timeformat" => command.time_format = option.value,
                "span" => command.span = Some(option.time_span()?),
                "alltime" => command.all_time = option.boolean()?,
                _ => command.corrupt_only = option.boolean()?,
            }
        }
        Ok(command)
    }
}

impl Default for DbInspectCommand {
    fn default() -> DbInspectCommand {
        DbInspectCommand {
            indexes: Vec::new(),
            time_format: "%m/%d/%Y:%H:%M:%S".to_owned(),
            span: None,
            corrupt_only: false,
            all_time: false,
        }
    }
}

impl Semantics for DbInspectCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
