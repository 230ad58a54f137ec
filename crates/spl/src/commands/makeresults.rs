//! `makeresults`: generates empty rows, or rows from data in the search.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("makeresults", &["count", "annotate", "format", "data"])
    .ignoring(&["splunk_server", "splunk_server_group"]);

/// `makeresults`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MakeResultsCommand {
    /// `count=` (default `1`): number of rows.
    pub count: usize,
    /// `annotate=` (default `f`): whether the default fields of events are added.
    pub annotate: bool,
    /// `format=csv|json data=`: data from which the rows are made.
    pub data: Option<InlineData>,
}

/// Inline data of makeresults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InlineData {
    /// CSV text.
    Csv(String),
    /// JSON array text.
    Json(String),
}

impl Syntax for MakeResultsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "makeresults [count=N] [annotate=] [format=csv|json data=TEXT]",
        summary: "Generates rows",
        group: Group::Generating,
        kind: Kind::Generating,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MakeResultsCommand> {
        let (mut count, mut annotate, mut format, mut data) = (1, false, None, None);
        loop {
            if let Some(rows) = parser.whole_number() {
                count = rows;
                continue;
            }
            let Some(option) = parser.option(OPTIONS)? else { break };
            match option.name.as_str() {
                "count" => count = option.number()?,
                "annotate" => annotate = option.boolean()?,
                "format" => match option.value.to_ascii_lowercase().as_str() {
                    "csv" => format = Some(InlineData::Csv as fn(String) -> InlineData),
                    "json" => format = Some(InlineData::Json as fn(String) -> InlineData),
                    _ => return Err(option.invalid_value("csv or json")),
                },
                _ => data = Some(option.value),
            }
        }
        let data = match (format, data) {
            (Some(format), Some(data)) => Some(format(data)),
            (None, None) => None,
            _ => {
                let remark = Diagnostic::error("makeresults: format= and data= belong together", parser.here());
                return Err(remark.with_hint("write `makeresults format=csv data=\"a,b\"`"));
            }
        };
        Ok(MakeResultsCommand { count, annotate, data })
    }
}

impl Semantics for MakeResultsCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
