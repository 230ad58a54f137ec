//! Opening a database without writing, even in a read-only folder.
//!
//! For a database in WAL mode, even SQLite's readers create a shared-memory index beside it. In a read-only folder this
//! fails, so the file is opened as immutable. This ignores a write-ahead log that has not been checkpointed, so it is
//! done only if no such log exists.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::CatalogError;

const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens the database at `path`; the connection has already read from it.
pub(crate) fn open(path: &Path) -> Result<Connection, CatalogError> {
    let opened = Connection::open_with_flags(path, FLAGS).and_then(verify_readable);
    let error = match opened {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    let cannot_write = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    );
    if !cannot_write || !path.exists() {
        return Err(CatalogError::at(path, error));
    }
    if fs::metadata(wal_path(path)).is_ok_and(|facts| facts.len() > 0) {
        let reason = "it was not closed properly and its folder cannot be written to; open the folder once with the \
                      right to write"
            .to_owned();
        return Err(CatalogError::Failed { place: path.display().to_string(), reason });
    }
    open_immutable(path)
}

/// Opens a database as immutable.
pub(crate) fn open_immutable(path: &Path) -> Result<Connection, CatalogError> {
    let flags = FLAGS | OpenFlags::SQLITE_OPEN_URI;
    let opened = Connection::open_with_flags(immutable_uri(path), flags).and_then(verify_readable);
    opened.map_err(|error| CatalogError::at(path, error))
}

/// Reads once, because opening alone touches no file.
fn verify_readable(connection: Connection) -> rusqlite::Result<Connection> {
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(connection)
}

/// SQLite's write-ahead log of the database.
fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            plain if plain.is_ascii_alphanumeric() => uri.push(char::from(*plain)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri + "?immutable=1"
}
