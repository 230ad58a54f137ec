//! Delivery of events from inputs to indexers through a queue on disk.
//!
//! Events first go to the [`Spool`], a queue on disk that survives crashes, together with their position in the source
//! file. [`Routes`] choose the groups of indexers for a batch; each group reads the queue independently and advances
//! past delivered records. A file position therefore never advances before its events are durable, and no record is
//! removed before it is acknowledged, or sent to an indexer that acknowledges nothing. A full queue makes inputs wait,
//! unless outputs.conf says to drop events. [`Balance`] chooses the next server of a group.
//!
//! A [`Link`] holds the connection of one group.
//!
//! Not here: the protocol (`quarry_inputs::s2s::sender`), ports that receive events (`quarry_listen`), conf files.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod balance;
mod error;
mod link;
mod outlet;
mod routes;
mod spool;
mod tls;

pub use balance::{Balance, BalanceSettings};
pub use error::ForwardError;
pub use link::Link;
pub use outlet::{Outlet, OutletFigures, OutletSink};
pub use routes::Routes;
pub use spool::{GroupFigures, GroupOptions, QueueRecord, Record, Spool, SpoolOptions, SpoolReader};
