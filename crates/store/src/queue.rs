//! The queue in front of the log thread: appends of all pipeline sets, in order of arrival.
//!
//! Each set may fill an equal share of the queue, measured in bytes. If a set has used up its share, only its own
//! appends wait, so that a fast set cannot block the others.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use quarry_catalog::{FileCheckpoint, UnansweredPart};
use quarry_event::EventBatch;

use crate::gaps::AppendTurn;
use crate::sync::{lock, wait};
use crate::ticket::Promise;
use crate::wal::record::EncodedRecord;
use crate::{IndexSelector, StoreError};

/// Maximum bytes of records per fsync, unless a single record is longer.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// An append in progress, or a part of one: an append with events of several indexes has a part for each index.
#[derive(Debug)]
pub(crate) struct PendingAppend {
    /// Encoded record of `batch`, whose frame is not filled in yet.
    pub(crate) record: EncodedRecord,
    pub(crate) batch: EventBatch,
    pub(crate) checkpoint: Option<FileCheckpoint>,
    /// Checkpoint of the later append that completes the part of a file to which these events belong.
    pub(crate) part_of: Option<FileCheckpoint>,
    /// Id of the sender's request to which the append belongs, and its part of the request; `None` without a request.
    pub(crate) sent: Option<(u64, UnansweredPart)>,
    /// Pipeline set of the append.
    pub(crate) set: usize,
    /// The turn of the whole append, which all its parts share.
    pub(crate) turn: Arc<AppendTurn>,
    pub(crate) promise: Promise,
}

impl PendingAppend {
    /// The checkpoint of the file that these events belong to, if any.
    pub(crate) fn file(&self) -> Option<&FileCheckpoint> {
        self.checkpoint.as_ref().or(self.part_of.as_ref())
    }
}

/// Fill level of the share of the queue that a pipeline set may fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Bytes of the set's records that wait or are being written.
    pub bytes: usize,
    /// Size of the share in bytes; appends beyond it wait before they are queued.
    pub bytes_max: usize,
    /// Number of the set's appends in the queue.
    pub appends: usize,
}

/// The point in the log before which the events of an index are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovalCut {
    /// Number of the last log record with events that are removed.
    pub(crate) last_lsn: u64,
    /// Number of the first bucket with events that stay.
    pub(crate) first_kept: u64,
}

/// Hot slabs to close, that is, to freeze.
#[derive(Clone, Debug)]
pub(crate) enum Closing {
    /// All hot slabs.
    All,
    /// The slabs of some indexes.
    Indexes(IndexSelector),
    /// The slabs of an index whose events are to be removed. When the log thread closes them, it sets the cell to the
    /// point in the log before which the events are removed.
    Removal(Arc<str>, Arc<OnceLock<RemovalCut>>),
    /// No slab; the job only waits for earlier appends.
    Nothing,
    /// The slabs that have been idle since this monotonic time.
    IdleSince(i64),
}

/// A job of the log thread. Jobs are done in order, so that a close covers the appends before it.
#[expect(clippy::large_enum_variant, reason = "nearly all are appends, and a box would cost each an allocation")]
#[derive(Debug)]
pub(crate) enum Job {
    Append(PendingAppend),
    Close(Closing, Promise),
}

/// Next work of the log thread.
#[derive(Debug)]
pub(crate) enum Work {
    Group(Vec<PendingAppend>),
    Close(Closing, Promise),
}

/// The queue in front of the log thread.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Share of each set: its maximum bytes of records queued or being written, unless a single record is longer.
    bytes_max: usize,
    inner: Mutex<Inner>,
    work: Condvar,
    /// Signalled when a set has room.
    room: Vec<Condvar>,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Job>,
    /// Bytes of records queued or being written, by set.
    bytes: Vec<usize>,
    stopping: bool,
}

impl Queue {
    /// A queue for `sets` sets, which share `bytes_max` evenly.
    pub(crate) fn new(bytes_max: usize, sets: usize) -> Queue {
        Queue {
            bytes_max: bytes_max / sets.max(1),
            inner: Mutex::new(Inner { bytes: vec![0; sets.max(1)], ..Inner::default() }),
            work: Condvar::new(),
            room: std::iter::repeat_with(Condvar::new).take(sets.max(1)).collect(),
        }
    }

    /// Fill level of each set's share.
    pub(crate) fn stats(&self) -> Vec<QueueStats> {
        let inner = lock(&self.inner);
        let figures = |(set, bytes): (usize, &usize)| {
            let is_its = |job: &&Job| matches!(job, Job::Append(append) if append.set == set);
            QueueStats { bytes: *bytes, bytes_max: self.bytes_max, appends: inner.jobs.iter().filter(is_its).count() }
        };
        inner.bytes.iter().enumerate().map(figures).collect()
    }

    /// Bytes of records that are queued or being written.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.inner).bytes.iter().map(|bytes| *bytes as u64).sum()
    }

    /// Adds an append; waits until its set has room.
    pub(crate) fn push_append(&self, append: PendingAppend) -> Result<(), StoreError> {
        let (set, bytes) = (append.set, append.record.len());
        let mut inner = lock(&self.inner);
        while !inner.stopping && inner.bytes[set] > 0 && inner.bytes[set] + bytes > self.bytes_max {
            inner = wait(&self.room[set], inner);
        }
        if inner.stopping {
            return Err(StoreError::Closed);
        }
        inner.bytes[set] += bytes;
        inner.jobs.push_back(Job::Append(append));
        drop(inner);
        self.work.notify_one();
        Ok(())
    }

    /// Adds a request to close slabs.
    pub(crate) fn push_close(&self, closing: Closing, promise: Promise) -> Result<(), StoreError> {
        let mut inner = lock(&self.inner);
        if inner.stopping {
            return Err(StoreError::Closed);
        }
        inner.jobs.push_back(Job::Close(closing, promise));
        drop(inner);
        self.work.notify_one();
        Ok(())
    }

    /// Waits for work; `None` when the queue is stopped and empty.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut inner = lock(&self.inner);
        loop {
            match inner.jobs.pop_front() {
                Some(Job::Close(closing, promise)) => return Some(Work::Close(closing, promise)),
                Some(Job::Append(first)) => return Some(Work::Group(inner.take_group(first))),
                None if inner.stopping => return None,
                None => inner = wait(&self.work, inner),
            }
        }
    }

    /// Subtracts the appends of a finished group from the queued bytes. `group` has the set and bytes of each append.
    pub(crate) fn subtract_written(&self, group: &[(usize, usize)]) {
        let mut inner = lock(&self.inner);
        for (set, bytes) in group {
            assert!(inner.bytes[*set] >= *bytes, "only what was queued is written");
            inner.bytes[*set] -= bytes;
        }
        drop(inner);
        self.notify_room();
    }

    fn notify_room(&self) {
        self.room.iter().for_each(Condvar::notify_all);
    }

    /// Refuses new work; queued work is completed.
    pub(crate) fn stop(&self) {
        lock(&self.inner).stopping = true;
        self.work.notify_all();
        self.notify_room();
    }

    /// Refuses new work and drops queued work, because the log thread has ended.
    pub(crate) fn abandon(&self) {
        let jobs = {
            let mut inner = lock(&self.inner);
            inner.stopping = true;
            std::mem::take(&mut inner.jobs)
        };
        drop(jobs);
        self.notify_room();
    }
}

impl Inner {
    /// `first` and the appends after it that share its fsync.
    fn take_group(&mut self, first: PendingAppend) -> Vec<PendingAppend> {
        let mut bytes = first.record.len();
        let mut group = vec![first];
        while let Some(Job::Append(next)) = self.jobs.front()
            && bytes + next.record.len() <= GROUP_BYTES_MAX
        {
            bytes += next.record.len();
            if let Some(Job::Append(append)) = self.jobs.pop_front() {
                group.push(append);
            }
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::Gaps;
    use crate::tests::sample::batch;
    use crate::ticket::promise_and_ticket;

    fn pending(set: usize) -> PendingAppend {
        let batch = batch("main", 0, 4);
        let record = EncodedRecord::new(&batch, None, None, Vec::new()).unwrap();
        PendingAppend {
            record,
            batch,
            checkpoint: None,
            part_of: None,
            sent: None,
            set,
            turn: Gaps::default().begin(false),
            promise: promise_and_ticket().0,
        }
    }

    #[test]
    fn full_shares_do_not_block_other_sets() {
        let bytes = pending(0).record.len();
        let queue = Queue::new(bytes * 4, 2);
        [0, 0, 1, 1].into_iter().for_each(|set| queue.push_append(pending(set)).unwrap());
        assert_eq!(lock(&queue.inner).bytes, [bytes * 2, bytes * 2]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.push_append(pending(0)));
            let Some(Work::Group(group)) = queue.next() else { panic!("no group") };
            let sets: Vec<usize> = group.iter().map(|append| append.set).take(4).collect();
            assert_eq!(sets, [0, 0, 1, 1], "in the order in which they came");
            queue.subtract_written(&[(1, bytes), (1, bytes)]);
            [1, 1].into_iter().for_each(|set| queue.push_append(pending(set)).unwrap());
            queue.subtract_written(&[(0, bytes)]);
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(lock(&queue.inner).bytes, [bytes * 2, bytes * 2]);
        queue.stop();
        assert!(matches!(queue.push_append(pending(1)), Err(StoreError::Closed)));
    }
}
