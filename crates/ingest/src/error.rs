//! Errors of the write side of a node.

use std::io;
use std::path::PathBuf;

use quarry_stdx::{ErrorKind, Fault, HasKind};
use quarry_store::StoreError;

/// Failure to open or run the write side.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The data directory does not exist.
    #[error("there is no data directory {}: name one with --data-dir, or add data first", .0.display())]
    NoDataFolder(PathBuf),
    /// The folder is not empty and not a data directory.
    #[error(
        "{} is not a data directory: it holds `{entry}`; name an empty or new folder with --data-dir (the files of \
         a data directory are made private to their owner)",
        folder.display()
    )]
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
        /// One of the entries that do not belong to a data directory.
        entry: String,
    },
    /// The configuration of volumes or of the catalog is invalid.
    #[error(transparent)]
    Volumes(#[from] Fault),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A pipeline set panicked.
    #[error("a pipeline set panicked")]
    SetEnded,
}

impl HasKind for IngestError {
    fn kind(&self) -> ErrorKind {
        match self {
            IngestError::NoDataFolder(_) => ErrorKind::NotFound,
            IngestError::ForeignFolder { .. } => ErrorKind::Invalid,
            IngestError::Volumes(fault) => fault.kind(),
            IngestError::Store(error) => error.kind(),
            IngestError::Thread(_) => ErrorKind::Unavailable,
            IngestError::SetEnded => ErrorKind::Bug,
        }
    }
}
