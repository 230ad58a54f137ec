//! What can go wrong with the catalog.

use std::path::{Path, PathBuf};

use quarry_stdx::{ErrorKind, HasKind};
use rusqlite::ErrorCode;

/// Failure of the catalog; the interrupted transaction had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CatalogError {
    /// No space is left on the disk.
    #[error("no space left for the catalog {}; free space on its file system", path.display())]
    Full {
        /// Database file.
        path: PathBuf,
    },
    /// Another process holds the database.
    #[error("catalog {} is locked by another process; stop it or let it do the work", path.display())]
    Busy {
        /// Database file.
        path: PathBuf,
    },
    /// The file is not a catalog, or is damaged.
    #[error("catalog {} is damaged: {reason}; restore it from a copy", path.display())]
    Corrupt {
        /// Database file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// A newer quarry wrote it.
    #[error("catalog {} has version {found}, this quarry knows up to {known}; use a newer quarry", path.display())]
    TooNew {
        /// Database file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Newest version known here.
        known: i64,
    },
    /// Any other failure.
    #[error("catalog {}: {reason}", path.display())]
    Failed {
        /// Database file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
}

impl HasKind for CatalogError {
    fn kind(&self) -> ErrorKind {
        match self {
            CatalogError::Busy { .. } => ErrorKind::Busy,
            CatalogError::Corrupt { .. } => ErrorKind::Corrupt,
            CatalogError::Full { .. } | CatalogError::TooNew { .. } | CatalogError::Failed { .. } => {
                ErrorKind::Unavailable
            }
        }
    }
}

impl CatalogError {
    /// Classifies an SQLite error by what the caller can do about it.
    pub(crate) fn at(path: &Path, error: &rusqlite::Error) -> CatalogError {
        let path = path.to_owned();
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => CatalogError::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => CatalogError::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => CatalogError::Corrupt { path, reason },
            _ if is_damage(error) => CatalogError::Corrupt { path, reason: damage_of(error) },
            _ => CatalogError::Failed { path, reason },
        }
    }
}

/// Description of a damaged row.
fn damage_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, inner) => inner.to_string(),
        other => other.to_string(),
    }
}

/// Whether an error means damage.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    matches!(
        error,
        E::FromSqlConversionFailure(..) | E::InvalidColumnType(..) | E::IntegralValueOutOfRange(..) | E::Utf8Error(..)
    )
}
