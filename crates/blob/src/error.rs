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
    /// A remote store did not answer, or not well, however often it was asked.
    #[error("cannot {action} {name} in {place}: {reason} (attempts: {attempts})")]
    Remote {
        /// What was tried.
        action: &'static str,
        /// Object it was tried on.
        name: String,
        /// Container and servers.
        place: String,
        /// How often it was tried.
        attempts: u32,
        /// What came back last.
        reason: String,
    },
    /// A remote store knows the request but not the right to make it.
    #[error("{place} does not allow to {action} {name}; check the access key and its rights: {reason}")]
    Denied {
        /// What was tried.
        action: &'static str,
        /// Object it was tried on.
        name: String,
        /// Container and servers.
        place: String,
        /// What it said.
        reason: String,
    },
    /// An object is not what was put.
    #[error("object {name} is damaged: {reason}")]
    Damaged {
        /// Its name.
        name: String,
        /// What does not match.
        reason: String,
    },
    /// A remote store cannot be used as it is set up.
    #[error("the remote store cannot be used: {reason}")]
    Settings {
        /// What is wrong, and what to do.
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
            BlobError::Full { .. } | BlobError::Io { .. } | BlobError::Remote { .. } => ErrorKind::Unavailable,
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
