//! Parses searches of dashboards, with stand-ins for their tokens.
//!
//! A dashboard substitutes a `$token$` before the search runs, so a token may stand for a number, a field or a whole
//! command. If a search with its tokens does not parse, the token at the error is replaced by a stand-in with which the
//! parser gets further.

use quarry_spl::{ParsedSearch, Severity, parse_with_unknown_macros};

/// Stand-ins to try: a number, a name, a command, nothing.
const STAND_INS: [&str; 4] = ["1", "count", "noop", ""];
/// Maximum number of tokens replaced per search.
const TOKENS_MAX: usize = 100;

/// A parsed search, and whether tokens were replaced.
pub(crate) struct ExpandedSearch {
    /// Syntax tree of the search.
    pub(crate) parsed: ParsedSearch,
    /// The text that was parsed.
    pub(crate) text: String,
    /// Whether `text` differs from the search as written.
    pub(crate) replaced: bool,
}

/// Parses a search, replacing tokens where necessary.
pub(crate) fn read(text: &str) -> ExpandedSearch {
    let parsed = parse_with_unknown_macros(text);
    let as_written = || ExpandedSearch { parsed: parsed.clone(), text: text.to_owned(), replaced: false };
    if first_error_offset(&parsed).is_none() || tokens(text).is_empty() {
        return as_written();
    }
    let mut best = without_filters(text);
    for _ in 0..TOKENS_MAX {
        let parsed = parse_with_unknown_macros(&best);
        let Some(fault) = first_error_offset(&parsed) else {
            return ExpandedSearch { parsed, text: best, replaced: true };
        };
        let Some(next) = replace_token_near(&best, fault) else { return as_written() };
        best = next;
    }
    as_written()
}

/// Offset of the first error, if any.
fn first_error_offset(parsed: &ParsedSearch) -> Option<usize> {
    let faults = parsed.diagnostics.iter().filter(|remark| remark.severity == Severity::Error);
    faults.map(|remark| remark.span.start).min()
}

/// Replaces one token near the error, so that the first error comes later.
fn replace_token_near(text: &str, fault: usize) -> Option<String> {
    let mut near = tokens(text);
    near.sort_by_key(|(start, end)| if *end <= fault { fault - *end } else { start.saturating_sub(fault) });
    for (start, end) in near {
        for stand_in in STAND_INS {
            let mut filled = text.to_owned();
            filled.replace_range(start..end, stand_in);
            let moved = (end - start) as i64 - stand_in.len() as i64;
            match first_error_offset(&parse_with_unknown_macros(&filled)) {
                None => return Some(filled),
                Some(place) if place as i64 > fault as i64 - if end <= fault { moved } else { 0 } => {
                    return Some(filled);
                }
                Some(_) => {}
            }
        }
    }
    None
}

/// Byte ranges of `$name$`, with or without a filter such as `|s`.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find('$').map(|offset| at + offset) {
        let inner = &text[start + 1..];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '|' | '{' | '}');
        let length = inner.find(|c| !is_part(c)).unwrap_or(inner.len());
        if length > 0 && inner[length..].starts_with('$') {
            found.push((start, start + length + 2));
            at = start + length + 2;
        } else {
            at = start + 1;
        }
    }
    found
}

/// Replaces `$x|s$` with `"$x$"` and `$x|n$` with `$x$`, because otherwise the pipe would end the command.
fn without_filters(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in tokens(text) {
        out.push_str(&text[at..start]);
        match text[start + 1..end - 1].split_once('|') {
            // Inside quotes, the filter's own quotes would end the text.
            Some((name, "s")) if !text[..start].ends_with('"') => out.push_str(&format!("\"${name}$\"")),
            Some((name, _)) => out.push_str(&format!("${name}$")),
            None => out.push_str(&text[start..end]),
        }
        at = end;
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn tokens_are_replaced_by_valid_stand_ins() {
        for search in [
            "index=a host=$host|s$ | timechart span=$span$ $func$($field$) by $by$",
            "index=a | top limit=$limit$ x | dedup $n$ y",
            "index=a | chart $agg$ over $x$ by $y$",
            "index=a | $command$ | table x",
            "index=a earliest=$time.earliest$ | stats count",
        ] {
            let read = read(search);
            assert!(read.replaced && read.parsed.is_ok(), "{search}: {:?}", read.parsed.diagnostics);
        }
        assert!(!read("index=$index$ | stats count").replaced, "a token that is a value parses unchanged");
        assert!(!read("index=a | stats (").parsed.is_ok());
        assert!(!read("index=a | rex \"a$\" | regex \"b$\" | nonsense $").parsed.is_ok());
    }
}
