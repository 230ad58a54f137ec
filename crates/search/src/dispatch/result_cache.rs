//! In-memory cache of small search results. Most results are never requested again, and writing the files of a result
//! would take longer than a selective search.
//!
//! As on disk, only the newest results are kept ([`JOBS_MAX`](super::JOBS_MAX)). Cached results are written to files
//! when the server stops; a killed server loses them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::record_batch::RecordBatch;
use serde_json::Value;

/// Maximum size of a cached result; larger results are written to files.
pub(crate) const RECENT_BYTES_MAX: usize = 32 << 10;

/// A cached result.
#[derive(Clone)]
pub(crate) struct RecentJob {
    pub(crate) sid: String,
    /// The facts, as in the facts file.
    pub(crate) facts: Value,
    pub(crate) rows: Vec<RecordBatch>,
}

/// Results in memory, oldest first.
#[derive(Default)]
pub(crate) struct RecentJobs(Mutex<VecDeque<RecentJob>>);

impl RecentJobs {
    fn lock(&self) -> MutexGuard<'_, VecDeque<RecentJob>> {
        // A poisoned lock is harmless: a result is inserted or removed in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether rows are small enough to be cached.
    pub(crate) fn fits(rows: &[RecordBatch]) -> bool {
        rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() <= RECENT_BYTES_MAX
    }

    /// Adds a result and keeps at most `jobs_max`.
    pub(crate) fn add(&self, job: RecentJob, jobs_max: usize) {
        let mut jobs = self.lock();
        let over = (jobs.len() + 1).saturating_sub(jobs_max);
        jobs.drain(..over);
        jobs.push_back(job);
    }

    /// The result of a search.
    pub(crate) fn find(&self, sid: &str) -> Option<RecentJob> {
        self.lock().iter().rev().find(|job| job.sid == sid).cloned()
    }

    /// Removes results selected by `is_over`.
    pub(crate) fn remove(&self, is_over: impl Fn(&RecentJob) -> bool) {
        self.lock().retain(|job| !is_over(job));
    }

    /// Removes and returns all results.
    pub(crate) fn take_all(&self) -> Vec<RecentJob> {
        self.lock().drain(..).collect()
    }
}
