//! What the store holds at this moment, behind one lock.
//!
//! A slab is in exactly one of `hot`, `closed` and `sealed`; every move between them is one critical section, so that a
//! snapshot shows each event once. Only the log thread changes `hot`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use quarry_catalog::{BucketRow, Catalog, CheckpointKey, LoggedCheckpoint};
use quarry_stdx::SharedClock;

use crate::gaps::Gaps;
use crate::hot::{HotSegment, HotSlab, Spares};
use crate::log_files::LogFiles;
use crate::options::QUARANTINED_SLABS_MAX;
use crate::report::Report;
use crate::sealed::{Readers, SealedBucket};
use crate::sync::lock;
use crate::{Damage, StoreError, StoreOptions};

/// What every thread of a store shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    pub(crate) clock: SharedClock,
    pub(crate) catalog: Catalog,
    pub(crate) readers: Arc<Readers>,
    pub(crate) log_files: LogFiles,
    pub(crate) report: Report,
    /// Segments of the log that are or were damaged.
    pub(crate) log_damage: Vec<Damage>,
    /// Files whose appends are refused.
    pub(crate) gaps: Gaps,
    /// Memory for further slabs and batches.
    pub(crate) spares: Spares,
    state: Mutex<State>,
    /// A slab waits for its seal, or sealing must end.
    pub(crate) seal_work: Condvar,
    /// A seal ended, well or badly, or the store closes.
    pub(crate) seal_done: Condvar,
    /// A compaction that rests must go on or end.
    pub(crate) compaction_hurry: Condvar,
    /// Held by whoever compacts.
    pub(crate) compacting: Mutex<()>,
    /// Held from the choice of what a commit says until the state says the same.
    pub(crate) commit: Mutex<()>,
}

/// Slabs, buckets and checkpoints.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Slabs that take events, by index and pipeline set.
    pub(crate) hot: BTreeMap<HotKey, HotSlab>,
    /// Slabs that wait for their seal, by bucket number.
    pub(crate) closed: BTreeMap<u64, ClosedSlab>,
    /// Live buckets by number.
    pub(crate) sealed: BTreeMap<u64, Arc<SealedBucket>>,
    /// Buckets whose objects go when no search holds them.
    pub(crate) retired: Vec<Arc<SealedBucket>>,
    /// Durable checkpoints that are not in the catalog yet.
    pub(crate) checkpoints: BTreeMap<CheckpointKey, LoggedCheckpoint>,
    /// Newest record that is durable and applied here.
    pub(crate) durable_lsn: u64,
    /// Newest record whose checkpoint is in the catalog.
    pub(crate) committed_lsn: u64,
    /// Number of the next bucket, sealed or compacted.
    pub(crate) next_bucket: u64,
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

/// Whose events a hot slab takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HotKey {
    pub(crate) index: Arc<str>,
    /// Pipeline set.
    pub(crate) set: usize,
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
        state: State,
        log_damage: Vec<Damage>,
    ) -> Shared {
        Shared {
            options,
            clock,
            catalog,
            readers: Arc::new(readers),
            log_files,
            report: Report::default(),
            log_damage,
            gaps: Gaps::default(),
            spares: Spares::default(),
            state: Mutex::new(state),
            seal_work: Condvar::new(),
            seal_done: Condvar::new(),
            compaction_hurry: Condvar::new(),
            compacting: Mutex::new(()),
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
        let save = |needed: u64| self.save_checkpoints(needed);
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
        let closed = self.closed.values().map(|slab| &*slab.segment);
        let closed = closed.filter(move |slab| **slab.index_name() == *index).map(HotSegment::number);
        let hot = self.hot.iter().filter(move |(key, _)| *key.index == *index).map(|(_, slab)| slab.number());
        closed.chain(hot)
    }

    pub(crate) fn add_closed(&mut self, segment: Arc<HotSegment>) {
        self.closed.insert(segment.number(), ClosedSlab { segment, progress: Progress::Waiting });
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

    /// Closed slabs that count against the limit.
    pub(crate) fn unsealed(&self) -> usize {
        let quarantined = self.closed.values().filter(|slab| matches!(slab.progress, Progress::Quarantined(_))).count();
        self.closed.len() - quarantined.min(QUARANTINED_SLABS_MAX)
    }

    /// Pipeline sets that fill a slab of some index.
    pub(crate) fn filling_sets(&self) -> usize {
        self.hot.keys().map(|key| key.set).collect::<BTreeSet<_>>().len()
    }

    /// Whether the events of a bucket are only in memory and in the log.
    pub(crate) fn is_unsealed(&self, number: u64) -> bool {
        self.closed.contains_key(&number) || self.hot.values().any(|slab| slab.number() == number)
    }

    /// Number up to which every bucket of the index is sealed once `row` is.
    pub(crate) fn sealed_through(&self, row: &BucketRow) -> u64 {
        let unsealed = self.unsealed_of(&row.index).filter(|number| *number != row.number);
        let first_unsealed = unsealed.min().unwrap_or(u64::MAX);
        // The number of a compacted bucket says nothing of the log: it may lie beyond that of a slab whose first record
        // is just being written.
        let of_index = self.sealed.values().filter(|bucket| bucket.row.index == row.index && bucket.row.level == 0);
        let sealed = of_index.map(|bucket| bucket.row.number).chain([row.number]);
        sealed.filter(|number| *number < first_unsealed).max().unwrap_or(0)
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

    /// Adds a checkpoint that became durable.
    pub(crate) fn add_checkpoint(&mut self, logged: LoggedCheckpoint) {
        self.checkpoints.insert(logged.checkpoint.key, logged);
    }
}
