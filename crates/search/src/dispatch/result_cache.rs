//! Small results of a server's searches, in memory: most are never asked for again, and three files for each cost more
//! than a needle's search.
//!
//! Only the newest stay, as on disk ([`JOBS_MAX`](super::JOBS_MAX)). What is there when the server stops is
//! written as files; a server that is killed forgets it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::record_batch::RecordBatch;
use serde_json::Value;

/// Bytes of a result that stays in memory; larger ones are written.
pub(crate) const RECENT_BYTES_MAX: usize = 32 << 10;

/// A result.
#[derive(Clone)]
pub(crate) struct RecentJob {
    pub(crate) sid: String,
    /// What is known of it, as the file of facts has it.
    pub(crate) facts: Value,
    pub(crate) rows: Vec<RecordBatch>,
}

/// Results in memory, oldest first.
#[derive(Default)]
pub(crate) struct RecentJobs(Mutex<VecDeque<RecentJob>>);

impl RecentJobs {
    fn locked(&self) -> MutexGuard<'_, VecDeque<RecentJob>> {
        // A result is put in or taken out whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether rows are few enough to stay.
    pub(crate) fn takes(rows: &[RecordBatch]) -> bool {
        rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() <= RECENT_BYTES_MAX
    }

    /// Keeps a result beside the `jobs_max - 1` newest.
    pub(crate) fn add(&self, job: RecentJob, jobs_max: usize) {
        let mut jobs = self.locked();
        let over = (jobs.len() + 1).saturating_sub(jobs_max);
        jobs.drain(..over);
        jobs.push_back(job);
    }

    /// The result of a search.
    pub(crate) fn find(&self, sid: &str) -> Option<RecentJob> {
        self.locked().iter().rev().find(|job| job.sid == sid).cloned()
    }

    /// Removes those of which `is_over` says so.
    pub(crate) fn remove(&self, is_over: impl Fn(&RecentJob) -> bool) {
        self.locked().retain(|job| !is_over(job));
    }

    /// Takes all out.
    pub(crate) fn take(&self) -> Vec<RecentJob> {
        self.locked().drain(..).collect()
    }
}
