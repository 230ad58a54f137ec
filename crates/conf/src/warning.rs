//! Warnings about .conf files: the fault and its location.
//!
//! None of these faults prevents a start: the faulty part is ignored, and everything else applies.

use std::fmt;
use std::sync::Arc;

use quarry_stdx::{ErrorKind, HasKind};
use thiserror::Error;

/// A fault in a .conf file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfWarning {
    /// Label of the file as passed in, usually its path.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Stanza of the line; `default` before the first header.
    pub stanza: String,
    /// The fault.
    pub problem: Problem,
}

impl fmt::Display for ConfWarning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: [{}] {}", self.file, self.line, self.stanza, self.problem)
    }
}

/// Kinds of fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// A line that is neither `key = value`, a stanza nor a comment.
    #[error("\"{line}\" is neither key = value, [stanza] nor # comment; the line is ignored")]
    Line {
        /// The line, truncated.
        line: String,
    },
    /// `[` without `]`.
    #[error("\"{line}\" opens a stanza without closing it and is read as if it ended with the line; write [name]")]
    OpenStanza {
        /// The line, truncated.
        line: String,
    },
    /// `= value`.
    #[error("a value without a setting name; write name = value")]
    NoKey,
    /// An unknown stanza whose name resembles a known name.
    #[error("unknown stanza; did you mean [{nearest}]?")]
    UnknownStanza {
        /// The known name.
        nearest: String,
    },
    /// A stanza that nothing reads here.
    #[error("nothing reads a stanza of this kind; it has no effect")]
    StanzaWithoutEffect,
    /// A setting that is in no table.
    #[error("unknown setting {key}{}", nearest_hint(nearest.as_deref()))]
    UnknownSetting {
        /// The setting as written.
        key: String,
        /// A known setting with a similar name.
        nearest: Option<String>,
    },
    /// A Splunk setting that is not supported here.
    #[error("{key} is not supported; it has no effect")]
    Unsupported {
        /// The setting.
        key: String,
    },
    /// A Splunk file that nothing reads here.
    #[error("this file has no effect: {what}")]
    FileWithoutEffect {
        /// The missing feature.
        what: &'static str,
    },
    /// Saved searches with a schedule.
    #[error(
        "enableSched has no effect: scheduled searches are not supported yet ({searches} in this file have a schedule)"
    )]
    NotScheduled {
        /// Number of saved searches with a schedule.
        searches: usize,
    },
    /// A stanza name whose pattern is not a valid regular expression.
    #[error("the pattern is not a valid regular expression (look-around is not supported); only its wildcards apply")]
    StanzaPattern,
    /// A lower bound above its upper bound.
    #[error(
        "{least} is larger than {most}, so the built-in values of both apply; one of the two settings may be inherited"
    )]
    Contradiction {
        /// The lower bound.
        least: &'static str,
        /// The upper bound.
        most: &'static str,
    },
    /// An invalid value of a setting.
    #[error("{key} = {value}: expected {allowed}; the value is ignored")]
    BadValue {
        /// The setting.
        key: String,
        /// The value as written, truncated.
        value: String,
        /// The valid values.
        allowed: String,
    },
}

impl HasKind for Problem {
    /// Every fault is a mistake in a file, so the kind is always the same.
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

fn nearest_hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Maximum length in characters of a line or value in a warning.
const SHOWN_CHARS_MAX: usize = 80;

/// A text truncated for display.
pub(crate) fn truncate(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
