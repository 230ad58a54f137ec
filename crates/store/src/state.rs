//! The in-memory state of the store, behind one lock.
//!
//! A slab is in exactly one of `hot`, `closed` (the frozen slabs) and `sealed`; every move between them is one critical
//! section, so that a snapshot contains each event once. Only the log thread changes `hot`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::catalog_change::CatalogChange;
use crate::day_clock::DayClock;
use crate::emptying::Emptying;
use crate::followers::Followers;
use crate::gaps::Gaps;
use crate::hot_slabs::{HotKey, HotSegment, HotSlabs, SpareMemory};
use crate::live_buckets::LiveBuckets;
use crate::log_files::{LogFiles, LogSegment};
use crate::options::{SLAB_WEIGHT, UNCOUNTED_QUARANTINED_SLABS};
use crate::remote::queue::Uploads;
use crate::report::Report;
use crate::sealed_buckets::{Readers, SealedBucket};
use crate::sealing_threads::SealingThreads;
use crate::sent_requests::SentRequests;
use crate::slab_extraction::ExtractionSlot;
use crate::sync::lock;
use crate::{Damage, StoreError, StoreOptions};
use quarry_catalog::{Catalog, CheckpointKey, HeadLengths, LoggedCheckpoint};
use quarry_stdx::SharedClock;
use quarry_stdx::number::usize_of;

/// Maximum number of buckets that are noted in [`State::not_better`]; if there are more, some may be examined
/// again.
const NOT_BETTER_MAX: usize = 65_536;

/// State shared by all threads of a store.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    pub(crate) clock: SharedClock,
    pub(crate) catalog: Catalog,
    pub(crate) readers: Arc<Readers>,
    pub(crate) log_files: LogFiles,
    pub(crate) report: Report,
    /// The clock used for retention.
    pub(crate) day_clock: Mutex<DayClock>,
    /// Removals by retention that are delayed.
    pub(crate) emptying: Mutex<Emptying>,
    /// Thaw folders already reported as invalid.
    pub(crate) thaw_refused: Mutex<BTreeSet<String>>,
    /// Log segments that are or were damaged.
    pub(crate) log_damage: Vec<Damage>,
    /// Files whose appends are refused because an earlier append failed.
    pub(crate) gaps: Gaps,
    /// Requests that senders may repeat.
    pub(crate) sent: SentRequests,
    /// Followers, which receive new events.
    pub(crate) followers: Followers,
    /// Memory of slabs and batches for reuse.
    pub(crate) spares: SpareMemory,
    /// The upload queue.
    pub(crate) uploads: Uploads,
    /// Threads that are sealing.
    pub(crate) sealing: SealingThreads,
    /// Extraction of the search-time fields that merged buckets store.
    pub(crate) extraction: ExtractionSlot,
    state: Mutex<State>,
    /// Signalled when a slab waits to be sealed, or when sealing must end.
    pub(crate) seal_work: Condvar,
    /// Signalled when a seal has succeeded or failed, when there may be buckets to compact, and when the store closes.
    pub(crate) seal_done: Condvar,
    /// Signalled when a resting compaction must continue or end.
    pub(crate) compaction_wakeup: Condvar,
    /// Held while compacting.
    pub(crate) compacting: Mutex<()>,
    /// Held while local objects of a bucket with a remote copy are created or deleted.
    pub(crate) local_copies_lock: Mutex<()>,
    /// Held while rows of an index are read into the state.
    pub(crate) rows_loading: Mutex<()>,
    /// Held from the decision about a commit until the state reflects it ([`Shared::begin_commit`]). The value is the
    /// change whose outcome in the catalog is unknown; `None` if there is none.
    pub(crate) commit: Mutex<Option<CatalogChange<Shared>>>,
}

/// State that recovery rebuilds when a store is opened.
#[derive(Debug)]
pub(crate) struct RecoveredStore {
    pub(crate) state: State,
    /// Log segments that are or were damaged.
    pub(crate) log_damage: Vec<Damage>,
    /// Requests that senders may repeat.
    pub(crate) sent: SentRequests,
}

/// Slabs, buckets and checkpoints.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Slabs that accept events, by index and pipeline set.
    pub(crate) hot: HotSlabs,
    /// Frozen slabs, which wait to be sealed, by bucket number.
    pub(crate) closed: BTreeMap<u64, ClosedSlab>,
    /// Live buckets.
    pub(crate) sealed: LiveBuckets,
    /// Numbers of the frozen slabs by index, without empty entries.
    closed_of: BTreeMap<Arc<str>, BTreeSet<u64>>,
    /// Buckets whose objects are deleted once no search holds them.
    pub(crate) retired: Vec<Arc<SealedBucket>>,
    /// Durable checkpoints not in the catalog yet.
    pub(crate) checkpoints: BTreeMap<CheckpointKey, LoggedCheckpoint>,
    /// Lengths of the file heads by which current and earlier checkpoints identify their files.
    pub(crate) head_lengths: HeadLengths,
    /// Number of the newest log record that is durable and applied.
    pub(crate) durable_lsn: u64,
    /// Number of the newest log record up to which checkpoints are in the catalog.
    pub(crate) committed_lsn: u64,
    /// Number of the next bucket, sealed or compacted.
    pub(crate) next_bucket: u64,
    /// Monotonic time of the newest seal; `None` before the first.
    pub(crate) sealed_at: Option<i64>,
    /// Buckets that could not be compacted, by number; they are skipped.
    pub(crate) not_compacted: BTreeSet<u64>,
    /// Numbers of buckets that a rewrite would not improve: their events have no search-time fields worth storing, and
    /// the buckets would not become smaller. Incomplete if there are many.
    pub(crate) not_better: BTreeSet<u64>,
    /// Number of callers waiting for a compaction.
    pub(crate) compaction_requests: usize,
    /// Whether a compaction is encoding. Encoding cannot be interrupted: a store that stops during it does not wait,
    /// and the result is discarded.
    pub(crate) compaction_encodes: bool,
    /// Error of the newest seal; `None` after a success.
    pub(crate) seal_failure: Option<StoreError>,
    /// Number of failed seals, so that a waiter can tell a new failure from an old one.
    pub(crate) seal_failures: u64,
    /// Whether the store is stopping and accepts no more work.
    pub(crate) stopping: bool,
}

/// A slab that accepts no more events.
#[derive(Debug)]
pub(crate) struct ClosedSlab {
    pub(crate) segment: Arc<HotSegment>,
    pub(crate) progress: Progress,
}

/// Progress of sealing a frozen slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not started.
    Waiting,
    /// The last attempt failed; waiting for a retry.
    Failed,
    /// In progress.
    Sealing,
    /// Cannot be sealed; the slab stays in memory and in the log.
    Quarantined(String),
}

impl Shared {
    pub(crate) fn new(
        options: StoreOptions,
        clock: SharedClock,
        catalog: Catalog,
        readers: Readers,
        log_files: LogFiles,
        found: RecoveredStore,
    ) -> Shared {
        let RecoveredStore { state, log_damage, sent } = found;
        Shared {
            options,
            day_clock: Mutex::new(DayClock::new(&clock, &catalog)),
            emptying: Mutex::default(),
            thaw_refused: Mutex::default(),
            clock,
            catalog,
            readers: Arc::new(readers),
            log_files,
            report: Report::default(),
            log_damage,
            gaps: Gaps::default(),
            sent,
            followers: Followers::default(),
            spares: SpareMemory::default(),
            uploads: Uploads::default(),
            sealing: SealingThreads::default(),
            extraction: ExtractionSlot::default(),
            state: Mutex::new(state),
            seal_work: Condvar::new(),
            seal_done: Condvar::new(),
            compaction_wakeup: Condvar::new(),
            compacting: Mutex::new(()),
            local_copies_lock: Mutex::new(()),
            rows_loading: Mutex::new(()),
            commit: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reports a message to the operator.
    pub(crate) fn report_message(&self, text: String) {
        self.report.add(self.clock.now_ns(), text);
    }

    /// Reports damage to the log to the operator.
    pub(crate) fn report_log_damage(&self) {
        self.log_damage.iter().for_each(|damage| self.report_message(format!("{}: {}", damage.bucket, damage.reason)));
    }

    /// Removes unneeded log segments; failures are reported and retried by the next call.
    pub(crate) fn release_log(&self) {
        // The catalog's entry is removed before the file, because a listed segment without a file counts as damage.
        let save = |segment: &LogSegment| {
            self.save_checkpoints(segment.checkpoint_lsn)?;
            self.sent.save(&self.catalog, self.clock.elapsed_ns())?;
            Ok(self.catalog.remove_log_segments(&[segment.first_lsn()])?)
        };
        let still_needed = |bucket: u64| self.state().is_unsealed(bucket);
        for problem in self.log_files.remove_unneeded(&still_needed, &save) {
            self.report_message(problem);
        }
    }

    /// Ensures that the catalog has every checkpoint up to record `needed`.
    fn save_checkpoints(&self, needed: u64) -> Result<(), StoreError> {
        let _commit = lock(&self.commit);
        let (pending, position) = {
            let state = self.state();
            if state.committed_lsn >= needed {
                return Ok(());
            }
            state.pending_checkpoints()
        };
        self.catalog.save_checkpoints(&pending, position)?;
        self.state().drop_checkpoints_through(position);
        Ok(())
    }
}

impl State {
    /// Closes a hot slab.
    pub(crate) fn close_hot(&mut self, key: &HotKey) {
        if let Some(slab) = self.hot.remove(key) {
            self.add_closed(slab.close());
        }
    }

    /// Numbers of the unsealed slabs of an index.
    pub(crate) fn unsealed_of(&self, index: &str) -> impl Iterator<Item = u64> {
        let closed = self.closed_of.get(index).into_iter().flatten().copied();
        closed.chain(self.hot.numbers_of(index))
    }

    pub(crate) fn add_closed(&mut self, segment: Arc<HotSegment>) {
        let number = segment.number();
        self.closed_of.entry(segment.index_name().clone()).or_default().insert(number);
        assert!(!self.sealed.contains(number), "a sealed slab is not sealed again");
        let before = self.closed.insert(number, ClosedSlab { segment, progress: Progress::Waiting });
        assert!(before.is_none(), "a slab is closed once");
    }

    fn remove_closed(&mut self, number: u64) {
        let Some(slab) = self.closed.remove(&number) else { return };
        let index = slab.segment.index_name();
        let Some(numbers) = self.closed_of.get_mut(index) else { return };
        assert!(numbers.remove(&number), "an index knows its closed slabs");
        if numbers.is_empty() {
            self.closed_of.remove(index);
        }
    }

    /// Adds a live bucket, replacing the slab it was sealed from.
    pub(crate) fn add_sealed(&mut self, bucket: SealedBucket) -> Arc<SealedBucket> {
        let number = bucket.row.number;
        self.remove_closed(number);
        self.sealed.add(bucket)
    }

    /// Names of the indexes with events.
    pub(crate) fn indexes(&self) -> BTreeSet<Arc<str>> {
        let hot = self.hot.values().map(|slab| slab.index());
        self.sealed.indexes().chain(self.closed_of.keys()).chain(hot).cloned().collect()
    }

    /// Allocates the number of a new bucket.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_bucket += 1;
        self.next_bucket - 1
    }

    /// Notes that a rewrite would not improve this bucket.
    pub(crate) fn note_not_better(&mut self, number: u64) {
        self.not_better.insert(number);
        if self.not_better.len() > NOT_BETTER_MAX {
            // This bucket must stay in the set: otherwise it would be examined again instead of the next bucket.
            match self.not_better.first() == Some(&number) {
                true => self.not_better.pop_last(),
                false => self.not_better.pop_first(),
            };
        }
    }

    /// Allows all merges to be retried, including those of buckets that could not be compacted.
    pub(crate) fn compact_again(&mut self) {
        // The rules may have changed since the last request.
        self.not_better.clear();
        for number in std::mem::take(&mut self.not_compacted) {
            if let Some(bucket) = self.sealed.get(number).cloned() {
                self.sealed.examine(&bucket);
            }
        }
        self.sealed.request_all();
    }

    /// Schedules failed seals for retry.
    pub(crate) fn retry_failed(&mut self) {
        let failed = self.closed.values_mut().filter(|slab| slab.progress == Progress::Failed);
        failed.for_each(|slab| slab.progress = Progress::Waiting);
    }

    /// Reason why sealing makes no progress; `None` if it makes progress.
    pub(crate) fn stall_reason(&self) -> Option<String> {
        if let Some(failure) = &self.seal_failure {
            return Some(failure.to_string());
        }
        let mut reason = None;
        for slab in self.closed.values() {
            match &slab.progress {
                Progress::Quarantined(why) => reason = Some(why.clone()),
                _ => return None,
            }
        }
        reason
    }

    /// Whether appends must wait until slabs in memory are sealed. Slabs being filled count towards the limit, so that
    /// more pipeline sets do not need more memory. Appends do not wait if there is nothing to seal.
    pub(crate) fn is_crowded(&self, options: &StoreOptions) -> bool {
        let limit = options.unsealed_limit() * SLAB_WEIGHT;
        let (mut closed, mut quarantined) = (0, 0);
        for slab in self.closed.values() {
            match slab.progress {
                Progress::Quarantined(_) => quarantined += 1,
                _ => {
                    closed += options.closed_weight(usize_of(slab.segment.events()), usize_of(slab.segment.raw_bytes()))
                }
            }
        }
        closed += SLAB_WEIGHT * usize::saturating_sub(quarantined, UNCOUNTED_QUARANTINED_SLABS);
        closed > 0 && closed + options.hot_weight(self.hot.bytes()) >= limit
    }

    /// Number of slabs in memory, closed or still being filled, that are already too large to count as small.
    pub(crate) fn large_slabs(&self, options: &StoreOptions) -> usize {
        let is_large = |events: usize, raw_bytes: usize| !options.is_small(events, raw_bytes);
        let closed = self.closed.values().map(|slab| &slab.segment);
        let closed = closed.filter(|slab| is_large(usize_of(slab.events()), usize_of(slab.raw_bytes()))).count();
        closed + self.hot.values().filter(|slab| is_large(slab.events(), slab.raw_bytes())).count()
    }

    /// Whether the events of a bucket are unsealed.
    pub(crate) fn is_unsealed(&self, number: u64) -> bool {
        self.closed.contains_key(&number) || self.hot.has_number(number)
    }

    /// The number up to which every bucket of the index will be sealed once the slabs in `sealing` are sealed.
    pub(crate) fn sealed_through(&self, index: &str, sealing: &BTreeSet<u64>) -> u64 {
        let unsealed = self.unsealed_of(index).filter(|number| !sealing.contains(number));
        let first_unsealed = unsealed.min().unwrap_or(u64::MAX);
        let sealing = sealing.range(..first_unsealed).next_back().copied();
        // The first origin of an uncompacted bucket is its own number, so the range of first origins contains every
        // bucket that is sought. Compacted and thawed buckets are skipped: their numbers do not follow the log, and may
        // be larger than the number of a slab whose first record is just being written.
        let arrived = self.sealed.arrived_between(index, sealing.unwrap_or(0), first_unsealed.saturating_sub(1));
        let sealed = arrived.rev().find(|bucket| bucket.row.is_from_log()).map(|bucket| bucket.row.number);
        // The buckets of unloaded ranges arrived before every unsealed slab (`Shared::state_for_seal`).
        let unloaded = self.sealed.unloaded_of(index).map(|range| range.last_unmerged).max();
        sealed.max(sealing).max(unloaded).unwrap_or(0)
    }

    /// Checkpoints for the next commit, and the number of the newest record that they cover.
    pub(crate) fn pending_checkpoints(&self) -> (Vec<LoggedCheckpoint>, u64) {
        (self.checkpoints.values().cloned().collect(), self.durable_lsn)
    }

    /// Drops checkpoints up to record `position`, which are now in the catalog.
    pub(crate) fn drop_checkpoints_through(&mut self, position: u64) {
        self.checkpoints.retain(|_, logged| logged.lsn > position);
        self.committed_lsn = self.committed_lsn.max(position);
    }

    /// Notes that record `lsn` is durable and applied, and adds its checkpoint, if any.
    pub(crate) fn note_record(&mut self, checkpoint: Option<LoggedCheckpoint>, lsn: u64) {
        assert!(lsn >= self.durable_lsn, "positions of the log ascend");
        self.durable_lsn = lsn;
        checkpoint.into_iter().for_each(|logged| self.add_checkpoint(logged));
    }

    /// Adds a durable checkpoint.
    pub(crate) fn add_checkpoint(&mut self, logged: LoggedCheckpoint) {
        self.head_lengths.note(&logged.checkpoint);
        self.checkpoints.insert(logged.checkpoint.key, logged);
    }
}
