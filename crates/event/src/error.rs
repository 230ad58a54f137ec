//! Errors in the notations of times.

use quarry_stdx::{ErrorKind, HasKind};

/// Error of parsing a time modifier, a span or a time format.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TimeError {
    /// A time is missing.
    #[error("a time is missing: write for example -24h@h, now, an epoch or 11/21/2026:08:00:00")]
    Empty,
    /// `rt` in a search text.
    #[error("\"{text}\" is a real-time window, which is allowed for a search job but not in the search text")]
    RealTime {
        /// The whole modifier.
        text: String,
    },
    /// An unknown unit.
    #[error("\"{unit}\" in \"{text}\" is not a time unit: use s, m, h, d, w, mon, q or y")]
    Unit {
        /// The text in place of a unit.
        unit: String,
        /// The whole modifier.
        text: String,
    },
    /// The result is not within the years 1678 to 2261, or an amount is 0 or too large.
    #[error("\"{text}\" lies outside the years 1678 to 2261 or has an amount that is 0 or too large")]
    OutOfRange {
        /// The whole modifier.
        text: String,
    },
    /// The text is neither a relative nor an absolute time.
    #[error("cannot read \"{text}\" as a time: write for example -24h@h, now, an epoch or 11/21/2026:08:00:00")]
    Unreadable {
        /// The whole modifier.
        text: String,
    },
    /// An unknown directive of a format.
    #[error("\"{directive}\" in the time format \"{format}\" is not a known directive")]
    Directive {
        /// The directive with its `%`.
        directive: String,
        /// The whole format.
        format: String,
    },
    /// A format without any directive.
    #[error("the time format \"{format}\" contains no part of a time")]
    NoDirective {
        /// The whole format.
        format: String,
    },
}

impl HasKind for TimeError {
    /// All of these are errors in texts that people write.
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}
