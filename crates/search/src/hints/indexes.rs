//! Hints about the indexes that a search names: indexes that do not exist, and indexes without events.

use std::collections::BTreeMap;

use quarry_spl::Diagnostic;
use quarry_spl::analyse::{mentions_field, required_values};
use quarry_spl::ast::{SearchPattern, Span, Stage};

use super::outcome::list_names;
use super::probe::{DynProbes, HintRow, Probes, any_value_condition, event_counts_by};

/// Condition for the indexes that a role searches by default.
pub(super) const DEFAULT_INDEXES: &str = "*";
/// Search that counts the events of the indexes that are searched by default.
pub(super) const DEFAULT_INDEXES_COUNT: &str = "| tstats count WHERE earliest=0 latest=+100y";
/// Condition for all indexes that are not internal.
const ALL_INDEXES: &str = "index=*";
/// Search that counts the events of each index that has buckets.
const COUNTS_SEARCH: &str = "| eventcount summarize=false index=* index=_*";
/// Search that lists all indexes, with or without events.
const NAMES_SEARCH: &str = "| rest /services/data/indexes count=0 | table title";
/// Search for the current user and their roles.
const CURRENT_USER_SEARCH: &str = "| rest /services/authentication/current-context | table username roles";
/// The role that may search every index.
const ADMIN: &str = "admin";

/// Number of events of each index with events. If `asked` names an index that is not among them, indexes without events
/// are included, with 0.
pub(super) fn event_counts(asked: &[&SearchPattern], ask: DynProbes<'_>) -> Option<BTreeMap<String, u64>> {
    let mut counts = event_counts_by(COUNTS_SEARCH, "index", "count", ask)?;
    let is_there = |index: &&SearchPattern| counts.contains_key(&index.text);
    if !asked.iter().all(is_there) {
        let title = |row: HintRow| row.get("title").cloned();
        // If the user may not list indexes, only indexes with events are counted.
        for index in ask.rows(NAMES_SEARCH).unwrap_or_default().into_iter().filter_map(title) {
            counts.entry(index).or_insert(0);
        }
    }
    Some(counts)
}

/// Hints about indexes that a search names and that do not exist.
pub fn unknown_indexes(commands: &[Stage], ask: &mut dyn Probes) -> Vec<Diagnostic> {
    let asked = required_values(commands, "index");
    if asked.is_empty() {
        return Vec::new();
    }
    let counts = event_counts(&asked, ask).unwrap_or_default();
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    if known.is_empty() { Vec::new() } else { missing_index_notes(&asked, &known, ask) }
}

/// Hints about indexes that are not in `known`. If the user's roles may not search all indexes, the hints say so,
/// because the index may exist.
pub(super) fn missing_index_notes(asked: &[&SearchPattern], known: &[&str], ask: DynProbes<'_>) -> Vec<Diagnostic> {
    let mut notes = super::absent_values::missing_value_notes("index", asked, known, ask);
    if let Some(name) = (!notes.is_empty()).then(|| limited_user(ask)).flatten() {
        for note in &mut notes {
            note.message.push_str(&format!(" that {name} may search"));
        }
    }
    notes
}

/// Name of the current user, if none of their roles is [`ADMIN`].
fn limited_user(ask: DynProbes<'_>) -> Option<String> {
    let row = ask.rows(CURRENT_USER_SEARCH)?.into_iter().next()?;
    let is_limited = row.get("roles").is_some_and(|roles| roles.split_whitespace().all(|role| role != ADMIN));
    row.get("username").filter(|_| is_limited).cloned()
}

/// Hints about the indexes of a search, if none of them holds an event. Events that the roles of the user hide are not
/// in `counts`.
pub(super) fn empty_index_notes(
    asked: &[&SearchPattern],
    counts: &BTreeMap<String, u64>,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    if asked.is_empty() || asked.iter().any(|index| counts.get(&index.text).is_some_and(|count| *count > 0)) {
        return Vec::new();
    }
    let others = counts.iter().filter(|(name, count)| **count > 0 && !name.starts_with('_'));
    let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
    let limited = limited_user(ask);
    let note = |index: &&SearchPattern| {
        let for_whom = limited.as_ref().map_or_else(String::new, |name| format!(" that {name} may find"));
        let remark = Diagnostic::warning(format!("index `{}` holds no events{for_whom}", index.text), index.span);
        remark.with_hint(match others.as_slice() {
            _ if limited.is_some() => {
                "roles may restrict the events (srchFilter) and the time (srchTimeWin)".to_owned()
            }
            [] => format!("add some: `quarry add oneshot FILE --index {}`", index.text),
            others => format!("events are in {}", list_names(others)),
        })
    };
    asked.iter().map(note).collect()
}

/// Suggests indexes with events to a search that names no index, if the default indexes have no events.
pub(super) fn suggest_other_indexes(
    commands: &[Stage],
    asked: &[&SearchPattern],
    counts: &BTreeMap<String, u64>,
    ask: DynProbes<'_>,
) -> Option<Diagnostic> {
    if !asked.is_empty() || counts.get("main").is_some_and(|count| *count > 0) {
        return None;
    }
    let others: Vec<&str> = counts
        .iter()
        .filter(|(name, count)| **count > 0 && !name.starts_with('_'))
        .map(|(name, _)| name.as_str())
        .collect();
    // `asked` omits patterns, but a search with `index=web*` does name indexes.
    if mentions_field(commands, "index") || others.is_empty() {
        return None;
    }
    // A role may have default indexes other than `main`.
    let reads = ask.rows(DEFAULT_INDEXES_COUNT)?;
    if reads.first().and_then(|row| row.get("count")).is_none_or(|count| count != "0") {
        return None;
    }
    let span = commands.first().map_or(Span { start: 0, end: 0 }, |stage| stage.span);
    let text = "a search that names no index reads the default indexes, `main` unless a role has others, and they hold no events";
    let remark = Diagnostic::warning(text, span);
    Some(remark.with_hint(format!("events are in {}: write index={}", list_names(&others), others[0])))
}

/// A condition for the indexes that a search reads. If the search selects indexes by patterns, exclusion or
/// alternatives, the condition covers all indexes.
pub(super) fn scope_condition(commands: &[Stage], asked: &[&SearchPattern]) -> String {
    match asked {
        [] if mentions_field(commands, "index") => ALL_INDEXES.to_owned(),
        [] => DEFAULT_INDEXES.to_owned(),
        asked => any_value_condition("index", asked),
    }
}

/// The indexes in a condition that [`scope_condition`] returned, written as arguments of `metadata`.
pub(super) fn indexes_of(scope: &str) -> String {
    if scope == DEFAULT_INDEXES { String::new() } else { scope.trim_matches(['(', ')']).replace(" OR ", " ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hints for a search over a node with an index `main` and an empty index `web`.
    fn hint_texts(text: &str, has_events: bool, roles: &str) -> Vec<String> {
        let row = |cells: &[(&str, &str)]| -> HintRow {
            cells.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut ask = |search: &str| {
            Some(match search {
                COUNTS_SEARCH if has_events => vec![row(&[("index", "main"), ("count", "5")])],
                CURRENT_USER_SEARCH => vec![row(&[("username", "eva"), ("roles", roles)])],
                NAMES_SEARCH => ["main", "web", "_audit"].iter().map(|name| row(&[("title", name)])).collect(),
                _ => Vec::new(),
            })
        };
        let commands = quarry_spl::parse(text).pipeline.commands;
        let asked = required_values(&commands, "index");
        let counts = event_counts(&asked, &mut ask).unwrap();
        let mut notes = empty_index_notes(&asked, &counts, &mut ask);
        if !unknown_indexes(&commands, &mut ask).is_empty() {
            notes = unknown_indexes(&commands, &mut ask);
        }
        notes.iter().map(|note| note.to_one_line(text)).collect()
    }

    #[test]
    fn empty_indexes_are_not_unknown() {
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
            assert_eq!(hint_texts(text, has_events, "admin power user"), notes, "{text}");
        }
        let of_others = "there is no index `payroll` that eva may search (character 7); existing indexes: main, web";
        assert_eq!(hint_texts("index=payroll", true, "webber user"), [of_others]);
        let hidden = "index `web` holds no events that eva may find (character 7); roles may restrict the events \
                      (srchFilter) and the time (srchTimeWin)";
        assert_eq!(hint_texts("index=web", true, "webber user"), [hidden]);
    }
}
