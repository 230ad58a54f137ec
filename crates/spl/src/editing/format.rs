//! Formatting: one command per line, one blank between tokens, long subsearches on lines of their own.
//!
//! Only blanks outside quotes, comments and macros change. Except at pipes and brackets, adjacent tokens stay adjacent
//! and separate tokens stay separate, so the search means the same.

use super::token::{Token, TokenKind, tokens};

/// Maximum length in characters of a subsearch with several commands that stays on one line.
const INNER_CHARS_MAX: usize = 60;
/// Blanks per nested subsearch.
const INDENT_BLANKS: usize = 4;
/// Maximum nesting of subsearches that increases the indentation.
const INDENT_DEPTH_MAX: usize = 16;

/// The search with its blanks normalised.
pub fn format(text: &str) -> String {
    let tokens = tokens(text);
    let word = |token: &Token| &text[token.span.start..token.span.end];
    let closings = closing_brackets(text, &tokens);
    let mut out = String::with_capacity(text.len() + 16);
    // For each open bracket, whether its search is broken into lines.
    let mut open: Vec<bool> = Vec::new();
    let mut end = 0;
    let new_line = |out: &mut String, depth: usize| {
        out.truncate(out.trim_end_matches(' ').len());
        if !out.is_empty() {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', INDENT_BLANKS * depth.min(INDENT_DEPTH_MAX)));
        }
    };
    for (at, token) in tokens.iter().enumerate() {
        let blanks = &text[end..token.span.start];
        end = token.span.end;
        let depth = open.iter().filter(|is_broken| **is_broken).count();
        let is_broken = open.last().copied().unwrap_or(true);
        match (token.kind, word(token)) {
            (TokenKind::Pipe, pipe) => {
                if is_broken {
                    new_line(&mut out, depth)
                } else {
                    push_blank(&mut out)
                }
                out.push_str(pipe);
                out.push(' ');
            }
            (TokenKind::Bracket, "]") if open.pop() == Some(true) => {
                new_line(&mut out, depth.saturating_sub(1));
                out.push(']');
            }
            (kind, shown) => {
                if kind == TokenKind::Comment && blanks.contains('\n') && is_broken {
                    new_line(&mut out, depth);
                } else if !blanks.is_empty() {
                    push_blank(&mut out);
                }
                out.push_str(shown);
                if kind == TokenKind::Bracket && shown == "[" {
                    let close = closings[at];
                    let is_long = close.is_some_and(|close| is_long(text, &tokens[at..close]));
                    open.push(is_long);
                    if is_long {
                        new_line(&mut out, depth + 1);
                    }
                }
            }
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Adds a blank unless there is one.
fn push_blank(out: &mut String) {
    if !out.is_empty() && !out.ends_with([' ', '\n']) {
        out.push(' ');
    }
}

/// Whether a subsearch has several commands and is long.
fn is_long(text: &str, inner: &[Token]) -> bool {
    let has_pipe = inner.iter().any(|token| token.kind == TokenKind::Pipe);
    let (Some(first), Some(last)) = (inner.first(), inner.last()) else { return false };
    has_pipe && text[first.span.start..last.span.end].chars().count() > INNER_CHARS_MAX
}

/// For each opening bracket, the position of the closing bracket among the tokens.
fn closing_brackets(text: &str, tokens: &[Token]) -> Vec<Option<usize>> {
    let (mut found, mut open) = (vec![None; tokens.len()], Vec::new());
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == TokenKind::Bracket) {
        if text[token.span.start..].starts_with('[') {
            open.push(at);
        } else if let Some(opened) = open.pop() {
            found[opened] = Some(at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCHES: [(&str, &str); 8] = [
        (
            "error  status=5* |stats count by  host|sort - count",
            "error status=5*\n| stats count by host\n| sort - count",
        ),
        ("| makeresults | eval a=\"x  |  y\"", "| makeresults\n| eval a=\"x  |  y\""),
        ("a [ search b | fields c ] | head 5", "a [ search b | fields c ]\n| head 5"),
        (
            "a [search index=main sourcetype=access status=500 user=* | dedup user | fields user] | head 5",
            "a [\n    search index=main sourcetype=access status=500 user=*\n    | dedup user\n    | fields user\n]\n| head 5",
        ),
        ("a ```why\nso``` |  `m( 1 )`", "a ```why\nso```\n| `m( 1 )`"),
        ("a\n``` own line ```\n| head", "a\n``` own line ```\n| head"),
        ("  ", ""),
        ("a | | b ] [ c", "a\n|\n| b ] [ c"),
    ];

    #[test]
    fn commands_have_a_line_each_and_texts_stay_as_they_are() {
        for (text, want) in SEARCHES {
            assert_eq!(format(text), want, "{text}");
            assert_eq!(format(want), want, "formatted twice: {text}");
        }
    }

    #[test]
    fn a_formatted_search_has_the_same_tokens() {
        let words = |text: &str| -> Vec<String> {
            tokens(text)
                .iter()
                .map(|token| format!("{:?} {}", token.kind, &text[token.span.start..token.span.end]))
                .collect()
        };
        for (text, _) in SEARCHES {
            assert_eq!(words(text), words(&format(text)), "{text}");
        }
    }
}
