//! What waits for the log thread. Its size is bounded: beyond it appends wait.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

use quarry_catalog::FileCheckpoint;
use quarry_event::EventBatch;

use crate::StoreError;
use crate::sync::{lock, wait};
use crate::ticket::Promise;
use crate::wal::record::EncodedRecord;

/// Bytes of records that one fsync covers at most, unless one record alone is longer.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// An append on its way.
#[derive(Debug)]
pub(crate) struct PendingAppend {
    /// Encoded record of `batch`; its frame is not filled in.
    pub(crate) record: EncodedRecord,
    pub(crate) batch: EventBatch,
    pub(crate) checkpoint: Option<FileCheckpoint>,
    /// Its number among all appends that began.
    pub(crate) begun: u64,
    pub(crate) promise: Promise,
}

/// Which hot slabs to close.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Closing {
    /// Every one.
    All,
    /// Those without an append since this elapsed time.
    IdleSince(i64),
}

/// Something the log thread does. Order matters: a close covers the appends before it.
#[expect(clippy::large_enum_variant, reason = "nearly all are appends, and a box would cost each an allocation")]
#[derive(Debug)]
pub(crate) enum Job {
    Append(PendingAppend),
    Close(Closing, Promise),
}

/// What the log thread does next.
#[derive(Debug)]
pub(crate) enum Work {
    Group(Vec<PendingAppend>),
    Close(Closing, Promise),
}

/// The queue in front of the log thread.
#[derive(Debug)]
pub(crate) struct Queue {
    bytes_max: usize,
    inner: Mutex<Inner>,
    work: Condvar,
    room: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Job>,
    /// Bytes of records that are queued or being written.
    bytes: usize,
    stopping: bool,
}

impl Queue {
    pub(crate) fn new(bytes_max: usize) -> Queue {
        Queue { bytes_max, inner: Mutex::default(), work: Condvar::new(), room: Condvar::new() }
    }

    /// Adds an append when there is room.
    pub(crate) fn push_append(&self, append: PendingAppend) -> Result<(), StoreError> {
        let bytes = append.record.len();
        let mut inner = lock(&self.inner);
        while !inner.stopping && inner.bytes > 0 && inner.bytes + bytes > self.bytes_max {
            inner = wait(&self.room, inner);
        }
        if inner.stopping {
            return Err(StoreError::Closed);
        }
        inner.bytes += bytes;
        inner.jobs.push_back(Job::Append(append));
        drop(inner);
        self.work.notify_one();
        Ok(())
    }

    /// Adds a close.
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

    /// Waits for work; `None` when the queue was stopped and is empty.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut inner = lock(&self.inner);
        loop {
            match inner.jobs.pop_front() {
                Some(Job::Close(closing, promise)) => return Some(Work::Close(closing, promise)),
                Some(Job::Append(first)) => return Some(Work::Group(inner.group_from(first))),
                None if inner.stopping => return None,
                None => inner = wait(&self.work, inner),
            }
        }
    }

    /// Gives back the room of a group.
    pub(crate) fn written(&self, bytes: usize) {
        lock(&self.inner).bytes -= bytes;
        self.room.notify_all();
    }

    /// Refuses new work; what is queued is still done.
    pub(crate) fn stop(&self) {
        lock(&self.inner).stopping = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Refuses new work and drops what is queued, because nobody does it any more.
    pub(crate) fn abandon(&self) {
        let jobs = {
            let mut inner = lock(&self.inner);
            inner.stopping = true;
            std::mem::take(&mut inner.jobs)
        };
        drop(jobs);
        self.room.notify_all();
    }
}

impl Inner {
    /// The appends that follow `first` and share its fsync.
    fn group_from(&mut self, first: PendingAppend) -> Vec<PendingAppend> {
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
