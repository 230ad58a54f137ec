//! Buckets that wait for their upload, and whose turn it is to upload or to evict.
//!
//! Not here: what is done in that turn.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::sync::{lock, wait_for};

/// What waits for its upload.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    waiting: Mutex<Waiting>,
    work: Condvar,
    /// Held by who uploads or evicts.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Numbers of buckets that are not uploaded, as far as their indexes have a volume.
    pub(super) buckets: BTreeSet<u64>,
    /// Damaged ones, which stay here.
    pub(super) damaged: BTreeSet<u64>,
    /// Whether the failure of uploads was told since the last that worked.
    pub(super) is_told: bool,
    stopping: bool,
}

impl Uploads {
    /// What waits.
    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Notes a bucket that may have to be uploaded.
    pub(crate) fn add(&self, number: u64) {
        lock(&self.waiting).buckets.insert(number);
        self.work.notify_all();
    }

    /// The turn to upload or to evict.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        lock(&self.waiting).stopping = true;
        self.work.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.waiting).stopping
    }

    /// Rests for a time, or until there is something new to do.
    pub(super) fn rest(&self, time: Duration, only_stop: bool) {
        let waiting = lock(&self.waiting);
        if !waiting.stopping && (only_stop || waiting.buckets.is_empty()) {
            drop(wait_for(&self.work, waiting, time));
        }
    }
}
