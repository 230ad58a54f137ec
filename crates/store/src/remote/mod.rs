//! Buckets on remote stores: which index keeps its buckets where, and what an object is called there.
//!
//! A bucket is sealed into the data directory as ever, and its commit does not wait for a network. A thread then puts
//! its objects on the volume of its index ([`upload`]); once they are there the local ones may go, the least used first,
//! when there is no room for them ([`evict`]). From then on searches read ranges of the remote objects, through a cache
//! of blocks. The catalog notes each step before it begins.
//!
//! Not here: requests to the store and blocks of its objects (`blob`), how a search asks for them ([`crate::sealed`]).

pub(crate) mod copies;
mod evict;
pub(crate) mod queue;
mod upload;

pub(crate) use upload::run;
