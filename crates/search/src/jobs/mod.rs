//! Jobs: searches that outlive the request that started them.
//!
//! [`Jobs::create`] parses the search and assigns a name and a folder. [`StartedJob::run`] runs the search to its end
//! on a thread of the caller, while other threads inspect the [`SearchJob`], read its rows, or pause, finalise and
//! cancel the job. The request, rows and outcome of a job are files in its folder (dispatch). A finished job therefore
//! survives a restart of the server, and a job that the restart interrupts is marked as failed. A job expires a number
//! of seconds after it ended or was last touched.
//!
//! A job of a real-time search repeats the search over a moving window ([`rounds`]) until the job is ended.
//!
//! Not here: limits on concurrent searches and the form of HTTP answers (api), previews of reports (engine).

mod costs;
mod counts;
mod edits;
mod ending;
mod file_previews;
mod job;
mod pauses;
mod record;
mod report_timeline;
mod rounds;
mod rows;
mod run_clock;
mod search_slot;
mod summary;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quarry_conf::Permissions;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::{ErrorKind, Fault, SharedClock};

pub use self::edits::{CUSTOM_BYTES_MAX, CUSTOM_FIELDS_MAX, check_custom_fields};
pub use self::file_previews::{FilePreview, PreviewedEvent};
pub use self::job::{JobState, JobStatus, SearchJob, StartedJob};
pub use self::record::{BaseTexts, JobOptions, JobRecord, PreviewedFile, SearchLevel};
pub use self::rounds::ROUND_ROWS_MAX;
pub(crate) use self::rounds::{ROUND_BYTES_MAX, Rounds, pause_after};
pub use self::rows::{RESULT_BYTES_MAX, RowsView};
pub use self::search_slot::SearchSlot;
pub use self::summary::{FieldSummary, FieldValue, JobSummary, RunningSummary, SummaryRequest};
pub use self::timeline::{SPANS_MAX, TimeSpan, Timeline};
use crate::answer_hints::{AnswerWatch, AnsweredSearch};
pub use crate::dispatch::JOBS_FOLDER;
use crate::dispatch::JobStore;
use crate::error::SearchError;
pub use crate::job_sharing::{EVERYONE, JobSharing};
use crate::service::{SearchParams, SearchService};
pub use quarry_store::ReadStats;

/// Default lifetime of a finished job in seconds (limits.conf `[search] ttl`).
pub const TTL_S: i64 = 600;
/// Lifetime of a saved job in seconds (limits.conf `[search] default_save_ttl`).
pub const SAVED_TTL_S: i64 = 7 * 24 * 60 * 60;
/// Maximum lifetime in seconds; a longer one is reduced to it.
pub const TTL_MAX_S: i64 = 366 * 24 * 60 * 60;
/// Default and maximum number of rows of a result (limits.conf `[search] max_count`).
pub const ROWS_MAX: usize = 500_000;
/// Maximum number of unfinished jobs; a further job is refused.
pub const UNFINISHED_MAX: usize = 2_048;

/// Maximum number of jobs, including finished ones (Splunk warns from half of this number on); a further job is
/// refused.
pub const JOBS_MAX: usize = 10_000;
/// Maximum total size of the rows of all jobs, in bytes; beyond it, a new job is refused.
pub const JOBS_BYTES_MAX: u64 = 16 << 30;

/// Minimum remaining quota for a new job, in bytes; half of the quota if that is less.
const FREE_QUOTA_BYTES_MIN: u64 = 1 << 20;

/// Maximum number of paused jobs; no further job can be paused.
pub const PAUSED_MAX: usize = 128;

/// The jobs of a server.
pub struct Jobs {
    job_store: Arc<JobStore>,
    clock: SharedClock,
    /// Jobs started by this server, and the jobs of earlier servers.
    jobs: Mutex<BTreeMap<String, Arc<SearchJob>>>,
    /// Names of jobs that have a folder but are not yet in `jobs`. Folders of jobs are created and removed under this
    /// lock, so that a job never uses the folder of another job of the same name. Lock order: this lock is taken before
    /// the lock of `jobs`.
    beginning: Mutex<BTreeSet<String>>,
}

/// Entry of a job in `Jobs::beginning`, removed when dropped.
struct SidReservation<'j> {
    jobs: &'j Jobs,
    sid: String,
}

impl Drop for SidReservation<'_> {
    fn drop(&mut self) {
        self.jobs.reserved_sids().remove(&self.sid);
    }
}

impl Jobs {
    /// The jobs of the data directory of `kept`, for a server that has just started.
    pub fn new(kept: Arc<JobStore>, clock: SharedClock) -> Jobs {
        kept.mark_interrupted(TTL_S);
        let jobs = Jobs { job_store: kept, clock, jobs: Mutex::default(), beginning: Mutex::default() };
        // Jobs of earlier servers count towards their users' quotas.
        for (sid, facts) in jobs.job_store.finished_jobs() {
            if let Some(job) = SearchJob::from_facts(&sid, &facts, Arc::clone(&jobs.job_store), Arc::clone(&jobs.clock))
            {
                jobs.lock().insert(sid, Arc::new(job));
            }
        }
        jobs
    }

    /// Refuses a new job if there are too many jobs or their rows are too large in total.
    fn check_capacity(&self) -> Result<(), SearchError> {
        let known = self.lock();
        if known.len() >= JOBS_MAX {
            return Err(SearchError::TooManyJobs { most: JOBS_MAX });
        }
        let (mut unfinished, mut bytes) = (0, 0);
        for job in known.values() {
            unfinished += usize::from(!job.state().is_over());
            bytes += job.bytes();
        }
        if unfinished >= UNFINISHED_MAX {
            return Err(SearchError::TooManyUnfinishedJobs { most: UNFINISHED_MAX });
        }
        if bytes >= JOBS_BYTES_MAX { Err(SearchError::JobsTooLarge { most_gb: JOBS_BYTES_MAX >> 30 }) } else { Ok(()) }
    }

    /// Number of bytes that a new job of a user may take: the quota minus the size of existing jobs. Each of several
    /// concurrent jobs may take all of these bytes.
    fn remaining_quota(&self, viewer: &Permissions) -> Result<u64, SearchError> {
        let Some(quota) = viewer.limits.disk_bytes else { return Ok(RESULT_BYTES_MAX) };
        let own: Vec<Arc<SearchJob>> = self.lock().values().filter(|job| job.user() == viewer.user).cloned().collect();
        let used: u64 = own.iter().filter(|job| !job.is_expired()).map(|job| job.bytes()).sum();
        let left = quota.saturating_sub(used);
        if left >= FREE_QUOTA_BYTES_MIN.min(quota / 2) {
            return Ok(left);
        }
        let (user, used_mb, quota_mb) = (viewer.user.clone(), used >> 20, quota >> 20);
        Err(SearchError::DiskQuota { user, used_mb, quota_mb })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<SearchJob>>> {
        // A poisoned lock is harmless: jobs are inserted and removed in one step.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a job. Its search is parsed and checked but reads nothing until [`StartedJob::run`].
    pub fn create(
        &self,
        service: &Arc<SearchService>,
        params: SearchParams,
        asked: JobOptions,
    ) -> Result<StartedJob, SearchError> {
        self.check_capacity()?;
        let bytes_max = self.remaining_quota(&params.permissions)?;
        let zone = params.zone.clone().unwrap_or_else(|| service.zone());
        let (expanded, base) =
            (expanded_text(service, &params), service.base_search(params.clone()).map(BaseTexts::from));
        let record = |sid: &str| {
            serde_json::json!(JobRecord {
                expanded: expanded.clone(),
                base: base.clone(),
                ..asked.record(sid, &params, self.clock.now_ns())
            })
        };
        let (sid, _beginning) = self.begin(asked.id.as_deref(), &record)?;
        let params = SearchParams { sid: Some(sid.clone()), ..params };
        let record = JobRecord { expanded, base, ..asked.record(&sid, &params, self.clock.now_ns()) };
        let hinted = asked.has_hints.then(|| (params.text.clone(), params.prefix, Arc::clone(&params.permissions)));
        let started = match &asked.real_time {
            None => service.start_on_reader_thread(params).map(|running| (running, None)),
            Some(window) => {
                Rounds::start(service, params, window, (&zone, self.clock.now_ns(), !asked.is_not_backfilled))
                    .map(|(running, rounds)| (running, Some(rounds)))
            }
        };
        let (running, rounds) = started.inspect_err(|_| {
            let _folders = self.reserved_sids();
            self.job_store.remove_job(&sid);
        })?;
        // A sample gets no hints, because it may have missed the matching events; a real-time window gets none, because
        // rows may arrive later.
        let watch =
            hinted.filter(|_| rounds.is_none() && record.sample_ratio <= 1).map(|(text, prefix, permissions)| {
                let (service, range, zone) = (Arc::clone(service), running.range(), zone.clone());
                let search = AnsweredSearch { service, text, prefix, range, zone, permissions };
                AnswerWatch::new(search, running.is_events())
            });
        let started = StartedJob::new(
            (running, rounds),
            watch,
            (record, asked.notes),
            zone,
            (Arc::clone(&self.job_store), bytes_max),
            Arc::clone(&self.clock),
        );
        self.lock().insert(sid, Arc::clone(started.job()));
        Ok(started)
    }

    /// A job of the same user that began at most `seconds` ago with the same search, and has not failed.
    pub fn find_repeated(&self, params: &SearchParams, asked: &JobOptions, seconds: i64) -> Option<Arc<SearchJob>> {
        let now = self.clock.now_ns();
        let wanted = asked.record("", params, now);
        let is_recent = |job: &SearchJob| now - job.began_ns() <= seconds.saturating_mul(NS_PER_SEC);
        let known: Vec<Arc<SearchJob>> = self.lock().values().cloned().collect();
        let repeated = known.into_iter().filter(|job| {
            is_recent(job) && wanted.repeats(&job.record) && job.state() != JobState::Failed && !job.is_expired()
        });
        repeated.max_by_key(|job| job.began_ns())
    }

    /// Creates the folder of a job; the job's name stays reserved until the returned value is dropped.
    fn begin(
        &self,
        wanted: Option<&str>,
        record: &dyn Fn(&str) -> serde_json::Value,
    ) -> Result<(String, SidReservation<'_>), SearchError> {
        let mut beginning = self.reserved_sids();
        let sid = self.job_store.begin_job(wanted, record)?;
        beginning.insert(sid.clone());
        // There was no folder of this name, so an older job of the same name has lost its folder.
        if let Some(lost) = self.lock().remove(&sid) {
            lost.cancel();
        }
        Ok((sid.clone(), SidReservation { jobs: self, sid }))
    }

    fn reserved_sids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job of this name; `None` if the job does not exist or has expired, or if `viewer` may not see it.
    pub fn get(&self, sid: &str, viewer: &Permissions) -> Option<Arc<SearchJob>> {
        let job = self.find(sid).filter(|job| job.is_readable_by(viewer))?;
        job.record_access();
        Some(job)
    }

    fn find(&self, sid: &str) -> Option<Arc<SearchJob>> {
        let known = self.lock().get(sid).cloned();
        if let Some(job) = known {
            if !job.is_expired() {
                return Some(job);
            }
            self.remove(&job);
            return None;
        }
        let beginning = self.reserved_sids();
        let facts = self.job_store.job_facts(sid).filter(|_| !beginning.contains(sid))?;
        let job = SearchJob::from_facts(sid, &facts, Arc::clone(&self.job_store), Arc::clone(&self.clock))?;
        Some(Arc::clone(self.lock().entry(sid.to_owned()).or_insert_with(|| Arc::new(job))))
    }

    /// The jobs that `viewer` may see, newest first.
    pub fn list(&self, viewer: &Permissions) -> Vec<Arc<SearchJob>> {
        let ended = self.job_store.finished_jobs().into_iter().map(|(sid, _)| sid);
        let names: std::collections::BTreeSet<String> = ended.chain(self.lock().keys().cloned()).collect();
        let found = names.iter().filter_map(|sid| self.find(sid));
        let mut jobs: Vec<Arc<SearchJob>> = found.filter(|job| job.is_readable_by(viewer)).collect();
        jobs.sort_by_key(|job| (std::cmp::Reverse(job.began_ns()), job.sid().to_owned()));
        jobs
    }

    /// Number of jobs of all users.
    pub fn count(&self) -> usize {
        let ended = self.job_store.finished_jobs().into_iter().map(|(sid, _)| sid);
        ended.chain(self.lock().keys().cloned()).collect::<std::collections::BTreeSet<String>>().len()
    }

    /// Pauses a job, which releases its slot but keeps its thread and the data read so far.
    pub fn pause(&self, job: &SearchJob) -> Result<(), Fault> {
        let is_paused = |job: &&Arc<SearchJob>| job.state() == JobState::Paused;
        if self.lock().values().filter(is_paused).count() >= PAUSED_MAX {
            let text = format!("{PAUSED_MAX} jobs are paused, the maximum: resume or cancel some");
            return Err(Fault::new(ErrorKind::Busy, text));
        }
        job.pause();
        Ok(())
    }

    /// Ends a job and removes it with its rows.
    pub fn remove(&self, job: &Arc<SearchJob>) {
        if !job.cancel() {
            return;
        }
        let beginning = self.reserved_sids();
        let is_its_folder = {
            let mut known = self.lock();
            let is_it = known.get(job.sid()).is_none_or(|other| Arc::ptr_eq(other, job));
            if is_it {
                known.remove(job.sid());
            }
            is_it && !beginning.contains(job.sid())
        };
        // If this is false, the folder belongs to a new job of the same name.
        if is_its_folder {
            self.job_store.remove_job(job.sid());
        }
    }

    /// Cancels or pauses jobs not accessed for too long, finalises searches that ran too long, and removes expired
    /// jobs. Must be called every few seconds.
    pub fn enforce_lifetimes(&self) {
        let known: Vec<Arc<SearchJob>> = self.lock().values().cloned().collect();
        for job in known {
            if job.is_abandoned() || job.is_expired() {
                self.remove(&job);
            } else if job.exceeds_run_time() {
                job.finalize_on_timeout();
            } else if job.is_unwatched() {
                // If too many jobs are paused, this job continues to run.
                drop(self.pause(&job));
            }
        }
    }

    /// Ends running searches at shutdown; the next server marks them as interrupted.
    pub fn shut_down(&self) {
        for job in self.lock().values() {
            job.cancel();
        }
    }
}

/// The text of a search with its macros expanded; `None` if the search has no macros or if their expansion fails.
fn expanded_text(service: &SearchService, params: &SearchParams) -> Option<String> {
    let expansion = params.text.contains('`').then(|| service.expand_macros(params.clone()))?.ok()?;
    expansion.diagnostics.is_empty().then_some(expansion.text)
}

#[cfg(test)]
mod tests;
