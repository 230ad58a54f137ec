//! Jobs of real-time searches: the search is rerun, each time over the current window.
//!
//! Each run is a *round*, and its rows replace the rows of the previous round. Sealed data does not change, so most of
//! a round is answered from cached partial states. The pause after a round is as long as the round itself, so that
//! rounds take at most half of the time, except slow rounds: the pause is at most [`PAUSE_MAX_NS`]. Finalising keeps
//! the rows of the last complete round as the result.
//!
//! Not here: the meaning of a window ([`crate::real_time`]).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::TimestampNanosecondType;
use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_event::TimeNs;

use super::counts::Counts;
use super::job::{JobFailure, SearchJob};
use super::timeline::Timeline;
use crate::error::SearchError;
use crate::job_recorder::copy_texts;
use crate::real_time::RealTimeWindow;
use crate::service::{RunningSearch, SearchParams, SearchService};

/// Maximum number of rows of a round. Beyond this number, only the first rows are kept (if the rows are events, the
/// newest).
pub const ROUND_ROWS_MAX: usize = 50_000;
/// Maximum bytes of the rows of a round; further rows are omitted.
pub(crate) const ROUND_BYTES_MAX: usize = 32 << 20;
/// Minimum pause between two rounds.
const PAUSE_MIN_NS: i64 = 300_000_000;
/// Maximum pause between two rounds.
const PAUSE_MAX_NS: i64 = 10_000_000_000;

/// The pause after a round: as long as the round took, within the limits.
pub(crate) fn pause_after(took_ns: i64) -> Duration {
    Duration::from_nanos(took_ns.clamp(PAUSE_MIN_NS, PAUSE_MAX_NS).unsigned_abs())
}

/// The rounds of a job.
pub(crate) struct Rounds {
    service: Arc<SearchService>,
    params: SearchParams,
    window: RealTimeWindow,
    zone: TimeZone,
}

/// Results of a round.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) rows: Vec<RecordBatch>,
    pub(super) messages: Vec<String>,
    pub(super) timeline: Timeline,
    pub(super) counts: Counts,
}

impl Round {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.iter().map(RecordBatch::num_rows).sum()
    }
}

impl Rounds {
    /// Prepares the rounds of a job that begins at time `now`, after checking that its user may run the search. Also
    /// returns a running search, which only serves to control the job: its rows are not read.
    pub(crate) fn start(
        service: &Arc<SearchService>,
        params: SearchParams,
        window: &RealTimeWindow,
        (zone, now, is_backfilled): (&TimeZone, TimeNs, bool),
    ) -> Result<(RunningSearch, Rounds), SearchError> {
        let shape = window.apply_to_shape(params.shape.clone(), now, is_backfilled);
        let rows_max = params.rows_max.unwrap_or(ROUND_ROWS_MAX).min(ROUND_ROWS_MAX);
        let params = SearchParams { shape, rows_max: Some(rows_max), earliest: None, latest: None, ..params };
        service.check_permitted(params.clone())?;
        let rounds = Rounds { service: Arc::clone(service), params, window: window.clone(), zone: zone.clone() };
        let running = rounds.begin(now)?;
        Ok((running, rounds))
    }

    pub(crate) fn begin(&self, now: TimeNs) -> Result<RunningSearch, SearchError> {
        let range = self.window.range(now, &self.zone)?;
        self.service.start_on_reader_thread(SearchParams { range: Some(range), now: Some(now), ..self.params.clone() })
    }
}

impl SearchJob {
    /// Runs rounds until the job is ended; the rows of the last complete round become the job's result.
    pub(super) fn repeat(&self, rounds: &Rounds) -> Result<(), JobFailure> {
        while !self.is_ending() {
            if let Some(stopper) = &self.stopper {
                stopper.wait_while_paused();
            }
            let began_ns = self.clock.elapsed_ns();
            let round = self.run_round(rounds)?;
            if let Some(round) = round.filter(|_| !self.is_ending()) {
                self.show_round(round);
            }
            let took_ns = self.clock.elapsed_ns() - began_ns;
            self.pause_between_rounds(pause_after(took_ns));
        }
        let mut changing = self.lock();
        let is_removed = changing.is_removed;
        let rows: Vec<RecordBatch> = changing.round.iter().flat_map(|round| round.rows.iter().cloned()).collect();
        for batch in rows.iter().filter(|_| !is_removed) {
            changing.rows.push(batch).map_err(SearchError::from)?;
        }
        Ok(())
    }

    /// Runs one round; `None` if the round was stopped.
    fn run_round(&self, rounds: &Rounds) -> Result<Option<Round>, JobFailure> {
        let mut running = rounds.begin(self.clock.now_ns())?;
        *self.round_stopper.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.stopper());
        // The job may have been ended before `round_stopper` was set.
        if self.is_ending() {
            return Ok(None);
        }
        let mut timeline = Timeline::new(self.record.status_buckets);
        let (mut rows, mut bytes, mut is_cut) = (Vec::new(), 0, false);
        while let Some(batch) = self.next_round_rows(&mut running)? {
            // Rows outlive the search, and must not keep its pages in memory.
            let batch = copy_texts(&batch);
            bytes += batch.get_array_memory_size();
            is_cut = bytes > ROUND_BYTES_MAX;
            if is_cut {
                running.cancel();
                break;
            }
            if self.is_events {
                count_times(&batch, &mut timeline);
            }
            rows.push(batch);
        }
        if self.is_ending() {
            return Ok(None);
        }
        let mut messages = running.messages();
        if is_cut || running.has_reached_row_limit() {
            messages
                .push("the window has more rows than a real-time search keeps: the first ones are shown".to_owned());
        }
        let progress = running.progress();
        Ok(Some(Round { rows, messages, timeline, counts: Counts::from_progress(progress) }))
    }

    /// The next rows of a round. Errors of a round that was stopped are ignored.
    fn next_round_rows(&self, running: &mut RunningSearch) -> Result<Option<RecordBatch>, SearchError> {
        match running.next_rows() {
            Err(_) if self.is_ending() => Ok(None),
            next => next,
        }
    }

    /// Replaces the shown rows with the rows of a new round.
    fn show_round(&self, round: Round) {
        let mut changing = self.lock();
        changing.counts = round.counts;
        changing.timeline = round.timeline.clone();
        changing.round = Some(round);
        changing.rounds += 1;
    }

    /// Whether the job has been finalised or removed.
    fn is_ending(&self) -> bool {
        let changing = self.lock();
        changing.is_finalized || changing.is_removed
    }

    /// Waits between two rounds, unless the job is ended.
    fn pause_between_rounds(&self, pause: Duration) {
        let is_on = |changing: &mut super::job::MutableState| !changing.is_finalized && !changing.is_removed;
        drop(self.changed.wait_timeout_while(self.lock(), pause, is_on));
    }

    /// Stops the current round or pause.
    pub(super) fn stop_round(&self) {
        let stopper = self.round_stopper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stopper) = stopper.as_ref() {
            stopper.cancel();
        }
        self.changed.notify_all();
    }
}

/// Adds the times of events to a timeline.
fn count_times(rows: &RecordBatch, timeline: &mut Timeline) {
    let times = rows.column_by_name("_time");
    let Some(times) = times.and_then(|times| times.as_primitive_opt::<TimestampNanosecondType>()) else { return };
    times.iter().flatten().for_each(|time| timeline.add(time));
}
