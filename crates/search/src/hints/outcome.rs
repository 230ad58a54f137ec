//! The outcome of a search, from which hints are derived, and helpers that locate names in a search and list names in a
//! hint.

use std::collections::BTreeSet;

use quarry_event::TimeNs;
use quarry_spl::analyse::ReadField;
use quarry_spl::ast::{Span, Stage};

/// Maximum number of names listed in a hint; further ones are only counted.
const NAMES_MAX: usize = 12;
/// Position of a hint that concerns no particular part of the search.
pub const NO_SPAN: Span = Span { start: 0, end: 0 };

/// Outcome of a search.
pub struct SearchOutcome<'a> {
    /// Text of the search.
    pub text: &'a str,
    /// Number of rows.
    pub rows: usize,
    /// Columns without any value.
    pub empty: &'a [String],
    /// Columns with values.
    pub filled: &'a BTreeSet<String>,
    /// Columns that contain only zeros, as counts of a non-existent field do.
    pub zeros: &'a BTreeSet<String>,
    /// Whether the request set a time range.
    pub has_range: bool,
    /// Current time.
    pub now: TimeNs,
    /// Offset of the search's time zone from UTC in seconds.
    pub offset_s: i32,
    /// Whether a person waits for the answer, which makes small searches worthwhile even for a complete answer.
    pub is_watched: bool,
    /// Whether the roles of the user restrict the events of searches (`srchFilter`).
    pub is_filtered: bool,
}

impl SearchOutcome<'_> {
    /// Whether the answer is complete: it has rows, values other than zero in each column, and, if it is a chart,
    /// columns other than `NULL`.
    pub(crate) fn is_complete(&self) -> bool {
        self.rows > 0 && self.empty.is_empty() && self.zeros.is_empty() && !self.is_split_by_null()
    }

    /// Whether all values of a chart are in its `NULL` column, because no event has the field by which the chart is
    /// split.
    fn is_split_by_null(&self) -> bool {
        let is_null = |column: &&String| *column == "NULL" || column.ends_with(": NULL");
        let mut series = self.filled.iter().filter(|column| !column.starts_with('_'));
        self.filled.iter().any(|column| is_null(&column)) && series.all(|column| is_null(&column))
    }

    /// Whether the result shows that the field exists: the field has values, or rows passed a condition on the field.
    pub(super) fn proves_field(&self, field: &ReadField, commands: &[Stage]) -> bool {
        let in_call = format!("({})", field.name);
        let counts = |column: &String| column.contains(&in_call) && !self.zeros.contains(column);
        let has_values = self.filled.iter().any(|column| *column == field.name || counts(column));
        let is_read_by = |stage: &&Stage| stage.span == field.stage;
        let selects = commands.iter().find(is_read_by).is_some_and(|stage| stage.command.guarantees_read_fields());
        has_values || (self.is_complete() && selects)
    }
}

/// Position of a name, as a whole word, in a command; the whole command if the name does not occur.
pub(super) fn find_name_span(text: &str, stage: Span, name: &str) -> Span {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let command = text.get(stage.start..stage.end).unwrap_or_default();
    let found = command.match_indices(name).map(|(at, _)| (at, at + name.len()));
    let mut whole = found.filter(|(start, end)| {
        !is_word(command[..*start].chars().next_back()) && !is_word(command[*end..].chars().next())
    });
    let place = whole.next().map(|(start, end)| Span { start: stage.start + start, end: stage.start + end });
    place.unwrap_or(stage)
}

/// Hint that lists the existing names of `what`, or the first few of them.
pub(super) fn existing_names(what: &str, names: &[&str]) -> String {
    format!("existing {what}: {}", list_names(names))
}

/// The first few names, as a phrase.
pub(super) fn list_names(names: &[&str]) -> String {
    let mut text = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMES_MAX));
    }
    text
}
