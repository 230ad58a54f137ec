//! What adding a file came to.

/// A file that became shorter while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// Bytes when it was opened.
    pub expected: u64,
    /// Bytes read.
    pub found: u64,
}

/// What adding a file came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Unpacked bytes read in this run.
    pub bytes: u64,
    /// Events stored in this run.
    pub events: u64,
    /// Events whose text gave no acceptable time.
    pub bad_timestamps: u64,
    /// Lines cut to `TRUNCATE`.
    pub truncated_lines: u64,
    /// Events that rules of index time dropped.
    pub dropped_events: u64,
    /// Whether all of it was stored before.
    pub skipped: bool,
    /// Path of the file that it was stored as.
    pub stored_as: Option<String>,
    /// Unpacked bytes that an earlier run had stored.
    pub resumed_at: u64,
    /// Whether adding was ended from outside before the file's end.
    pub interrupted: bool,
    /// The sourcetype of the events, once known.
    pub sourcetype: Option<String>,
    /// Set when the file became shorter while it was read.
    pub shrunk: Option<Shrunk>,
    /// What is wrong with the settings of the guessed sourcetype; the file was read as plain lines.
    pub problem: Option<String>,
    /// What is odd about the file, each in words.
    pub warnings: Vec<String>,
}
