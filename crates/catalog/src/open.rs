//! Opening and checking catalogs.

use std::path::Path;
use std::sync::Mutex;

use rusqlite::Connection;

use crate::checkpoint::KnownHeads;
use crate::connection::BUSY_WAIT;
use crate::digest::check_all;
use crate::{Catalog, CatalogError, read_only_open, schema};

/// Cached prepared statements; more than the methods of a catalog need.
const STATEMENTS_MAX: usize = 64;

impl Catalog {
    /// Opens the database at `path`, creating or migrating it if necessary.
    pub fn open(path: &Path) -> Result<Catalog, CatalogError> {
        let connection = Connection::open(path).map_err(|error| CatalogError::at(path, &error))?;
        Catalog::prepare(connection, path)
    }

    /// As [`Catalog::open`] where a catalog must exist: an empty file is damage, not a new catalog.
    pub fn open_existing(path: &Path) -> Result<Catalog, CatalogError> {
        drop(Catalog::open_read_only(path)?);
        Catalog::open(path)
    }

    /// Opens an existing database without writing to it, even in a read-only folder.
    pub fn open_read_only(path: &Path) -> Result<Catalog, CatalogError> {
        let opened = read_only_open::open(path)?;
        opened.busy_timeout(BUSY_WAIT).map_err(|error| CatalogError::at(path, &error))?;
        let version = schema::check_whole(&opened, path)?;
        schema::show_as_current(&opened, path, version)?;
        check_all(&opened, version).map_err(|error| CatalogError::at(path, &error))?;
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

    /// Verifies every row against its checksum and every table against its digest.
    pub fn check(&self) -> Result<(), CatalogError> {
        self.act(|act| check_all(act, self.version))
    }
}
