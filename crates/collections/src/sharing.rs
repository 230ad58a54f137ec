//! The interface to the database through which the nodes of a cluster share documents.
//!
//! Each change of a document is numbered by one counter for all collections. A collection on this node is a replica: it
//! records the number up to which it has applied the changes of all nodes (`collection/replica.rs`).
//!
//! Not here: the database and its rows (sharing, catalog).

use std::fmt::Debug;

use quarry_stdx::Fault;

use crate::CollectionError;

/// A document that was written or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChange {
    /// User to whom the document belongs.
    pub user: String,
    /// Key.
    pub key: String,
    /// Members as JSON, without key and user; `None` if the document was removed.
    pub body: Option<String>,
}

/// State of a collection in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedState {
    /// Number of the last change in the database, whichever collection it changed.
    pub last: i64,
    /// Number of a change. The database may no longer have the rows that record the removals up to this change. A
    /// replica that has applied fewer changes reads the whole collection again.
    pub purged: i64,
}

/// Function that supplies the documents to write in parts. Its argument is the number of the part, from 0; an empty
/// part marks the end.
pub type ChangeParts<'p> = &'p dyn Fn(usize) -> Result<Vec<DocumentChange>, Fault>;

/// Documents of collections that several nodes share. A collection is named by its app and its name.
pub trait SharedDocuments: Debug + Send + Sync {
    /// Identifies the database.
    fn id(&self) -> i64;

    /// Runs `work` while no other node and no other thread changes documents.
    fn exclusively(&self, work: &mut dyn FnMut() -> Result<(), CollectionError>) -> Result<(), CollectionError>;

    /// Number of the last change, and the collections that were changed after `version`.
    fn changed_since(&self, version: i64) -> Result<(i64, Vec<(String, String)>), Fault>;

    /// State of a collection in the database.
    fn state(&self, collection: (&str, &str)) -> Result<SharedState, Fault>;

    /// The next documents that were changed after number `after` and up to number `last`, each with the number of its
    /// last change, ordered by this number; empty at the end.
    fn page(&self, collection: (&str, &str), after: i64, last: i64) -> Result<Vec<(i64, DocumentChange)>, Fault>;

    /// Writes documents for all nodes in one transaction; returns the number of the last of these changes. Fails if the
    /// collection has changes with numbers above `known`. Call it only inside [`SharedDocuments::exclusively`].
    fn put(&self, collection: (&str, &str), known: i64, parts: ChangeParts<'_>) -> Result<i64, Fault>;

    /// Removes all documents of a collection. Call it only inside [`SharedDocuments::exclusively`].
    fn clear(&self, collection: (&str, &str)) -> Result<(), Fault>;
}
