//! Buckets on remote volumes.
//!
//! A bucket is sealed into the data directory as usual; its commit does not wait for the network. A thread then uploads
//! its objects to the volume of its index ([`upload`]). Once uploaded, local objects may be evicted for lack of space,
//! least used first ([`evict`]); searches then read ranges of the remote objects through a block cache. Each step is
//! recorded in the catalog before it begins.
//!
//! Not here: requests to the store and the block cache (`blob`), reads by searches ([`crate::sealed`]).

pub(crate) mod copies;
mod evict;
pub(crate) mod queue;
mod upload;

pub(crate) use upload::run;
