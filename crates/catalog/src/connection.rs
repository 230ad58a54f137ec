//! The connection of an open catalog, and its transactions.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::CatalogError;
use crate::checkpoint::KnownHeads;

/// Timeout of a statement when another process holds the database.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(10);

/// An open catalog. It has one connection: transactions are short and run one after the other.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) connection: Mutex<Connection>,
    pub(crate) path: PathBuf,
    pub(crate) heads: KnownHeads,
    /// Schema version of the file.
    pub(crate) version: usize,
}

impl Catalog {
    /// Runs one transaction, which is committed completely or not at all.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, CatalogError> {
        let mut connection = self.connection();
        let run = || -> rusqlite::Result<T> {
            let transaction = connection.transaction()?;
            let value = act(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        run().map_err(|error| CatalogError::at(&self.path, &error))
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
