//! The one thread that writes the log and fills the hot slabs.
//!
//! It takes what is queued, decides which bucket each batch goes to, writes the records, syncs once, and only then
//! moves the batches into their slabs and answers the appends. So nothing is visible that a crash could take back, and
//! a failed write leaves no trace in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_catalog::LoggedCheckpoint;
use quarry_event::EventBatch;

use crate::hot::{BatchRows, HotSlab};
use crate::order::FileOrder;
use crate::queue::{Closing, PendingAppend, Queue, Work};
use crate::state::{HotKey, Shared, State};
use crate::ticket::Promise;
use crate::wal::write::LogWriter;

/// The log thread's own state.
#[derive(Debug)]
pub(crate) struct LogThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) writer: LogWriter,
    pub(crate) next_lsn: u64,
    pub(crate) order: FileOrder,
}

/// Where the next batch of an index and set goes: what the hot slab will hold when the group is applied.
#[derive(Clone, Copy, Debug)]
struct Planned {
    number: u64,
    events: usize,
    raw_bytes: usize,
}

/// Tells everybody who waits, however the thread ends.
struct OnExit(Arc<Queue>, Arc<Shared>);

impl Drop for OnExit {
    fn drop(&mut self) {
        self.0.abandon();
        self.1.state().stopping = true;
        self.1.seal_done.notify_all();
        self.1.seal_work.notify_all();
        self.1.compaction_hurry.notify_all();
    }
}

impl LogThread {
    /// Works until the queue is stopped and empty.
    pub(crate) fn run(mut self) {
        let _on_exit = OnExit(self.queue.clone(), self.shared.clone());
        while let Some(work) = self.queue.next() {
            match work {
                Work::Group(group) => self.group(group),
                Work::Close(closing, promise) => self.close(closing, promise),
            }
        }
    }

    fn close(&mut self, closing: Closing, promise: Promise) {
        let mut state = self.shared.state();
        let chosen: Vec<HotKey> = match closing {
            Closing::All => state.hot.keys().cloned().collect(),
            Closing::IdleSince(since) => {
                state.hot.iter().filter(|(_, slab)| slab.appended_at <= since).map(|(key, _)| key.clone()).collect()
            }
            Closing::Nothing => {
                drop(state);
                return promise.keep(Ok(()));
            }
        };
        chosen.iter().for_each(|key| state.close_hot(key));
        if state.hot.is_empty() {
            self.order.clear();
        }
        drop(state);
        self.shared.spares.clear();
        if matches!(closing, Closing::All) && self.writer.current_bytes().is_some() {
            // With the last of these slabs sealed the log is empty, so that its files can go.
            self.writer.rotate();
            self.shared.log_files.close_all();
            self.shared.release_log();
        }
        self.shared.seal_work.notify_all();
        promise.keep(Ok(()));
    }

    fn group(&mut self, group: Vec<PendingAppend>) {
        let written: Vec<(usize, usize)> = group.iter().map(|append| (append.set, append.record.len())).collect();
        let group = self.without_gaps(group);
        if !group.is_empty() {
            self.write(group);
        }
        self.queue.written(&written);
    }

    /// Refuses appends of files of which an earlier part was not stored.
    fn without_gaps(&self, group: Vec<PendingAppend>) -> Vec<PendingAppend> {
        let mut kept = Vec::with_capacity(group.len());
        for append in group {
            match self.shared.gaps.check(append.checkpoint.as_ref(), append.begun) {
                Ok(()) => kept.push(append),
                Err(error) => append.promise.keep(Err(error)),
            }
        }
        kept
    }

    fn write(&mut self, mut group: Vec<PendingAppend>) {
        if self.writer.current_bytes().is_some_and(|bytes| bytes >= self.shared.options.log_segment_bytes) {
            self.writer.rotate();
            self.shared.log_files.close_all();
            self.shared.release_log();
        }
        let bytes: usize = group.iter().map(|append| append.record.len()).sum();
        let buckets = self.plan(&mut group);
        let records = group.iter().flat_map(|append| append.record.parts(&append.batch));
        match self.writer.write_group(self.next_lsn, records, bytes as u64) {
            Ok(()) => self.apply(group, &buckets),
            Err(error) => {
                self.shared.tell(format!("events are not stored: {error}"));
                // All files first: whoever hears of a failure must find its file closed.
                group.iter().filter_map(|append| append.checkpoint.as_ref()).for_each(|it| self.shared.gaps.failed(it));
                group.into_iter().for_each(|append| append.promise.keep(Err(error.clone())));
            }
        }
    }

    /// Chooses the bucket of every append and fills in the frames.
    fn plan(&mut self, group: &mut [PendingAppend]) -> Vec<u64> {
        let options = &self.shared.options;
        let (events_max, raw_bytes_max) = (options.slab_events, options.slab_raw_bytes);
        let mut plans: BTreeMap<HotKey, Planned> = BTreeMap::new();
        let mut buckets = Vec::with_capacity(group.len());
        let mut state = self.shared.state();
        for (at, append) in group.iter_mut().enumerate() {
            let bucket = match hot_key(&append.batch, append.set) {
                None => 0,
                Some(key) => {
                    let known = plans.get(&key).copied().or_else(|| state.hot.get(&key).map(planned));
                    let (events, raw_bytes) = (append.batch.len(), append.batch.raw.len());
                    // One set has no slab but the newest.
                    let file = append.checkpoint.as_ref().map(|it| &it.key).filter(|_| options.pipeline_sets > 1);
                    let fits = |plan: &Planned| {
                        plan.events + events <= events_max
                            && plan.raw_bytes + raw_bytes <= raw_bytes_max
                            && file.is_none_or(|file| self.order.allows(&key.index, file, plan.number))
                    };
                    let mut plan = known.filter(fits).unwrap_or_else(|| Planned {
                        number: state.take_number(),
                        events: 0,
                        raw_bytes: 0,
                    });
                    plan.events += events;
                    plan.raw_bytes += raw_bytes;
                    if let Some(file) = file {
                        self.order.note(&key.index, file, plan.number, state.next_bucket);
                    }
                    plans.insert(key, plan);
                    plan.number
                }
            };
            append.record.seal_frame(self.next_lsn + at as u64, bucket);
            buckets.push(bucket);
        }
        buckets
    }

    /// Makes durable appends visible and answers them.
    fn apply(&mut self, group: Vec<PendingAppend>, buckets: &[u64]) {
        let facts = group.iter().zip(buckets).enumerate().map(|(at, (append, bucket))| {
            let lsn = self.next_lsn + at as u64;
            (*bucket, append.checkpoint.as_ref().map(|_| lsn))
        });
        if let (Some(path), Some(bytes)) = (self.writer.current_path(), self.writer.current_bytes()) {
            self.shared.log_files.grew(path, bytes, facts);
        }
        let now = self.shared.clock.elapsed_ns();
        let mut closed = false;
        for (append, bucket) in group.into_iter().zip(buckets) {
            let lsn = self.next_lsn;
            self.next_lsn += 1;
            let mut state = self.shared.state();
            state.durable_lsn = lsn;
            if let Some(checkpoint) = append.checkpoint {
                state.add_checkpoint(LoggedCheckpoint { checkpoint, lsn });
            }
            closed |= self.move_in(&mut state, append.batch, append.set, *bucket, now);
            drop(state);
            drop(append.record);
            append.promise.keep(Ok(()));
        }
        closed |= self.keep_bounds();
        if closed {
            self.shared.seal_work.notify_all();
        }
    }

    /// Moves a batch into its slab; says whether a slab was closed.
    fn move_in(&self, state: &mut State, batch: EventBatch, set: usize, bucket: u64, now: i64) -> bool {
        let Some(key) = hot_key(&batch, set) else { return false };
        let mut closed = false;
        if state.hot.get(&key).is_some_and(|slab| slab.number() != bucket) {
            state.close_hot(&key);
            closed = true;
        }
        let spares = &self.shared.spares;
        let rows = || spares.slab(&batch, self.shared.options.slab_raw_bytes);
        let new_slab = || HotSlab::in_memory_of(&key.index, bucket, rows());
        let slab = state.hot.entry(key.clone()).or_insert_with(new_slab);
        let mut rows = BatchRows::new(batch);
        let left = rows.left();
        slab.append(&mut rows, left);
        spares.keep_batch(rows.into_batch());
        slab.appended_at = now;
        closed
    }

    /// Closes slabs that are full or that hold too much memory or too much log.
    fn keep_bounds(&self) -> bool {
        let options = &self.shared.options;
        let oldest = match self.shared.log_files.bytes() > options.log_bytes_max {
            true => self.shared.log_files.oldest_buckets(),
            false => Default::default(),
        };
        let mut state = self.shared.state();
        let is_due = |slab: &HotSlab| {
            slab.events() >= options.slab_events
                || slab.raw_bytes() >= options.slab_raw_bytes
                || oldest.contains(&slab.number())
        };
        let due: Vec<HotKey> = state.hot.iter().filter(|(_, slab)| is_due(slab)).map(|(key, _)| key.clone()).collect();
        let closed = !due.is_empty();
        due.iter().for_each(|key| state.close_hot(key));
        let hot_bytes: usize = state.hot.values().map(HotSlab::raw_bytes).sum();
        if hot_bytes <= options.hot_bytes_max {
            return closed;
        }
        let largest = state.hot.iter().max_by_key(|(_, slab)| slab.raw_bytes()).map(|(key, _)| key.clone());
        largest.iter().for_each(|key| state.close_hot(key));
        true
    }
}

fn planned(slab: &HotSlab) -> Planned {
    Planned { number: slab.number(), events: slab.events(), raw_bytes: slab.raw_bytes() }
}

/// Where a batch of a set goes; `None` without events.
fn hot_key(batch: &EventBatch, set: usize) -> Option<HotKey> {
    let index = if batch.is_empty() { None } else { batch.metas.first().map(|meta| meta.index.clone()) };
    index.map(|index| HotKey { index, set })
}
