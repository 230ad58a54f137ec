//! `eventstats`: adds to every row the aggregates of its group.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::StatsCommand;
use crate::diagnostic::Diagnostic;
use crate::lints::find_in_report;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("eventstats", &["allnum", "delim", "dedup_splitvals"]);

/// `eventstats AGG... [BY FIELD...]`, with the syntax of `stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventStatsCommand(pub StatsCommand);

impl Syntax for EventStatsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "eventstats AGG... [BY FIELD...]",
        summary: "Adds aggregates to every row",
        group: Group::Reporting,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<EventStatsCommand> {
        parser.stats(OPTIONS).map(EventStatsCommand)
    }
}

impl Semantics for EventStatsCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.remove_results(&self.0.aggregates);
        after.add_aggregates(&self.0.aggregates);
        after.add_all(&self.0.by);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::adding(self.0.aggregates.iter().map(|aggregate| aggregate.name.as_str()))
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        find_in_report(place.text, &self.0.aggregates, found);
    }
}
