//! What apps and users bring to a node as files of its data folder, and which of it a namespace sees.
//!
//! [`read_configuration`] merges the `.conf` files of all apps, [`read_view`] those that one user sees in one app. Searches
//! ask by name for what apps define: [`KnowledgeFiles`] has macros, saved searches, event types, tags and data models,
//! [`Lookups`] has lookup tables, collections and the database of addresses. [`folders`] finds the app that defines a stanza.
//!
//! Not here: what a setting means (`quarry_conf`), programs that apps bring along (`quarry_programs`), who the users are.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod address_database;
mod configuration;
pub mod folders;
mod knowledge_files;
mod lookup_files;
pub mod run_file;

pub use address_database::AddressDatabase;
pub use configuration::{read as read_configuration, read_view};
pub use knowledge_files::KnowledgeFiles;
pub use lookup_files::{DUMP_FOLDER, LookupFiles, Lookups};
