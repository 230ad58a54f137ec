//! What can go wrong with an object.

use std::io;
use std::path::{Path, PathBuf};

use quarry_stdx::{ErrorKind, HasKind};

/// Failure of a blob store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BlobError {
    /// No object of this name.
    #[error("object {name} does not exist")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// The name breaks the rules of object names.
    #[error("object name {name:?} is not allowed: {reason}")]
    InvalidName {
        /// The name.
        name: String,
        /// The broken rule.
        reason: &'static str,
    },
    /// No space is left; nothing of the object was kept.
    #[error("no space left for {}; free space on its file system", path.display())]
    Full {
        /// File that could not be written.
        path: PathBuf,
    },
    /// The operating system failed; nothing of the object was kept if this was a put.
    #[error("cannot {action} {}: {reason}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// File or folder it was tried on.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

impl HasKind for BlobError {
    fn kind(&self) -> ErrorKind {
        match self {
            BlobError::NotFound { .. } => ErrorKind::NotFound,
            BlobError::InvalidName { .. } => ErrorKind::Invalid,
            BlobError::Full { .. } | BlobError::Io { .. } => ErrorKind::Unavailable,
        }
    }
}

impl BlobError {
    /// Sorts a system error: out of space apart from the rest.
    pub(crate) fn from_io(action: &'static str, path: &Path, error: &io::Error) -> BlobError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::Full { path: path.to_owned() },
            _ => BlobError::Io { action, path: path.to_owned(), reason: error.to_string() },
        }
    }
}
