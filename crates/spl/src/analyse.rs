//! Field flow analysis: determines the fields that a search needs from its events, and whether it returns events.
//!
//! Commands are examined from last to first. Before a command, the fields that it creates are not needed; the fields
//! that it reads are needed. Commands that keep only named fields drop all other fields. When in doubt, all fields are
//! needed: extra fields cost time, missing fields give wrong results.

mod field_needs;
mod named_values;
mod read_fields;
pub(crate) mod repeatability;
mod search_texts;

use crate::ast::{Pipeline, SearchExpr, Stage};
use crate::commands::Beginning;
use crate::diagnostic::Diagnostic;
use crate::lints;
pub use field_needs::FieldNeeds;
pub(crate) use field_needs::matches_pattern;
pub(crate) use named_values::collect_always_compared;
pub use named_values::{
    ComparedWith, FieldOrigin, ReadField, WhereEquality, fields_as_values, is_removed, mentions_field, named_fields,
    negated_fields, removed_fields, required_conditions, required_values, required_words, subsearches_of,
    where_equalities,
};
pub(crate) use read_fields::{RAW, TIME, possibly_missing_fields};
pub use read_fields::{expr_fields, search_fields};
pub use repeatability::{depends_only_on_event, is_constant};
pub use search_texts::{SearchedText, highlighted_texts};

/// Fields the event scan must deliver for the commands that follow the leading search.
pub fn required_fields(commands: &[Stage]) -> FieldNeeds {
    fields_needed_before(commands, FieldNeeds::all_fields())
}

/// Fields needed before these commands, given the fields needed after them.
pub fn fields_needed_before(commands: &[Stage], after: FieldNeeds) -> FieldNeeds {
    commands.iter().rev().fold(after, |needs, stage| stage.command.node().fields_before(needs))
}

/// Whether the output is a table of results rather than events.
pub fn is_transforming(commands: &[Stage]) -> bool {
    transforming_command(commands).is_some()
}

/// Whether the first command of a search selects events.
pub fn begins_with_events(commands: &[Stage]) -> bool {
    commands.first().is_some_and(|stage| matches!(stage.command.begins_with(), Beginning::Events(_)))
}

/// The first command that turns events into a table.
pub fn transforming_command(commands: &[Stage]) -> Option<&Stage> {
    commands.iter().find(|stage| stage.command.returns_table())
}

/// A hint that words of the leading search look like a command with its arguments. The words may be meant as search
/// terms, so the hint is useful only if the search finds nothing.
pub fn find_command_in_words(text: &str, commands: &[Stage]) -> Option<Diagnostic> {
    lints::find_command_in_words(text, commands)
}

/// Whether a condition contains a subsearch.
pub(crate) fn has_subsearch(expr: &SearchExpr) -> bool {
    !expr.subsearches().is_empty()
}

impl SearchExpr {
    /// The subsearches of the condition, in order.
    pub fn subsearches(&self) -> Vec<&Pipeline> {
        match self {
            SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().flat_map(SearchExpr::subsearches).collect(),
            SearchExpr::Not(part) => part.subsearches(),
            SearchExpr::Subsearch(pipeline) => vec![pipeline],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
