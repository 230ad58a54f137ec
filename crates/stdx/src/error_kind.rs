//! The kind of an error: its meaning for the caller, common to all crates.
//!
//! Each crate has its own error enums, whose texts state the problem, its location, and the remedy. Exit codes and HTTP
//! statuses are derived from `kind()`.

/// Meaning of an error for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong or exceeds a limit; the caller must change it.
    Invalid,
    /// The requested thing does not exist.
    NotFound,
    /// The caller may not do this.
    Denied,
    /// The system is busy; the same request may succeed soon.
    Busy,
    /// The machine or another node fails (disk, memory, network), or a file is of a newer version. An operator must
    /// act.
    Unavailable,
    /// Stored data is damaged or missing.
    Corrupt,
    /// A bug of the program.
    Bug,
}
