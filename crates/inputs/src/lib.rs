//! Receivers of data: files, read once or watched, the HTTP Event Collector, text over TCP and UDP, and what programs
//! write.
//!
//! An input unpacks bytes, feeds an index pipeline and hands events to a [`Sink`], which answers for their durability.
//! Inputs know nothing of storage: what was read before is asked of the sink too, because positions and events must
//! become durable together.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod changes;
mod error;
pub mod file;
pub mod hec;
pub mod network;
pub mod program;
pub mod s2s;
mod settings;
mod sink;

pub use error::InputError;
pub use settings::InputSettings;
pub use sink::{AppendError, EventStore, FileIdentity, FilePosition, Receipt, Sink, SinkError};
