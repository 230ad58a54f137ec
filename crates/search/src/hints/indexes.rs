//! Hints about the indexes that a search names: those that do not exist, and those without events.

use std::collections::BTreeMap;

use quarry_spl::Diagnostic;
use quarry_spl::analyse::{mentions_field, required_values};
use quarry_spl::ast::{SearchPattern, Span, Stage};

use super::outcome::list;
use super::probe::{Ask, HintRow, Probes, alternatives, events_by};

/// Condition for the indexes that a role searches by default.
pub(super) const DEFAULT_INDEXES: &str = "*";
/// Search that counts the events of the indexes read if a search names none.
pub(super) const DEFAULT_INDEXES_COUNT: &str = "| tstats count WHERE earliest=0 latest=+100y";
/// Condition for all indexes that are not internal.
const ALL_INDEXES: &str = "index=*";
/// Search that counts the events of each index that has buckets.
const COUNTS: &str = "| eventcount summarize=false index=* index=_*";
/// Search that lists all indexes, with or without events.
const NAMES: &str = "| rest /services/data/indexes count=0 | table title";
/// Search for the current user and their roles.
const SEARCHER: &str = "| rest /services/authentication/current-context | table username roles";
/// The role that may search every index.
const ADMIN: &str = "admin";

/// Number of events of each index with events. If an index in `asked` is not among them, indexes without events are
/// included.
pub(super) fn counts(asked: &[&SearchPattern], ask: Ask<'_>) -> Option<BTreeMap<String, u64>> {
    let mut counts = events_by(COUNTS, "index", "count", ask)?;
    let is_there = |index: &&SearchPattern| counts.contains_key(&index.text);
    if !asked.iter().all(is_there) {
        let title = |row: HintRow| row.get("title").cloned();
        // If the user may not list indexes, only those with events are counted.
        for index in ask.rows(NAMES).unwrap_or_default().into_iter().filter_map(title) {
            counts.entry(index).or_insert(0);
        }
    }
    Some(counts)
}

/// Notes on indexes that a search names and that do not exist.
pub fn unknown_indexes(commands: &[Stage], ask: &mut dyn Probes) -> Vec<Diagnostic> {
    let asked = required_values(commands, "index");
    if asked.is_empty() {
        return Vec::new();
    }
    let counts = counts(&asked, ask).unwrap_or_default();
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    if known.is_empty() { Vec::new() } else { not_there(&asked, &known, ask) }
}

/// Notes on indexes that are not among the known ones. If the user's roles may not search all indexes, the notes say
/// so, because the index may exist.
pub(super) fn not_there(asked: &[&SearchPattern], known: &[&str], ask: Ask<'_>) -> Vec<Diagnostic> {
    let mut notes = super::absent_values::not_there("index", asked, known, ask);
    if notes.is_empty() {
        return notes;
    }
    let is_limited =
        |row: &HintRow| row.get("roles").is_some_and(|roles| roles.split_whitespace().all(|role| role != ADMIN));
    let searcher = ask.rows(SEARCHER).and_then(|rows| rows.into_iter().next()).filter(is_limited);
    if let Some(name) = searcher.as_ref().and_then(|row| row.get("username")) {
        for note in &mut notes {
            note.message.push_str(&format!(" that {name} may search"));
        }
    }
    notes
}

/// Notes on the indexes of a search, if none of them holds an event.
pub(super) fn without_events(asked: &[&SearchPattern], counts: &BTreeMap<String, u64>) -> Vec<Diagnostic> {
    if asked.iter().any(|index| counts.get(&index.text).is_some_and(|count| *count > 0)) {
        return Vec::new();
    }
    let others = counts.iter().filter(|(name, count)| **count > 0 && !name.starts_with('_'));
    let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
    let note = |index: &&SearchPattern| {
        let remark = Diagnostic::warning(format!("index `{}` holds no events", index.text), index.span);
        remark.with_hint(match others.as_slice() {
            [] => format!("add some: `quarry add oneshot FILE --index {}`", index.text),
            others => format!("events are in {}", list(others)),
        })
    };
    asked.iter().map(note).collect()
}

/// Suggests indexes with events to a search that names no index, if the default ones have no events.
pub(super) fn elsewhere(
    commands: &[Stage],
    asked: &[&SearchPattern],
    counts: &BTreeMap<String, u64>,
    ask: Ask<'_>,
) -> Option<Diagnostic> {
    if !asked.is_empty() || counts.get("main").is_some_and(|count| *count > 0) {
        return None;
    }
    let others: Vec<&str> = counts
        .iter()
        .filter(|(name, count)| **count > 0 && !name.starts_with('_'))
        .map(|(name, _)| name.as_str())
        .collect();
    // Patterns of index names are also conditions on an index.
    if mentions_field(commands, "index") || others.is_empty() {
        return None;
    }
    // The default indexes of a role may be others than `main`.
    let reads = ask.rows(DEFAULT_INDEXES_COUNT)?;
    if reads.first().and_then(|row| row.get("count")).is_none_or(|count| count != "0") {
        return None;
    }
    let span = commands.first().map_or(Span { start: 0, end: 0 }, |stage| stage.span);
    let text = "a search that names no index reads the default indexes, `main` unless a role has others, and they hold no events";
    let remark = Diagnostic::warning(text, span);
    Some(remark.with_hint(format!("events are in {}: write index={}", list(&others), others[0])))
}

/// A condition for the indexes that a search reads. It covers all indexes if the search selects them by patterns,
/// exclusion or alternatives.
pub(super) fn scope(commands: &[Stage], asked: &[&SearchPattern]) -> String {
    match asked {
        [] if mentions_field(commands, "index") => ALL_INDEXES.to_owned(),
        [] => DEFAULT_INDEXES.to_owned(),
        asked => alternatives("index", asked),
    }
}

/// The indexes in a condition that [`scope`] returned, written as arguments of `metadata`.
pub(super) fn indexes_of(scope: &str) -> String {
    if scope == DEFAULT_INDEXES { String::new() } else { scope.trim_matches(['(', ')']).replace(" OR ", " ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hints for a search over a node with an index `main` and an empty index `web`.
    fn said(text: &str, has_events: bool, roles: &str) -> Vec<String> {
        let row = |cells: &[(&str, &str)]| -> HintRow {
            cells.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut ask = |search: &str| {
            Some(match search {
                COUNTS if has_events => vec![row(&[("index", "main"), ("count", "5")])],
                SEARCHER => vec![row(&[("username", "eva"), ("roles", roles)])],
                NAMES => ["main", "web", "_audit"].iter().map(|name| row(&[("title", name)])).collect(),
                _ => Vec::new(),
            })
        };
        let commands = quarry_spl::parse(text).pipeline.commands;
        let asked = required_values(&commands, "index");
        let counts = counts(&asked, &mut ask).unwrap();
        let mut notes = without_events(&asked, &counts);
        if !unknown_indexes(&commands, &mut ask).is_empty() {
            notes = unknown_indexes(&commands, &mut ask);
        }
        notes.iter().map(|note| note.to_one_line(text)).collect()
    }

    #[test]
    fn an_index_without_events_is_not_an_unknown_one() {
        for (text, has_events, notes) in [
            ("index=web", true, &["index `web` holds no events (character 7); events are in main"][..]),
            (
                "index=web error",
                false,
                &["index `web` holds no events (character 7); add some: `quarry add oneshot FILE --index web`"],
            ),
            ("index=WEB error", true, &["there is no index `WEB` (character 7); did you mean `web`?"]),
            ("index=main nothing", true, &[]),
            ("index=web OR index=main", true, &[]),
            ("index=wbe", true, &["there is no index `wbe` (character 7); did you mean `web`?"]),
        ] {
            assert_eq!(said(text, has_events, "admin power user"), notes, "{text}");
        }
        let of_others = "there is no index `payroll` that eva may search (character 7); there is main, web";
        assert_eq!(said("index=payroll", true, "webber user"), [of_others]);
    }
}
