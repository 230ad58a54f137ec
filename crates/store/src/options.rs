//! Options and limits of the store.
//!
//! Events are collected in memory in slabs, one per index and pipeline set. A slab that is being filled is hot. When it
//! is full or idle, it is closed, and then sealed, that is, written as a bucket.
//!
//! [`MergeOptions`] holds the settings `bucketMerging` (as `background`) and `bucketMerge.*` of an index in
//! indexes.conf; [`CompactionOptions::bucket_merging`] is set by the server only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use quarry_bucket::{MAX_SLAB_EVENTS, MAX_SLAB_RAW_BYTES, TARGET_SLAB_RAW_BYTES};

use quarry_catalog::PostgreSqlSettings;

use crate::remote::copies::RemoteOptions;

/// Maximum number of events of one batch: the capacity of a slab. Larger batches are refused.
pub const BATCH_EVENTS_MAX: usize = MAX_SLAB_EVENTS;
/// Maximum text bytes of one batch, and therefore of one event; larger batches are refused.
pub const BATCH_RAW_BYTES_MAX: usize = MAX_SLAB_RAW_BYTES;
/// Maximum number of indexes without a stanza in indexes.conf; events for further ones are refused. Senders choose the
/// names, and each index takes memory and files.
pub const UNCONFIGURED_INDEXES_MAX: usize = 1_000;
/// Maximum number of messages kept in the report; the oldest are dropped.
pub(crate) const REPORT_MESSAGES_MAX: usize = 100;
/// Maximum number of buckets in one merge, regardless of settings.
pub const MERGE_COUNT_MAX: usize = 1_024;
/// Share of `hot_bytes_max`. If the hot slabs exceed `hot_bytes_max`, the largest are closed until the others take at
/// most this share of the limit. Several slabs are therefore closed at once, and the small ones among them can be
/// sealed in one commit.
pub const HOT_BYTES_TARGET_SHARE: f64 = 0.75;
/// Number of slabs that may fail verification without counting towards `unsealed_slabs_max`, so that appends go on
/// after a few failures. Such slabs stay searchable in memory. Each further failed slab counts as a full slab whatever
/// its size. When this number plus `unsealed_slabs_max` is reached, appends fail with `SealStalled`.
pub(crate) const UNCOUNTED_QUARANTINED_SLABS: usize = 4;

/// Weight of a frozen slab in the limit `unsealed_slabs_max`; a small slab (at most 1/64 of a full one) has weight 1.
/// Hot slabs are weighed by their memory.
pub(crate) const SLAB_WEIGHT: usize = 64;
/// Memory of an event in bytes, without its text.
const EVENT_BYTES: usize = 24;

/// Options of a store. [`StoreOptions::at`] returns the defaults.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Data directory.
    pub dir: PathBuf,
    /// Number of pipeline sets that append in parallel, each into its own hot slabs; at least 1.
    pub pipeline_sets: usize,
    /// Number of threads that seal slabs; 0 means one per core.
    pub sealers: usize,
    /// Number of events at which a hot slab is closed.
    pub slab_events: usize,
    /// Text bytes at which a hot slab is closed.
    pub slab_raw_bytes: usize,
    /// Maximum memory of all hot slabs together in bytes, including a fixed cost per slab. Beyond this limit, the
    /// largest slabs are closed until the other slabs take [`HOT_BYTES_TARGET_SHARE`] of the limit.
    pub hot_bytes_max: usize,
    /// Maximum content of unsealed slabs in memory, hot ones included, as a number of full slabs; at the limit, appends
    /// wait. 0 means one more than the number of sealers, so that one slab can fill while all sealers work.
    pub unsealed_slabs_max: usize,
    /// Maximum bytes that wait for the next fsync, divided evenly between the pipeline sets. An append that would
    /// exceed the share of its set waits.
    pub pending_bytes_max: usize,
    /// Size in bytes at which a log segment is closed; a single record may exceed it.
    pub log_segment_bytes: u64,
    /// Size of the log in bytes beyond which the hot slabs with the oldest records are closed, so that the oldest
    /// segment can be deleted.
    pub log_bytes_max: u64,
    /// Idle seconds after which a hot slab is closed.
    pub idle_seal_secs: u64,
    /// Free bytes the file system must keep; below it appends fail with `Full`.
    pub free_bytes_min: u64,
    /// Maximum number of buckets kept open between searches: the open file, and the decoded table of contents in
    /// memory.
    pub open_buckets_max: usize,
    /// Maximum bytes of term filters kept in memory.
    pub filter_cache_bytes: usize,
    /// Maximum bytes of decoded pages kept in memory.
    pub page_cache_bytes: usize,
    /// Maximum bytes of decoded columns kept in memory.
    pub column_cache_bytes: usize,
    /// zstd level of sealed buckets.
    pub zstd_level: i32,
    /// Settings for merging sealed buckets.
    pub compaction: CompactionOptions,
    /// Indexes with a stanza in indexes.conf; their number is unlimited.
    pub configured_indexes: BTreeSet<String>,
    /// Maximum number of buckets whose catalog rows are kept in memory after a start. If there are more, the rows of
    /// the oldest buckets stay in the catalog until they are needed.
    pub rows_at_start: usize,
    /// Number of sealed buckets, of any index, whose rows are read from the catalog together and leave memory together.
    pub rows_of_cell: u64,
    /// Remote volumes; `None` for none.
    pub remote: Option<Arc<RemoteOptions>>,
    /// The database with the catalog; `None` for a file in the data directory.
    pub catalog: Option<PostgreSqlSettings>,
}

/// Options for compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Whether a thread merges in the background. Off by default, because only a server runs long enough.
    pub bucket_merging: bool,
    /// Number of seconds without a seal after which a background merge may begin. During a stream of events, the memory
    /// of a merge would add to that of the slabs.
    pub quiet_secs: u64,
    /// Merge options of indexes not in `merge_of`.
    pub merge: MergeOptions,
    /// Merge options of single indexes.
    pub merge_of: BTreeMap<String, MergeOptions>,
    /// Maximum number of events of a merged bucket.
    pub max_merge_events: u64,
    /// Maximum total bytes of the objects to be merged. A merge holds its output in memory, which is rarely larger than
    /// its input.
    pub max_merge_stored_bytes: u64,
    /// zstd level of merged buckets.
    pub zstd_level: i32,
    /// Share of one core for background merges, in percent (1 to 100).
    pub cpu_percent: u32,
    /// Maximum bytes per second that background merges read and write; 0 for no limit.
    pub bytes_per_second: u64,
}

/// Merge options of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// Whether buckets are merged in the background; a merge on request ignores this option.
    pub background: bool,
    /// Minimum number of buckets of a background merge; for a merge on request, the minimum is two.
    pub min_merge_count: usize,
    /// Maximum number of buckets of a merge.
    pub max_merge_count: usize,
    /// Minimum total text bytes of the buckets of a background merge.
    pub min_merge_raw_bytes: u64,
    /// Maximum text bytes of a merged bucket.
    pub max_merge_raw_bytes: u64,
    /// Maximum total bytes of the objects to be merged; [`CompactionOptions::max_merge_stored_bytes`] applies, too.
    pub max_merge_stored_bytes: u64,
    /// Maximum number of seconds between the first and last `_time` of a merged bucket, unless one input spans more. A
    /// bucket expires with its newest event, so a long time span keeps its oldest events longer.
    pub max_merge_time_span_secs: u64,
}

impl Default for MergeOptions {
    fn default() -> MergeOptions {
        MergeOptions {
            background: true,
            min_merge_count: 4,
            max_merge_count: MERGE_COUNT_MAX,
            min_merge_raw_bytes: 0,
            max_merge_raw_bytes: 2 << 30,
            max_merge_stored_bytes: u64::MAX,
            max_merge_time_span_secs: 90 * 86_400,
        }
    }
}

impl Default for CompactionOptions {
    fn default() -> CompactionOptions {
        CompactionOptions {
            bucket_merging: false,
            quiet_secs: 2,
            merge: MergeOptions::default(),
            merge_of: BTreeMap::new(),
            max_merge_events: 32 * MAX_SLAB_EVENTS as u64,
            max_merge_stored_bytes: 384 << 20,
            zstd_level: 9,
            cpu_percent: 25,
            bytes_per_second: 32 << 20,
        }
    }
}

impl CompactionOptions {
    /// Merge options of an index.
    pub fn merge_options(&self, index: &str) -> &MergeOptions {
        self.merge_of.get(index).unwrap_or(&self.merge)
    }

    /// Whether any index is merged in the background.
    pub(crate) fn has_background_merges(&self) -> bool {
        let any = self.merge.background || self.merge_of.values().any(|merge| merge.background);
        self.bucket_merging && any
    }
}

impl StoreOptions {
    /// The defaults for data directory `dir`.
    pub fn at(dir: impl Into<PathBuf>) -> StoreOptions {
        StoreOptions {
            dir: dir.into(),
            pipeline_sets: 1,
            sealers: 0,
            slab_events: MAX_SLAB_EVENTS,
            slab_raw_bytes: TARGET_SLAB_RAW_BYTES,
            hot_bytes_max: 192 << 20,
            unsealed_slabs_max: 0,
            pending_bytes_max: 8 << 20,
            log_segment_bytes: 64 << 20,
            log_bytes_max: 1 << 30,
            idle_seal_secs: 3_600,
            free_bytes_min: 0,
            open_buckets_max: 256,
            filter_cache_bytes: 256 << 20,
            page_cache_bytes: 128 << 20,
            column_cache_bytes: 64 << 20,
            zstd_level: 1,
            compaction: CompactionOptions::default(),
            configured_indexes: BTreeSet::new(),
            rows_at_start: 65_536,
            rows_of_cell: 4_096,
            remote: None,
            catalog: None,
        }
    }

    /// Number of sealer threads.
    pub(crate) fn sealer_threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.sealers == 0 { cores() } else { self.sealers }
    }

    /// Maximum memory of unsealed slabs, as a number of full slabs, regardless of the number of pipeline sets.
    pub(crate) fn unsealed_limit(&self) -> usize {
        if self.unsealed_slabs_max == 0 { self.sealer_threads() + 1 } else { self.unsealed_slabs_max }
    }

    /// Whether a slab is so small that most of the cost of its seal is the commit, which several seals can share.
    pub(crate) fn is_small(&self, events: usize, raw_bytes: usize) -> bool {
        events <= self.slab_events / SLAB_WEIGHT && raw_bytes <= self.slab_raw_bytes / SLAB_WEIGHT
    }

    /// Weight of a frozen slab.
    pub(crate) fn closed_weight(&self, events: usize, raw_bytes: usize) -> usize {
        if self.is_small(events, raw_bytes) { 1 } else { SLAB_WEIGHT }
    }

    /// Weight of hot slabs that take `bytes` of memory.
    pub(crate) fn hot_weight(&self, bytes: usize) -> usize {
        let slab = self.slab_raw_bytes.saturating_add(self.slab_events.saturating_mul(EVENT_BYTES)).max(1);
        // The intermediate type cannot overflow.
        (bytes as u128 * SLAB_WEIGHT as u128 / slab as u128) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_slabs_have_equal_weight_and_small_slabs_little() {
        let options = StoreOptions { sealers: 2, ..StoreOptions::at("") };
        assert_eq!(options.unsealed_limit(), 3);
        assert_eq!(StoreOptions { unsealed_slabs_max: 1, ..options.clone() }.unsealed_limit(), 1);
        let (events, raw_bytes) = (options.slab_events, options.slab_raw_bytes);
        assert_eq!(options.closed_weight(events, 1), SLAB_WEIGHT);
        assert_eq!(options.closed_weight(1, raw_bytes), SLAB_WEIGHT);
        assert_eq!(options.closed_weight(events / SLAB_WEIGHT, raw_bytes / SLAB_WEIGHT), 1);
        assert_eq!(options.closed_weight(events / SLAB_WEIGHT + 1, 0), SLAB_WEIGHT);
        assert_eq!([0, raw_bytes / 2, 3 * raw_bytes].map(|bytes| options.hot_weight(bytes)), [0, 29, 175]);
    }
}
