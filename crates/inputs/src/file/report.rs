//! Result of adding a file: counts of bytes and events, and anything unusual about the file.

/// A file that became shorter while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrunkFile {
    /// Size of the file when it was opened.
    pub expected: u64,
    /// Bytes read.
    pub found: u64,
}

/// Result of adding a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Decompressed bytes read in this run.
    pub bytes: u64,
    /// Events stored in this run.
    pub events: u64,
    /// Events whose text yielded no acceptable timestamp.
    pub bad_timestamps: u64,
    /// Lines cut to `TRUNCATE`.
    pub truncated_lines: u64,
    /// Events dropped by index-time rules.
    pub dropped_events: u64,
    /// True if earlier runs had stored the whole file.
    pub skipped: bool,
    /// Path under which its content was already stored; `None` for new content.
    pub stored_as: Option<String>,
    /// Decompressed bytes stored by an earlier run.
    pub resumed_at: u64,
    /// Whether adding was stopped before the file's end.
    pub interrupted: bool,
    /// The sourcetype of the events, once known.
    pub sourcetype: Option<String>,
    /// Set when the file became shorter while it was read.
    pub shrunk: Option<ShrunkFile>,
    /// Errors in the settings of the guessed sourcetype; the file was read as plain lines.
    pub problem: Option<String>,
    /// Whether nothing was read because the file is binary; a warning says so. Such a file must not be removed.
    pub is_skipped_as_binary: bool,
    /// Whether bytes after the compressed content were not read; a warning says so. Such a file must not be removed.
    pub has_unread_end: bool,
    /// Warnings about the file.
    pub warnings: Vec<String>,
}
