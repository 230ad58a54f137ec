//! Errors of collections.

use std::path::{Path, PathBuf};

use quarry_stdx::{ErrorKind, Fault, HasKind};
use rusqlite::ErrorCode;

/// Failure to read or write documents; a failed write had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectionError {
    /// No document has this key, or the collection was removed.
    #[error("Could not find object.")]
    Unknown,
    /// A document with this key exists.
    #[error("A document with the same key and user already exists.")]
    Exists,
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// No space is left.
    #[error("no space left for the collection {}; make room on its file system", .0.display())]
    Full(PathBuf),
    /// Another process or connection holds a lock on the file.
    #[error("the collection {} is locked by another process; stop that process, or make the change through it", .0.display())]
    Busy(PathBuf),
    /// The file is damaged.
    #[error("the collection {} is damaged: {reason}; restore it from a copy", path.display())]
    Corrupt {
        /// File of the collection.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// A check supplied by the caller, or the database through which nodes share documents, refused the change.
    #[error("{reason}")]
    Refused {
        /// Kind of the refusal.
        kind: ErrorKind,
        /// Cause and remedy.
        reason: String,
    },
    /// Any other failure.
    #[error("the collection {}: {reason}", path.display())]
    Failed {
        /// File of the collection.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}

impl HasKind for CollectionError {
    fn kind(&self) -> ErrorKind {
        match self {
            CollectionError::Unknown => ErrorKind::NotFound,
            CollectionError::Exists | CollectionError::Invalid(_) => ErrorKind::Invalid,
            CollectionError::Busy(_) => ErrorKind::Busy,
            CollectionError::Corrupt { .. } => ErrorKind::Corrupt,
            CollectionError::Full(_) | CollectionError::Failed { .. } => ErrorKind::Unavailable,
            CollectionError::Refused { kind, .. } => *kind,
        }
    }
}

impl CollectionError {
    pub(crate) fn invalid(text: impl Into<String>) -> CollectionError {
        CollectionError::Invalid(text.into())
    }

    /// Classifies an SQLite error by the remedy.
    pub(crate) fn at(path: &Path, error: &rusqlite::Error) -> CollectionError {
        let (path, reason) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => CollectionError::Full(path),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => CollectionError::Busy(path),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => CollectionError::Corrupt { path, reason },
            _ => CollectionError::Failed { path, reason },
        }
    }
}

/// A failure inside a transaction, before the path is added.
#[derive(Debug)]
pub(crate) enum Failure {
    Collection(CollectionError),
    Sqlite(rusqlite::Error),
    /// A damaged row.
    Damage(String),
}

impl From<CollectionError> for Failure {
    fn from(error: CollectionError) -> Failure {
        Failure::Collection(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sqlite(error)
    }
}

impl Failure {
    pub(crate) fn at(self, path: &Path) -> CollectionError {
        match self {
            Failure::Collection(error) => error,
            Failure::Sqlite(error) => CollectionError::at(path, &error),
            Failure::Damage(reason) => CollectionError::Corrupt { path: path.to_owned(), reason },
        }
    }
}

impl From<Fault> for CollectionError {
    fn from(fault: Fault) -> CollectionError {
        match fault.kind() {
            ErrorKind::Invalid => CollectionError::Invalid(fault.to_string()),
            kind => CollectionError::Refused { kind, reason: fault.to_string() },
        }
    }
}
