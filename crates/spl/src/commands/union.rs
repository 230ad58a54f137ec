//! `union`: concatenates the rows of several searches and datasets.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax, from};
use crate::analyse::FieldNeeds;
use crate::ast::{Pipeline, Stage, SubsearchLimits};
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("union", &["maxout", "maxtime", "timeout", "extendtimerange"]);

/// `union [maxout=N] [ SEARCH ]...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnionCommand {
    /// Searches whose rows are concatenated.
    pub subsearches: Vec<Pipeline>,
    /// Limits of each subsearch.
    pub limits: SubsearchLimits,
}

impl Syntax for UnionCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "union [maxout=N] [ SEARCH ]...",
        summary: "Merges the rows of several searches",
        group: Group::Rows,
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<UnionCommand> {
        let mut limits = SubsearchLimits::default();
        while let Some(option) = parser.option(OPTIONS)? {
            limits.take(&option)?;
        }
        Ok(UnionCommand { subsearches: parser.subsearches("union", 1, dataset)?, limits })
    }
}

impl Semantics for UnionCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Subsearches
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        self.subsearches.iter().collect()
    }
}

/// Parses `datamodel:NAME`, `lookup:NAME` or `savedsearch:NAME` and returns a search that reads the data set.
fn dataset(parser: &mut Parser<'_>) -> ParseResult<Option<Pipeline>> {
    let name = parser.peek_name().to_ascii_lowercase();
    let is_kind = matches!(name.as_str(), "datamodel" | "lookup" | "inputlookup" | "savedsearch");
    if !is_kind || !parser.rest()[name.len()..].starts_with(':') {
        return Ok(None);
    }
    let start = parser.pos;
    let command = from::parse(parser, Call { name: "from", is_first: true })?;
    let span = parser.since(start);
    Ok(Some(Pipeline { commands: vec![Stage { command, span }], span }))
}
