//! Collections of JSON documents: the KV store used by REST and lookup tables.
//!
//! A document is a JSON object with a key that is unique per user and collection. Each collection is a SQLite file of
//! its own ([`Collection`]); all collections of a data directory are opened through one [`Collections`] per process.
//! Writes are on disk before they are answered. Queries ([`Query`]) use the subset of MongoDB's language that Splunk
//! supports, and some further operators. If the nodes of a cluster share documents, a write reaches the cluster's
//! database before the collection's file, and changes by other nodes are applied to the file ([`SharedDocuments`]).
//! Accelerated fields have sorted index entries, which reduce the documents read and never change an answer.
//!
//! Not here: `collections.conf` files and permissions (`apps`), request paths and formats (`api`), the database of a
//! cluster (`sharing`).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
mod collection;
mod collections;
mod definition;
mod document;
mod entry;
mod error;
mod field_path;
mod find;
mod migration;
mod pairs;
mod projection;
mod query;
mod sharing;
mod sort;
mod value_order;

pub use collection::{Collection, CollectionSize, Removed};
pub use collections::Collections;
pub use definition::{Acceleration, CollectionDefinition, FieldType};
pub use document::{DOCUMENT_BYTES_MAX, Object, ObjectConsumer, parse_object, parse_objects};
pub use error::CollectionError;
pub use field_path::{member, set_member};
pub use find::Find;
pub use pairs::Pairs;
pub use projection::Projection;
pub use query::Query;
pub use sharing::{ChangeParts, DocumentChange, SharedDocuments, SharedState};
pub use sort::Sort;

/// The user of documents that belong to all users.
pub const NOBODY: &str = "nobody";
/// Member with a document's key.
pub const KEY: &str = "_key";
/// Member with a document's user.
pub const USER: &str = "_user";
