//! The write side of a node: opens the store as configured and connects the inputs to it.
//!
//! [`Ingest`] is an open store with the state shared by all inputs: it makes files with the same beginning wait for
//! each other ([`Claims`]), counts events, and distributes network inputs over the pipeline sets. [`watch_files`]
//! starts the threads behind `[monitor://]`; [`add_files`] adds files in parallel. The node's own metrics and audit
//! events go to `_internal` and `_audit`. [`mod@archive`] archives expired buckets.
//!
//! Not here: decoding the bytes of inputs (`quarry_inputs`), storage after an append (`quarry_store`), ports.
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
    DeletionRequest, deletion_event as deletion_on_record, write_events as write_audit_events,
    write_round as write_audit_round,
};
pub use claims::{Claim, Claims};
pub use error::IngestError;
pub use ingest::Ingest;
pub use metrics::{write_log, write_logged, write_messages, write_metrics};
pub use monitors::{FileMonitors, SinkFactory, WatchedFiles, start as watch_files};
pub use open::{
    Variables, check_exists, data_directories_on_volumes, index_settings, migrate_catalog_of, open_existing,
    open_read_only, open_shared_files, open_to_add, open_to_serve, rebuild_catalog_of, retention,
};
pub use pipeline_sets::{Files, LookupOrder, OrderedSink, run as add_files};
pub use store_sink::StoreSink;
