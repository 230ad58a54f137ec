//! Migration from the older format, in which all collections shared one file.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::error::Failure;

/// Name of the shared file in the folder of collections.
pub(crate) const FORMER_FILE: &str = "collections.sqlite";

/// The documents of a collection in the shared file, as key and JSON.
pub(crate) fn documents(path: &Path, collection: &str) -> Result<Vec<(String, String)>, Failure> {
    let connection = Connection::open(path)?;
    let mut statement = connection.prepare("SELECT key, body FROM documents WHERE collection = ?1 ORDER BY place")?;
    let rows = statement.query_map(params![collection], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes a collection's documents from the shared file once they are stored in the collection's own file.
pub(crate) fn remove_documents(path: &Path, collection: &str) -> Result<(), Failure> {
    let connection = Connection::open(path)?;
    connection.execute("DELETE FROM documents WHERE collection = ?1", params![collection])?;
    Ok(())
}
