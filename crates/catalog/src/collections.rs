//! Collections of documents (the KV store), in a database file of their own.
//!
//! A document is a JSON object under a key that is unique in its collection. A collection is read and replaced as a
//! whole, in one transaction each: what a search reads is what one search wrote. Documents keep the order they came in.
//!
//! Not here: which fields a document has, and what a lookup makes of it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, params};

use crate::CatalogError;
use crate::connection::BUSY_WAIT;

/// Documents of one collection at most.
pub const DOCUMENTS_MAX: usize = 1_000_000;

const SCHEMA: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; \
     CREATE TABLE IF NOT EXISTS documents (collection TEXT NOT NULL, key TEXT NOT NULL, place INTEGER NOT NULL, \
     body TEXT NOT NULL, PRIMARY KEY (collection, key)) WITHOUT ROWID; \
     CREATE INDEX IF NOT EXISTS places ON documents (collection, place);";

/// A document as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its key; one without is given a new one when it is written.
    pub key: Option<String>,
    /// JSON text of an object.
    pub body: String,
}

/// An open file of collections.
#[derive(Debug)]
pub struct Collections {
    connection: Mutex<Connection>,
    path: PathBuf,
}

impl Collections {
    /// Opens the file at `path`, made when it is not there.
    pub fn open(path: &Path) -> Result<Collections, CatalogError> {
        let failed = |error: rusqlite::Error| CatalogError::at(path, &error);
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY_WAIT).map_err(failed)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        Ok(Collections { connection: Mutex::new(connection), path: path.to_owned() })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The documents of a collection, in the order they were written.
    pub fn read(&self, collection: &str) -> Result<Vec<Document>, CatalogError> {
        let connection = self.connection();
        let read = || -> Result<Vec<Document>, rusqlite::Error> {
            let mut statement =
                connection.prepare_cached("SELECT key, body FROM documents WHERE collection = ?1 ORDER BY place")?;
            let rows = statement
                .query_map(params![collection], |row| Ok(Document { key: Some(row.get(0)?), body: row.get(1)? }))?;
            rows.collect()
        };
        read().map_err(|error| CatalogError::at(&self.path, &error))
    }

    /// Puts these documents in the place of all there are; of several with the same key the last stays.
    pub fn replace(&self, collection: &str, documents: &[Document]) -> Result<(), CatalogError> {
        let mut connection = self.connection();
        let mut write = || -> Result<(), rusqlite::Error> {
            let transaction = connection.transaction()?;
            transaction.execute("DELETE FROM documents WHERE collection = ?1", params![collection])?;
            {
                let mut insert = transaction.prepare_cached(
                    "INSERT OR REPLACE INTO documents (collection, key, place, body) \
                     VALUES (?1, coalesce(?2, lower(hex(randomblob(12)))), ?3, ?4)",
                )?;
                for (place, document) in documents.iter().enumerate() {
                    insert.execute(params![collection, document.key, place as i64, document.body])?;
                }
            }
            transaction.commit()
        };
        write().map_err(|error| CatalogError::at(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::{Collections, Document};

    fn document(key: Option<&str>, body: &str) -> Document {
        Document { key: key.map(str::to_owned), body: body.to_owned() }
    }

    #[test]
    fn what_was_written_is_read_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("collections.sqlite");
        let written = [document(Some("b"), "{\"n\":1}"), document(Some("a"), "{\"n\":2}")];
        Collections::open(&path).unwrap().replace("users", &written).unwrap();
        let opened = Collections::open(&path).unwrap();
        assert_eq!(opened.read("users").unwrap(), written);
        assert_eq!(opened.read("others").unwrap(), []);
        opened.replace("users", &[document(Some("a"), "{}"), document(Some("a"), "{\"n\":3}")]).unwrap();
        assert_eq!(opened.read("users").unwrap(), [document(Some("a"), "{\"n\":3}")]);
    }

    #[test]
    fn documents_without_a_key_are_given_one_each() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Collections::open(&folder.path().join("collections.sqlite")).unwrap();
        opened.replace("users", &[document(None, "{}"), document(None, "{}")]).unwrap();
        let keys: Vec<String> = opened.read("users").unwrap().into_iter().filter_map(|document| document.key).collect();
        assert_eq!(keys.len(), 2);
        assert!(keys[0] != keys[1] && keys.iter().all(|key| key.len() == 24));
    }
}
