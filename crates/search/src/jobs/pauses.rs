//! Pausing and resuming the search of a job.
//!
//! A paused search keeps its thread and the data read so far, but not its slot. Not here: the limit on paused jobs
//! ([`super::Jobs::pause`]).

use std::sync::atomic::Ordering;

use super::job::{JobState, SearchJob};
use super::search_slot::SearchSlot;

impl SearchJob {
    /// Whether the search pauses because nobody looks at it.
    pub(super) fn is_unwatched(&self) -> bool {
        let unseen = self.now_s() - self.seen_s.load(Ordering::Relaxed);
        self.record.auto_pause_s > 0 && unseen > self.record.auto_pause_s && self.state() == JobState::Running
    }

    /// Pauses the search and releases its slot.
    pub(super) fn pause(&self) {
        let mut changing = self.lock();
        changing.is_paused_late = changing.state.is_over();
        let Some(stopper) = &self.stopper else { return };
        if matches!(changing.state, JobState::Running | JobState::Queued) {
            stopper.pause();
            changing.run.pause(self.clock.elapsed_ns());
            changing.state = JobState::Paused;
            changing.slot = None;
        }
    }

    /// Resumes a paused search that has not started; the search gets its slot when it starts. Returns true if the
    /// search has started and is paused: such a search needs a slot to resume.
    pub fn resume_unless_begun(&self) -> bool {
        let mut changing = self.lock();
        changing.is_paused_late = false;
        let (Some(stopper), JobState::Paused) = (&self.stopper, changing.state) else { return false };
        if !changing.run.has_started() {
            changing.state = JobState::Queued;
            stopper.resume();
        }
        changing.run.has_started()
    }

    /// Resumes the search, in slot `turn` if searches are limited.
    pub fn resume(&self, turn: Option<Box<dyn SearchSlot>>) {
        let mut changing = self.lock();
        let (Some(stopper), JobState::Paused) = (&self.stopper, changing.state) else { return };
        changing.state = if changing.run.has_started() { JobState::Running } else { JobState::Queued };
        changing.slot = turn;
        changing.run.resume(self.clock.elapsed_ns());
        self.limit_run_time(&changing.run);
        stopper.resume();
    }

    /// Continues in slot `turn`. If the job is paused, the slot is released instead.
    pub(super) fn continue_in_slot(&self, turn: Option<Box<dyn SearchSlot>>) {
        let mut changing = self.lock();
        if changing.state != JobState::Paused {
            changing.slot = turn;
        }
    }

    /// Releases the slot.
    pub(super) fn take_slot(&self) -> Option<Box<dyn SearchSlot>> {
        self.lock().slot.take()
    }
}
