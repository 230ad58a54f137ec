//! Hints for a search that finds nothing because no event contains one of its words.

use quarry_spl::analyse::{find_command_in_words, mentions_field, required_words};
use quarry_spl::ast::{SearchPattern, Span, Stage};
use quarry_spl::{Diagnostic, ParsedSearch};

use super::outcome::SearchOutcome;
use super::probe::{DynProbes, find_index, finds_event, quote};

/// Maximum number of words, or of groups of alternatives, that are searched for.
const PROBED_WORDS_MAX: usize = 6;

/// Beginning of a word that must be a whole term.
const TERM: &str = "TERM(";
/// Advice for such a word that occurs only as a part of terms.
const WITHOUT_TERM: &str =
    "`=`, `:`, `.` and `/` do not end a term: leave TERM out, or write the whole term, as in TERM(host=web1)";

/// Hints about words that no event of the searched indexes and time range contains; `scope` is a condition on the
/// indexes.
pub(super) fn absent_word_notes(
    found: &SearchOutcome<'_>,
    parsed: &ParsedSearch,
    scope: &str,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    if found.rows > 0 {
        return Vec::new();
    }
    // A command written without `|` has its own hint, which also explains the words after it.
    let explained = parsed.diagnostics.iter().map(|remark| remark.span.start).min().unwrap_or(usize::MAX);
    let groups = required_words(&parsed.pipeline.commands);
    let groups = groups.iter().filter(|group| group.iter().all(|word| word.span.start < explained));
    // A possible command name and the words after it share one hint.
    let mut command = find_command_in_words(found.text, &parsed.pipeline.commands);
    let command_start = command.as_ref().map_or(usize::MAX, |command| command.span.start);
    let mut notes = Vec::new();
    for group in groups.take(PROBED_WORDS_MAX) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let is_of_command = first.span.start >= command_start;
        if is_of_command && command.is_none() {
            break;
        }
        let written: Vec<String> = group.iter().filter_map(|word| written_form(found.text, word)).collect();
        let any = written.join(" OR ");
        if finds_event(&format!("{scope} ({any})"), ask) != Some(false) {
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
            let hint = format!("an option of the program goes after the quotes: quarry search '…' --{name} …");
            notes.push(note(absent).with_hint(hint));
            break;
        }
        if written.iter().any(|typed| typed.starts_with(TERM)) {
            // The texts are quoted, because `host=web1` would otherwise be a condition on a field.
            let words: Vec<String> = group.iter().map(|word| quote(&word.text)).collect();
            if finds_event(&format!("{scope} ({})", words.join(" OR ")), ask) == Some(true) {
                let part = format!("events contain {} only as a part of a term", quoted.join(" or "));
                notes.push(note(part).with_hint(WITHOUT_TERM));
                continue;
            }
        }
        let has_plain = group.iter().zip(&written).any(|(word, typed)| !word.quoted && word.text == *typed);
        let inside: Vec<String> = written.iter().map(|typed| format!("*{}*", typed.trim_matches('*'))).collect();
        let inside = inside.join(" OR ");
        notes.push(if has_plain && finds_event(&format!("{scope} ({inside})"), ask) == Some(true) {
            note(format!("no event contains the word {}", quoted.join(" or ")))
                .with_hint(format!("words are matched whole: write {inside} for a part of a word"))
        } else {
            match find_other_index(found.text, &parsed.pipeline.commands, ask) {
                Some(index) => note(absent).with_hint(format!("events of other indexes do: write index={index}")),
                None => match suggest_correction(first) {
                    Some(hint) => note(absent).with_hint(hint),
                    None => note(absent),
                },
            }
        });
    }
    notes
}

/// A word as written in the search, with `CASE()` or `TERM()` around it if present.
fn written_form(text: &str, word: &SearchPattern) -> Option<String> {
    let plain = text.get(word.span.start..word.span.end)?;
    let before = text.get(..word.span.start)?;
    let function = ["CASE(", TERM].into_iter().find(|function| before.ends_with(function));
    Some(function.map_or_else(|| plain.to_owned(), |function| format!("{function}{plain})")))
}

/// An index with events that match the first command, if the search names no index.
fn find_other_index(text: &str, commands: &[Stage], ask: DynProbes<'_>) -> Option<String> {
    let stage = commands.first().filter(|_| !mentions_field(commands, "index"))?.span;
    find_index(&format!("({})", text.get(stage.start..stage.end)?), ask)
}

/// The advice for a word that is probably meant as something else.
fn suggest_correction(word: &SearchPattern) -> Option<String> {
    let text = word.text.as_str();
    if text.contains(['\u{201c}', '\u{201d}', '\u{201e}']) {
        return Some("curly quotes are part of the word: write \" around a phrase".to_owned());
    }
    if matches!(text, "&" | "+" | ",") {
        return Some(format!("all words must occur anyway: leave `{text}` out"));
    }
    if text == "\\" {
        return Some("a backslash before `|` makes it part of the text: leave it out".to_owned());
    }
    let (name, value) = text.split_once(':').filter(|_| !word.quoted)?;
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name(name) && is_name(value) && !name.starts_with(|c: char| c.is_ascii_digit()))
        .then(|| format!("for the value of a field, write {name}={value}"))
}
