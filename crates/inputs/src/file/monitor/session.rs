//! An open file, and what it waits for.
//!
//! A reader cannot know whether a line, an event or the beginning of a file is complete while more of it may come. So it
//! waits, and every wait has an end: a quiet file ends it soon, a file that is never quiet a little later.

use quarry_conf::MonitorSettings;

use super::NANOSECONDS;
use super::roster::Job;
use super::tail::Tail;

/// Longest wait for the bytes by which a file's sourcetype or character set is told; a whole line must be among them.
pub(crate) const BEGIN_AFTER_NS: i64 = NANOSECONDS / 2;
/// Quiet time after which an event that might go on is complete. Lines are found within a second of being written.
pub(crate) const PAUSE_AFTER_NS: i64 = 6 * NANOSECONDS / 10;
/// Time after which an event is complete although lines keep joining it.
pub(crate) const GROWING_EVENT_MAX_NS: i64 = 5 * NANOSECONDS;
/// Time after which a line without a break is complete although it keeps growing.
pub(crate) const GROWING_LINE_MAX_NS: i64 = 30 * NANOSECONDS;
/// Time between two looks whether an open file grew, where the kernel tells nothing.
const LOOK_EVERY_NS: i64 = NANOSECONDS / 2;

/// An open file.
pub(crate) struct Session {
    pub(crate) tail: Box<Tail>,
    pub(crate) job: Job,
    /// When it last grew.
    pub(crate) grown_at: i64,
    /// When the first byte was read that is not handed over.
    waiting_since: i64,
    /// Whether all that a quiet file gives was taken since it grew.
    is_paused: bool,
    /// When to look at it again.
    pub(crate) due_at: i64,
}

/// What the time has come for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Deciding how the file begins.
    Begin,
    /// Taking the open event.
    Pause,
    /// Taking all that is left, and closing.
    Close,
}

impl Session {
    pub(crate) fn new(tail: Box<Tail>, job: Job, now: i64) -> Session {
        Session { tail, job, grown_at: now, waiting_since: now, is_paused: false, due_at: now }
    }

    /// After a read; `kept` is how far the file was handed over before it.
    pub(crate) fn note(&mut self, now: i64, has_grown: bool, kept: u64) {
        if has_grown {
            (self.grown_at, self.is_paused) = (now, false);
        }
        if self.tail.kept() != kept || !self.tail.is_waiting() {
            self.waiting_since = now;
        }
    }

    pub(crate) fn note_paused(&mut self, now: i64, kept: u64) {
        self.is_paused = true;
        self.note(now, false, kept);
    }

    pub(crate) fn due(&self, now: i64, settings: &MonitorSettings) -> Due {
        let reached = |at: Option<i64>| at.is_some_and(|at| at <= now);
        if reached(Some(self.close_at(settings))) {
            return Due::Close;
        }
        if reached(self.pause_at(settings)) {
            return Due::Pause;
        }
        if reached(self.begin_at()) { Due::Begin } else { Due::Nothing }
    }

    /// Sets when something will be due, or the file is to be looked at anyway.
    pub(crate) fn plan(&mut self, now: i64, settings: &MonitorSettings) {
        let awaited = [Some(self.close_at(settings)), self.pause_at(settings), self.begin_at()];
        // What is due by now is done at once: a file that grows all the time must not put it off.
        self.due_at = awaited.into_iter().flatten().fold(now + LOOK_EVERY_NS, i64::min);
    }

    fn begin_at(&self) -> Option<i64> {
        self.tail.can_begin().then_some(self.waiting_since + BEGIN_AFTER_NS)
    }

    fn pause_at(&self, settings: &MonitorSettings) -> Option<i64> {
        if self.is_paused || self.tail.is_beginning() || !self.tail.is_waiting() {
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
        if self.tail.is_waiting() { quiet.min(growing) } else { quiet }
    }
}

/// A setting's seconds.
pub(crate) fn wait_ns(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX / 4 / NANOSECONDS).saturating_mul(NANOSECONDS).min(i64::MAX / 4)
}
