//! Errors of the catalog.

use std::path::Path;

use quarry_stdx::{ErrorKind, HasKind};
use rusqlite::ErrorCode;

use crate::transaction::Failure;

/// Failure of the catalog. The interrupted transaction had no effect, unless the commit itself failed: then its effect
/// is unknown.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CatalogError {
    /// No space is left on the disk.
    #[error("no space left for the catalog {place}; make room on its file system")]
    Full {
        /// Database file; or server, database and schema of PostgreSQL.
        place: String,
    },
    /// Another process holds the database.
    #[error("catalog {place} is locked by another process; stop that process, or send the request to it")]
    Busy {
        /// Database file; or server, database and schema of PostgreSQL.
        place: String,
    },
    /// The database server does not answer. If a commit had been sent, the next start shows whether it took effect.
    #[error(
        "catalog {place} has been unreachable for {waited} s: {reason}; start the server, or correct the network or \
         [catalog] url in server.conf"
    )]
    Unreachable {
        /// Server, database and schema of PostgreSQL.
        place: String,
        /// Seconds waited.
        waited: u64,
        /// The last error.
        reason: String,
    },
    /// The destination of a copy already contains a catalog.
    #[error("catalog {place} is not empty, so another catalog cannot be copied there")]
    NotEmpty {
        /// Destination of the copy.
        place: String,
    },
    /// The file or the schema contains no catalog, or a damaged one.
    #[error("catalog {place} is damaged: {reason}; restore it from a copy")]
    Corrupt {
        /// Database file; or server, database and schema of PostgreSQL.
        place: String,
        /// The database's error, or the checksum that does not match.
        reason: String,
    },
    /// A newer quarry wrote the catalog.
    #[error("catalog {place} has version {found}, but this quarry supports only up to {known}; use a newer quarry")]
    TooNew {
        /// Database file; or server, database and schema of PostgreSQL.
        place: String,
        /// Version of the catalog.
        found: i64,
        /// Newest version known here.
        known: i64,
    },
    /// Any other failure.
    #[error("catalog {place}: {reason}")]
    Failed {
        /// Database file; or server, database and schema of PostgreSQL.
        place: String,
        /// The database's error.
        reason: String,
    },
}

impl HasKind for CatalogError {
    fn kind(&self) -> ErrorKind {
        match self {
            CatalogError::Busy { .. } => ErrorKind::Busy,
            CatalogError::Corrupt { .. } => ErrorKind::Corrupt,
            CatalogError::NotEmpty { .. } => ErrorKind::Invalid,
            CatalogError::Full { .. }
            | CatalogError::Unreachable { .. }
            | CatalogError::TooNew { .. }
            | CatalogError::Failed { .. } => ErrorKind::Unavailable,
        }
    }
}

impl CatalogError {
    /// Classifies a failure of the database file `path`.
    pub(crate) fn at(path: &Path, failure: impl Into<Failure>) -> CatalogError {
        let place = path.display().to_string();
        let error = match failure.into() {
            Failure::Damaged(reason) => return CatalogError::Corrupt { place, reason },
            Failure::NotEmpty => return CatalogError::NotEmpty { place },
            Failure::Permanent(error) => return error,
            Failure::Sqlite(error) => error,
            // Failures of sessions; a catalog in a file has them only while it is copied from PostgreSQL.
            other @ (Failure::PostgreSql(_) | Failure::Lost(_) | Failure::Locked) => {
                return CatalogError::Failed { place, reason: format!("{other:?}") };
            }
        };
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => CatalogError::Full { place },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => CatalogError::Busy { place },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => CatalogError::Corrupt { place, reason },
            _ if is_damage(&error) => CatalogError::Corrupt { place, reason },
            _ => CatalogError::Failed { place, reason },
        }
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
