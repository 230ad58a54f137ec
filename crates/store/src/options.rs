//! Limits of the store: one row per limit, with its default and what happens beyond it.
//!
//! What [`CompactionOptions`] calls `merge` is what settings of indexes.conf call `bucketMerge`.

use std::path::PathBuf;

use quarry_bucket::{MAX_SLAB_EVENTS, MAX_SLAB_RAW_BYTES, TARGET_SLAB_RAW_BYTES};

/// Events of one batch at most: what a slab holds.
pub const BATCH_EVENTS_MAX: usize = MAX_SLAB_EVENTS;
/// Text bytes of one batch at most: the longest event.
pub const BATCH_RAW_BYTES_MAX: usize = MAX_SLAB_RAW_BYTES;
/// Messages the store's report keeps; the oldest go first.
pub(crate) const REPORT_MESSAGES_MAX: usize = 100;
/// Slabs that failed their verification and are served from memory beyond the other limits.
pub(crate) const QUARANTINED_SLABS_MAX: usize = 4;

/// How a store is run. [`StoreOptions::at`] gives the defaults.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Data directory.
    pub dir: PathBuf,
    /// Pipeline sets that append side by side, each into hot slabs of its own; at least 1.
    pub pipeline_sets: usize,
    /// Threads that seal slabs; 0 takes one per core.
    pub sealers: usize,
    /// Events at which a hot slab is closed.
    pub slab_events: usize,
    /// Text bytes at which a hot slab is closed.
    pub slab_raw_bytes: usize,
    /// Text bytes of all hot slabs together; beyond it the largest is closed.
    pub hot_bytes_max: usize,
    /// Closed slabs that are not sealed yet; at the limit appends wait. 0 takes one more than there are sealers:
    /// it waits for the first of them that is done, while the next slab fills.
    pub unsealed_slabs_max: usize,
    /// Text bytes that wait for the next fsync, shared evenly by the pipeline sets; at the limit of its set an append
    /// waits.
    pub pending_bytes_max: usize,
    /// Bytes at which a log segment is closed; one record may exceed it.
    pub log_segment_bytes: u64,
    /// Bytes of the log; beyond it the oldest hot slab is closed so that its log can go.
    pub log_bytes_max: u64,
    /// Seconds without an append after which a hot slab is closed.
    pub idle_seal_secs: u64,
    /// Free bytes the file system must keep; below it appends fail with `Full`.
    pub free_bytes_min: u64,
    /// Buckets kept open (file and directory) between searches.
    pub open_buckets_max: usize,
    /// Bytes of term filters kept in memory.
    pub filter_cache_bytes: usize,
    /// Bytes of decoded pages kept in memory.
    pub page_cache_bytes: usize,
    /// zstd level of sealing.
    pub zstd_level: i32,
    /// How sealed buckets are merged.
    pub compaction: CompactionOptions,
}

/// How sealed buckets are merged into larger ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Whether a thread merges in the background. Off by default: only a server lives long enough.
    pub bucket_merging: bool,
    /// Buckets that must fit together before the background merges them; a request merges two.
    pub min_merge_count: usize,
    /// Events of a merged bucket at most; more are not put together.
    pub max_merge_events: u64,
    /// Text bytes of a merged bucket at most.
    pub max_merge_raw_bytes: u64,
    /// Bytes of the objects that are merged at most. A merge holds its output in memory, which is hardly ever larger.
    pub max_merge_stored_bytes: u64,
    /// Seconds between first and last `_time` of a merged bucket at most, unless one of its parts spans as much: a
    /// bucket is removed when its last event is too old, so that a wide one keeps its first events for longer.
    pub max_merge_time_span_secs: u64,
    /// zstd level of merged buckets.
    pub zstd_level: i32,
    /// Share of one core that the background takes, 1 to 100.
    pub cpu_percent: u32,
    /// Bytes the background reads and writes in a second; 0 for no limit.
    pub bytes_per_second: u64,
}

impl Default for CompactionOptions {
    fn default() -> CompactionOptions {
        CompactionOptions {
            bucket_merging: false,
            min_merge_count: 4,
            max_merge_events: 32 * MAX_SLAB_EVENTS as u64,
            max_merge_raw_bytes: 2 << 30,
            max_merge_stored_bytes: 384 << 20,
            max_merge_time_span_secs: 90 * 86_400,
            zstd_level: 9,
            cpu_percent: 25,
            bytes_per_second: 32 << 20,
        }
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
            pending_bytes_max: 16 << 20,
            log_segment_bytes: 64 << 20,
            log_bytes_max: 1 << 30,
            idle_seal_secs: 3_600,
            free_bytes_min: 0,
            open_buckets_max: 256,
            filter_cache_bytes: 256 << 20,
            page_cache_bytes: 128 << 20,
            zstd_level: 1,
            compaction: CompactionOptions::default(),
        }
    }

    /// Threads that seal.
    pub(crate) fn sealer_threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.sealers == 0 { cores() } else { self.sealers }
    }

    /// Closed slabs that may wait for their seal while `sets` pipeline sets fill one. What further sets fill takes the
    /// place of what waits, so that memory does not grow with their number; but every sealer has work.
    pub(crate) fn unsealed_limit(&self, sets: usize) -> usize {
        let sealers = self.sealer_threads();
        let limit = if self.unsealed_slabs_max == 0 { sealers + 1 } else { self.unsealed_slabs_max };
        limit.saturating_sub(sets.saturating_sub(1)).max(sealers.min(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_that_further_sets_fill_count_as_waiting_but_sealers_have_work() {
        let limit = |sealers: usize, unsealed_slabs_max: usize, sets: usize| {
            StoreOptions { sealers, unsealed_slabs_max, ..StoreOptions::at("") }.unsealed_limit(sets)
        };
        assert_eq!([0, 1, 2, 3, 9].map(|sets| limit(2, 0, sets)), [3, 3, 2, 2, 2]);
        assert_eq!([0, 1, 2, 5, 9].map(|sets| limit(2, 6, sets)), [6, 6, 5, 2, 2]);
        assert_eq!([1, 2].map(|sets| limit(4, 1, sets)), [1, 1]);
    }
}
