//! The metadata database: the authoritative record of buckets, file checkpoints and sealing positions.
//!
//! Each method is one transaction with a meaning in the domain ([`Catalog::commit_seals`], [`Catalog::retire`], …);
//! there is no table interface. The methods are written once, for every supported database (`connection`). When a
//! method returns, its change is durable. The store assigns the numbers of buckets and log records in order, never at
//! random.
//!
//! Checksums cover all rows, and a digest covers the checksums of each table (`checksum`): damage is an error, never a
//! wrong answer.
//!
//! Not here: objects (blob), unsealed events (the store's WAL), and retention rules.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bucket;
mod bucket_pages;
mod checkpoint;
mod checksum;
mod connection;
mod copy;
mod deleted_copies;
mod deletion;
mod digest;
mod error;
mod log_segment;
mod origin;
mod overlap;
mod position;
mod postgresql;
mod rebuild;
mod remote;
mod setting;
mod sqlite;
#[cfg(test)]
mod tests;
mod transaction;
mod unanswered_requests;

pub use bucket::{BucketRow, BucketState, CompactionCommit, SealCommit, Sealed};
pub use bucket_pages::{BucketPages, LivePages};
pub use checkpoint::{
    CheckpointKey, FileCheckpoint, HEAD_BYTES_MAX, HeadLengths, LoggedCheckpoint, SourceIdentity, TAIL_BYTES_MAX,
    tail_hash,
};
pub use connection::Catalog;
pub use deleted_copies::DeletedCopies;
pub use deletion::{DeletionCommit, DeletionRow};
pub use digest::BucketCheck;
pub use error::CatalogError;
pub use log_segment::LogSegmentRow;
pub use origin::Origin;
pub use overlap::BucketSpan;
pub use postgresql::{
    DocumentParts, DocumentPutResult, PostgreSqlLocation, PostgreSqlSettings, SharedCollectionState, SharedDocument,
    SharedDocumentTable, SharedFile, SharedFileChange, SharedFileRow, SharedFileTable, SharedPutResult,
};
pub use rebuild::FoundBucket;
pub use remote::{OtherCopy, RemoteCopy, RemoteState};
pub use unanswered_requests::UnansweredPart;
