//! Buckets on remote volumes.
//!
//! A bucket is sealed into the data directory as usual; its commit does not wait for the network. A thread then uploads
//! its objects to the volume of its index ([`upload`]). Local objects of uploaded buckets may be evicted for lack of
//! space, least recently used first ([`evict`]); searches then read ranges of the remote objects through a block cache.
//! Each step is recorded in the catalog before it begins.
//!
//! Next to its objects on the volume, each bucket has a receipt with everything that the catalog knows about the bucket
//! ([`receipt`]). A lost catalog can be rebuilt from receipts ([`rebuild`]). Orphaned objects are found by listings and
//! deleted after a grace period ([`sweep`]). Buckets are moved to, between and from volumes on request ([`migrate`]).
//!
//! Not here: requests to volumes and the block cache (`blob`), reads by searches ([`crate::sealed_buckets`]).

pub(crate) mod copies;
mod evict;
pub(crate) mod listing;
mod local_copies;
pub(crate) mod migrate;
pub(crate) mod queue;
pub(crate) mod rebuild;
mod receipt;
mod retired_copies;
pub(crate) mod sweep;
mod upload;

pub(crate) use upload::{is_in_motion, run};
