//! The parser: turns text into a [`Pipeline`]. After an error, it adds a diagnostic and resumes at the next command.
//!
//! Comments and macros are first blanked out byte for byte, so every span still refers to the text as written. The
//! parser then finds the end of each command, the next `|` or `]`, and parses the command by its own grammar; an error
//! in one command never hides the next. Not here: expanding macros and the `$tokens$` of dashboards.

mod aggregate;
mod aggregate_expr;
mod cursor;
mod eval;
mod expansion;
mod learn;
mod marks;
mod options;
mod search;
mod series;
mod stage;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;

use crate::ast::{Command, Expr, Pipeline, SearchExpr, Span};
use crate::diagnostic::{Diagnostic, Severity};
pub(crate) use aggregate::check_wildcards;
pub(crate) use cursor::{ParseResult, Parser, Word, unescape, with_stack};
pub use marks::is_part_of_command;
pub(crate) use marks::{Marks, fits_behind};
pub(crate) use options::{OptionArg, OptionNames};
pub(crate) use search::has_inner_time;
pub(crate) use stage::UNKNOWN_COMMAND;

/// Longest search text read.
pub const MAX_SEARCH_BYTES: usize = 1 << 20;
/// Maximum nesting of brackets, parentheses, calls and negations.
pub const MAX_NESTING: usize = 64;
/// Maximum nesting of subsearches, within [`MAX_NESTING`].
pub const MAX_SUBSEARCH_DEPTH: usize = 16;
/// Maximum number of commands in one search, including subsearches.
pub const MAX_COMMANDS: usize = 2_000;
/// Maximum number of terms, comparisons and values of `IN` lists of one search.
pub(crate) const MAX_TERMS: usize = 100_000;
/// Maximum number of different fields that the conditions and expressions of one search read, because each field is
/// looked for in each event.
pub(crate) const MAX_FIELDS_READ: usize = 5_000;
/// A name with wildcards counts as this many further names, because it is compared with all fields.
pub(crate) const WILDCARD_NAMES: usize = 10;
/// Maximum number of field names, assignments and aggregates of one command. Rows have a column for each, and commands
/// look columns up by name, so that many more would make every batch of rows expensive.
pub(crate) const MAX_NAMES: usize = 5_000;
/// Maximum number of diagnostics kept for one search.
pub(crate) const MAX_DIAGNOSTICS: usize = 100;

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedSearch {
    /// The commands, except those with errors.
    pub pipeline: Pipeline,
    /// Diagnostics in text order.
    pub diagnostics: Vec<Diagnostic>,
    /// Unsupported features that the search uses, e.g. `command:overlap`, `function:eval:foo`, `option:stats:y`.
    pub unsupported: Vec<String>,
}

impl ParsedSearch {
    /// Wraps nodes that were built without parsing, and so without diagnostics.
    pub fn of(pipeline: Pipeline) -> ParsedSearch {
        ParsedSearch { pipeline, diagnostics: Vec::new(), unsupported: Vec::new() }
    }

    /// Whether the search can run: none of the diagnostics is an error.
    pub fn is_ok(&self) -> bool {
        self.diagnostics.iter().all(|remark| remark.severity != Severity::Error)
    }
}

/// Parses a search. Never fails: errors are in [`ParsedSearch::diagnostics`].
pub(crate) fn parse(text: &str) -> ParsedSearch {
    parse_pipeline(text, |parser| parser.whole_search())
}

/// Parses a search that may use the commands of apps with these lower-case names.
pub(crate) fn parse_with_commands(text: &str, custom: &BTreeSet<String>) -> ParsedSearch {
    parse_pipeline(text, |parser| {
        parser.custom = custom.clone();
        parser.whole_search()
    })
}

/// Parses a search with unknown macros. A command that contains such a macro is accepted even if it lacks text that
/// the macro may contribute.
pub(crate) fn parse_with_unknown_macros(text: &str) -> ParsedSearch {
    let mut parsed = parse_pipeline(text, |parser| {
        parser.accepts_unknown_macros = true;
        parser.whole_search()
    });
    parsed.diagnostics.retain(|remark| !remark.message.starts_with(MACRO_MESSAGE_PREFIX));
    parsed.unsupported.retain(|feature| feature != "macro");
    parsed
}

/// Parses commands that need no leading search, such as those of templates and settings; a leading `|` is optional.
/// `is_first` says whether they begin a search.
pub(crate) fn parse_commands(text: &str, is_first: bool, custom: &BTreeSet<String>) -> ParsedSearch {
    parse_pipeline(text, |parser| {
        parser.custom = custom.clone();
        parser.eat('|');
        parser.commands(false, is_first)
    })
}

fn parse_pipeline(text: &str, read: impl FnOnce(&mut Parser<'_>) -> Pipeline) -> ParsedSearch {
    let (pipeline, diagnostics, unsupported) = parse_text(text, |parser| Some(read(parser)));
    let nothing = Pipeline { commands: Vec::new(), span: Span { start: 0, end: text.len() } };
    ParsedSearch { pipeline: pipeline.unwrap_or(nothing), diagnostics, unsupported }
}

/// Parses the arguments of a built-in command that begins a search, as settings contain them.
pub fn parse_arguments(name: &str, arguments: &str) -> Result<Command, Vec<Diagnostic>> {
    parse_with(arguments, |parser| {
        Ok(parser.arguments_of(name, true)?.and_then(|commands| commands.into_iter().next()))
    })
}

/// Parses a text that is not a whole search.
pub(crate) fn parse_with<T>(
    text: &str,
    read: impl FnOnce(&mut Parser<'_>) -> ParseResult<Option<T>>,
) -> Result<T, Vec<Diagnostic>> {
    let read = |parser: &mut Parser<'_>| {
        let value = read(parser);
        parser.recover(value).flatten()
    };
    finish(parse_text(text, read))
}

/// The errors and unsupported features in the commands of a template.
pub(crate) fn check_commands(
    text: &str,
    subsearches: usize,
    custom: &BTreeSet<String>,
) -> (Vec<Diagnostic>, Vec<String>) {
    let mut parser = Parser::new(text);
    parser.custom = custom.clone();
    parser.subsearches = subsearches;
    parser.pipeline();
    parser.finish()
}

/// Parses a lone search condition, as in `searchmatch()`, event types and role filters.
pub fn parse_condition(text: &str) -> Result<SearchExpr, Vec<Diagnostic>> {
    parse_with(text, |parser| parser.search_condition().map(Some))
}

/// Parses a lone eval expression, as in calculated fields.
pub fn parse_expression(text: &str) -> Result<Expr, Vec<Diagnostic>> {
    parse_with(text, |parser| parser.whole_expression().map(Some))
}

/// The value if there are no errors, otherwise the diagnostics.
fn finish<T>((value, diagnostics, _): (Option<T>, Vec<Diagnostic>, Vec<String>)) -> Result<T, Vec<Diagnostic>> {
    match value {
        Some(value) if diagnostics.iter().all(|remark| remark.severity != Severity::Error) => Ok(value),
        _ => Err(diagnostics),
    }
}

/// Blanks out comments and macros, then parses.
fn parse_text<T>(
    text: &str,
    read: impl FnOnce(&mut Parser<'_>) -> Option<T>,
) -> (Option<T>, Vec<Diagnostic>, Vec<String>) {
    if text.len() > MAX_SEARCH_BYTES {
        let message = format!("the search is {} bytes long, more than the limit of {MAX_SEARCH_BYTES}", text.len());
        return (None, vec![Diagnostic::error(message, Span { start: 0, end: text.len() })], Vec::new());
    }
    let blanked = blank_out(text);
    let mut parser = Parser::new(&blanked.text);
    parser.macros = blanked.macros;
    for remark in blanked.diagnostics {
        parser.report(remark);
    }
    if !parser.macros.is_empty() {
        parser.report_unsupported("macro".to_owned());
    }
    let value = with_stack(|| read(&mut parser));
    let (mut diagnostics, unsupported) = parser.finish();
    diagnostics.sort_by_key(|remark| remark.span.start);
    diagnostics.truncate(MAX_DIAGNOSTICS);
    (value, diagnostics, unsupported)
}

/// A text with comments and macros blanked out.
struct BlankedText {
    text: String,
    macros: Vec<Span>,
    diagnostics: Vec<Diagnostic>,
}

/// Prefix of diagnostics about macros.
const MACRO_MESSAGE_PREFIX: &str = "unsupported: macro";

/// Mark around comments.
pub(crate) const COMMENT: &str = "```";

/// Replaces comments and macros outside quotes with the same number of blanks, and reports unclosed quotes.
fn blank_out(text: &str) -> BlankedText {
    let mut out = BlankedText { text: String::with_capacity(text.len()), macros: Vec::new(), diagnostics: Vec::new() };
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match next {
            '"' => match quoted_len(rest) {
                Some(length) => length,
                None => {
                    let span = Span { start: at, end: text.len() };
                    out.diagnostics.push(Diagnostic::error("this quote is never closed", span).with_hint("add `\"`"));
                    rest.len()
                }
            },
            '\\' => 1 + rest[1..].chars().next().filter(|c| matches!(c, '"' | '\\' | '`')).map_or(0, char::len_utf8),
            '`' => {
                at += out.blank_backticks(text, at);
                continue;
            }
            _ => next.len_utf8(),
        };
        out.text.push_str(&rest[..length]);
        at += length;
    }
    out
}

impl BlankedText {
    /// Blanks out the comment or macro at `at`; returns its length.
    fn blank_backticks(&mut self, text: &str, at: usize) -> usize {
        let rest = &text[at..];
        let mark = if rest.starts_with(COMMENT) { COMMENT } else { "`" };
        let close = rest[mark.len()..].find(mark).map(|end| end + 2 * mark.len());
        let span = Span { start: at, end: at + close.unwrap_or(rest.len()) };
        if close.is_none() {
            let what = if mark == COMMENT { "this comment is never closed" } else { "this macro is never closed" };
            self.diagnostics.push(Diagnostic::error(what, span).with_hint(format!("add `{mark}`")));
        } else if mark != COMMENT {
            let name = text[span.start..span.end].trim_matches('`');
            let message = format!("{MACRO_MESSAGE_PREFIX} `{name}`; macros are not expanded here");
            self.diagnostics
                .push(Diagnostic::error(message, span).with_hint("write the text of the macro in its place"));
        }
        if mark != COMMENT {
            self.macros.push(span);
        }
        self.text.extend(std::iter::repeat_n(' ', span.end - span.start));
        span.end - span.start
    }
}

/// Length of the quoted text at the start of `text`, including both quotes; `None` if it never closes.
pub(crate) fn quoted_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}
