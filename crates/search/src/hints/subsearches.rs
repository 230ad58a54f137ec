//! Hints about the fields of subsearches (`append`, `join`, `union` and the like). The rows of a subsearch are mixed
//! with the rows of the main search, so the answer does not show which fields the rows of the subsearch lack.
//!
//! A subsearch is not run again; instead, the events of the subsearch are sampled like the events of the main search.
//! Only fields that an earlier command removes and likely misspellings are reported, because the answer does not show
//! that a field is missing.

use std::collections::BTreeSet;

use quarry_spl::Diagnostic;
use quarry_spl::analyse::{ReadField, begins_with_events, named_fields, required_values};
use quarry_spl::ast::{Pipeline, Stage};

use super::outcome::SearchOutcome;
use super::probe::{DynProbes, event_counts_by};
use super::{fields, generators, indexes};

/// Maximum number of subsearches examined.
const SUBSEARCHES_MAX: usize = 3;

/// Hints about the first subsearch with a field that none of its events has.
pub(super) fn unknown_field_notes(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let inner = commands.iter().flat_map(|stage| stage.command.subsearches()).take(SUBSEARCHES_MAX);
    let mut notes = inner.map(|inner| subsearch_notes(found, inner, ask));
    notes.find(|notes| !notes.is_empty()).unwrap_or_default()
}

fn subsearch_notes(found: &SearchOutcome<'_>, inner: &Pipeline, ask: DynProbes<'_>) -> Vec<Diagnostic> {
    let commands = &inner.commands;
    let read = named_fields(commands);
    let nowhere: Vec<Diagnostic> =
        read.iter().filter_map(|field| fields::removed_field_note(found.text, commands, field)).collect();
    if !nowhere.is_empty() || read.is_empty() || !begins_with_events(commands) || generators::is_of_metrics(commands) {
        return nowhere;
    }
    let scope = indexes::scope_condition(commands, &required_values(commands, "index"));
    let listed = format!("| metadata type=sourcetypes {}", indexes::indexes_of(&scope));
    let sourcetypes = event_counts_by(&listed, "sourcetype", "totalCount", ask).unwrap_or_default();
    let nothing = BTreeSet::new();
    // With the outcome of a complete answer, only likely misspellings are reported.
    let outcome = SearchOutcome { rows: 1, empty: &[], filled: &nothing, zeros: &nothing, ..*found };
    let wanted: Vec<&ReadField> = read.iter().collect();
    fields::unknown_field_notes(&outcome, commands, &wanted, (&scope, &sourcetypes), ask)
}
