//! Collections of documents: the KV store, which REST and lookup tables share.
//!
//! A document is a JSON object under a key that is unique among those of its user in its collection. A collection is a SQLite file
//! of its own ([`Collection`]); all of a data folder are opened through one [`Collections`] of the process. What was answered is on
//! disk. Queries ([`Query`]) are the part of MongoDB's language that Splunk takes; accelerated fields are kept as sorted entries
//! beside the documents, which narrow what is read and never change an answer.
//!
//! Not here: `collections.conf` and who may see a collection (`apps`), paths and forms of requests (`api`).
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
mod former_file;
mod pairs;
mod projection;
mod query;
mod sort;
mod value_order;

pub use collection::{Collection, Removed};
pub use collections::Collections;
pub use definition::{Acceleration, CollectionDefinition, FieldType};
pub use document::{DOCUMENT_BYTES_MAX, Object, TakeObject, parse_object, parse_objects};
pub use error::CollectionError;
pub use field_path::{member, set_member};
pub use find::Find;
pub use pairs::Pairs;
pub use projection::Projection;
pub use query::Query;
pub use sort::Sort;

/// The user of what all share.
pub const NOBODY: &str = "nobody";
/// Member with the key of a document.
pub const KEY: &str = "_key";
/// Member with the user whom a document belongs to.
pub const USER: &str = "_user";
