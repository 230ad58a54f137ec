//! The early end of a job's search: finalised by its user, or at its maximum run time.
//!
//! Not here: how commands end ([`quarry_engine::Stopper`]), cancellation ([`super::job`]).

use quarry_event::time::NS_PER_SEC;

use super::job::{JobState, SearchJob};
use super::run_clock::RunClock;
use crate::service::RunningSearch;

/// Message about a search that was finalised and whose commands then ended early.
const CUT: &str = "the search was finalised while its commands were still working: they ended with a part of the events \
                   that were read, or the result with its first rows";

impl SearchJob {
    pub(super) fn exceeds_run_time(&self) -> bool {
        let ran_ns = self.lock().run.elapsed_ns(self.clock.elapsed_ns());
        self.record.time_max_s > 0 && ran_ns > self.record.time_max_s.saturating_mul(NS_PER_SEC)
    }

    /// Sets the time at which the search, which starts or continues now, reaches its maximum run time and finishes.
    pub(super) fn limit_run_time(&self, run: &RunClock) {
        let time_max_ns = self.record.time_max_s.saturating_mul(NS_PER_SEC);
        let end_ns = run.reaches_at(time_max_ns).filter(|_| time_max_ns > 0 && !self.is_real_time());
        if let (Some(stopper), Some(end_ns)) = (&self.stopper, end_ns) {
            stopper.finish_at(end_ns);
        }
    }

    /// Records the early end of the search if it has just ended at its maximum run time or number of events. Returns a
    /// message if commands of the search ended early.
    pub(super) fn note_early_end(&self, running: &RunningSearch) -> Option<String> {
        let was_cut = running.stopper().was_cut();
        if self.exceeds_run_time() && (was_cut || running.is_partial()) {
            self.finalize_on_timeout();
        }
        if running.stopper().has_read_enough_events() {
            self.finalize();
        }
        was_cut.then(|| CUT.to_owned())
    }

    /// Finalises the search because it has reached its maximum run time.
    pub(super) fn finalize_on_timeout(&self) {
        self.finalize();
        let seconds = self.record.time_max_s;
        let note = format!("Search auto-finalized after time limit ({seconds} seconds) reached.");
        let mut changing = self.lock();
        if changing.is_finalized && !changing.notes.contains(&note) {
            changing.notes.push(note);
        }
    }

    /// Ends the search with the rows found so far.
    pub fn finalize(&self) {
        let mut changing = self.lock();
        changing.is_finalized_late = changing.state.is_over();
        let (Some(stopper), false) = (&self.stopper, changing.state.is_over()) else { return };
        stopper.finish_early();
        changing.run.resume(self.clock.elapsed_ns());
        changing.is_finalized = true;
        changing.state = JobState::Finalizing;
        self.stop_round();
    }
}
