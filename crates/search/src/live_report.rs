//! Reports over a real-time window, for a client that reads each new version.
//!
//! The report is recomputed in rounds, as in a job over the window ([`crate::jobs`]), and returned when its rows have
//! changed. Neither the rows nor the outcome is stored.
//!
//! Not here: searches for events as they arrive ([`crate::real_time`]).

use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_stdx::SharedClock;

use crate::ResultTable;
use crate::error::SearchError;
use crate::job_recorder::copy_texts;
use crate::jobs::{ROUND_BYTES_MAX, Rounds, pause_after};
use crate::real_time::RealTimeWindow;
use crate::service::{SearchParams, SearchService};

/// A report that is recomputed in rounds.
pub struct LiveReport {
    rounds: Rounds,
    clock: SharedClock,
    zone: TimeZone,
    /// Start of the next round, on the clock's monotonic time.
    next_ns: i64,
    /// The rows that were shown last.
    shown: Option<Vec<RecordBatch>>,
}

/// The current report.
#[derive(Debug)]
pub struct ReportRows {
    /// Rows of the report.
    pub rows: ResultTable,
    /// Messages of the search.
    pub messages: Vec<String>,
}

impl LiveReport {
    /// Whether the rows of a search are a report.
    pub fn is_report(service: &SearchService, params: &SearchParams) -> Result<bool, SearchError> {
        let params = SearchParams { is_internal: true, ..params.clone() };
        Ok(!service.start_on_reader_thread(params)?.is_events())
    }

    /// Checks the search, without beginning a round. With `is_backfilled`, the window includes events that arrived
    /// before this call.
    pub fn new(
        service: &Arc<SearchService>,
        params: SearchParams,
        window: &RealTimeWindow,
        is_backfilled: bool,
    ) -> Result<LiveReport, SearchError> {
        let (zone, clock) = (params.zone.clone().unwrap_or_else(|| service.zone()), service.clock());
        let params = SearchParams { is_internal: true, ..params };
        let (running, rounds) = Rounds::start(service, params, window, (&zone, clock.now_ns(), is_backfilled))?;
        // The search was started only to check it.
        drop(running);
        let next_ns = clock.elapsed_ns();
        Ok(LiveReport { rounds, clock, zone, next_ns, shown: None })
    }

    /// Waits at most `most` for the next round and runs the round. Returns the report if its rows have changed; `None`
    /// if the rows are unchanged or no round was due.
    pub fn next(&mut self, most: Duration) -> Result<Option<ReportRows>, SearchError> {
        let began_ns = self.clock.elapsed_ns();
        let wait = Duration::from_nanos(u64::try_from(self.next_ns - began_ns).unwrap_or(0));
        if !wait.is_zero() {
            std::thread::park_timeout(wait.min(most));
        }
        if wait > most {
            return Ok(None);
        }
        let mut running = self.rounds.begin(self.clock.now_ns())?;
        let (mut rows, mut bytes, mut is_cut) = (Vec::new(), 0, false);
        while let Some(batch) = running.next_rows()? {
            let batch = copy_texts(&batch);
            bytes += batch.get_array_memory_size();
            is_cut = bytes > ROUND_BYTES_MAX;
            if is_cut {
                running.cancel();
                break;
            }
            rows.push(batch);
        }
        let ended_ns = self.clock.elapsed_ns();
        self.next_ns = ended_ns + i64::try_from(pause_after(ended_ns - began_ns).as_nanos()).unwrap_or(i64::MAX);
        if self.shown.as_ref() == Some(&rows) {
            return Ok(None);
        }
        let mut messages = running.messages();
        if is_cut || running.has_reached_row_limit() {
            messages
                .push("the report has more rows than a real-time search keeps: the first ones are shown".to_owned());
        }
        self.shown = Some(rows.clone());
        Ok(Some(ReportRows { rows: ResultTable::new(rows, self.zone.clone()), messages }))
    }
}
