//! The log thread: the only thread that writes the log and fills the hot slabs.
//!
//! The thread takes queued appends, chooses a bucket for each, writes the records and syncs once. Only then does it
//! move the batches into their slabs and acknowledge the appends. A crash can therefore undo nothing that was visible,
//! and a failed write leaves no trace in memory. Batches are copied without holding the state lock, because no other
//! thread changes hot slabs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_catalog::{LogSegmentRow, LoggedCheckpoint};
use quarry_event::EventBatch;
use quarry_stdx::number::{f64_of, integer_part};

use crate::hot_slabs::{BatchRows, HotKey, HotSlab};
use crate::options::HOT_BYTES_TARGET_SHARE;
use crate::order::FileOrder;
use crate::queue::{Closing, PendingAppend, Queue, RemovalCut, Work};
use crate::state::Shared;
use crate::ticket::Promise;
use crate::wal::first_lsn_of;
use crate::wal::mark::DurableMark;
use crate::wal::write::LogWriter;

/// State of the log thread.
#[derive(Debug)]
pub(crate) struct LogThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) writer: LogWriter,
    pub(crate) mark: DurableMark,
    /// Number of the first record in the newest segment listed in the catalog.
    pub(crate) noted: Option<u64>,
    pub(crate) next_lsn: u64,
    pub(crate) order: FileOrder,
}

/// The slab to which the next batch of an index and pipeline set goes, and the size it will have after the appends
/// planned so far.
#[derive(Clone, Copy, Debug)]
struct PlannedSlab {
    number: u64,
    events: usize,
    raw_bytes: usize,
}

/// Notifies all waiters when the thread ends, even if it panics.
struct NotifyOnExit(Arc<Queue>, Arc<Shared>);

impl Drop for NotifyOnExit {
    fn drop(&mut self) {
        self.0.abandon();
        if std::thread::panicking() {
            self.1.report_message(
                "the log thread panicked: no events are accepted any more; restart, and please report this".to_owned(),
            );
        }
        self.1.state().stopping = true;
        self.1.seal_done.notify_all();
        self.1.seal_work.notify_all();
        self.1.compaction_wakeup.notify_all();
    }
}

impl LogThread {
    /// Runs until the queue is stopped and empty.
    pub(crate) fn run(mut self) {
        let _on_exit = NotifyOnExit(self.queue.clone(), self.shared.clone());
        while let Some(work) = self.queue.next() {
            match work {
                Work::Group(group) => self.append_group(group),
                Work::Close(closing, promise) => self.close(closing, promise),
            }
        }
        if let Err(error) = self.mark.sync() {
            self.shared.report_message(format!("the high-water mark of the log is not synced: {error}"));
        }
    }

    /// Closes the newest segment.
    fn rotate(&mut self) {
        if !self.writer.rotate() {
            return;
        }
        if let Some(first_lsn) = self.noted.take() {
            let ended = LogSegmentRow { first_lsn, last_lsn: Some(self.next_lsn - 1) };
            self.note_segments(&[ended]);
        }
        self.shared.log_files.close_all();
        self.shared.release_log();
    }

    /// Records segments in the catalog, so that their loss is detected; returns whether that succeeded.
    fn note_segments(&self, segments: &[LogSegmentRow]) -> bool {
        let noted = self.shared.catalog.record_log_segments(segments);
        if let Err(error) = &noted {
            self.shared.report_message(format!("a log segment cannot be recorded in the catalog: {error}"));
        }
        noted.is_ok()
    }

    /// Records that the log is durable up to `last_lsn`, so that a later loss is detected.
    fn note_durable(&mut self, last_lsn: u64) {
        if let Err(error) = self.mark.set(last_lsn) {
            self.shared.report_message(format!("the high-water mark of the log cannot be written: {error}"));
            return;
        }
        let newest = self.writer.current_path().and_then(|path| first_lsn_of(path));
        if newest.is_some() && newest != self.noted {
            let begun = newest.map(|first_lsn| LogSegmentRow { first_lsn, last_lsn: None });
            // If this fails, the next group tries again.
            if self.note_segments(begun.as_slice()) {
                self.noted = newest;
            }
        }
    }

    fn close(&mut self, closing: Closing, promise: Promise) {
        let mut state = self.shared.state();
        let chosen: Vec<HotKey> = match &closing {
            Closing::All => state.hot.iter().map(|(key, _)| key.clone()).collect(),
            Closing::Indexes(indexes) => {
                state.hot.iter().map(|(key, _)| key.clone()).filter(|key| indexes.matches(&key.index)).collect()
            }
            Closing::Removal(index, cut) => {
                // Every earlier append is applied, and every later one goes to a new slab.
                let (last_lsn, first_kept) = (state.durable_lsn, state.next_bucket);
                cut.get_or_init(|| RemovalCut { last_lsn, first_kept });
                state.hot.iter().map(|(key, _)| key.clone()).filter(|key| key.index == *index).collect()
            }
            Closing::IdleSince(since) => {
                state.hot.iter().filter(|(_, slab)| slab.appended_at <= *since).map(|(key, _)| key.clone()).collect()
            }
            Closing::Nothing => {
                drop(state);
                return promise.fulfill(Ok(()));
            }
        };
        chosen.iter().for_each(|key| state.close_hot(key));
        if state.hot.is_empty() {
            self.order.clear();
        }
        drop(state);
        self.shared.spares.clear();
        if matches!(closing, Closing::All) && self.writer.current_bytes().is_some() {
            // When the last of these slabs is sealed, the log is empty and its files can be deleted.
            self.rotate();
        }
        self.shared.seal_work.notify_all();
        promise.fulfill(Ok(()));
    }

    fn append_group(&mut self, group: Vec<PendingAppend>) {
        let written: Vec<(usize, usize)> = group.iter().map(|append| (append.set, append.record.len())).collect();
        let group = self.refuse_gaps(group);
        match group.is_empty() {
            true => self.queue.subtract_written(&written),
            false => self.write(group, &written),
        }
    }

    /// Refuses appends of files with a missing earlier part.
    fn refuse_gaps(&self, group: Vec<PendingAppend>) -> Vec<PendingAppend> {
        let mut kept = Vec::with_capacity(group.len());
        for append in group {
            match self.shared.gaps.check(append.file(), &append.turn) {
                Ok(()) => kept.push(append),
                Err(error) => append.promise.fulfill(Err(error)),
            }
        }
        kept
    }

    /// Writes a group and answers its appends; `queued` has the set and bytes of all appends taken from the queue.
    fn write(&mut self, mut group: Vec<PendingAppend>, queued: &[(usize, usize)]) {
        if self.writer.current_bytes().is_some_and(|bytes| bytes >= self.shared.options.log_segment_bytes) {
            self.rotate();
        }
        let bytes: usize = group.iter().map(|append| append.record.len()).sum();
        let buckets = self.plan(&mut group);
        let records = group.iter().flat_map(|append| append.record.parts(&append.batch));
        let outcome = self.writer.write_group(self.next_lsn, records, bytes as u64);
        // The bytes are subtracted before any append is answered, because its caller may check for room next.
        self.queue.subtract_written(queued);
        match outcome {
            Ok(()) => {
                let end = self.next_lsn + group.len() as u64;
                self.note_durable(end - 1);
                self.apply(group, &buckets);
                assert_eq!(self.next_lsn, end, "each record that was written is applied");
            }
            Err(error) => {
                self.shared.report_message(format!("events are not stored: {error}"));
                // The files of the whole group are blocked before any append is answered, because a caller that learns
                // of a failure must find its file blocked.
                group.iter().filter_map(PendingAppend::file).for_each(|it| self.shared.gaps.record_failure(it));
                group.into_iter().for_each(|append| append.promise.refuse(error.clone(), append.batch));
            }
        }
    }

    /// Chooses the bucket of every append and fills in the frames.
    fn plan(&mut self, group: &mut [PendingAppend]) -> Vec<u64> {
        let options = &self.shared.options;
        let (events_max, raw_bytes_max) = (options.slab_events, options.slab_raw_bytes);
        let mut plans: BTreeMap<HotKey, PlannedSlab> = BTreeMap::new();
        let mut buckets = Vec::with_capacity(group.len());
        let mut state = self.shared.state();
        for (at, append) in group.iter_mut().enumerate() {
            let bucket = match hot_key(&append.batch, append.set) {
                None => 0,
                Some(key) => {
                    let known = plans.get(&key).copied().or_else(|| state.hot.get(&key).map(planned));
                    let (events, raw_bytes) = (append.batch.len(), append.batch.raw.len());
                    // With one pipeline set, an index has only one hot slab, so the order needs no check.
                    let file = append.file().map(|it| &it.key).filter(|_| options.pipeline_sets > 1);
                    let fits = |plan: &PlannedSlab| {
                        plan.events + events <= events_max
                            && plan.raw_bytes + raw_bytes <= raw_bytes_max
                            && file.is_none_or(|file| self.order.allows(&key.index, file, plan.number))
                    };
                    let mut plan = known.filter(fits).unwrap_or_else(|| PlannedSlab {
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
            append.record.fill_frame(self.next_lsn + at as u64, bucket);
            buckets.push(bucket);
        }
        buckets
    }

    /// Makes durable appends visible and acknowledges them.
    fn apply(&mut self, group: Vec<PendingAppend>, buckets: &[u64]) {
        let facts = group.iter().zip(buckets).enumerate().map(|(at, (append, bucket))| {
            let lsn = self.next_lsn + at as u64;
            (*bucket, append.checkpoint.as_ref().map(|_| lsn))
        });
        if let (Some(path), Some(bytes)) = (self.writer.current_path(), self.writer.current_bytes()) {
            self.shared.log_files.record_growth(path, bytes, facts);
        }
        assert_eq!(group.len(), buckets.len(), "each append of a group has its bucket");
        let mut touched = BTreeSet::new();
        let mut closed = false;
        for (append, bucket) in group.into_iter().zip(buckets) {
            let lsn = self.next_lsn;
            self.next_lsn += 1;
            self.shared.spares.keep_record(append.record.into_memory());
            let checkpoint = append.checkpoint.map(|checkpoint| LoggedCheckpoint { checkpoint, lsn });
            self.shared.followers.publish(&append.batch);
            match hot_key(&append.batch, append.set) {
                Some(key) => {
                    closed |= self.publish_batch(&key, append.batch, *bucket, checkpoint, lsn);
                    touched.insert(key);
                }
                None => self.shared.state().note_record(checkpoint, lsn),
            }
            if let Some((request, part)) = append.sent
                && let Err(error) = self.shared.sent.record_stored(request, part)
            {
                self.shared.report_message(format!("a request may be wrongly taken for a retry: {error}"));
            }
            append.promise.fulfill(Ok(()));
        }
        closed |= self.close_full_slabs(&touched);
        if closed {
            self.shared.seal_work.notify_all();
        }
    }

    /// Moves a batch into its slab and publishes it with its checkpoint; returns whether a slab was closed.
    fn publish_batch(
        &self,
        key: &HotKey,
        batch: EventBatch,
        bucket: u64,
        checkpoint: Option<LoggedCheckpoint>,
        lsn: u64,
    ) -> bool {
        let mut closed = false;
        let known = {
            let mut state = self.shared.state();
            if state.hot.get(key).is_some_and(|slab| slab.number() != bucket) {
                state.close_hot(key);
                closed = true;
            }
            state.hot.get(key).map(|slab| slab.begin_copy(&batch.metas))
        };
        let spares = &self.shared.spares;
        let new = match known {
            Some(_) => None,
            None => {
                let rows = spares.take_slab(&batch, self.shared.options.slab_raw_bytes);
                Some(HotSlab::reusing_rows(&key.index, bucket, rows))
            }
        };
        let copying = known.or_else(|| new.as_ref().map(|slab| slab.begin_copy(&batch.metas)));
        let mut rows = BatchRows::new(batch);
        let left = rows.remaining_rows();
        let copied = copying.map(|copying| copying.copy(&mut rows, left));
        assert_eq!(rows.remaining_rows(), 0, "a batch goes whole into the slab that it was planned for");
        spares.keep_batch(rows.into_batch());
        let now = self.shared.clock.elapsed_ns();
        let mut state = self.shared.state();
        if let Some(slab) = new {
            state.hot.insert(key.clone(), slab);
        }
        state.hot.change(key, |slab| {
            copied.into_iter().for_each(|copied| slab.publish(copied));
            slab.appended_at = now;
        });
        state.note_record(checkpoint, lsn);
        closed
    }

    /// Closes the full slabs in `touched`; if the log is too large, also the slabs with its oldest records; and if hot
    /// slabs take too much memory, also the largest slabs.
    fn close_full_slabs(&self, touched: &BTreeSet<HotKey>) -> bool {
        let options = &self.shared.options;
        let oldest = match self.shared.log_files.bytes() > options.log_bytes_max {
            true => self.shared.log_files.oldest_buckets(),
            false => Default::default(),
        };
        let mut state = self.shared.state();
        let is_full =
            |slab: &HotSlab| slab.events() >= options.slab_events || slab.raw_bytes() >= options.slab_raw_bytes;
        let full = touched.iter().filter(|key| state.hot.get(key).is_some_and(is_full));
        let mut due: Vec<HotKey> = full.cloned().collect();
        if !oldest.is_empty() {
            let is_old = |slab: &HotSlab| oldest.contains(&slab.number());
            due.extend(state.hot.iter().filter(|(_, slab)| is_old(slab)).map(|(key, _)| key.clone()));
        }
        due.iter().for_each(|key| state.close_hot(key));
        if state.hot.bytes() > options.hot_bytes_max {
            let left: usize = integer_part(f64_of(options.hot_bytes_max) * HOT_BYTES_TARGET_SHARE);
            let largest = state.hot.largest_above(left);
            largest.iter().for_each(|key| state.close_hot(key));
            due.extend(largest);
        }
        !due.is_empty()
    }
}

fn planned(slab: &HotSlab) -> PlannedSlab {
    PlannedSlab { number: slab.number(), events: slab.events(), raw_bytes: slab.raw_bytes() }
}

/// The slab key of a batch; `None` without events.
fn hot_key(batch: &EventBatch, set: usize) -> Option<HotKey> {
    let index = if batch.is_empty() { None } else { batch.metas.first().map(|meta| meta.index.clone()) };
    index.map(|index| HotKey { index, set })
}
