//! The run time of a job's search, without the time for which it was paused.

/// The run time of a search, from instants of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunClock {
    started_ns: Option<i64>,
    paused_since_ns: Option<i64>,
    /// Duration of the pauses that have ended.
    paused_ns: i64,
}

impl RunClock {
    /// Whether the search has started.
    pub(super) fn has_started(&self) -> bool {
        self.started_ns.is_some()
    }

    pub(super) fn start(&mut self, now_ns: i64) {
        self.started_ns = Some(now_ns);
    }

    /// Begins a pause, if the search has started.
    pub(super) fn pause(&mut self, now_ns: i64) {
        if self.has_started() {
            self.paused_since_ns.get_or_insert(now_ns);
        }
    }

    /// Ends the pause, if there is one.
    pub(super) fn resume(&mut self, now_ns: i64) {
        if let Some(since_ns) = self.paused_since_ns.take() {
            self.paused_ns += now_ns - since_ns;
        }
    }

    /// The run time until now; 0 before the start.
    pub(super) fn elapsed_ns(&self, now_ns: i64) -> i64 {
        let paused_ns = self.paused_ns + self.paused_since_ns.map_or(0, |since_ns| now_ns - since_ns);
        self.started_ns.map_or(0, |started_ns| (now_ns - started_ns - paused_ns).max(0))
    }

    /// The instant at which the run time reaches a duration, if no further pause follows. `None` before the start.
    pub(super) fn reaches_at(&self, run_ns: i64) -> Option<i64> {
        Some(self.started_ns?.saturating_add(self.paused_ns).saturating_add(run_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_not_run_time() {
        let mut clock = RunClock::default();
        clock.pause(5);
        assert_eq!((clock.elapsed_ns(9), clock.reaches_at(10)), (0, None), "not started");
        clock.start(10);
        assert_eq!(clock.elapsed_ns(15), 5);
        clock.pause(15);
        clock.pause(18);
        assert_eq!(clock.elapsed_ns(30), 5, "paused");
        clock.resume(40);
        clock.resume(41);
        assert_eq!((clock.elapsed_ns(42), clock.reaches_at(100)), (7, Some(135)));
    }
}
