//! Hints on the answers of a server's searches, as messages of a job or of a request that waits for its rows.
//!
//! Whoever takes the rows of a search shows each part to an [`AnswerWatch`]. An answer with rows and a value in each
//! column costs no more than that look. Of any other, [`crate::hints`] asks small searches with the permissions and the
//! time range of the search itself, for at most [`TIME_MAX`] in all.
//!
//! Not here: what the hints say, and those of the command line, which is a client and asks from outside.

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

/// Maximum time that the small searches of an answer take together; then they are stopped, and its hints left out.
const TIME_MAX: Duration = Duration::from_millis(250);
/// Interval at which the small searches are stopped if the search has been cancelled.
const LOOK: Duration = Duration::from_millis(25);
/// Maximum rows of a small search.
const ROWS_MAX: usize = 2_000;

/// The search that an answer is of.
pub struct AnsweredSearch {
    /// Runs it.
    pub service: Arc<SearchService>,
    /// Its text.
    pub text: String,
    /// Its time range.
    pub range: TimeRange,
    /// Its zone.
    pub zone: TimeZone,
    /// The permissions of its user.
    pub permissions: Arc<Permissions>,
}

/// Looks at the rows of an answer as they come.
pub struct AnswerWatch {
    search: AnsweredSearch,
    is_events: bool,
    columns: AnswerColumns,
}

impl AnswerWatch {
    /// A watch over the answer of a search; `is_events`: whether its rows are events.
    pub fn new(search: AnsweredSearch, is_events: bool) -> AnswerWatch {
        AnswerWatch { search, is_events, columns: AnswerColumns::default() }
    }

    /// Looks at the next rows. Of events only their number is of interest: each has fields of its own.
    pub fn see(&mut self, rows: &ResultTable) {
        match self.is_events {
            true => self.columns.rows += rows.len(),
            false => self.columns.add(rows),
        }
    }

    /// The zone of the search.
    pub(crate) fn zone(&self) -> &TimeZone {
        &self.search.zone
    }

    /// Hints on the complete answer, each as one line; none if something was found. `is_over` returns true once no
    /// client waits for them any more.
    pub fn hints(&self, is_over: &(dyn Fn() -> bool + Sync)) -> Vec<String> {
        let (search, columns) = (&self.search, &self.columns);
        let now = search.service.clock().now_ns();
        let is_about_nothing = !self.is_events && columns.is_about_nothing();
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
        };
        if found.is_whole() {
            return Vec::new();
        }
        let limit = ProbeLimit::default();
        let notes = std::thread::scope(|scope| {
            scope.spawn(|| limit.keep(is_over));
            let notes = hints(&found, &mut ServiceProbes { search, now, limit: &limit });
            limit.end();
            notes
        });
        // Those of small searches that were stopped halfway could be wrong.
        if limit.is_reached() {
            return Vec::new();
        }
        notes.iter().map(|note| note.told(&search.text)).collect()
    }
}

/// Current offset of a zone from UTC in seconds.
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
    /// Stops the small search that runs.
    running: Option<Stopper>,
    has_ended: bool,
    is_reached: bool,
}

impl ProbeLimit {
    fn locked(&self) -> MutexGuard<'_, ProbeState> {
        // Each change completes before anything can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the last small search has ended, and stops them if that takes too long.
    fn keep(&self, is_over: &(dyn Fn() -> bool + Sync)) {
        let mut left = TIME_MAX;
        let mut state = self.locked();
        while !state.has_ended {
            if left.is_zero() || is_over() {
                state.is_reached = true;
                if let Some(stopper) = &state.running {
                    stopper.cancel();
                }
                return;
            }
            let waited = self.changed.wait_timeout_while(state, LOOK, |state| !state.has_ended);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            left = left.saturating_sub(LOOK);
        }
    }

    /// Whether a small search may run; it is stopped by `stopper` when the time is over.
    fn begin(&self, stopper: Stopper) -> bool {
        let mut state = self.locked();
        state.running = Some(stopper);
        !state.is_reached
    }

    fn end(&self) {
        self.locked().has_ended = true;
        self.changed.notify_all();
    }

    fn is_reached(&self) -> bool {
        self.locked().is_reached
    }
}

/// The small searches, run by the service that ran the search.
struct ServiceProbes<'a> {
    search: &'a AnsweredSearch,
    now: TimeNs,
    limit: &'a ProbeLimit,
}

impl ServiceProbes<'_> {
    fn rows_in(&self, text: &str, range: TimeRange) -> Option<Vec<HintRow>> {
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
        let running = self.search.service.start_here(params).ok()?;
        if !self.limit.begin(running.stopper()) {
            return None;
        }
        let table = running.finish().ok()?.table;
        let row =
            |row: Row<'_>| row.cells().map(|(name, value)| (name.to_owned(), value.joined(" ").into_owned())).collect();
        Some(table.rows().map(row).collect())
    }
}

impl Probes for ServiceProbes<'_> {
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self.rows_in(search, self.search.range)
    }

    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self.rows_in(search, TimeRange { earliest: None, latest: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_searches_end_when_nobody_waits_for_hints() {
        let limit = ProbeLimit::default();
        limit.keep(&|| true);
        assert!(limit.is_reached());
        let limit = ProbeLimit::default();
        limit.end();
        limit.keep(&|| true);
        assert!(!limit.is_reached(), "they had ended before");
    }
}
