//! The truth about buckets, file checkpoints and how far each index is sealed, in SQLite.
//!
//! One method is one business act and one transaction ([`Catalog::commit_seals`], [`Catalog::retire`], …); there is no
//! table interface. The database runs in WAL mode with `synchronous=FULL`: what a method returned is on disk. Ids
//! are numbers handed out in order by the store, never random.
//!
//! Every row has a checksum and every table a digest of them (`checksum`): what is damaged is an error, never an answer.
//!
//! Not here: objects (blob), events that are not sealed yet (the store's WAL) and rules of retention.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bucket;
mod checkpoint;
mod checksum;
mod connection;
mod deletion;
mod digest;
mod error;
mod log_segment;
mod open;
mod origin;
mod position;
mod read_only_open;
mod remote;
mod schema;
mod setting;
#[cfg(test)]
mod tests;
mod unanswered_requests;

pub use bucket::{BucketRow, BucketState, CompactionCommit, SealCommit, Sealed};
pub use checkpoint::{
    CheckpointKey, FileCheckpoint, HEAD_BYTES_MAX, HeadLengths, LoggedCheckpoint, SourceIdentity, TAIL_BYTES_MAX,
    tail_hash,
};
pub use connection::Catalog;
pub use deletion::{DeletionCommit, DeletionRow};
pub use error::CatalogError;
pub use log_segment::LogSegmentRow;
pub use origin::Origin;
pub use remote::{RemoteCopy, RemoteState};
pub use unanswered_requests::UnansweredPart;
