//! `metadata`: lists hosts, sources or sourcetypes.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Pipeline, SearchCommand, StatsFunction, TimeModifiers};
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("metadata", &["type", "index"]).ignoring(&["splunk_server", "splunk_server_group", "datatype"]);

/// `metadata`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataCommand {
    /// The search that counts events by host, source or sourcetype; it reads only metadata of events, not their text.
    pub search: Pipeline,
}

impl Syntax for MetadataCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "metadata type=hosts|sources|sourcetypes [index=]",
        summary: "Lists hosts, sources or sourcetypes",
        group: Group::Searching,
        capability: Some("get_metadata"),
        kind: Kind::Generating,
        returns_table: true,
        clauses: &["where"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MetadataCommand> {
        let (mut kind, mut indexes) = ("hosts".to_owned(), Vec::new());
        while let Some(option) = parser.option(OPTIONS)? {
            if option.name == "index" {
                indexes.push(option.value);
                continue;
            }
            kind = option.value.to_ascii_lowercase();
            if !matches!(kind.as_str(), "hosts" | "sources" | "sourcetypes") {
                return Err(option.invalid_value("hosts, sources or sourcetypes"));
            }
        }
        let make = parser.builder();
        let field = kind.strip_suffix('s').unwrap_or(&kind);
        let aggregates = vec![
            make.aggregate(StatsFunction::Min, "_time", "firstTime"),
            make.aggregate(StatsFunction::Max, "_time", "lastTime"),
            make.aggregate(StatsFunction::Max, "_indextime", "recentTime"),
            make.count("totalCount"),
        ];
        let expr = make.equals_any("index", &indexes);
        let search = make.pipeline(vec![
            SearchCommand { expr, time: TimeModifiers::default() }.into(),
            make.stats(aggregates, &[field]).into(),
            make.eval("type", make.text(&kind)),
            make.table(&["firstTime", field, "lastTime", "recentTime", "totalCount", "type"]),
        ]);
        Ok(MetadataCommand { search })
    }
}

impl Semantics for MetadataCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Search { search: &self.search, is_indexed: false }
    }
}
