//! The queue of buckets that wait for their upload, and the lock for uploading and evicting.
//!
//! Not here: uploading and evicting themselves.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::copies::RemotePath;
use crate::sync::{lock, wait_for};

/// Time for which closing a store waits for an upload silently; a longer wait is reported.
const SILENT_WAIT: Duration = Duration::from_secs(1);

/// The upload queue.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    waiting: Mutex<UploadQueueState>,
    work: Condvar,
    reporter: OnceLock<WaitReporter>,
    /// Held while uploading or evicting.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct UploadQueueState {
    /// Numbers of buckets that may have to be uploaded; some may belong to indexes without a volume.
    pub(super) buckets: BTreeSet<u64>,
    /// Numbers of damaged buckets, which are not uploaded.
    pub(super) damaged: BTreeSet<u64>,
    /// Numbers of waiting buckets whose last upload failed; other buckets are uploaded first.
    pub(super) failed: BTreeSet<u64>,
    /// Locations whose last uploads all failed; buckets for other locations are uploaded first.
    pub(super) postponed: BTreeSet<RemotePath>,
    /// Time of the next sweep by [`quarry_stdx::Clock::elapsed_ns`]; `None` before the first one.
    pub(super) next_sweep_ns: Option<i64>,
    /// Whether a failed upload was reported since the last time when no waiting bucket had failed.
    pub(super) is_damage_reported: bool,
    /// Whether a failure to delete a copy was reported since the last success.
    pub(super) is_kept_copy_reported: bool,
    stopping: bool,
    /// Whether the upload thread runs.
    running: bool,
}

/// Function that reports that closing the store waits for an upload.
struct WaitReporter(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for WaitReporter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WaitReporter").finish_non_exhaustive()
    }
}

impl Uploads {
    /// Locks the state of the queue.
    pub(super) fn lock_queue(&self) -> MutexGuard<'_, UploadQueueState> {
        lock(&self.waiting)
    }

    /// Adds a bucket that may have to be uploaded.
    pub(crate) fn add(&self, number: u64) {
        lock(&self.waiting).buckets.insert(number);
        self.work.notify_all();
    }

    /// Number of waiting buckets.
    pub(crate) fn count(&self) -> usize {
        lock(&self.waiting).buckets.len()
    }

    /// The lock for uploading or evicting.
    pub(crate) fn lock_transfers(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Tells the upload thread to end.
    pub(crate) fn stop(&self) {
        lock(&self.waiting).stopping = true;
        self.work.notify_all();
    }

    /// Sets the function that reports long waits; only the first call has an effect.
    pub(crate) fn report_waits(&self, report: Box<dyn Fn() + Send + Sync>) {
        // The function that was set first stays.
        drop(self.reporter.set(WaitReporter(report)));
    }

    /// Notes that the upload thread runs, or has ended.
    pub(super) fn set_running(&self, running: bool) {
        lock(&self.waiting).running = running;
        self.work.notify_all();
    }

    /// Waits a moment for the upload thread, which was told to end; reports if it needs longer.
    pub(crate) fn report_if_busy(&self) {
        let Some(reporter) = self.reporter.get() else { return };
        let waited = self.work.wait_timeout_while(lock(&self.waiting), SILENT_WAIT, |queue| queue.running);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_busy = queue.running;
        drop(queue);
        if is_busy {
            reporter.0();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.waiting).stopping
    }

    /// Pauses until a bucket is added, the thread must end, or `time` has passed. Without `only_stop`, does not pause
    /// if buckets are waiting.
    pub(super) fn pause(&self, time: Duration, only_stop: bool) {
        let waiting = lock(&self.waiting);
        if !waiting.stopping && (only_stop || waiting.buckets.is_empty()) {
            drop(wait_for(&self.work, waiting, time));
        }
    }
}
