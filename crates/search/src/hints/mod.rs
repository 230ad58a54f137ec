//! Hints for a search that found nothing, or left a column empty: an unknown index, a misspelt field, events in another
//! index or time range.
//!
//! Hints cost a few small searches over the catalog and over recent events. They never change an answer, and a hint
//! that cannot be computed is omitted.

mod absent_values;
mod absent_words;
mod fields;
mod generators;
mod indexes;
mod probe;
mod span_edges;
mod time_range;
mod unmet_conditions;
mod unseen_fields;

use std::collections::{BTreeMap, BTreeSet};

use quarry_event::TimeNs;
use quarry_spl::Diagnostic;
use quarry_spl::analyse::{ReadField, asked_values, named_fields};
use quarry_spl::ast::{Span, Stage};

pub use indexes::unknown_indexes;

/// Maximum names in a hint.
const NAMES_MAX: usize = 12;
/// Position of a note that does not concern a part of the search.
pub const NO_PLACE: Span = Span { start: 0, end: 0 };

/// A row of a small search: field values as text.
pub type HintRow = BTreeMap<String, String>;

/// Runs the small searches of hints.
pub trait Probes {
    /// The rows of a search in the time range that the searched one has from outside; `None` if it fails.
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>>;

    /// The rows of a search over all time; `None` if it fails.
    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>>;
}

/// One function for both, where no range is set from outside.
impl<F: FnMut(&str) -> Option<Vec<HintRow>>> Probes for F {
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self(search)
    }

    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self(search)
    }
}

pub(crate) type Ask<'a> = &'a mut dyn Probes;

/// Outcome of a search.
pub struct SearchOutcome<'a> {
    /// Its text.
    pub text: &'a str,
    /// Number of rows.
    pub rows: usize,
    /// Columns without any value.
    pub empty: &'a [String],
    /// Columns with values.
    pub filled: &'a BTreeSet<String>,
    /// Columns that contain only zeros, as counts of a non-existent field do.
    pub zeros: &'a BTreeSet<String>,
    /// Whether the command line set a time range.
    pub has_range: bool,
    /// The present.
    pub now: TimeNs,
    /// Offset of its zone from UTC in seconds.
    pub offset_s: i32,
    /// Whether a person is watching: then even a complete answer is worth small searches.
    pub is_watched: bool,
}

/// Notes on an answer that is probably not the intended one.
pub fn hints(found: &SearchOutcome<'_>, ask: &mut dyn Probes) -> Vec<Diagnostic> {
    let parsed = quarry_spl::parse(found.text);
    if !parsed.is_ok() {
        return Vec::new();
    }
    let mut notes = lacking(found, &parsed, ask);
    if found.is_watched && found.rows > 0 {
        notes.extend(span_edges::remark(found.text, &parsed.pipeline.commands, found.offset_s));
        notes.extend(unseen_fields::remark(found, &parsed.pipeline.commands));
    }
    notes
}

/// Notes on what is missing in an answer.
fn lacking(found: &SearchOutcome<'_>, parsed: &quarry_spl::Parsed, ask: Ask<'_>) -> Vec<Diagnostic> {
    let commands = &parsed.pipeline.commands;
    // A warning about a command already covers the fields it reads.
    let is_explained = |field: &ReadField| {
        parsed
            .diagnostics
            .iter()
            .any(|remark| field.stage.start <= remark.span.start && remark.span.end <= field.stage.end)
    };
    let mut read = named_fields(commands);
    read.retain(|field| !is_explained(field));
    let nowhere: Vec<Diagnostic> =
        read.iter().filter_map(|field| fields::cut_off(found.text, commands, field)).collect();
    if !nowhere.is_empty() {
        return nowhere;
    }
    if !quarry_spl::analyse::begins_with_events(commands) || generators::is_of_metrics(commands) {
        return generators::hints(found, commands, ask);
    }
    let asked_indexes = asked_values(commands, "index");
    let wanted: Vec<&ReadField> = read.iter().filter(|field| !found.shows(field, commands)).collect();
    let is_done = found.is_whole() && (wanted.is_empty() || !found.is_watched);
    if is_done && asked_indexes.is_empty() {
        return Vec::new();
    }
    let Some(counts) = indexes::counts(&asked_indexes, ask) else { return Vec::new() };
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    let wrong = indexes::not_there(&asked_indexes, &known, ask);
    if !wrong.is_empty() || is_done {
        return wrong;
    }
    let bare = indexes::without_events(&asked_indexes, &counts);
    if found.rows == 0 && !bare.is_empty() {
        return bare;
    }
    if let Some(elsewhere) = indexes::elsewhere(commands, &asked_indexes, &counts, ask) {
        return vec![elsewhere];
    }
    let scope = indexes::scope(commands, &asked_indexes);
    let listed = format!("| metadata type=sourcetypes {}", indexes::indexes_of(&scope));
    let sourcetypes = probe::events_by(&listed, "sourcetype", "totalCount", ask).unwrap_or_default();
    let asked = asked_values(commands, "sourcetype");
    let known: Vec<&str> = sourcetypes.keys().map(String::as_str).collect();
    let wrong = absent_values::not_there("sourcetype", &asked, &known, ask);
    if !wrong.is_empty() && !found.is_whole() {
        return wrong;
    }
    let cased = fields::other_case_of_default(found, &wanted);
    if found.rows == 0 && !cased.is_empty() {
        return cased;
    }
    if let Some(outside) = time_range::outside_of_range(found, commands, &scope, ask) {
        return vec![outside];
    }
    let wrong = wrong_words_and_values(found, parsed, &scope, ask);
    if !wrong.is_empty() {
        return wrong;
    }
    let mut notes = fields::wrong_fields(found, commands, &wanted, (&scope, &sourcetypes), ask);
    if notes.is_empty() {
        notes = absent(found, commands, (&read, &scope), ask);
    }
    // Otherwise a warning explains it.
    if notes.is_empty() && found.rows == 0 && parsed.diagnostics.is_empty() {
        notes.extend(unmet_conditions::remark(found, commands, &scope, ask));
    }
    notes
}

/// Notes on words that no event contains, and on hosts and sources that none has.
fn wrong_words_and_values(
    found: &SearchOutcome<'_>,
    parsed: &quarry_spl::Parsed,
    scope: &str,
    ask: Ask<'_>,
) -> Vec<Diagnostic> {
    let commands = &parsed.pipeline.commands;
    let words = absent_words::of_words(found, parsed, scope, ask);
    if !words.is_empty() || found.is_whole() {
        return words;
    }
    let mut each = [("host", "hosts"), ("source", "sources")].into_iter();
    each.find_map(|(field, kind)| {
        let wrong = absent_values::wrong_values(field, kind, commands, scope, ask);
        (!wrong.is_empty()).then_some(wrong)
    })
    .unwrap_or_default()
}

/// Notes on patterns and values that nothing matches, although the fields exist.
fn absent(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    (read, scope): (&[ReadField], &str),
    ask: Ask<'_>,
) -> Vec<Diagnostic> {
    let unmatched = absent_values::of_rex(found, commands, ask);
    if !unmatched.is_empty() || found.rows > 0 {
        return unmatched;
    }
    let fields: Vec<&str> = read.iter().map(|field| field.name.as_str()).collect();
    let values = absent_values::of_values(&fields, commands, scope, ask);
    if values.is_empty() { absent_values::other_case(found, commands, ask) } else { values }
}

impl SearchOutcome<'_> {
    /// Whether there are rows, and a value in each column.
    fn is_whole(&self) -> bool {
        self.rows > 0 && self.empty.is_empty() && self.zeros.is_empty() && !self.is_split_by_nothing()
    }

    /// Whether all values of a chart are in the column of events that lack the field by which it is split.
    fn is_split_by_nothing(&self) -> bool {
        let is_null = |column: &&String| *column == "NULL" || column.ends_with(": NULL");
        let mut series = self.filled.iter().filter(|column| !column.starts_with('_'));
        self.filled.iter().any(|column| is_null(&column)) && series.all(|column| is_null(&column))
    }

    /// Whether the result shows that the field exists: it has values, or rows passed a condition on it.
    fn shows(&self, field: &ReadField, commands: &[Stage]) -> bool {
        let in_call = format!("({})", field.name);
        let counts = |column: &String| column.contains(&in_call) && !self.zeros.contains(column);
        let has_values = self.filled.iter().any(|column| *column == field.name || counts(column));
        let is_read_by = |stage: &&Stage| stage.span == field.stage;
        let selects = commands.iter().find(is_read_by).is_some_and(|stage| stage.command.selects());
        has_values || (self.is_whole() && selects)
    }
}

/// Position of a whole name in a command; the whole command if it does not occur.
fn place_of(text: &str, stage: Span, name: &str) -> Span {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let command = text.get(stage.start..stage.end).unwrap_or_default();
    let found = command.match_indices(name).map(|(at, _)| (at, at + name.len()));
    let mut whole = found.filter(|(start, end)| {
        !is_word(command[..*start].chars().next_back()) && !is_word(command[*end..].chars().next())
    });
    let place = whole.next().map(|(start, end)| Span { start: stage.start + start, end: stage.start + end });
    place.unwrap_or(stage)
}

/// The first few names, as a phrase.
fn list(names: &[&str]) -> String {
    let mut text = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMES_MAX));
    }
    text
}

#[cfg(test)]
mod tests;
