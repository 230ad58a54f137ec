//! Inputs: files (read once or watched), changes of files, the HTTP Event Collector, text over TCP and UDP, forwarders,
//! output of programs.
//!
//! An input decodes bytes, feeds an index pipeline and passes events to a [`Sink`], which is responsible for
//! durability. Inputs have no storage of their own: the sink keeps the positions of files, too, because positions and
//! events must become durable together.
//!
//! [`InputError`] is the error of reading files. Two other errors are not about files: an [`EventStore`] outside this
//! crate refuses events with an [`AppendError`], and a forwarder's connection ends with an [`s2s::S2sError`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod changes;
mod client_proof;
mod error;
pub mod file;
pub mod hec;
pub mod network;
pub mod program;
pub mod s2s;
mod settings;
mod sink;

pub use client_proof::ClientProof;
pub use error::InputError;
pub use settings::InputSettings;
pub use sink::{AppendError, EventStore, FileIdentity, FilePosition, Receipt, Sink, SinkError};
