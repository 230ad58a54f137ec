//! Hints for a search that finds nothing because no event contains one of its words.

use quarry_spl::analyse::{asked_words, command_among_words};
use quarry_spl::ast::Span;
use quarry_spl::{Diagnostic, Parsed};

use super::{Ask, SearchOutcome};

/// Maximum words, or groups of alternatives, that are looked for.
const LOOKS_MAX: usize = 6;
/// A condition on indexes that leaves all that are not internal.
const ALL_INDEXES: &str = "index=*";

/// Notes on words that no event of the searched indexes and time range contains; `scope` is a condition on the indexes.
pub(super) fn of_words(found: &SearchOutcome<'_>, parsed: &Parsed, scope: &str, ask: Ask<'_>) -> Vec<Diagnostic> {
    if found.rows > 0 {
        return Vec::new();
    }
    // What follows a command that was written without `|` is explained by that.
    let explained = parsed.diagnostics.iter().map(|remark| remark.span.start).min().unwrap_or(usize::MAX);
    let groups = asked_words(&parsed.pipeline.commands);
    let groups = groups.iter().filter(|group| group.iter().all(|word| word.span.start < explained));
    let mut indexes_with = |condition: &str| -> Option<Vec<String>> {
        let rows = ask(&format!("{condition} | head 1 | table index"))?;
        Some(rows.into_iter().map(|mut row| row.remove("index").unwrap_or_default()).collect())
    };
    // Words of which the first may be a command have one note in common.
    let mut command = command_among_words(found.text, &parsed.pipeline.commands);
    let command_start = command.as_ref().map_or(usize::MAX, |command| command.span.start);
    let mut notes = Vec::new();
    for group in groups.take(LOOKS_MAX) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let is_of_command = first.span.start >= command_start;
        if is_of_command && command.is_none() {
            break;
        }
        let written = group.iter().filter_map(|word| found.text.get(word.span.start..word.span.end));
        let written: Vec<&str> = written.collect();
        let any = written.join(" OR ");
        if indexes_with(&format!("{scope} ({any})")).is_none_or(|indexes| !indexes.is_empty()) {
            continue;
        }
        let quoted: Vec<String> = group.iter().map(|word| format!("`{}`", word.text)).collect();
        let span = Span { start: first.span.start, end: last.span.end };
        let note = |text: String| Diagnostic::warning(text, span);
        let absent = format!("no event contains {}", quoted.join(" or "));
        if is_of_command && let Some(command) = command.take() {
            let hint = command.hint.clone().unwrap_or_default();
            notes.push(note(absent).with_hint(hint));
            continue;
        }
        if let Some(name) = first.text.strip_prefix("--").filter(|name| name.starts_with(char::is_alphabetic)) {
            let hint = format!("an option of the program goes behind the quotes: quarry search '…' --{name} …");
            notes.push(note(absent).with_hint(hint));
            break;
        }
        let has_plain = group.iter().zip(&written).any(|(word, typed)| !word.quoted && word.text == *typed);
        let inside: Vec<String> = written.iter().map(|typed| format!("*{}*", typed.trim_matches('*'))).collect();
        let inside = inside.join(" OR ");
        let mut is_found = |condition: String| indexes_with(&condition).is_some_and(|indexes| !indexes.is_empty());
        notes.push(if has_plain && is_found(format!("{scope} ({inside})")) {
            note(format!("no event contains the word {}", quoted.join(" or ")))
                .with_hint(format!("words are matched whole: write {inside} for a part of a word"))
        } else {
            match indexes_with(&format!("{ALL_INDEXES} ({any})")).unwrap_or_default().first() {
                Some(index) => note(absent).with_hint(format!("events of other indexes do: write index={index}")),
                None => note(absent),
            }
        });
    }
    notes
}
