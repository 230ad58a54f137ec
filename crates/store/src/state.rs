//! What the store holds at this moment, behind one lock.
//!
//! A slab is in exactly one of `hot`, `closed` and `sealed`; every move between them is one critical section, so that a
//! snapshot shows each event once. Only the log thread changes `hot`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::day_clock::DayClock;
use crate::emptying::Emptying;
use crate::gaps::Gaps;
use crate::hot::{HotKey, HotSegment, HotSlabs, Spares};
use crate::log_files::{LogFiles, LogSegment};
use crate::options::{QUARANTINED_SLABS_MAX, SLAB_WEIGHT};
use crate::remote::queue::Uploads;
use crate::report::Report;
use crate::sealed::{Readers, SealedBucket};
use crate::sent_requests::SentRequests;
use crate::sync::lock;
use crate::{Damage, StoreError, StoreOptions};
use quarry_catalog::{Catalog, CheckpointKey, HeadLengths, LoggedCheckpoint};
use quarry_stdx::SharedClock;
use quarry_stdx::number::usize_of;

/// What every thread of a store shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    pub(crate) clock: SharedClock,
    pub(crate) catalog: Catalog,
    pub(crate) readers: Arc<Readers>,
    pub(crate) log_files: LogFiles,
    pub(crate) report: Report,
    /// What retention takes for the time of day.
    pub(crate) day_clock: Mutex<DayClock>,
    /// Indexes that retention would leave without events.
    pub(crate) emptying: Mutex<Emptying>,
    /// Folders of thawed buckets that hold none, as it was told.
    pub(crate) thaw_refused: Mutex<BTreeSet<String>>,
    /// Segments of the log that are or were damaged.
    pub(crate) log_damage: Vec<Damage>,
    /// Files whose appends are refused.
    pub(crate) gaps: Gaps,
    /// Requests of senders that may send them again.
    pub(crate) sent: SentRequests,
    /// Memory for further slabs and batches.
    pub(crate) spares: Spares,
    /// What waits to be put on remote stores.
    pub(crate) uploads: Uploads,
    state: Mutex<State>,
    /// A slab waits for its seal, or sealing must end.
    pub(crate) seal_work: Condvar,
    /// A seal ended, well or badly, or the store closes.
    pub(crate) seal_done: Condvar,
    /// A compaction that rests must go on or end.
    pub(crate) compaction_hurry: Condvar,
    /// Held by whoever compacts.
    pub(crate) compacting: Mutex<()>,
    /// Held while local objects of a bucket with a remote copy come or go.
    pub(crate) copies_turn: Mutex<()>,
    /// Held from the choice of what a commit says until the state says the same.
    pub(crate) commit: Mutex<()>,
}

/// What a store finds when it is opened.
#[derive(Debug)]
pub(crate) struct RecoveredStore {
    pub(crate) state: State,
    /// Segments of the log that are or were damaged.
    pub(crate) log_damage: Vec<Damage>,
    /// Requests of senders that may send them again.
    pub(crate) sent: SentRequests,
}

/// Slabs, buckets and checkpoints.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Slabs that take events, by index and pipeline set.
    pub(crate) hot: HotSlabs,
    /// Slabs that wait for their seal, by bucket number.
    pub(crate) closed: BTreeMap<u64, ClosedSlab>,
    /// Live buckets by number.
    pub(crate) sealed: BTreeMap<u64, Arc<SealedBucket>>,
    /// Those of them with deleted events.
    lossy: BTreeSet<u64>,
    /// Numbers of both by index; where there are none there is no entry.
    numbers: BTreeMap<Arc<str>, Numbers>,
    /// Buckets whose objects go when no search holds them.
    pub(crate) retired: Vec<Arc<SealedBucket>>,
    /// Durable checkpoints that are not in the catalog yet.
    pub(crate) checkpoints: BTreeMap<CheckpointKey, LoggedCheckpoint>,
    /// Lengths of heads of these, and of earlier ones.
    pub(crate) head_lengths: HeadLengths,
    /// Newest record that is durable and applied here.
    pub(crate) durable_lsn: u64,
    /// Newest record whose checkpoint is in the catalog.
    pub(crate) committed_lsn: u64,
    /// Number of the next bucket, sealed or compacted.
    pub(crate) next_bucket: u64,
    /// Elapsed time of the newest seal; `None` before the first.
    pub(crate) sealed_at: Option<i64>,
    /// Buckets that could not be compacted, by number; they are left alone.
    pub(crate) not_compacted: BTreeSet<u64>,
    /// Callers that wait for a compaction.
    pub(crate) compaction_requests: usize,
    /// A compaction encodes, which nothing can interrupt; it changes nothing afterwards when the store stops.
    pub(crate) compaction_encodes: bool,
    /// Why the newest seal failed; `None` after one that did not.
    pub(crate) seal_failure: Option<StoreError>,
    /// Counts failed seals, so that a waiter can tell a new failure from an old one.
    pub(crate) seal_failures: u64,
    /// No more work is accepted.
    pub(crate) stopping: bool,
}

/// Buckets of one index.
#[derive(Debug, Default)]
struct Numbers {
    closed: BTreeSet<u64>,
    sealed: BTreeSet<u64>,
}

/// A slab that takes no more events.
#[derive(Debug)]
pub(crate) struct ClosedSlab {
    pub(crate) segment: Arc<HotSegment>,
    pub(crate) progress: Progress,
}

/// How far the seal of a slab is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nobody works on it.
    Waiting,
    /// The last try failed; it waits for the next.
    Failed,
    /// A sealer works on it.
    Sealing,
    /// It cannot be sealed; it stays in memory and in the log.
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

    /// Tells the operator.
    pub(crate) fn tell(&self, text: String) {
        self.report.add(self.clock.now_ns(), text);
    }

    /// Tells the operator what is wrong with the log.
    pub(crate) fn tell_log_damage(&self) {
        self.log_damage.iter().for_each(|damage| self.tell(format!("{}: {}", damage.bucket, damage.reason)));
    }

    /// Removes log segments that nothing needs any more; failures are told and tried again at the next start.
    pub(crate) fn release_log(&self) {
        // First the catalog: a segment that it asks for and that is not there is damage.
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

    /// Makes sure that the catalog has every checkpoint up to record `needed`.
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

    /// Numbers of the slabs of an index whose events are only in memory and in the log.
    pub(crate) fn unsealed_of(&self, index: &str) -> impl Iterator<Item = u64> {
        let closed = self.numbers.get(index).into_iter().flat_map(|numbers| numbers.closed.iter().copied());
        closed.chain(self.hot.numbers_of(index))
    }

    pub(crate) fn add_closed(&mut self, segment: Arc<HotSegment>) {
        let number = segment.number();
        self.numbers.entry(segment.index_name().clone()).or_default().closed.insert(number);
        assert!(!self.sealed.contains_key(&number), "what is sealed is not sealed again");
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

    /// Adds a live bucket; the slab it was sealed from goes.
    pub(crate) fn add_sealed(&mut self, bucket: SealedBucket) -> Arc<SealedBucket> {
        let number = bucket.row.number;
        self.numbers.entry(bucket.row.index.as_str().into()).or_default().sealed.insert(number);
        self.remove_closed(number);
        self.put_sealed(bucket)
    }

    /// Puts a live bucket in the place of what it was.
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

    /// Takes out a bucket that is live no more.
    pub(crate) fn remove_sealed(&mut self, number: u64) {
        if let Some(bucket) = self.sealed.remove(&number) {
            self.lossy.remove(&number);
            self.change_numbers(&bucket.row.index, |numbers| {
                assert!(numbers.sealed.remove(&number), "an index knows its buckets");
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

    /// Indexes with at least `least` live buckets, by name.
    pub(crate) fn indexes_with(&self, least: usize) -> impl Iterator<Item = &Arc<str>> {
        let is_so = move |(_, numbers): &(&Arc<str>, &Numbers)| numbers.sealed.len() >= least;
        self.numbers.iter().filter(is_so).map(|(index, _)| index)
    }

    /// The number of a new bucket.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_bucket += 1;
        self.next_bucket - 1
    }

    /// Lets failed seals be tried again.
    pub(crate) fn retry_failed(&mut self) {
        let failed = self.closed.values_mut().filter(|slab| slab.progress == Progress::Failed);
        failed.for_each(|slab| slab.progress = Progress::Waiting);
    }

    /// Why sealing makes no progress; `None` while it does.
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

    /// Whether the slabs in memory leave no room for more: appends wait until some are sealed. What is being filled
    /// counts, so that more pipeline sets do not need more memory; but with nothing to seal nobody waits.
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

    /// Slabs in memory that are not small, or not any more once they are filled.
    pub(crate) fn large_slabs(&self, options: &StoreOptions) -> usize {
        let is_large = |events: usize, raw_bytes: usize| !options.is_small(events, raw_bytes);
        let closed = self.closed.values().map(|slab| &slab.segment);
        let closed = closed.filter(|slab| is_large(usize_of(slab.events()), usize_of(slab.raw_bytes()))).count();
        closed + self.hot.values().filter(|slab| is_large(slab.events(), slab.raw_bytes())).count()
    }

    /// Whether the events of a bucket are only in memory and in the log.
    pub(crate) fn is_unsealed(&self, number: u64) -> bool {
        self.closed.contains_key(&number) || self.hot.has_number(number)
    }

    /// Number up to which every bucket of the index is sealed once those of `sealing` are.
    pub(crate) fn sealed_through(&self, index: &str, sealing: &BTreeSet<u64>) -> u64 {
        let unsealed = self.unsealed_of(index).filter(|number| !sealing.contains(number));
        let first_unsealed = unsealed.min().unwrap_or(u64::MAX);
        // The number of a compacted bucket says nothing of the log: it may lie beyond that of a slab whose first record
        // is just being written.
        let is_sealed = |bucket: &&Arc<SealedBucket>| bucket.row.level == 0 && bucket.row.number < first_unsealed;
        let sealed = self.sealed_of(index).rev().find(is_sealed).map(|bucket| bucket.row.number);
        let sealing = sealing.range(..first_unsealed).next_back().copied();
        sealed.max(sealing).unwrap_or(0)
    }

    /// Checkpoints for the next commit and the newest record they cover.
    pub(crate) fn pending_checkpoints(&self) -> (Vec<LoggedCheckpoint>, u64) {
        (self.checkpoints.values().cloned().collect(), self.durable_lsn)
    }

    /// Forgets what the catalog has now.
    pub(crate) fn checkpoints_are_committed(&mut self, position: u64) {
        self.checkpoints.retain(|_, logged| logged.lsn > position);
        self.committed_lsn = self.committed_lsn.max(position);
    }

    /// Notes what record `lsn`, whose events are shown, says of its file.
    pub(crate) fn note_record(&mut self, checkpoint: Option<LoggedCheckpoint>, lsn: u64) {
        assert!(lsn >= self.durable_lsn, "positions of the log ascend");
        self.durable_lsn = lsn;
        checkpoint.into_iter().for_each(|logged| self.add_checkpoint(logged));
    }

    /// Adds a checkpoint that became durable.
    pub(crate) fn add_checkpoint(&mut self, logged: LoggedCheckpoint) {
        self.head_lengths.note(&logged.checkpoint);
        self.checkpoints.insert(logged.checkpoint.key, logged);
    }
}
