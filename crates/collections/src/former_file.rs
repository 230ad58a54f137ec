//! The file in which all collections were before each had one of its own: what it holds of a collection moves there.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::error::Failure;

/// Name of the file in the folder of collections.
pub(crate) const FORMER_FILE: &str = "collections.sqlite";

/// The documents of a collection in the former file, as key and JSON.
pub(crate) fn documents(path: &Path, collection: &str) -> Result<Vec<(String, String)>, Failure> {
    let connection = Connection::open(path)?;
    let mut statement = connection.prepare("SELECT key, body FROM documents WHERE collection = ?1 ORDER BY place")?;
    let rows = statement.query_map(params![collection], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Forgets them, after they are safe elsewhere.
pub(crate) fn forget(path: &Path, collection: &str) -> Result<(), Failure> {
    let connection = Connection::open(path)?;
    connection.execute("DELETE FROM documents WHERE collection = ?1", params![collection])?;
    Ok(())
}
