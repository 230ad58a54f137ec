//! Hints for a search that found nothing, or left a column empty: an unknown index, a misspelt field, events in another
//! index or time range.
//!
//! To find hints, at most `PROBES_MAX` small searches read the catalog and recent events. Hints never change an answer,
//! and a hint that cannot be computed is omitted.

mod absent_values;
mod absent_words;
mod columns;
mod fields;
mod generators;
mod indexes;
mod outcome;
mod probe;
mod span_edges;
mod subsearches;
mod time_range;
mod unmet_conditions;
mod unseen_fields;

use std::collections::BTreeMap;

use quarry_spl::Diagnostic;
use quarry_spl::analyse::{ReadField, named_fields, negated_fields, required_values};
use quarry_spl::ast::{SearchPattern, Span, Stage};

use self::probe::{BoundedProbes, DynProbes};

pub use self::columns::AnswerColumns;
pub use self::indexes::unknown_indexes;
pub use self::outcome::{NO_SPAN, SearchOutcome};
pub(crate) use self::probe::quote;
pub use self::probe::{HintRow, Probes};

/// Maximum number of small searches for the hints of one search; further ones fail.
const PROBES_MAX: usize = 40;
/// The hint about an answer that may lack events because of the filter of the user's roles. The small searches see only
/// events that match this filter, so other hints could be wrong.
const FILTERED: &str = "your roles restrict searches to some events (srchFilter), so other events are not found";
/// Maximum number of hints about a search; further ones are omitted.
const NOTES_MAX: usize = 8;

/// Hints about an answer that is probably not the intended one.
pub fn hints(found: &SearchOutcome<'_>, ask: &mut dyn Probes) -> Vec<Diagnostic> {
    let parsed = quarry_spl::parse(found.text);
    if !parsed.is_ok() {
        return Vec::new();
    }
    let mut probes = BoundedProbes { probes: ask, left: PROBES_MAX };
    let mut notes = missing_data_notes(found, &parsed, &mut probes);
    if notes.is_empty() && (found.is_watched || !found.is_complete()) {
        notes = subsearches::unknown_field_notes(found, &parsed.pipeline.commands, &mut probes);
    }
    if found.is_watched && found.rows > 0 {
        notes.extend(span_edges::span_edge_note(found.text, &parsed.pipeline.commands, found.offset_s));
        notes.extend(unseen_fields::unseen_fields_note(found, &parsed.pipeline.commands));
    }
    notes.truncate(NOTES_MAX);
    notes
}

/// Hints about why an answer has no rows or lacks values.
fn missing_data_notes(
    found: &SearchOutcome<'_>,
    parsed: &quarry_spl::ParsedSearch,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let commands = &parsed.pipeline.commands;
    // A warning about a command already covers the fields that the command reads.
    let is_explained = |field: &ReadField| {
        let covers = |place: Span| field.stage.start <= place.start && place.end <= field.stage.end;
        parsed.diagnostics.iter().any(|remark| covers(remark.span))
    };
    let mut read = named_fields(commands);
    read.retain(|field| !is_explained(field));
    let nowhere: Vec<Diagnostic> =
        read.iter().filter_map(|field| fields::removed_field_note(found.text, commands, field)).collect();
    if !nowhere.is_empty() {
        return nowhere;
    }
    if !quarry_spl::analyse::begins_with_events(commands) || generators::is_of_metrics(commands) {
        return generators::generator_notes(found, commands, ask);
    }
    let asked_indexes = required_values(commands, "index");
    let wanted = unproven_fields(found, commands, &read);
    let is_done = found.is_complete() && (wanted.is_empty() || !found.is_watched);
    if is_done && asked_indexes.is_empty() {
        return Vec::new();
    }
    let Some(counts) = indexes::event_counts(&asked_indexes, ask) else { return Vec::new() };
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    let wrong = indexes::missing_index_notes(&asked_indexes, &known, ask);
    if !wrong.is_empty() || is_done {
        return wrong;
    }
    let bare = notes_without_rows(found, &asked_indexes, &counts, ask);
    if found.rows == 0 && !bare.is_empty() {
        return bare;
    }
    if let Some(elsewhere) = indexes::suggest_other_indexes(commands, &asked_indexes, &counts, ask) {
        return vec![elsewhere];
    }
    let scope = indexes::scope_condition(commands, &asked_indexes);
    let listed = format!("| metadata type=sourcetypes {}", indexes::indexes_of(&scope));
    let sourcetypes = probe::event_counts_by(&listed, "sourcetype", "totalCount", ask).unwrap_or_default();
    let asked = required_values(commands, "sourcetype");
    let known: Vec<&str> = sourcetypes.keys().map(String::as_str).collect();
    let wrong = absent_values::missing_value_notes("sourcetype", &asked, &known, ask);
    if !wrong.is_empty() && !found.is_complete() {
        return wrong;
    }
    let cased = fields::default_field_case_notes(found, &wanted);
    if found.rows == 0 && !cased.is_empty() {
        return cased;
    }
    if let Some(outside) = time_range::outside_range_notes(found, commands, &scope, ask) {
        return vec![outside];
    }
    let wrong = unknown_word_and_value_notes(found, parsed, &scope, ask);
    if !wrong.is_empty() {
        return wrong;
    }
    let mut notes = fields::unknown_field_notes(found, commands, &wanted, (&scope, &sourcetypes), ask);
    if notes.is_empty() {
        notes = unmatched_notes(found, commands, (&read, &scope), ask);
    }
    // If the parser has warned, its warning probably explains the empty answer.
    if notes.is_empty() && found.rows == 0 && parsed.diagnostics.is_empty() {
        notes.extend(unmet_conditions::unmet_conditions_note(found, commands, &scope, ask));
    }
    notes
}

/// Hints that explain an answer without rows by the roles of the user or by empty indexes.
fn notes_without_rows(
    found: &SearchOutcome<'_>,
    asked: &[&SearchPattern],
    counts: &BTreeMap<String, u64>,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    match found.is_filtered {
        true => vec![Diagnostic::warning(FILTERED, NO_SPAN)],
        false => indexes::empty_index_notes(asked, counts, ask),
    }
}

/// The fields that the answer does not prove to exist. A misspelt field in a negated condition removes no rows, so
/// fields of negated conditions are included if, and only if, the answer is complete.
fn unproven_fields<'r>(found: &SearchOutcome<'_>, commands: &[Stage], read: &'r [ReadField]) -> Vec<&'r ReadField> {
    let negated = negated_fields(commands);
    let is_negated = |field: &ReadField| field.stage == commands[0].span && negated.contains(&field.name);
    let is_wanted = |field: &&ReadField| match is_negated(field) {
        true => found.is_complete(),
        false => !found.proves_field(field, commands),
    };
    read.iter().filter(is_wanted).collect()
}

/// Hints about words that no event contains, and about hosts and sources that no event has.
fn unknown_word_and_value_notes(
    found: &SearchOutcome<'_>,
    parsed: &quarry_spl::ParsedSearch,
    scope: &str,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let commands = &parsed.pipeline.commands;
    let words = absent_words::absent_word_notes(found, parsed, scope, ask);
    if !words.is_empty() || found.is_complete() {
        return words;
    }
    let mut each = [("host", "hosts"), ("source", "sources")].into_iter();
    each.find_map(|(field, kind)| {
        let wrong = absent_values::unknown_value_notes(field, kind, commands, scope, ask);
        (!wrong.is_empty()).then_some(wrong)
    })
    .unwrap_or_default()
}

/// Hints about patterns and values that nothing matches, although the fields exist.
fn unmatched_notes(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    (read, scope): (&[ReadField], &str),
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let unmatched = absent_values::unmatched_rex_notes(found, commands, ask);
    if !unmatched.is_empty() || found.rows > 0 {
        return unmatched;
    }
    let fields: Vec<&str> = read.iter().map(|field| field.name.as_str()).collect();
    let values = absent_values::absent_value_notes(&fields, commands, scope, ask);
    if values.is_empty() { absent_values::case_mismatch_notes(found, commands, ask) } else { values }
}

#[cfg(test)]
mod tests;
