//! Diagnostics: errors and warnings about a search, with positions and suggestions.
//!
//! Messages are lower-case and put names in backticks. Hints use the edit distance to known names. Nothing here
//! prints or formats for a terminal.

use std::fmt;

use quarry_stdx::Fault;

use crate::ast::Span;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The search cannot run.
    Error,
    /// The search runs, but may not do what was meant.
    Warning,
}

/// One error or warning about a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity: error or warning.
    pub severity: Severity,
    /// Description of the problem.
    pub message: String,
    /// Position in the text.
    pub span: Span,
    /// Suggested correction.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error without hint.
    pub fn error(message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic { severity: Severity::Error, message: truncate_message(message.into()), span, hint: None }
    }

    /// A warning without hint.
    pub fn warning(message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, message: truncate_message(message.into()), span, hint: None }
    }

    /// Adds a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(truncate_message(hint.into()));
        self
    }

    /// Sets the position.
    pub(crate) fn at(self, span: Span) -> Diagnostic {
        Diagnostic { span, ..self }
    }

    /// Formats the diagnostic in one line, for clients that show only text: message, quoted position in `search`, hint.
    pub fn to_one_line(&self, search: &str) -> String {
        self.to_one_line_after(0, search)
    }

    /// Like [`Diagnostic::to_one_line`], for a search to which `prefix` bytes were prepended: positions are counted
    /// without these bytes.
    pub fn to_one_line_after(&self, prefix: usize, search: &str) -> String {
        let [start, end] = [self.span.start, self.span.end].map(|at| at.saturating_sub(prefix));
        let search = search.get(prefix..).unwrap_or_default();
        let mut text = self.message.clone();
        // A warning without a hint concerns a whole command and names it.
        let is_plain = self.severity == Severity::Warning && self.hint.is_none();
        if !is_plain && let (Some(before), Some(fragment)) = (search.get(..start), search.get(start..end.max(start))) {
            let shown = excerpt(fragment);
            // A message that contains the quoted text need not repeat it.
            let is_quoted = shown.is_empty() || text.contains(shown.trim_end_matches('…'));
            let quoted = if is_quoted { String::new() } else { format!(": `{shown}`") };
            text.push_str(&format!(" (character {}{quoted})", before.chars().count() + 1));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("; {hint}"));
        }
        text
    }

    /// Sets the hint: "did you mean" if a known name is similar to `word`, otherwise none.
    pub(crate) fn suggest<'a>(mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        self.hint = closest_name(word, known).map(|name| format!("did you mean `{name}`?"));
        self
    }
}

/// Turns the first diagnostic into a user error.
pub fn first_fault(remarks: &[Diagnostic]) -> Fault {
    Fault::invalid(remarks.first().map(ToString::to_string).unwrap_or_default())
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Maximum bytes of a message and of a hint. Both may contain names, values and results of subsearches, whose length is
/// unbounded.
pub const MESSAGE_BYTES_MAX: usize = 2_000;

/// Truncates a message to [`MESSAGE_BYTES_MAX`].
pub fn truncate_message(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX - '…'.len_utf8()));
        message.push('…');
    }
    message
}

/// Maximum length in characters of a search or value that a diagnostic quotes.
const EXCERPT_CHARS_MAX: usize = 60;

/// The beginning of a text, as quoted in a diagnostic.
pub fn excerpt(text: &str) -> String {
    let text = text.trim();
    let mut shown: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Maximum length of a word that gets a suggestion, to bound the cost of hostile input.
const SUGGESTED_WORD_CHARS_MAX: usize = 32;

/// The known name closest to `word`, if close enough to be a typing error.
pub fn closest_name<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let length = word.chars().count();
    // Numbers that look alike are not misspellings of each other.
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number || length > SUGGESTED_WORD_CHARS_MAX {
        return None;
    }
    let allowed = if length <= 4 { 1 } else { 2 };
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&word, &name.to_ascii_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        // Among equally near names, prefers names with the same first letter: `sorce` means `source`, not `force`.
        .min_by_key(|(distance, name)| (*distance, !name.to_ascii_lowercase().starts_with(word.get(..1).unwrap_or(""))))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_near_names_only() {
        let known = ["stats", "streamstats", "sort", "head"];
        for (word, want) in
            [("stas", Some("stats")), ("STAST", Some("stats")), ("hed", Some("head")), ("zzzz", None), ("", None)]
        {
            assert_eq!(closest_name(word, known), want, "{word}");
        }
    }

    #[test]
    fn characters_are_counted_from_the_first_that_the_author_wrote() {
        let wrong = Diagnostic::error("bad word", Span { start: 3, end: 6 });
        assert_eq!(wrong.to_one_line("|é abc"), "bad word (character 3: `ab`)");
        assert_eq!(wrong.to_one_line_after(1, "|é abc"), "bad word (character 2: `ab`)");
        // A diagnostic about the whole search covers the prefix, too.
        let whole = Diagnostic::error("bad search", Span { start: 0, end: 4 });
        assert_eq!(whole.to_one_line_after(1, "|abc"), "bad search (character 1: `abc`)");
    }

    #[test]
    fn displays_message_and_hint() {
        let plain = Diagnostic::error("unknown command `stas`", Span { start: 2, end: 6 });
        assert_eq!(
            plain.clone().suggest("stas", ["stats"]).to_string(),
            "unknown command `stas` (did you mean `stats`?)"
        );
        assert_eq!(plain.to_string(), "unknown command `stas`");
    }
}
