//! Files of apps and users in the data directory, and their visibility in each namespace.
//!
//! [`read_configuration`] merges the `.conf` files of all apps; [`read_view`] merges the files visible to a user in an
//! app. Searches look up objects that apps define: [`KnowledgeFiles`] has macros, saved searches, event types, tags and
//! data models; [`Lookups`] has lookup tables, collections and the geolocation database. [`folders`] finds the app that
//! defines a stanza. [`objects`] shows and changes single stanzas, subject to permissions;
//! its [`objects::ObjectError`] is the error of this crate.
//!
//! Not here: the meaning of settings (`quarry_conf`), programs of apps (`quarry_programs`), users.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod address_database;
mod app_archives;
pub mod app_installs;
pub mod app_packages;
mod collection_tables;
mod configuration;
pub mod folders;
mod knowledge_files;
pub mod local_apps;
mod lookup_files;
pub mod objects;
pub mod rest_handlers;
pub mod run_file;
mod secret;

pub use address_database::AddressDatabase;
pub use configuration::{
    read as read_configuration, read_apps, read_readable, read_readership, read_view, read_with_private,
};
pub use knowledge_files::{KnowledgeFiles, KnowledgeLocation};
pub use lookup_files::{DUMP_FOLDER, LookupFiles, Lookups};
pub use secret::Secret;
