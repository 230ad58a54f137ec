//! Errors of blob stores.

use std::io;
use std::path::{Path, PathBuf};

use quarry_bucket::ReadError;
use quarry_stdx::{ErrorKind, HasKind};

/// Failure of a blob store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BlobError {
    /// No object of this name.
    #[error("object {name} does not exist")]
    NotFound {
        /// Name of the object.
        name: String,
    },
    /// The name breaks the rules of object names.
    #[error("object name {name:?} is not allowed: {reason}")]
    InvalidName {
        /// The refused name.
        name: String,
        /// The broken rule.
        reason: &'static str,
    },
    /// No space is left; nothing of the object was stored.
    #[error("no space left for {}; make room on its file system", path.display())]
    Full {
        /// File that could not be written.
        path: PathBuf,
    },
    /// The operating system failed; after a put, the object exists completely or not at all.
    #[error("cannot {action} {}: {reason}", path.display())]
    Io {
        /// The failed operation, for the message.
        action: &'static str,
        /// File or folder of the operation.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// A remote store did not answer, or answered with errors, in all attempts.
    #[error("cannot {action} {name} in {place}: {reason} (attempts: {attempts})")]
    Remote {
        /// The failed operation, for the message.
        action: &'static str,
        /// Name of the object.
        name: String,
        /// Container and servers.
        place: String,
        /// Number of attempts.
        attempts: u32,
        /// Last answer.
        reason: String,
    },
    /// A remote store denied access.
    #[error("access denied: cannot {action} {name} in {place}; check the access key and its permissions: {reason}")]
    Denied {
        /// The failed operation, for the message.
        action: &'static str,
        /// Name of the object.
        name: String,
        /// Container and servers.
        place: String,
        /// The server's answer.
        reason: String,
    },
    /// An object's content does not match its checksums.
    #[error("object {name} is damaged: {reason}")]
    Damaged {
        /// Name of the object.
        name: String,
        /// The mismatch that was found.
        reason: String,
    },
    /// A part of an object that is needed to open it cannot be read.
    #[error("{part} of object {name} cannot be read: {error}")]
    Read {
        /// Name of the object.
        name: String,
        /// The part.
        part: &'static str,
        /// The failure.
        error: ReadError,
    },
    /// The settings of a remote store are invalid.
    #[error("the remote store cannot be used: {reason}")]
    Settings {
        /// The problem and its remedy.
        reason: String,
    },
}

impl HasKind for BlobError {
    fn kind(&self) -> ErrorKind {
        match self {
            BlobError::NotFound { .. } => ErrorKind::NotFound,
            BlobError::InvalidName { .. } | BlobError::Settings { .. } => ErrorKind::Invalid,
            BlobError::Denied { .. } => ErrorKind::Denied,
            BlobError::Damaged { .. } => ErrorKind::Corrupt,
            BlobError::Read { error, .. } => error.kind(),
            BlobError::Full { .. } | BlobError::Io { .. } | BlobError::Remote { .. } => ErrorKind::Unavailable,
        }
    }
}

impl BlobError {
    /// The same failure for a read of an object that should exist: a missing object then counts as damage, like content
    /// that differs from what was written.
    pub fn into_read_error(self, offset: u64, len: usize) -> ReadError {
        let kind = match self.kind() {
            ErrorKind::NotFound => ErrorKind::Corrupt,
            kind => kind,
        };
        match self {
            // The reason already says what to do.
            BlobError::Read { name, part, error: ReadError::Failed { offset, len, kind, reason } } => {
                ReadError::Failed {
                    offset,
                    len,
                    kind,
                    reason: format!("{part} of object {name} cannot be read: {reason}"),
                }
            }
            other => ReadError::Failed { offset, len, kind, reason: other.to_string() },
        }
    }

    /// Classifies a system error: out of space, or other.
    pub(crate) fn from_io(action: &'static str, path: &Path, error: &io::Error) -> BlobError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::Full { path: path.to_owned() },
            _ => BlobError::Io { action, path: path.to_owned(), reason: error.to_string() },
        }
    }
}
