//! The in-memory state of the store, behind one lock.
//!
//! A slab is in exactly one of `hot`, `closed` and `sealed`; every move between them is one critical section, so that a
//! snapshot contains each event once. Only the log thread changes `hot`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::day_clock::DayClock;
use crate::emptying::Emptying;
use crate::follow::Followers;
use crate::gaps::Gaps;
use crate::hot_slabs::{HotKey, HotSegment, HotSlabs, Spares};
use crate::log_files::{LogFiles, LogSegment};
use crate::options::{QUARANTINED_SLABS_MAX, SLAB_WEIGHT};
use crate::remote::queue::Uploads;
use crate::report::Report;
use crate::sealed_buckets::{Readers, SealedBucket};
use crate::sent_requests::SentRequests;
use crate::spans::Spans;
use crate::sync::lock;
use crate::{Damage, StoreError, StoreOptions};
use quarry_catalog::{Catalog, CheckpointKey, HeadLengths, LoggedCheckpoint};
use quarry_event::TimeRange;
use quarry_stdx::SharedClock;
use quarry_stdx::number::usize_of;

/// State shared by all threads of a store.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    pub(crate) clock: SharedClock,
    pub(crate) catalog: Catalog,
    pub(crate) readers: Arc<Readers>,
    pub(crate) log_files: LogFiles,
    pub(crate) report: Report,
    /// The clock of retention.
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
    pub(crate) spares: Spares,
    /// The upload queue.
    pub(crate) uploads: Uploads,
    state: Mutex<State>,
    /// Signalled when a slab waits to be sealed, or when sealing must end.
    pub(crate) seal_work: Condvar,
    /// Signalled when a seal has succeeded or failed, when there may be buckets to compact, and when the store closes.
    pub(crate) seal_done: Condvar,
    /// Signalled when a resting compaction must continue or end.
    pub(crate) compaction_hurry: Condvar,
    /// Held while compacting.
    pub(crate) compacting: Mutex<()>,
    /// Held while local objects of a bucket with a remote copy are created or deleted.
    pub(crate) copies_turn: Mutex<()>,
    /// Held from the decision about a commit until the state reflects it.
    pub(crate) commit: Mutex<()>,
}

/// State found when a store is opened.
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
    /// Slabs waiting to be sealed, by bucket number.
    pub(crate) closed: BTreeMap<u64, ClosedSlab>,
    /// Live buckets by number.
    pub(crate) sealed: BTreeMap<u64, Arc<SealedBucket>>,
    /// Numbers of buckets with deleted events.
    lossy: BTreeSet<u64>,
    /// Numbers of closed slabs and live buckets by index, without empty entries.
    numbers: BTreeMap<Arc<str>, Numbers>,
    /// Buckets whose objects are deleted once no search holds them.
    pub(crate) retired: Vec<Arc<SealedBucket>>,
    /// Durable checkpoints not in the catalog yet.
    pub(crate) checkpoints: BTreeMap<CheckpointKey, LoggedCheckpoint>,
    /// Lengths of the heads of current and earlier checkpoints.
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
    /// Number of callers waiting for a compaction.
    pub(crate) compaction_requests: usize,
    /// Whether a compaction is in uninterruptible encoding. If the store stops meanwhile, the compaction changes
    /// nothing afterwards.
    pub(crate) compaction_encodes: bool,
    /// Error of the newest seal; `None` after a success.
    pub(crate) seal_failure: Option<StoreError>,
    /// Number of failed seals, so that a waiter can tell a new failure from an old one.
    pub(crate) seal_failures: u64,
    /// Whether the store is stopping and accepts no more work.
    pub(crate) stopping: bool,
}

/// Buckets of one index.
#[derive(Debug, Default)]
struct Numbers {
    closed: BTreeSet<u64>,
    sealed: BTreeSet<u64>,
    /// The live buckets by time.
    spans: Spans,
}

/// A slab that accepts no more events.
#[derive(Debug)]
pub(crate) struct ClosedSlab {
    pub(crate) segment: Arc<HotSegment>,
    pub(crate) progress: Progress,
}

/// Progress of sealing a closed slab.
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
            spares: Spares::default(),
            uploads: Uploads::default(),
            state: Mutex::new(state),
            seal_work: Condvar::new(),
            seal_done: Condvar::new(),
            compaction_hurry: Condvar::new(),
            compacting: Mutex::new(()),
            copies_turn: Mutex::new(()),
            commit: Mutex::new(()),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reports a message to the operator.
    pub(crate) fn tell(&self, text: String) {
        self.report.add(self.clock.now_ns(), text);
    }

    /// Reports damage of the log to the operator.
    pub(crate) fn tell_log_damage(&self) {
        self.log_damage.iter().for_each(|damage| self.tell(format!("{}: {}", damage.bucket, damage.reason)));
    }

    /// Removes unneeded log segments; failures are reported and retried at the next start.
    pub(crate) fn release_log(&self) {
        // The catalog's entry is removed before the file, because a listed segment without a file counts as damage.
        let save = |segment: &LogSegment| {
            self.save_checkpoints(segment.checkpoint_lsn)?;
            self.sent.save(&self.catalog)?;
            Ok(self.catalog.forget_log_segments(&[segment.first_lsn()])?)
        };
        let still_needed = |bucket: u64| self.state().is_unsealed(bucket);
        for problem in self.log_files.release(&still_needed, &save) {
            self.tell(problem);
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
        self.state().checkpoints_are_committed(position);
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
        let closed = self.numbers.get(index).into_iter().flat_map(|numbers| numbers.closed.iter().copied());
        closed.chain(self.hot.numbers_of(index))
    }

    pub(crate) fn add_closed(&mut self, segment: Arc<HotSegment>) {
        let number = segment.number();
        self.numbers.entry(segment.index_name().clone()).or_default().closed.insert(number);
        assert!(!self.sealed.contains_key(&number), "a sealed slab is not sealed again");
        let before = self.closed.insert(number, ClosedSlab { segment, progress: Progress::Waiting });
        assert!(before.is_none(), "a slab is closed once");
    }

    fn remove_closed(&mut self, number: u64) {
        if let Some(slab) = self.closed.remove(&number) {
            let index = slab.segment.index_name().clone();
            self.change_numbers(&index, |numbers| {
                assert!(numbers.closed.remove(&number), "an index knows its closed slabs");
            });
        }
    }

    /// Adds a live bucket, replacing the slab it was sealed from.
    pub(crate) fn add_sealed(&mut self, mut bucket: SealedBucket) -> Arc<SealedBucket> {
        let number = bucket.row.number;
        // All buckets of an index share one allocation of its name.
        match self.numbers.get_key_value(&bucket.row.index) {
            Some((index, _)) => bucket.row.index = Arc::clone(index),
            None => drop(self.numbers.insert(Arc::clone(&bucket.row.index), Numbers::default())),
        }
        if let Some(numbers) = self.numbers.get_mut(&bucket.row.index) {
            numbers.sealed.insert(number);
            numbers.spans.insert(number, bucket.row.time_min, bucket.row.time_max);
        }
        self.remove_closed(number);
        self.put_sealed(bucket)
    }

    /// Replaces a live bucket by a new version.
    pub(crate) fn put_sealed(&mut self, bucket: SealedBucket) -> Arc<SealedBucket> {
        let (number, bucket) = (bucket.row.number, Arc::new(bucket));
        assert!(!self.closed.contains_key(&number), "events are searched in one place");
        if bucket.deleted.is_some() {
            self.lossy.insert(number);
        }
        self.sealed.insert(number, Arc::clone(&bucket));
        bucket
    }

    /// Live buckets with deleted events, by number.
    pub(crate) fn lossy(&self) -> impl Iterator<Item = &Arc<SealedBucket>> {
        self.lossy.iter().filter_map(|number| self.sealed.get(number))
    }

    /// Removes a bucket that is no longer live.
    pub(crate) fn remove_sealed(&mut self, number: u64) {
        if let Some(bucket) = self.sealed.remove(&number) {
            self.lossy.remove(&number);
            let row = &bucket.row;
            self.change_numbers(&row.index, |numbers| {
                let is_known = numbers.sealed.remove(&number);
                let has_times = numbers.spans.remove(number, row.time_min, row.time_max);
                assert!(is_known && has_times, "an index knows its buckets");
            });
        }
    }

    fn change_numbers(&mut self, index: &str, change: impl FnOnce(&mut Numbers)) {
        let Some(numbers) = self.numbers.get_mut(index) else { return };
        change(numbers);
        if numbers.closed.is_empty() && numbers.sealed.is_empty() {
            self.numbers.remove(index);
        }
    }

    /// Live buckets of an index, by number.
    pub(crate) fn sealed_of(&self, index: &str) -> impl DoubleEndedIterator<Item = &Arc<SealedBucket>> {
        let numbers = self.numbers.get(index).into_iter().flat_map(|numbers| &numbers.sealed);
        numbers.filter_map(|number| self.sealed.get(number))
    }

    /// Live buckets of the selected indexes that overlap `range`.
    pub(crate) fn overlapping<'a>(
        &'a self,
        is_selected: impl Fn(&str) -> bool,
        range: &'a TimeRange,
    ) -> impl Iterator<Item = &'a Arc<SealedBucket>> {
        let selected = self.numbers.iter().filter(move |(index, _)| is_selected(index));
        let found = selected.flat_map(|(_, numbers)| numbers.spans.may_overlap(range));
        let buckets = found.filter_map(|number| self.sealed.get(&number));
        buckets.filter(|bucket| range.overlaps(bucket.row.time_min, bucket.row.time_max))
    }

    /// Names of the indexes with events.
    pub(crate) fn indexes(&self) -> BTreeSet<Arc<str>> {
        self.numbers.keys().cloned().chain(self.hot.values().map(|slab| slab.index().clone())).collect()
    }

    /// Indexes with at least `least` live buckets, in order of name.
    pub(crate) fn indexes_with(&self, least: usize) -> impl Iterator<Item = &Arc<str>> {
        let is_so = move |(_, numbers): &(&Arc<str>, &Numbers)| numbers.sealed.len() >= least;
        self.numbers.iter().filter(is_so).map(|(index, _)| index)
    }

    /// Allocates the number of a new bucket.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_bucket += 1;
        self.next_bucket - 1
    }

    /// Schedules failed seals for retry.
    pub(crate) fn retry_failed(&mut self) {
        let failed = self.closed.values_mut().filter(|slab| slab.progress == Progress::Failed);
        failed.for_each(|slab| slab.progress = Progress::Waiting);
    }

    /// Reason why sealing makes no progress; `None` if it does.
    pub(crate) fn stalled(&self) -> Option<String> {
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

    /// Whether appends must wait until slabs in memory are sealed. Slabs being filled count, so that more pipeline sets
    /// do not need more memory. Appends do not wait if there is nothing to seal.
    pub(crate) fn is_crowded(&self, options: &StoreOptions) -> bool {
        let limit = options.unsealed_limit() * SLAB_WEIGHT;
        let (mut closed, mut quarantined) = (0, 0);
        for slab in self.closed.values() {
            match slab.progress {
                Progress::Quarantined(_) => quarantined += 1,
                _ => closed += options.weight_of(usize_of(slab.segment.events()), usize_of(slab.segment.raw_bytes())),
            }
        }
        closed += SLAB_WEIGHT * usize::saturating_sub(quarantined, QUARANTINED_SLABS_MAX);
        closed > 0 && closed + options.hot_weight(self.hot.bytes()) >= limit
    }

    /// Number of slabs in memory that are large, or will be once they are filled.
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

    /// The number up to which every bucket of the index will be sealed once the slabs in `sealing` are.
    pub(crate) fn sealed_through(&self, index: &str, sealing: &BTreeSet<u64>) -> u64 {
        let unsealed = self.unsealed_of(index).filter(|number| !sealing.contains(number));
        let first_unsealed = unsealed.min().unwrap_or(u64::MAX);
        // Compacted buckets do not count: their numbers are unrelated to the log, and may exceed that of a slab whose
        // first record is just being written.
        let is_sealed = |bucket: &&Arc<SealedBucket>| bucket.row.level == 0 && bucket.row.number < first_unsealed;
        let sealed = self.sealed_of(index).rev().find(is_sealed).map(|bucket| bucket.row.number);
        let sealing = sealing.range(..first_unsealed).next_back().copied();
        sealed.max(sealing).unwrap_or(0)
    }

    /// Checkpoints for the next commit, and the number of the newest record that they cover.
    pub(crate) fn pending_checkpoints(&self) -> (Vec<LoggedCheckpoint>, u64) {
        (self.checkpoints.values().cloned().collect(), self.durable_lsn)
    }

    /// Drops checkpoints up to record `position`, which are now in the catalog.
    pub(crate) fn checkpoints_are_committed(&mut self, position: u64) {
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
