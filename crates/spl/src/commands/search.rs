//! `search`: selects the events or rows that meet a condition.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{self, FieldNeeds, has_subsearch, search_fields};
use crate::ast::{Pipeline, SearchExpr, TimeModifiers};
use crate::diagnostic::Diagnostic;
use crate::lints;
use crate::parse::{ParseResult, Parser};

/// `search EXPR`; the first `search` of a pipeline selects events, later `search` commands filter rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchCommand {
    /// The condition without inline time modifiers.
    pub expr: SearchExpr,
    /// `earliest=`, `latest=` and similar modifiers at the top level.
    pub time: TimeModifiers,
}

impl Syntax for SearchCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "search EXPR",
        summary: "Keeps the events or rows that match a condition",
        group: Group::Searching,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<SearchCommand> {
        parser.search_command(call.is_first)
    }
}

impl Semantics for SearchCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        search_fields(&self.expr).iter().for_each(|field| after.add(field));
        // The fields of a subsearch's result are known only after it has run.
        after.all |= has_subsearch(&self.expr);
        after
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Events(self)
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn optional_fields(&self) -> BTreeSet<String> {
        let mut asked = BTreeSet::new();
        let all = search_fields(&self.expr);
        analyse::collect_always_compared(&self.expr, &mut asked);
        all.difference(&asked).cloned().collect()
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        Some(Vec::new())
    }

    fn is_repeatable(&self) -> bool {
        analyse::depends_only_on_event(&self.expr)
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        self.expr.subsearches()
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        lints::find_in_condition(&self.expr, found);
        if place.is_first {
            lints::find_missing_pipe(place, &self.expr, found);
        }
    }
}
