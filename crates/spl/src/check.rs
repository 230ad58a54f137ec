//! Entry points of the parser for user input: parses a search and adds lints.

use std::collections::BTreeSet;

use crate::lints::lints;
use crate::parse::{self, MAX_DIAGNOSTICS, ParsedSearch, with_stack};

/// Parses a search. Never fails: errors are in [`ParsedSearch::diagnostics`].
pub fn parse(text: &str) -> ParsedSearch {
    with_lints(parse::parse(text), text)
}

/// Parses a search that may use the commands of apps with these lower-case names.
pub fn parse_with_commands(text: &str, custom: &BTreeSet<String>) -> ParsedSearch {
    with_lints(parse::parse_with_commands(text, custom), text)
}

/// Parses commands that need no leading search, such as those of templates and settings; a leading `|` is optional.
/// `is_first` says whether they begin a search; `custom` contains the names of apps' commands.
pub fn parse_commands(text: &str, is_first: bool, custom: &BTreeSet<String>) -> ParsedSearch {
    with_lints(parse::parse_commands(text, is_first, custom), text)
}

/// Parses a search with unknown macros. A command that contains such a macro is accepted even if it lacks text that
/// the macro may contribute.
pub fn parse_with_unknown_macros(text: &str) -> ParsedSearch {
    with_lints(parse::parse_with_unknown_macros(text), text)
}

/// Adds lints if the search can run.
fn with_lints(mut parsed: ParsedSearch, text: &str) -> ParsedSearch {
    if parsed.is_ok() {
        let room = MAX_DIAGNOSTICS.saturating_sub(parsed.diagnostics.len());
        parsed.diagnostics.extend(with_stack(|| lints(text, &parsed.pipeline)).into_iter().take(room));
        parsed.diagnostics.sort_by_key(|remark| remark.span.start);
    }
    parsed
}
