//! The connection of an open catalog, on which acts run.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::CatalogError;
use crate::checkpoint::KnownHeads;

/// How long a statement waits for another process that holds the database.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(10);

/// An open catalog. One connection: acts are short and come one after the other.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) connection: Mutex<Connection>,
    pub(crate) path: PathBuf,
    pub(crate) heads: KnownHeads,
    /// Version of the file.
    pub(crate) version: usize,
}

impl Catalog {
    /// Runs one act: everything it does is committed together or not at all.
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
