//! The truth about buckets, file checkpoints and how far each index is sealed, in SQLite.
//!
//! One method is one business act and one transaction ([`Catalog::commit_seals`], [`Catalog::retire`], …); there is no
//! table interface. The database runs in WAL mode with `synchronous=FULL`: what a method returned is on disk. Ids
//! are numbers handed out in order by the store, never random.
//!
//! Every row has a checksum and every table a digest of them (`checksum`): what is damaged is an error, never an answer.
//!
//! Not here: objects (blob), events that are not sealed yet (the store's WAL) and rules of retention.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bucket;
mod checkpoint;
mod checksum;
mod collections;
mod deletion;
mod error;
mod log_segment;
mod origin;
mod position;
mod read_only;
mod schema;
mod setting;
#[cfg(test)]
mod tests;
mod unanswered;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

pub use bucket::{BucketRow, BucketState, CompactionCommit, SealCommit, Sealed};
pub use checkpoint::{
    CheckpointKey, FileCheckpoint, HEAD_BYTES_MAX, HeadLengths, LoggedCheckpoint, SourceIdentity, TAIL_BYTES_MAX,
    tail_hash,
};
pub use collections::{Collections, DOCUMENTS_MAX, Document};
pub use deletion::{DeletionCommit, DeletionRow};
pub use error::CatalogError;
pub use log_segment::LogSegmentRow;
pub use origin::Origin;
pub use unanswered::UnansweredPart;

use crate::checkpoint::KnownHeads;

/// How long a statement waits for another process that holds the database.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// Compiled statements kept; more than the methods here have.
const STATEMENTS_MAX: usize = 64;

/// An open catalog. One connection: acts are short and come one after the other.
#[derive(Debug)]
pub struct Catalog {
    connection: Mutex<Connection>,
    path: PathBuf,
    heads: KnownHeads,
    /// Version of the file.
    version: usize,
}

impl Catalog {
    /// Opens the database at `path`, made or brought up to date when needed.
    pub fn open(path: &Path) -> Result<Catalog, CatalogError> {
        let connection = Connection::open(path).map_err(|error| CatalogError::at(path, &error))?;
        Catalog::prepare(connection, path)
    }

    /// As [`Catalog::open`] where a catalog must be: an empty file is damage and not a new catalog.
    pub fn open_existing(path: &Path) -> Result<Catalog, CatalogError> {
        drop(Catalog::open_read_only(path)?);
        Catalog::open(path)
    }

    /// Opens an existing database without writing to it, also in a folder that takes no files.
    pub fn open_read_only(path: &Path) -> Result<Catalog, CatalogError> {
        let opened = read_only::open(path)?;
        opened.busy_timeout(BUSY_WAIT).map_err(|error| CatalogError::at(path, &error))?;
        let version = schema::check_whole(&opened, path)?;
        schema::show_as_current(&opened, path, version)?;
        checksum::check_all(&opened, version).map_err(|error| CatalogError::at(path, &error))?;
        let heads = KnownHeads::of_a_reader();
        Ok(Catalog { connection: Mutex::new(opened), path: path.to_owned(), heads, version })
    }

    /// A catalog in memory, for tests and temporary stores.
    pub fn open_in_memory() -> Result<Catalog, CatalogError> {
        let path = Path::new(":memory:");
        let connection = Connection::open_in_memory().map_err(|error| CatalogError::at(path, &error))?;
        Catalog::prepare(connection, path)
    }

    fn prepare(mut connection: Connection, path: &Path) -> Result<Catalog, CatalogError> {
        schema::prepare(&mut connection, path, BUSY_WAIT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        let heads = KnownHeads::of_the_writer();
        Ok(Catalog { connection: Mutex::new(connection), path: path.to_owned(), heads, version: schema::VERSION })
    }

    /// Compares every row with its checksum and every table with its digest.
    pub fn check(&self) -> Result<(), CatalogError> {
        self.act(|act| checksum::check_all(act, self.version))
    }

    /// Runs one act: everything it does is committed together or not at all.
    fn act<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, CatalogError> {
        let mut connection = self.connection();
        let run = || -> rusqlite::Result<T> {
            let transaction = connection.transaction()?;
            let value = act(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        run().map_err(|error| CatalogError::at(&self.path, &error))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
