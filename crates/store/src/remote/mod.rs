//! Buckets on remote volumes.
//!
//! A bucket is sealed into the data directory as usual; its commit does not wait for the network. A thread then uploads
//! its objects to the volume of its index ([`upload`]). Once uploaded, local objects may be evicted for lack of space,
//! least used first ([`evict`]); searches then read ranges of the remote objects through a block cache. Each step is
//! recorded in the catalog before it begins.
//!
//! Beside its objects lies a receipt that tells all the catalog knows of a bucket ([`receipt`]), of which a lost catalog is
//! made anew ([`rebuild`]). Objects that no bucket has are found by listings and deleted after a while ([`sweep`]).
//! Buckets move between volumes, and back from them, on request ([`migrate`]).
//!
//! Not here: requests to the store and the block cache (`blob`), reads by searches ([`crate::sealed`]).

pub(crate) mod copies;
mod evict;
pub(crate) mod found;
pub(crate) mod migrate;
pub(crate) mod queue;
pub(crate) mod rebuild;
mod receipt;
mod retired;
pub(crate) mod sweep;
mod upload;

pub(crate) use upload::run;
