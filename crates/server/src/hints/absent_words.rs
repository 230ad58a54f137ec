//! Hints for a search that finds nothing because no event contains one of its words.

use quarry_spl::Diagnostic;
use quarry_spl::analyse::asked_words;
use quarry_spl::ast::Stage;

use super::{Ask, SearchOutcome};

/// Maximum words that are looked for.
const LOOKS_MAX: usize = 3;

/// Notes on words that no event of the searched indexes and time range contains; `scope` is a condition on the indexes.
pub(super) fn of_words(found: &SearchOutcome<'_>, commands: &[Stage], scope: &str, ask: Ask<'_>) -> Vec<Diagnostic> {
    if found.rows > 0 {
        return Vec::new();
    }
    let mut occurs = |condition: &str| {
        let rows = ask(&format!("{scope} {condition} | head 1 | table index"));
        rows.is_none_or(|rows| !rows.is_empty())
    };
    let mut notes = Vec::new();
    for word in asked_words(commands).into_iter().take(LOOKS_MAX) {
        let Some(typed) = found.text.get(word.span.start..word.span.end) else { continue };
        if occurs(typed) {
            continue;
        }
        let text = &word.text;
        let note = Diagnostic::warning(format!("no event contains `{text}`"), word.span);
        let is_plain = !word.quoted && typed == text;
        notes.push(match is_plain && occurs(&format!("*{text}*")) {
            true => note.with_hint(format!("words are matched whole: write *{text}* for a part of a word")),
            false => note,
        });
    }
    notes
}
