//! Finds a command among the arguments of another, without a pipe before it: `stats count by host where count>5`.
//!
//! Many command names are also field names. A word counts as a command only if the text after it reads like the
//! arguments of that command, and the word is not a keyword of the outer command.

use crate::ast::Span;
use crate::commands::{entry, is_command};
use crate::parse::quoted_len;

/// Keywords after which the next word is the name of a field, data set or file, even if a command has the same name.
const BEFORE_NAMES: &[&str] = &["as", "by", "field", "from", "groupby", "in", "into", "output", "outputnew", "over"];
/// Commands whose names are rarely names of fields: they count as commands even if only field names follow.
const RARE_NAMES: &[&str] = &[
    "addtotals",
    "chart",
    "dedup",
    "eventstats",
    "fields",
    "fillnull",
    "mvexpand",
    "rename",
    "sort",
    "stats",
    "streamstats",
    "table",
    "timechart",
    "top",
    "rare",
];
/// Maximum number of words checked per command.
const WORDS_MAX: usize = 64;

/// A command within another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InnerCommand<'t> {
    /// Position of the inner command's name.
    pub(crate) span: Span,
    /// The text before that name, from the name of the outer command.
    pub(crate) before: &'t str,
    /// The inner command up to the end of the outer one.
    pub(crate) command: &'t str,
}

impl InnerCommand<'_> {
    /// A hint with the pipe inserted.
    pub(crate) fn hint(&self) -> String {
        format!("a `|` goes before a command: {} | {}", self.before, self.command)
    }
}

/// The first command among the arguments of the command at `stage`, a span that starts at that command's name.
pub(crate) fn inner_command(text: &str, stage: Span) -> Option<InnerCommand<'_>> {
    let whole = text.get(stage.start..stage.end)?.trim_end();
    let outer = first_word(whole).to_ascii_lowercase();
    let info = entry(&outer).map(|entry| entry.info);
    if info.is_some_and(|info| info.has_own_keywords) {
        return None;
    }
    let clauses = info.map_or(&[][..], |info| info.clauses);
    let words: Vec<(usize, &str)> = words(whole).take(WORDS_MAX).collect();
    for pair in words.windows(2) {
        let [(_, last), (at, word)] = *pair else { continue };
        let (before, command) = (whole[..at].trim_end(), &whole[at..]);
        let rest = &command[word.len()..];
        // Splunk's commands are written in lower case; other spellings may be keywords.
        let is_name = word.chars().all(|c| c.is_ascii_lowercase()) && is_command(word) && !clauses.contains(&word);
        let is_listed = before.ends_with([',', '=']) || rest.trim_start().starts_with([',', ')']) || rest.is_empty();
        // `delta(n)` may be a field name, and the first word after the outer command may be one of its keywords.
        let is_name = is_name
            && (word == "where" || !rest.starts_with('('))
            && (before != first_word(whole) || outer == "makeresults");
        let is_operand = BEFORE_NAMES.contains(&last.to_ascii_lowercase().as_str())
            || before.ends_with(['=', '<', '>', '!', '+', '*', '/', '.', '-'])
            || rest.trim_start().starts_with(['=', '<', '>', '!', '*', '/', '.', ')']);
        if is_name && !is_listed && !is_operand && looks_like_arguments(word, rest) {
            let start = stage.start + at;
            return Some(InnerCommand { span: Span { start, end: start + word.len() }, before, command });
        }
    }
    None
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())]
}

/// Words outside quotes and brackets, each with its position.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut open = 0usize;
        while at < text.len() {
            match bytes[at] {
                b'"' => at += quoted_len(&text[at..]).unwrap_or(text.len() - at).max(1),
                b'(' | b'[' => (at, open) = (at + 1, open + 1),
                b')' | b']' => (at, open) = (at + 1, open.saturating_sub(1)),
                byte if open > 0 || byte.is_ascii_whitespace() || byte == b',' => at += 1,
                _ => {
                    let ends =
                        |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'(' | b'[' | b'"' | b')');
                    let len = bytes[at..].iter().position(ends).unwrap_or(text.len() - at);
                    let word = (at, &text[at..at + len]);
                    at += len;
                    return Some(word);
                }
            }
        }
        None
    })
}

/// Whether the text after a command name reads like its arguments rather than more field names.
fn looks_like_arguments(name: &str, rest: &str) -> bool {
    let rest = rest.trim();
    let lower = rest.to_ascii_lowercase();
    let first = rest.split_whitespace().next().unwrap_or_default();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_marked = rest.contains(['=', '(', '<', '>']);
    match name {
        "head" | "tail" => is_number(rest),
        "where" => is_marked || lower.contains(" like ") || lower.contains(" in "),
        "eval" | "search" | "fieldformat" => rest.contains('='),
        "rename" => lower.contains(" as "),
        "sort" => !rest.is_empty(),
        "stats" | "eventstats" | "streamstats" | "chart" | "timechart" => {
            rest.contains('(') || lower.contains(" by ") || first == "count" || first == "c"
        }
        "rex" => rest.contains("(?<") || rest.contains("(?P<"),
        _ => !rest.is_empty() && (is_marked || RARE_NAMES.contains(&name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(&str, &str)> {
        inner_command(text, Span { start: 0, end: text.len() }).map(|inner| (inner.before, inner.command))
    }

    #[test]
    fn rare_names_are_names_of_commands() {
        assert!(RARE_NAMES.iter().all(|name| is_command(name)));
    }

    #[test]
    fn only_commands_with_arguments_are_found() {
        for (before, command) in [
            ("stats count by host", "where count>5"),
            ("stats count by host", "where count > 5 sort - count"),
            ("stats count by host", "sort - count"),
            ("stats count by city", "rename count as n"),
            ("table host", "sort host"),
            ("dedup host", "table host, user"),
            ("eval x=1", "where x>2"),
            ("head 5", "sort price"),
            ("rex \"(?<x>.)\"", "table x"),
            ("top limit=5 city", "head 3"),
            ("search city=Bonn", "stats count"),
            ("makeresults", "eval x=1"),
        ] {
            assert_eq!(found(&format!("{before} {command}")), Some((before, command)));
        }
        for text in [
            "stats count by where",
            "stats count by search, app",
            "table title, search, head",
            "table title search app",
            "fields host head tail",
            "timechart count by host where count>5",
            "inputlookup users.csv where team=a",
            "tstats count from datamodel=Web where Web.status=500 by Web.dest",
            "rename a AS table",
            "eval table=1, sort=2",
            "eval x=if(sort=1, head, 3)",
            "lookup t host OUTPUT table AS sort",
            "join host [search a | stats count by where]",
            "rex \"a where b=c\"",
            "set union [search a] [search b]",
            "set diff [search a] [search b]",
            "table n delta(n)",
            "join left=L right=R where L.who=R.user [search a]",
            "multikv fields PID CPU filter top",
            "inputcsv users where n>1",
            "appendpipe stats count",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
