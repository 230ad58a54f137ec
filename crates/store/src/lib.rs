//! The event store: write path, sealing, compaction, retention, snapshots.
//!
//! An append goes through the write-ahead log (`wal`, `log_thread`) into a hot slab (`hot_slabs`), where it is
//! searchable. A full or idle slab is sealed (`seal`): it becomes a bucket object that the catalog lists. Small buckets
//! are merged (`compaction`) and old ones retired (`retire`). A [`Snapshot`] lists the segments a search reads.
//!
//! Not here: the bucket format (bucket), object storage (blob), searching events (engine), scheduling of maintenance
//! (server).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admission;
mod cache;
mod catalog_change;
mod catalog_location;
mod commit_turn;
mod compaction;
mod damage;
mod data_dir;
mod day_clock;
mod deletion;
mod disk;
mod emptying;
mod error;
mod expected_log;
mod followers;
mod gaps;
mod hot_slabs;
mod index_rows;
mod inventory;
mod live_buckets;
mod log_files;
mod log_thread;
mod memory;
mod merge_positions;
mod metadata_terms;
mod new_indexes;
mod object_names;
mod options;
mod order;
mod queue;
mod recover;
mod remote;
mod removal;
mod report;
mod retire;
mod scan;
mod seal;
mod sealed_buckets;
mod sealing_threads;
mod segment;
mod selector;
mod sent_requests;
mod slab_extraction;
mod spans;
mod state;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod thaw;
mod ticket;
mod wal;

pub use catalog_location::{CatalogLocation, CatalogMigrationResult, migrate_catalog};
pub use compaction::{CompactionReport, Merge};
pub use deletion::{DELETION_BYTES_MAX, Deletion};
pub use disk::{Disk, DiskFile, LocalDisk};
pub use error::StoreError;
pub use followers::{FOLLOWED_BYTES_MAX, FOLLOWERS_MAX, FollowedEvents, Follower};
pub use inventory::{BucketCopies, BucketListing, IndexStats, ListingState, RemoteStats, Verdict};
pub use memory::MemoryStore;
pub use options::{
    BATCH_EVENTS_MAX, BATCH_RAW_BYTES_MAX, CompactionOptions, HOT_BYTES_TARGET_SHARE, MERGE_COUNT_MAX, MergeOptions,
    StoreOptions, UNCONFIGURED_INDEXES_MAX,
};
pub use quarry_blob::{CacheStats, CountingGuard, ReadStats, SearchReads};
pub use queue::QueueStats;
pub use remote::copies::{RemoteOptions, RemotePath};
pub use remote::listing::StoreOnVolumes;
pub use remote::migrate::MigrationResult;
pub use remote::rebuild::{RebuildResult, rebuild_catalog, stores_on_volumes};
pub use remote::sweep::SweepResult;
pub use report::Message;
pub use retire::{ExpiredBucket, RemovedBuckets, RetentionRule};
pub use sealing_threads::SealingThreads;
pub use segment::{Damage, LaterSegments, PageInfo, Segment, SlabIdentity, Snapshot, StoredSlab, TemplatePage};
pub use selector::IndexSelector;
pub use sent_requests::{UNANSWERED_PARTS_MAX, UNANSWERED_SECS};
pub use slab_extraction::{CurrentExtraction, FieldToStore, SlabExtraction};
pub use store::{AppendRequest, Store};
pub use thaw::ThawScanResult;
pub use ticket::Ticket;
