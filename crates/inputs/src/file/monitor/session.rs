//! An open file and its timeouts.
//!
//! A reader cannot know whether a line, an event or the beginning of a file is complete while more may follow. The
//! reader therefore waits, and every wait is bounded: short for a quiet file, somewhat longer for a file that is never
//! quiet.

use quarry_conf::MonitorSettings;

use super::NANOS_PER_SEC;
use super::roster::Job;
use super::tail::Tail;

/// Longest wait for the bytes that determine a file's sourcetype or encoding; they must include a whole line.
pub(crate) const BEGIN_WAIT_MAX_NS: i64 = NANOS_PER_SEC / 2;
/// Quiet time after which an event that might continue counts as complete. It is short because lines must be searchable
/// within a second.
pub(crate) const PAUSE_AFTER_NS: i64 = 6 * NANOS_PER_SEC / 10;
/// Time after which an event counts as complete even if further lines keep joining it.
pub(crate) const GROWING_EVENT_MAX_NS: i64 = 5 * NANOS_PER_SEC;
/// Time after which a line without a line break counts as complete even if it keeps growing.
pub(crate) const GROWING_LINE_MAX_NS: i64 = 30 * NANOS_PER_SEC;
/// Interval at which an open file is checked for growth if the kernel sends no notifications.
const POLL_INTERVAL_NS: i64 = NANOS_PER_SEC / 2;

/// An open file.
pub(crate) struct Session {
    pub(crate) tail: Box<Tail>,
    pub(crate) job: Job,
    /// Time at which the file last grew.
    pub(crate) grown_at: i64,
    /// Time at which the oldest byte not yet handed over was read.
    waiting_since: i64,
    /// Set if all complete events were handed over since the file last grew.
    is_paused: bool,
    /// Time of the next check.
    pub(crate) due_at: i64,
}

/// Next action on an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextAction {
    Nothing,
    /// Determines the file's format from its first bytes.
    Begin,
    /// Hands over the event that might have continued.
    Pause,
    /// Hands over everything and closes the file.
    Close,
}

impl Session {
    pub(crate) fn new(tail: Box<Tail>, job: Job, now: i64) -> Session {
        Session { tail, job, grown_at: now, waiting_since: now, is_paused: false, due_at: now }
    }

    /// Updates the state after a read; `kept` is the offset up to which events had been handed over before the read.
    pub(crate) fn record_read(&mut self, now: i64, has_grown: bool, kept: u64) {
        if has_grown {
            (self.grown_at, self.is_paused) = (now, false);
        }
        if self.tail.delivered_offset() != kept || !self.tail.has_undelivered() {
            self.waiting_since = now;
        }
    }

    pub(crate) fn record_pause(&mut self, now: i64, kept: u64) {
        self.is_paused = true;
        self.record_read(now, false, kept);
    }

    pub(crate) fn next_action(&self, now: i64, settings: &MonitorSettings) -> NextAction {
        let reached = |at: Option<i64>| at.is_some_and(|at| at <= now);
        if reached(Some(self.close_at(settings))) {
            return NextAction::Close;
        }
        if reached(self.pause_at(settings)) {
            return NextAction::Pause;
        }
        if reached(self.begin_at()) { NextAction::Begin } else { NextAction::Nothing }
    }

    /// Computes the time of the next check.
    pub(crate) fn plan_check(&mut self, now: i64, settings: &MonitorSettings) {
        let awaited = [Some(self.close_at(settings)), self.pause_at(settings), self.begin_at()];
        // An action that is due runs at once, so that a file that keeps growing cannot postpone it.
        self.due_at = awaited.into_iter().flatten().fold(now + POLL_INTERVAL_NS, i64::min);
    }

    fn begin_at(&self) -> Option<i64> {
        self.tail.can_begin().then_some(self.waiting_since + BEGIN_WAIT_MAX_NS)
    }

    fn pause_at(&self, settings: &MonitorSettings) -> Option<i64> {
        if self.is_paused || self.tail.is_beginning() || !self.tail.has_undelivered() {
            return None;
        }
        let close_after = wait_ns(settings.close_after_seconds);
        let growing = self.waiting_since + GROWING_EVENT_MAX_NS.max(if settings.extra_wait { close_after } else { 0 });
        let quiet = self.grown_at + if settings.extra_wait { close_after } else { PAUSE_AFTER_NS };
        Some(growing.min(quiet))
    }

    fn close_at(&self, settings: &MonitorSettings) -> i64 {
        let quiet = self.grown_at + wait_ns(settings.close_after_seconds);
        let growing = self.waiting_since + GROWING_LINE_MAX_NS.max(wait_ns(settings.close_after_seconds));
        if self.tail.has_undelivered() { quiet.min(growing) } else { quiet }
    }
}

/// Converts a setting in seconds to nanoseconds.
pub(crate) fn wait_ns(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX / 4 / NANOS_PER_SEC).saturating_mul(NANOS_PER_SEC).min(i64::MAX / 4)
}
