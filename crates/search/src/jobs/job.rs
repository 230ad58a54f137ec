//! One job: its request, state and rows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_engine::{CostReport, Costs, Previews, ScanProgress, SearchShape, Stopper};
use quarry_event::time::{NS_PER_SEC, parse_zone, zone_name};
use quarry_event::{TimeNs, TimeRange};
use quarry_stdx::number::f64_of;
use quarry_stdx::{SharedClock, log};
use quarry_store::ReadStats;
use serde_json::{Value, json};

use super::costs;
use super::counts::Counts;
use super::record::JobRecord;
use super::rounds::{Round, Rounds};
use super::rows::{Capacity, JobRows, RESULT_BYTES_MAX, RowsView, times_of};
use super::run_clock::RunClock;
use super::search_slot::SearchSlot;
use super::summary::{JobSummary, SummaryRequest};
use super::timeline::Timeline;
use super::{SAVED_TTL_S, TTL_MAX_S};
use crate::answer_hints::AnswerWatch;
use crate::dispatch::JobStore;
use crate::error::SearchError;
use crate::job_recorder::JobFacts;
use crate::job_sharing::JobSharing;
use crate::result_pages::SENT_BYTES;
use crate::service::{RunningSearch, SearchParams};
use crate::table::ResultTable;

/// Number of rows that are stored at once; in between, requests can control the job.
const STORED_ROWS: usize = 8_192;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Waiting for a search slot.
    Queued,
    /// The search runs.
    Running,
    /// Paused by its user.
    Paused,
    /// Reads no more events and will end with the rows found so far.
    Finalizing,
    /// Complete.
    Done,
    /// The search failed.
    Failed,
}

impl JobState {
    /// Whether the job has ended.
    pub fn is_over(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed)
    }

    /// Splunk's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "QUEUED",
            JobState::Running => "RUNNING",
            JobState::Paused => "PAUSED",
            JobState::Finalizing => "FINALIZING",
            JobState::Done => "DONE",
            JobState::Failed => "FAILED",
        }
    }
}

/// A snapshot of a job's status.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// Request of the job.
    pub record: JobRecord,
    /// State of the job.
    pub state: JobState,
    /// Error that ended the job, if it failed.
    pub failure: Option<String>,
    /// Messages for the user; before the job has ended, only messages of the job itself, not of its search.
    pub messages: Vec<String>,
    /// Reason why the job waits for a search slot, if it is waiting.
    pub waiting: Option<String>,
    /// Hints about rows or values that the result lacks and about slow parts of the search; empty before the job has
    /// ended.
    pub hints: Vec<String>,
    /// Progress from 0 to 1.
    pub done: f64,
    /// Number of rows so far.
    pub rows: usize,
    /// Whether the rows are events.
    pub is_events: bool,
    /// Number of fields of the events; 0 if the rows are not events.
    pub event_fields: usize,
    /// Whether rows beyond the limit were dropped.
    pub is_truncated: bool,
    /// Whether the job is paused, or was asked to pause after its end.
    pub is_paused: bool,
    /// Whether the job was finalised, before or after its end.
    pub is_finalized: bool,
    /// Whether rows are missing because they were dropped beyond the limit or because events were not read.
    pub is_partial: bool,
    /// Whether the user saved the job.
    pub is_saved: bool,
    /// Whether clients ask for previews; initially true only for a real-time search or if the request says so.
    pub asks_previews: bool,
    /// Time of the job's start, or of the last request that changed its lifetime.
    pub updated_ns: TimeNs,
    /// Number of previews made.
    pub previews: u64,
    /// Number of rows currently available; for a running report, the number of rows of its latest preview.
    pub rows_shown: usize,
    /// Number of events scanned.
    pub scanned: u64,
    /// Number of events that passed the search condition.
    pub matched: u64,
    /// Counters of reads from buckets on remote volumes.
    pub reads: ReadStats,
    /// Costs of the parts of the search; empty for a real-time search.
    pub costs: CostReport,
    /// Run time in milliseconds.
    pub elapsed_ms: u64,
    /// Size of the rows on disk in bytes.
    pub bytes: u64,
    /// Time range.
    pub range: TimeRange,
    /// Times of the earliest and latest event, if the rows are events.
    pub event_times: Option<(TimeNs, TimeNs)>,
    /// Seconds until the job expires.
    pub ttl_left_s: i64,
}

pub(super) struct MutableState {
    pub(super) state: JobState,
    failure: Option<String>,
    messages: Vec<String>,
    /// Messages of the job, in addition to messages of its search.
    pub(super) notes: Vec<String>,
    /// Reason why the job waits for a search slot.
    waiting: Option<String>,
    hints: Vec<String>,
    pub(super) rows: JobRows,
    pub(super) timeline: Timeline,
    /// Whether a request has begun to read the timeline of the running report.
    pub(super) is_timeline_begun: bool,
    is_truncated: bool,
    pub(super) is_finalized: bool,
    /// Whether some data that the search selects was not read.
    is_unread: bool,
    is_saved: bool,
    shows_previews: bool,
    /// Whether clients ask for previews; initially true only for a real-time search or if the request says so.
    asks_previews: bool,
    /// Whether a request paused or finalised the job after its end. Only the shown status changes: a client waits until
    /// the status confirms its request, and a short search may have ended before that request.
    pub(super) is_paused_late: bool,
    pub(super) is_finalized_late: bool,
    /// Time in seconds of the last request that changed the job's lifetime.
    touched_s: Option<i64>,
    pub(super) is_removed: bool,
    priority: Arc<AtomicU8>,
    pub(super) counts: Counts,
    costs: CostReport,
    elapsed_ms: u64,
    /// Run time of the search while it runs.
    pub(super) run: RunClock,
    /// Fields that clients have stored with the job.
    pub(super) custom: BTreeMap<String, String>,
    /// Other readers and writers of the job.
    pub(super) sharing: JobSharing,
    /// Lifetime in seconds, if a request has changed it.
    ttl_s: Option<i64>,
    /// Time in seconds at which the job expires; `None` before its search has ended.
    until_s: Option<i64>,
    /// Search slot that the job occupies.
    pub(super) slot: Option<Box<dyn SearchSlot>>,
    /// The last complete round of a real-time search, and the number of complete rounds.
    pub(super) round: Option<Round>,
    pub(super) rounds: u64,
}

/// A job as described in [`crate::jobs`].
pub struct SearchJob {
    pub(super) record: JobRecord,
    pub(super) is_events: bool,
    range: TimeRange,
    pub(super) zone: TimeZone,
    changing: Mutex<MutableState>,
    pub(super) changed: Condvar,
    /// Stops the search; `None` for a job of an earlier process.
    pub(super) stopper: Option<Stopper>,
    progress: Option<Arc<ScanProgress>>,
    costs: Option<Arc<Costs>>,
    /// Previews of the report; `None` for a job of an earlier process and for a real-time search.
    previews: Option<Arc<Previews>>,
    /// Stops the current round of a real-time search.
    pub(super) round_stopper: Mutex<Option<Stopper>>,
    pub(super) job_store: Arc<JobStore>,
    pub(super) clock: SharedClock,
    /// Time in seconds of the last access.
    pub(super) seen_s: AtomicI64,
}

/// A created job whose search has not started to read.
pub struct StartedJob {
    job: Arc<SearchJob>,
    running: RunningSearch,
    /// The rounds, if the search is a real-time search; no rows of `running` are read in this case.
    rounds: Option<Rounds>,
    /// Inspects the rows for hints; `None` if the client wants no hints, and for real-time and sampled searches.
    watch: Option<AnswerWatch>,
}

impl StartedJob {
    pub(super) fn new(
        (running, rounds): (RunningSearch, Option<Rounds>),
        watch: Option<AnswerWatch>,
        (record, notes): (JobRecord, Vec<String>),
        zone: TimeZone,
        (kept, bytes_max): (Arc<JobStore>, u64),
        clock: SharedClock,
    ) -> StartedJob {
        let rows = JobRows::new(kept.rows_path(&record.sid)).with_bytes_max(bytes_max);
        let changing = MutableState { notes, ..MutableState::new(JobState::Queued, rows, &record) };
        let job = SearchJob {
            is_events: running.is_events(),
            range: running.range(),
            zone,
            changing: Mutex::new(changing),
            changed: Condvar::new(),
            stopper: Some(running.stopper()),
            progress: rounds.is_none().then(|| running.shared_progress()),
            costs: rounds.is_none().then(|| running.measure_costs()),
            previews: rounds.is_none().then(|| running.previews()),
            round_stopper: Mutex::default(),
            seen_s: AtomicI64::new(clock.now_ns().div_euclid(NS_PER_SEC)),
            record,
            job_store: kept,
            clock,
        };
        if job.record.previews == Some(false) {
            job.set_previews_shown(false);
        }
        StartedJob { job: Arc::new(job), running, rounds, watch }
    }

    /// The job, which may be shared with other threads.
    pub fn job(&self) -> &Arc<SearchJob> {
        &self.job
    }

    /// Runs the search to its end on this thread, in search slot `turn` if searches are limited. Errors are recorded in
    /// the job.
    pub fn run(mut self, turn: Option<Box<dyn SearchSlot>>) {
        self.job.mark_started();
        self.job.continue_in_slot(turn);
        if let Some(rounds) = self.rounds.take() {
            return self.run_rounds(&rounds);
        }
        let ended = self.take_rows();
        if self.running.has_reached_row_limit() {
            self.job.lock().is_truncated = true;
        }
        let cut_message = self.job.note_early_end(&self.running);
        if ended.is_ok() {
            let mut hints = self.hints();
            hints.extend(self.slow_search_message());
            self.job.lock().hints = hints;
        }
        let mut messages = self.running.messages();
        let (bytes, bytes_max) = {
            let changing = self.job.lock();
            (changing.rows.bytes(), changing.rows.bytes_max())
        };
        if bytes >= bytes_max {
            let why = if bytes_max < RESULT_BYTES_MAX {
                format!("{} MB of srchDiskQuota were left for this job", bytes_max >> 20)
            } else {
                format!("the rows of a job are limited to {} MB", RESULT_BYTES_MAX >> 20)
            };
            messages.push(format!("the rows are truncated: {why}"));
        }
        messages.extend(cut_message);
        self.job.end(ended, messages, self.running.is_partial(), self.running.elapsed_ms());
        self.job.take_slot();
    }

    /// Repeats a real-time search until it is ended.
    fn run_rounds(self, rounds: &Rounds) {
        let began_ns = self.job.clock.elapsed_ns();
        let ended = self.job.repeat(rounds);
        let messages = self.job.lock().round.as_ref().map(|round| round.messages.clone()).unwrap_or_default();
        let elapsed_ms = u64::try_from((self.job.clock.elapsed_ns() - began_ns) / 1_000_000).unwrap_or(0);
        self.job.end(ended, messages, false, elapsed_ms);
        self.job.take_slot();
    }

    /// Fails the job without running it.
    pub fn refuse(self, why: String) {
        self.job.end(Err(JobFailure::Refused(why)), self.running.messages(), false, 0);
    }

    /// Hints about a complete result; none if the result is partial or the job was finalised or cancelled.
    fn hints(&self) -> Vec<String> {
        let job = &self.job;
        let is_cut = || {
            let changing = job.lock();
            changing.is_truncated || changing.is_finalized || changing.is_removed
        };
        let watch = self.watch.as_ref().filter(|_| !self.running.is_partial() && !is_cut());
        watch.map(|watch| watch.find_hints(&is_cut)).unwrap_or_default()
    }

    /// Message about the part that made the search slow, if the client wants hints.
    fn slow_search_message(&self) -> Option<String> {
        let costs = self.job.costs.as_ref().filter(|_| self.watch.is_some())?;
        costs::slow_search_message(&costs.report(), self.running.elapsed_ms())
    }

    fn take_rows(&mut self) -> Result<(), JobFailure> {
        let (mut is_large, mut reading) = (false, None);
        let stopper = self.running.stopper();
        'batches: while let Some(rows) = self.running.next_rows()? {
            if self.job.state() == JobState::Paused {
                self.release_memory();
            }
            stopper.wait_while_paused();
            if let Some(watch) = &mut self.watch {
                watch.observe_rows(&ResultTable::new(vec![rows.clone()], watch.zone().clone()));
            }
            // A batch without rows declares columns.
            for start in (0..rows.num_rows().max(1)).step_by(STORED_ROWS) {
                // Some time after the search was finalised, the job ends with its first rows: to store hundreds of
                // thousands of rows takes half a second.
                let is_late = reading.is_some_and(|reading| stopper.should_end_rows(reading));
                reading.get_or_insert_with(|| stopper.begin_work());
                let part = rows.slice(start, STORED_ROWS.min(rows.num_rows() - start));
                if is_late || self.job.add_rows(&part)? == Capacity::Full {
                    self.running.cancel();
                    break 'batches;
                }
            }
            drop(rows);
            if !is_large && self.job.lock().rows.bytes() > SENT_BYTES as u64 {
                is_large = true;
                // A paused job has no slot; it gets a slot when it resumes.
                if let Some(turn) = self.job.take_slot() {
                    let turn = turn.grow(&mut || self.release_memory());
                    self.job.continue_in_slot(turn);
                }
            }
        }
        Ok(())
    }

    /// Reduces the memory of the search while it waits.
    fn release_memory(&mut self) {
        // Spilling rows should not fail here, because no rows are pending: each batch is taken as soon as the search
        // produces it.
        if let Err(error) = self.running.release_memory() {
            log::warning(format!("rows of a job that waits stay in memory: {error}"));
        }
    }
}

fn whole_ms(elapsed_ns: i64) -> u64 {
    u64::try_from(elapsed_ns / 1_000_000).unwrap_or(0)
}

/// Reason why a job has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobFailure {
    #[error(transparent)]
    Search(#[from] SearchError),
    #[error("{0}")]
    Refused(String),
}

impl MutableState {
    pub(super) fn new(state: JobState, rows: JobRows, record: &JobRecord) -> MutableState {
        MutableState {
            state,
            failure: None,
            messages: Vec::new(),
            notes: Vec::new(),
            waiting: None,
            hints: Vec::new(),
            rows,
            timeline: Timeline::new(record.status_buckets),
            is_timeline_begun: false,
            is_truncated: false,
            is_finalized: false,
            is_unread: false,
            is_saved: false,
            shows_previews: true,
            asks_previews: record.previews.unwrap_or(record.is_real_time),
            is_paused_late: false,
            is_finalized_late: false,
            touched_s: None,
            is_removed: false,
            priority: Arc::new(AtomicU8::new(record.priority)),
            counts: Counts::default(),
            costs: CostReport::default(),
            elapsed_ms: 0,
            run: RunClock::default(),
            custom: record.custom.clone(),
            sharing: record.sharing.clone(),
            ttl_s: None,
            until_s: None,
            slot: None,
            round: None,
            rounds: 0,
        }
    }

    /// The rows of the last round of a running real-time search.
    fn live_rows(&self) -> Option<&[RecordBatch]> {
        self.round.as_ref().filter(|_| !self.state.is_over()).map(|round| round.rows.as_slice())
    }

    /// The current priority.
    pub(super) fn priority(&self) -> u8 {
        self.priority.load(Ordering::Relaxed)
    }

    fn ttl_of(&self, record: &JobRecord) -> i64 {
        self.ttl_s.unwrap_or(record.ttl_s)
    }

    /// Records the times of events.
    fn count_times(&mut self, rows: &RecordBatch) {
        let Some(times) = times_of(rows) else { return };
        times.iter().flatten().for_each(|time| self.timeline.add(time));
    }
}

impl SearchJob {
    /// A finished job from its facts; `None` if they cannot be read.
    pub(super) fn from_facts(sid: &str, facts: &Value, kept: Arc<JobStore>, clock: SharedClock) -> Option<SearchJob> {
        let record: JobRecord = serde_json::from_value(facts["job"].clone()).ok()?;
        let failure = facts["failure"].as_str().map(str::to_owned);
        let path = kept.rows_path(sid);
        let number = |name: &str| facts[name].as_u64().unwrap_or(0);
        let rows = match (&failure, number("rows")) {
            (None, rows @ 1..) => {
                let fields = usize::try_from(number("fields")).unwrap_or(0);
                JobRows::from_file(path, usize::try_from(rows).ok()?, fields, number("bytes"))
            }
            _ => JobRows::new(path),
        };
        let state = if failure.is_some() { JobState::Failed } else { JobState::Done };
        let flag = |name: &str| facts[name].as_bool().unwrap_or(false);
        let texts_of = |name: &str| -> Vec<String> {
            let texts = facts[name].as_array().into_iter().flatten();
            texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let changing = MutableState {
            failure,
            timeline: Timeline::from_json(&facts["timeline"]).unwrap_or_else(|| Timeline::new(0)),
            messages: texts_of("messages"),
            hints: texts_of("hints"),
            is_truncated: flag("truncated"),
            is_finalized: flag("finalized"),
            is_unread: facts["partial"].as_bool().unwrap_or_else(|| flag("finalized")),
            is_saved: flag("saved_by_user"),
            counts: Counts::from_facts(facts),
            costs: costs::from_facts(&facts["costs"]),
            elapsed_ms: number("elapsed_ms"),
            until_s: facts["until"].as_i64(),
            ..MutableState::new(state, rows, &record)
        };
        let is_events = facts["events"].as_bool().unwrap_or(false);
        let time = |name: &str| facts[name].as_i64();
        let range = TimeRange { earliest: time("earliest_ns"), latest: time("latest_ns") };
        let job = SearchJob::without_search(record, changing, (kept, clock));
        // A job of an older version has no zone.
        let zone = facts["zone"].as_str().and_then(parse_zone).unwrap_or(TimeZone::UTC);
        Some(SearchJob { is_events, range, zone, ..job })
    }

    /// A job with no running search; its rows are not events.
    pub(super) fn without_search(
        record: JobRecord,
        changing: MutableState,
        (job_store, clock): (Arc<JobStore>, SharedClock),
    ) -> SearchJob {
        SearchJob {
            is_events: false,
            range: TimeRange::default(),
            zone: TimeZone::UTC,
            changing: Mutex::new(changing),
            changed: Condvar::new(),
            stopper: None,
            progress: None,
            costs: None,
            previews: None,
            round_stopper: Mutex::default(),
            seen_s: AtomicI64::new(clock.now_ns().div_euclid(NS_PER_SEC)),
            record,
            job_store,
            clock,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, MutableState> {
        // A poisoned lock is harmless: each change is complete before anything can panic.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_s(&self) -> i64 {
        self.clock.now_ns().div_euclid(NS_PER_SEC)
    }

    /// Name of the job.
    pub fn sid(&self) -> &str {
        &self.record.sid
    }

    /// User who created the job.
    pub fn user(&self) -> &str {
        &self.record.user
    }

    /// Whether the job runs a real-time search.
    pub fn is_real_time(&self) -> bool {
        self.record.is_real_time()
    }

    /// Creation time.
    pub fn began_ns(&self) -> TimeNs {
        self.record.began_ns
    }

    /// Current state.
    pub fn state(&self) -> JobState {
        self.lock().state
    }

    /// Parameters of a search for the events behind the job's report: the events that the report read and that still
    /// exist, at most `rows_max`.
    pub fn source_events_search(&self, permissions: Arc<Permissions>, rows_max: usize) -> SearchParams {
        SearchParams {
            text: self.record.search.clone(),
            zone: Some(self.zone.clone()),
            rows_max: Some(rows_max),
            permissions,
            shape: SearchShape {
                sample: self.record.sample_ratio,
                events_until: Some(self.record.began_ns),
                arrived: self.record.arrived,
                skips_lookups: self.record.skips_lookups,
                ..SearchShape::default()
            },
            now: Some(self.record.now_ns.unwrap_or(self.record.began_ns)),
            range: Some(self.range),
            is_internal: true,
            ..SearchParams::default()
        }
    }

    /// Whether the job and its rows have been removed.
    pub fn is_removed(&self) -> bool {
        self.lock().is_removed
    }

    /// Whether the rows of the job are events.
    pub fn is_events(&self) -> bool {
        self.is_events
    }

    /// Time zone in which times are shown.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Records an access.
    pub fn record_access(&self) {
        self.seen_s.store(self.now_s(), Ordering::Relaxed);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        let unseen = self.now_s() - self.seen_s.load(Ordering::Relaxed);
        self.record.auto_cancel_s > 0 && unseen > self.record.auto_cancel_s && !self.state().is_over()
    }

    pub(super) fn is_expired(&self) -> bool {
        self.lock().until_s.is_some_and(|until| until <= self.now_s())
    }

    /// Size of the rows in bytes, which counts towards the user's quota.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().rows.bytes()
    }

    /// Current status.
    pub fn status(&self) -> JobStatus {
        let changing = self.lock();
        let mut counts = changing.counts;
        let mut done = 1.0;
        if let Some(progress) = self.progress.as_ref().filter(|_| !changing.state.is_over()) {
            counts = Counts::from_progress(progress);
            done = f64_of(progress.pages_done()) / f64_of(progress.pages_total().max(1));
        }
        let elapsed_ms = match changing.state.is_over() || !changing.run.has_started() {
            true => changing.elapsed_ms,
            false => whole_ms(changing.run.elapsed_ns(self.clock.elapsed_ns())),
        };
        JobStatus {
            record: self.current_record(&changing),
            state: changing.state,
            failure: changing.failure.clone(),
            messages: match changing.state.is_over() {
                true => changing.messages.clone(),
                false => changing.notes.clone(),
            },
            waiting: changing.waiting.clone().filter(|_| changing.state == JobState::Queued),
            hints: if changing.state.is_over() { changing.hints.clone() } else { Vec::new() },
            done: done.min(1.0),
            rows: changing.rows.len(),
            is_events: self.is_events,
            event_fields: match changing.live_rows() {
                _ if !self.is_events => 0,
                Some(rows) => RowsView::from_batches(rows, 0, 0).field_count(),
                None => changing.rows.field_count(),
            },
            is_truncated: changing.is_truncated,
            is_paused: changing.state == JobState::Paused || changing.is_paused_late,
            is_finalized: changing.is_finalized || changing.is_finalized_late,
            is_partial: changing.is_truncated || changing.is_unread,
            is_saved: changing.is_saved,
            asks_previews: changing.asks_previews,
            updated_ns: changing.touched_s.map_or(self.record.began_ns(), |touched| touched * NS_PER_SEC),
            previews: self.previews.as_ref().map_or(changing.rounds, |previews| previews.made_count()),
            rows_shown: match &self.previews {
                _ if changing.live_rows().is_some() => changing.round.as_ref().map_or(0, Round::len),
                Some(previews) if changing.rows.len() == 0 => previews.rows(),
                _ => changing.rows.len(),
            },
            scanned: counts.scanned,
            matched: counts.matched,
            reads: counts.reads,
            costs: match &self.costs {
                Some(costs) if !changing.state.is_over() => costs.report(),
                _ => changing.costs.clone(),
            },
            elapsed_ms,
            bytes: changing.rows.bytes(),
            range: self.range,
            event_times: changing.timeline.bounds(),
            ttl_left_s: changing.until_s.map_or(changing.ttl_of(&self.record), |until| (until - self.now_s()).max(0)),
        }
    }

    /// Waits for the job's end, up to a timeout; returns whether it has ended.
    pub fn wait(&self, most: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), most, |changing| !changing.state.is_over());
        waited.is_ok_and(|(changing, _)| changing.state.is_over())
    }

    /// Available rows from number `offset` on, at most `count`.
    pub fn rows(&self, offset: usize, count: usize) -> Result<RowsView, SearchError> {
        let mut changing = self.lock();
        if let Some(rows) = changing.live_rows() {
            return Ok(RowsView::from_batches(rows, offset, count));
        }
        Ok(changing.rows.view(offset, count)?)
    }

    /// Like [`SearchJob::rows`], but a report that has no rows yet returns the rows of its latest preview.
    pub fn preview(&self, offset: usize, count: usize) -> Result<RowsView, SearchError> {
        let view = {
            let mut changing = self.lock();
            if let Some(rows) = changing.live_rows().filter(|_| changing.shows_previews) {
                return Ok(RowsView::from_batches(rows, offset, count));
            }
            let has_rows = changing.rows.len() > 0 || changing.state.is_over() || !changing.shows_previews;
            has_rows.then(|| changing.rows.view(offset, count))
        };
        if let Some(view) = view {
            return Ok(view?);
        }
        let rows = self.previews.as_ref().and_then(|previews| previews.poll()).map(|preview| preview.rows);
        Ok(RowsView::from_batches(&rows.unwrap_or_default(), offset, count))
    }

    /// Event counts over time.
    pub fn timeline(&self) -> Timeline {
        self.lock().timeline.clone()
    }

    /// Field statistics of the rows so far; for a running report, statistics of the latest preview.
    pub fn summary(&self, request: &SummaryRequest) -> Result<JobSummary, SearchError> {
        let (live, times) = {
            let changing = self.lock();
            let live = changing.live_rows().map(|rows| RowsView::from_batches(rows, 0, usize::MAX));
            (live, changing.timeline.bounds())
        };
        let view = live.map_or_else(|| self.preview(0, usize::MAX), Ok)?;
        request.summarise(view, times, &self.zone)
    }

    fn mark_started(&self) {
        let mut changing = self.lock();
        let now_ns = self.clock.elapsed_ns();
        changing.run.start(now_ns);
        changing.waiting = None;
        self.limit_run_time(&changing.run);
        if let Some(previews) = &self.previews {
            previews.enable(&self.clock);
        }
        // The job may have been paused or finalised while it waited for a slot.
        match changing.state {
            JobState::Queued => changing.state = JobState::Running,
            JobState::Paused => changing.run.pause(now_ns),
            _ => {}
        }
    }

    pub(super) fn add_rows(&self, rows: &RecordBatch) -> Result<Capacity, SearchError> {
        let mut changing = self.lock();
        if changing.is_removed {
            // A new job of this name may own the folder by now.
            return Ok(Capacity::Full);
        }
        if self.is_events {
            changing.count_times(rows);
        }
        let room = changing.rows.push(rows)?;
        changing.is_truncated |= room == Capacity::Full;
        self.changed.notify_all();
        Ok(room)
    }

    /// Ends the job. `is_partial` is true if some data that the search selects was not read.
    pub(super) fn end(&self, ended: Result<(), JobFailure>, messages: Vec<String>, is_partial: bool, elapsed_ms: u64) {
        if let Some(previews) = &self.previews {
            previews.end();
        }
        let mut changing = self.lock();
        changing.is_unread = is_partial;
        changing.messages = messages;
        let notes = changing.notes.clone();
        changing.messages.extend(notes);
        if changing.is_truncated {
            let rows = changing.rows.len();
            changing.messages.push(format!("the job found more than {rows} rows, and keeps the first of them"));
        }
        // The run clock has not started if the job was refused.
        changing.elapsed_ms = match changing.run.has_started() {
            true => whole_ms(changing.run.elapsed_ns(self.clock.elapsed_ns())),
            false => elapsed_ms,
        };
        if let Some(progress) = &self.progress {
            changing.counts = Counts::from_progress(progress);
        }
        if let Some(costs) = &self.costs {
            changing.costs = costs.report();
        }
        changing.until_s = Some(self.now_s().saturating_add(changing.ttl_of(&self.record)));
        let ended = ended.and_then(|()| match changing.is_removed {
            // A new job of this name may own the folder by now.
            true => Ok(()),
            false => changing.rows.flush().map_err(|error| SearchError::from(error).into()),
        });
        match ended {
            Ok(()) => changing.state = JobState::Done,
            Err(error) => {
                changing.failure = Some(error.to_string());
                changing.state = JobState::Failed;
            }
        }
        if !changing.is_removed {
            self.write_outcome(&mut changing);
        }
        self.changed.notify_all();
    }

    /// Writes the outcome. If the write fails, a message says that the job will not survive a restart of the server.
    fn write_outcome(&self, changing: &mut MutableState) {
        let record = &self.record;
        let facts = JobFacts {
            sid: record.sid.clone(),
            user: record.user.clone(),
            search: record.search.clone(),
            saved: record.saved.clone(),
            started: record.began_ns,
            elapsed_ms: changing.elapsed_ms,
            events_scanned: changing.counts.scanned,
            rows: changing.rows.len() as u64,
            events: self.is_events,
            messages: changing.messages.clone(),
        };
        let mut more = json!({
            "job": self.current_record(changing), "finalized": changing.is_finalized, "truncated": changing.is_truncated,
            "partial": changing.is_unread, "saved_by_user": changing.is_saved, "elapsed_ms": changing.elapsed_ms,
            "zone": zone_name(&self.zone), "hints": changing.hints, "earliest_ns": self.range.earliest, "latest_ns": self.range.latest, "timeline": changing.timeline,
        });
        changing.counts.record(&mut more);
        if !changing.costs.is_empty() {
            more["costs"] = costs::to_facts(&changing.costs);
        }
        match &changing.failure {
            Some(failure) => more["failure"] = failure.as_str().into(),
            None => {
                more["bytes"] = changing.rows.bytes().into();
                more["fields"] = changing.rows.field_count().into();
            }
        }
        if let Err(error) = self.job_store.end_job(&facts, changing.until_s.unwrap_or(0), &more) {
            changing.messages.push(format!("the job will not survive a restart of the server: {error}"));
        }
    }

    /// Records why the job waits for a search slot.
    pub fn set_waiting(&self, why: String) {
        self.lock().waiting = Some(why);
    }

    /// Ends the search without a result, and writes nothing more. Returns false if the job was cancelled before.
    pub(super) fn cancel(&self) -> bool {
        let was_removed = std::mem::replace(&mut self.lock().is_removed, true);
        if let Some(stopper) = &self.stopper {
            stopper.cancel();
        }
        self.stop_round();
        !was_removed
    }

    /// Sets the expiry to `seconds` from now or, if the search still runs, from its end.
    pub fn set_ttl(&self, seconds: i64) {
        let seconds = seconds.clamp(0, TTL_MAX_S);
        let mut changing = self.lock();
        changing.ttl_s = Some(seconds);
        self.renew(&mut changing);
    }

    /// Restarts the lifetime of the job.
    pub fn touch(&self) {
        self.renew(&mut self.lock());
    }

    /// Extends the lifetime to [`SAVED_TTL_S`], or resets it to the lifetime that was requested.
    pub fn save(&self, is_saved: bool) {
        let mut changing = self.lock();
        changing.is_saved = is_saved;
        changing.ttl_s = Some(if is_saved { SAVED_TTL_S } else { self.record.ttl_s });
        self.renew(&mut changing);
    }

    fn renew(&self, changing: &mut MutableState) {
        changing.touched_s = Some(self.now_s());
        if changing.until_s.is_none() {
            return;
        }
        let until = self.now_s().saturating_add(changing.ttl_of(&self.record));
        changing.until_s = Some(until);
        let is_saved = changing.is_saved;
        let written = self.job_store.update_facts(&self.record.sid, |facts| {
            facts["until"] = until.into();
            facts["saved_by_user"] = is_saved.into();
        });
        if let Err(error) = written {
            changing
                .messages
                .push(format!("the job's new expiry time will not survive a restart of the server: {error}"));
        }
    }

    /// Sets the priority, which decides when a waiting search gets a slot.
    pub fn set_priority(&self, priority: u8) {
        self.lock().priority.store(priority, Ordering::Relaxed);
    }

    /// The priority, which may change while the search waits.
    pub fn shared_priority(&self) -> Arc<AtomicU8> {
        Arc::clone(&self.lock().priority)
    }

    /// Sets whether previews are shown.
    pub fn set_previews_shown(&self, shows: bool) {
        {
            let mut changing = self.lock();
            changing.shows_previews = shows;
            changing.asks_previews = shows;
        }
        if let Some(previews) = &self.previews {
            previews.set_active(shows);
        }
    }
}
