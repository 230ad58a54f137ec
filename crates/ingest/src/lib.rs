//! The write side of a node: its store opened as its configuration says, and its inputs wired to it.
//!
//! [`Ingest`] is an open store with what all inputs share: files that begin alike wait for each other ([`Claims`]), what comes
//! in is counted, and network inputs put their events round the pipeline sets. [`watch_files`] starts the threads behind
//! `[monitor://]`, [`add_files`] adds files side by side. What the node says about itself goes the same way into
//! `_internal` and `_audit`. [`archive`] keeps old buckets where their index says so.
//!
//! Not here: what an input's bytes mean (`quarry_inputs`), what becomes of events behind an append (`quarry_store`), ports.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod archive;
mod audit;
mod claims;
mod error;
mod ingest;
mod metrics;
mod monitors;
mod open;
mod pipeline_sets;
mod store_sink;
mod volumes;

pub use archive::archive;
pub use audit::{
    Deleting, deletion as deletion_on_record, write_events as write_audit_events, write_round as write_audit_round,
};
pub use claims::{Claim, Claims};
pub use error::IngestError;
pub use ingest::Ingest;
pub use metrics::{write_figures, write_messages};
pub use monitors::{Sinks, Watching, start as watch_files};
pub use open::{
    Variables, check_exists, index_settings, open_existing, open_read_only, open_to_add, open_to_serve, retention,
};
pub use pipeline_sets::{Files, InTurn, Turns, run as add_files};
pub use store_sink::StoreSink;
