//! Hints about the answers of a server's searches: messages of a job, or of a request that waits for the rows.
//!
//! The reader of a search's rows passes each batch to an [`AnswerWatch`]. An answer with rows and a value other than
//! zero in each column needs no further work. For any other answer, [`crate::hints`] runs small searches with the
//! permissions and the time range of the search itself, for at most [`PROBE_TIME_MAX`] in all.
//!
//! Not here: the texts of the hints, and the hints of the command line, which runs its small searches as a client.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_engine::Stopper;
use quarry_event::{TimeNs, TimeRange};

use crate::hints::{AnswerColumns, HintRow, Probes, SearchOutcome, hints};
use crate::service::{SearchParams, SearchService};
use crate::{ResultTable, Row};

/// Maximum total time of the small searches of an answer; beyond it, they are stopped and the answer gets no hints.
const PROBE_TIME_MAX: Duration = Duration::from_millis(250);
/// Interval at which it is checked whether the client still waits for the hints.
const CLIENT_POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Maximum number of rows of a small search; further rows are not read.
const ROWS_MAX: usize = 2_000;

/// The search that produced an answer.
pub struct AnsweredSearch {
    /// Service that runs the search.
    pub service: Arc<SearchService>,
    /// Text of the search.
    pub text: String,
    /// Number of bytes at the start of the text that the user has not written.
    pub prefix: usize,
    /// Time range of the search.
    pub range: TimeRange,
    /// Time zone of the search.
    pub zone: TimeZone,
    /// Permissions of the user who runs the search.
    pub permissions: Arc<Permissions>,
}

/// Inspects the rows of an answer as they arrive.
pub struct AnswerWatch {
    search: AnsweredSearch,
    is_events: bool,
    columns: AnswerColumns,
}

impl AnswerWatch {
    /// A watch over the answer of a search; `is_events` is true if its rows are events.
    pub fn new(search: AnsweredSearch, is_events: bool) -> AnswerWatch {
        AnswerWatch { search, is_events, columns: AnswerColumns::default() }
    }

    /// Inspects the next rows. Events are only counted, because each has fields of its own.
    pub fn observe_rows(&mut self, rows: &ResultTable) {
        match self.is_events {
            true => self.columns.rows += rows.len(),
            false => self.columns.add(rows),
        }
    }

    /// Time zone of the search.
    pub(crate) fn zone(&self) -> &TimeZone {
        &self.search.zone
    }

    /// Hints about the complete answer, each as one line; none if the answer has rows and a value other than zero in
    /// each column. `is_over` returns true once no client waits for the hints any more.
    pub fn find_hints(&self, is_over: &(dyn Fn() -> bool + Sync)) -> Vec<String> {
        let (search, columns) = (&self.search, &self.columns);
        let now = search.service.clock().now_ns();
        let is_about_nothing = !self.is_events && columns.is_empty_aggregate();
        let found = SearchOutcome {
            text: &search.text,
            rows: if is_about_nothing { 0 } else { columns.rows },
            empty: &columns.empty,
            filled: &columns.filled,
            zeros: &columns.zeros,
            has_range: search.range.earliest.is_some() || search.range.latest.is_some(),
            now,
            offset_s: offset_s(&search.zone, now),
            is_watched: false,
            is_filtered: search.permissions.limits.filter.is_some(),
        };
        if found.is_complete() {
            return Vec::new();
        }
        let limit = ProbeLimit::default();
        let notes = std::thread::scope(|scope| {
            scope.spawn(|| limit.enforce_deadline(is_over));
            let notes = hints(&found, &mut ServiceProbes { search, now, limit: &limit });
            limit.end_probe();
            notes
        });
        // Hints based on a small search that was stopped halfway could be wrong.
        if limit.is_reached() {
            return Vec::new();
        }
        notes.iter().map(|note| note.to_one_line_after(search.prefix, &search.text)).collect()
    }
}

/// Current offset of a time zone from UTC in seconds.
fn offset_s(zone: &TimeZone, now: TimeNs) -> i32 {
    Timestamp::from_nanosecond(now.into()).map_or(0, |now| zone.to_offset(now).seconds())
}

/// Stops the small searches of an answer when their time is over.
#[derive(Default)]
struct ProbeLimit {
    state: Mutex<ProbeState>,
    changed: Condvar,
}

#[derive(Default)]
struct ProbeState {
    /// Stops the current small search.
    running: Option<Stopper>,
    has_ended: bool,
    is_reached: bool,
}

impl ProbeLimit {
    fn lock(&self) -> MutexGuard<'_, ProbeState> {
        // A poisoned lock is harmless: each change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the last small search has ended, and stops the current one after [`PROBE_TIME_MAX`] or once
    /// `is_over` is true.
    fn enforce_deadline(&self, is_over: &(dyn Fn() -> bool + Sync)) {
        let mut left = PROBE_TIME_MAX;
        let mut state = self.lock();
        while !state.has_ended {
            if left.is_zero() || is_over() {
                state.is_reached = true;
                if let Some(stopper) = &state.running {
                    stopper.cancel();
                }
                return;
            }
            let waited = self.changed.wait_timeout_while(state, CLIENT_POLL_INTERVAL, |state| !state.has_ended);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            left = left.saturating_sub(CLIENT_POLL_INTERVAL);
        }
    }

    /// Whether a small search may run. `stopper` stops it when the time is over.
    fn start_probe(&self, stopper: Stopper) -> bool {
        let mut state = self.lock();
        state.running = Some(stopper);
        !state.is_reached
    }

    fn end_probe(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    fn is_reached(&self) -> bool {
        self.lock().is_reached
    }
}

/// The small searches, run by the service that ran the search.
struct ServiceProbes<'a> {
    search: &'a AnsweredSearch,
    now: TimeNs,
    limit: &'a ProbeLimit,
}

impl ServiceProbes<'_> {
    fn run_probe(&self, text: &str, range: TimeRange) -> Option<Vec<HintRow>> {
        let params = SearchParams {
            text: text.to_owned(),
            zone: Some(self.search.zone.clone()),
            rows_max: Some(ROWS_MAX),
            is_narrowed: true,
            is_internal: true,
            permissions: Arc::clone(&self.search.permissions),
            now: Some(self.now),
            range: Some(range),
            ..SearchParams::default()
        };
        if self.limit.is_reached() {
            return None;
        }
        let running = self.search.service.start_on_reader_thread(params).ok()?;
        if !self.limit.start_probe(running.stopper()) {
            return None;
        }
        let table = running.finish().ok()?.table;
        let row = |row: Row<'_>| {
            row.cells().map(|(name, value)| (name.to_owned(), value.join_values(" ").into_owned())).collect()
        };
        Some(table.rows().map(row).collect())
    }
}

impl Probes for ServiceProbes<'_> {
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self.run_probe(search, self.search.range)
    }

    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self.run_probe(search, TimeRange { earliest: None, latest: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_stop_when_no_client_waits_for_hints() {
        let limit = ProbeLimit::default();
        limit.enforce_deadline(&|| true);
        assert!(limit.is_reached());
        let limit = ProbeLimit::default();
        limit.end_probe();
        limit.enforce_deadline(&|| true);
        assert!(!limit.is_reached(), "they had ended before");
    }
}
