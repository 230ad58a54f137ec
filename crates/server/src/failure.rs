//! Failures of a verb: the message for the user and the exit code.

use std::io::{self, Write};

use quarry_auth::AuthError;
use quarry_blob::BlobError;
use quarry_engine::EngineError;
use quarry_forward::ForwardError;
use quarry_ingest::IngestError;
use quarry_inputs::InputError;
use quarry_listen::ListenError;

use quarry_search::SearchError;
use quarry_search::hints::NO_SPAN;
use quarry_spl::{Diagnostic, Severity};
use quarry_stdx::{ErrorKind, Fault, HasKind};
use quarry_store::StoreError;

use crate::output::line_folding::{CYAN, PLAIN, RED, YELLOW, prepare_message, stderr_width};
use crate::output::text_width::{char_width, escape_line, truncate, width};

/// Wrong usage of the command line.
pub(crate) const USAGE: u8 = 2;
/// The search has an error.
pub(crate) const SPL: u8 = 3;
/// The server or storage failed.
pub(crate) const STORAGE: u8 = 4;
/// The answer is partial, or something is damaged.
pub(crate) const PARTIAL: u8 = 5;
/// Ended by the user; the code follows the shells' convention.
pub(crate) const INTERRUPTED: u8 = 130;

/// Every exit code and its meaning; docs/running/troubleshooting.md has the same rows.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (0, "success; the answer is complete"),
    (USAGE, "the command line or a setting is invalid, or `btool check` found faults; nothing was done"),
    (SPL, "the search is wrong, may not be run, or is beyond a limit"),
    (STORAGE, "a file, the store or the server failed"),
    (
        PARTIAL,
        "done in part: the answer is incomplete, adding was interrupted, all files were skipped as binary, or data is damaged (`bucket verify`, `bucket compact`)",
    ),
    (
        INTERRUPTED,
        "interrupted by a second Ctrl-C; or by the first one, if rows were being shown, files were being sent to a server, or a server had not answered yet",
    ),
];

/// The table of exit codes, for `quarry --help`.
pub(crate) fn exit_codes() -> String {
    let rows = EXIT_CODES.iter().map(|(code, means)| format!("  {code:<5}{means}\n"));
    format!("Exit codes:\n{}", rows.collect::<String>())
}

/// Maximum width of the excerpt around an error, in columns.
const EXCERPT_COLUMNS: usize = 100;
/// Indentation of the excerpt.
const EXCERPT_INDENT: usize = 2;

/// Failure of a verb.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line requests something impossible.
    Usage(String),
    /// The search has errors.
    Spl {
        /// The search.
        text: String,
        /// Errors and warnings with their positions in the search.
        diagnostics: Vec<Diagnostic>,
    },
    /// The search cannot be run; the error has no position.
    Search(String),
    /// The named app, or an object requested from a server, does not exist.
    NoApp(String),
    /// A file, the store or the server failed.
    Storage(String),
    /// The reader of the output has closed its end, as `head` does.
    ReaderLeft,
}

impl Failure {
    /// Exit code of the program.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::NoApp(_) => USAGE,
            Failure::Spl { .. } | Failure::Search(_) => SPL,
            Failure::Storage(_) => STORAGE,
            Failure::ReaderLeft => 0,
        }
    }

    /// The failure in one line.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Usage(text) | Failure::NoApp(text) | Failure::Search(text) | Failure::Storage(text) => {
                text.clone()
            }
            Failure::Spl { diagnostics, .. } => diagnostics.first().map(ToString::to_string).unwrap_or_default(),
            Failure::ReaderLeft => String::new(),
        }
    }

    /// Reports the failure to the user.
    pub(crate) fn report(&self, out: &mut dyn Write, color: bool) -> io::Result<()> {
        let (red, plain) = if color { (RED, PLAIN) } else { ("", "") };
        match self {
            Failure::ReaderLeft => Ok(()),
            Failure::Usage(text) | Failure::NoApp(text) | Failure::Search(text) | Failure::Storage(text) => {
                writeln!(out, "{}", prepare_message(&format!("{red}error{plain}: {text}")))
            }
            Failure::Spl { text, diagnostics } => {
                for diagnostic in diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error) {
                    report_diagnostic(text, diagnostic, out, color)?;
                }
                Ok(())
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
            _ => Failure::Storage(format!("output cannot be written: {error}")),
        }
    }
}

/// Maps an error by its kind: to `$wrong` if the request must be changed, else to a storage failure.
macro_rules! by_kind {
    ($wrong:ident: $($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                match error.kind() {
                    ErrorKind::Invalid | ErrorKind::Denied => Failure::$wrong(error.to_string()),
                    _ => Failure::Storage(error.to_string()),
                }
            }
        })*
    };
}

by_kind!(Usage: BlobError, StoreError, ForwardError, ListenError, IngestError, AuthError, InputError, Fault);
by_kind!(Search: EngineError);

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        let is_wrong = matches!(failure.code(), USAGE | SPL);
        Fault::new(if is_wrong { ErrorKind::Invalid } else { ErrorKind::Unavailable }, failure.text())
    }
}

impl Failure {
    /// The failure of the search `text`.
    pub(crate) fn from_search_error(text: &str, error: SearchError) -> Failure {
        match (error.diagnostics(), error) {
            (_, error @ SearchError::Time { .. }) => Failure::Usage(error.to_string()),
            (Some(diagnostics), error) if error.kind() == ErrorKind::Invalid => {
                Failure::Spl { text: text.to_owned(), diagnostics }
            }
            (_, SearchError::Engine(error)) => error.into(),
            (_, error) => Failure::Search(error.to_string()),
        }
    }
}

/// Reports a note without a position.
pub(crate) fn report_note(text: &str, out: &mut dyn Write, color: bool) -> io::Result<()> {
    let (yellow, plain) = if color { (YELLOW, PLAIN) } else { ("", "") };
    writeln!(out, "{}", prepare_message(&format!("{yellow}note{plain}: {text}")))
}

/// Reports a message, the line of the search with carets below the position, and the hint.
pub(crate) fn report_diagnostic(
    text: &str,
    diagnostic: &Diagnostic,
    out: &mut dyn Write,
    color: bool,
) -> io::Result<()> {
    let (word, marked) = if diagnostic.severity == Severity::Error { ("error", RED) } else { ("note", YELLOW) };
    let (marked, cyan, plain) = if color { (marked, CYAN, PLAIN) } else { ("", "", "") };
    writeln!(out, "{}", prepare_message(&format!("{marked}{word}{plain}: {}", diagnostic.message)))?;
    if diagnostic.severity == Severity::Warning && diagnostic.span == NO_SPAN {
        return write_hint(diagnostic, out, (cyan, plain));
    }
    let room = stderr_width().map_or(EXCERPT_COLUMNS, |width| usize::from(width) - EXCERPT_INDENT.min(width.into()));
    let excerpt = Excerpt::around(text, diagnostic.span.start, diagnostic.span.end, room.min(EXCERPT_COLUMNS));
    writeln!(out, "{:EXCERPT_INDENT$}{}", "", excerpt.line)?;
    let caret_at = EXCERPT_INDENT + excerpt.caret_at;
    writeln!(out, "{:caret_at$}{marked}{}{plain}", "", "^".repeat(excerpt.carets))?;
    write_hint(diagnostic, out, (cyan, plain))
}

fn write_hint(diagnostic: &Diagnostic, out: &mut dyn Write, (cyan, plain): (&str, &str)) -> io::Result<()> {
    match &diagnostic.hint {
        Some(hint) => writeln!(out, "{}", prepare_message(&format!("{cyan}help{plain}: {hint}"))),
        None => Ok(()),
    }
}

/// The line of a search that an error or a note is about, cut to the width of the output.
struct Excerpt {
    line: String,
    /// Number of displayed columns before the carets.
    caret_at: usize,
    carets: usize,
}

impl Excerpt {
    /// The line that contains byte `start`, reduced to the part around that byte if the line is wider than `columns`.
    fn around(text: &str, start: usize, end: usize, columns: usize) -> Excerpt {
        let start = floor_boundary(text, start);
        let end = floor_boundary(text, end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let (before, marked) =
            (escape_line(&text[line_start..start]), escape_line(&text[start..end.clamp(start, line_end)]));
        let rest = escape_line(&text[start..line_end]);
        let mut used = 0;
        let kept = before.char_indices().rev().take_while(|(_, c)| {
            used += char_width(*c);
            used <= columns / 2
        });
        let from = kept.last().map_or(before.len(), |(at, _)| at);
        let mut line = if from > 0 { "…".to_owned() } else { String::new() };
        line.push_str(&before[from..]);
        let caret_at = width(&line);
        let room = columns.saturating_sub(caret_at).max(2);
        let shown = truncate(&rest, room);
        line.push_str(&shown);
        Excerpt { line, caret_at, carets: width(&marked).clamp(1, width(&shown).max(1)) }
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_are_below_the_error() {
        let excerpt = Excerpt::around("index=main | stast count", 13, 18, EXCERPT_COLUMNS);
        assert_eq!((excerpt.line.as_str(), excerpt.caret_at, excerpt.carets), ("index=main | stast count", 13, 5));
        let excerpt = Excerpt::around("a\n| zzz x", 4, 7, EXCERPT_COLUMNS);
        assert_eq!((excerpt.line.as_str(), excerpt.caret_at, excerpt.carets), ("| zzz x", 2, 3));
    }

    #[test]
    fn the_manual_has_every_exit_code() {
        let page = include_str!("../../../docs/running/troubleshooting.md");
        let (_, table) = page.split_once("|---|---|\n| 0 |").unwrap();
        let rows: Vec<String> = EXIT_CODES.iter().map(|(code, means)| format!("| {code} | {means} |")).collect();
        assert_eq!(format!("| 0 |{}", table.trim_end()), rows.join("\n"));
    }

    #[test]
    fn long_lines_are_truncated_and_odd_spans_are_safe() {
        for (filler, columns) in [("é", 100), ("日", 100), ("é", 40), ("日", 21), ("x\t", 60)] {
            let text = format!("{} bad {}", filler.repeat(300), "y".repeat(300));
            let start = filler.len() * 300 + 1;
            let excerpt = Excerpt::around(&text, start, start + 3, columns);
            assert!(width(&excerpt.line) <= columns, "{}", excerpt.line);
            let at = excerpt.line.find("bad").unwrap();
            assert_eq!((width(&excerpt.line[..at]), 3), (excerpt.caret_at, excerpt.carets), "{}", excerpt.line);
        }
        let text = "a\u{1b}[2Jb";
        for (start, end) in [(0, 0), (9999, 99999), (5, 1)] {
            let excerpt = Excerpt::around(text, start, end, EXCERPT_COLUMNS);
            assert!(!excerpt.line.contains(char::is_control));
        }
    }
}
