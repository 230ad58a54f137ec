//! What apps and users bring to a node as files of its data folder, and which of it a namespace sees.
//!
//! [`read_configuration`] merges the `.conf` files of all apps, [`read_view`] those that one user sees in one app. Searches
//! ask by name for what apps define: [`KnowledgeFiles`] has macros, saved searches, event types, tags and data models,
//! [`Lookups`] has lookup tables, collections and the database of addresses. [`folders`] finds the app that defines a stanza.
//! [`objects`] shows and changes stanzas one by one, as somebody sees them.
//!
//! Not here: what a setting means (`quarry_conf`), programs that apps bring along (`quarry_programs`), who the users are.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod address_database;
mod collection_tables;
mod configuration;
pub mod folders;
mod knowledge_files;
pub mod local_apps;
mod lookup_files;
pub mod objects;
pub mod run_file;
mod secret;

pub use address_database::AddressDatabase;
pub use configuration::{
    read as read_configuration, read_apps, read_readable, read_readership, read_view, read_with_own,
};
pub use knowledge_files::KnowledgeFiles;
pub use lookup_files::{DUMP_FOLDER, LookupFiles, Lookups};
pub use secret::Secret;
