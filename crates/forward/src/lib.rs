//! What a forwarder does between its inputs and its indexers.
//!
//! Events go to a queue on disk first, the [`Spool`], together with the position of the file they come from; what is in
//! it survives a crash. [`Routes`] say which groups of indexers a batch is for; each group reads the queue on its own and
//! forgets what was acknowledged. [`Balance`] says which server of a group is next. So a position never advances before
//! its events are durable here, nothing is removed before an indexer has it, and a queue that is full makes inputs wait.
//!
//! A [`Link`] has the connections of one group.
//!
//! Not here: the protocol (`quarry_inputs::s2s::sender`), ports that take events (`quarry_listen`), conf files.
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
pub use spool::{GroupFigures, GroupOptions, Record, Spool, SpoolOptions, SpoolReader, Taken};
