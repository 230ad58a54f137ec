//! Schedule of a program: at an interval, after the end of the previous run, once, or by cron.

use std::time::Duration;

use quarry_event::{TimeNs, time::Cron};
use quarry_inputs::InputSettings;
use quarry_stdx::Fault;

use super::input_context::StopSignal;

/// Maximum wait between checks of the wall clock, which somebody may set while a program waits.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum interval.
const SECONDS_MIN: f64 = 0.1;
/// Maximum interval: ten years.
const SECONDS_MAX: f64 = 10.0 * 366.0 * 86_400.0;
/// First and longest wait after a failure.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(600);

/// Schedule of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Schedule {
    Once,
    /// Starts at this interval; if a run took longer, the next one starts immediately.
    Every(Duration),
    /// Starts this long after the end of the previous run.
    After(Duration),
    /// Starts at the times of a cron expression.
    Cron(Cron),
}

impl Schedule {
    /// Parses `interval`.
    pub(crate) fn parse(text: &str) -> Result<Schedule, Fault> {
        let text = text.trim();
        match text.parse::<f64>() {
            Ok(-1.0) => Ok(Schedule::Once),
            Ok(0.0) => Ok(Schedule::After(Duration::from_secs_f64(SECONDS_MIN))),
            Ok(seconds) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => {
                Ok(Schedule::Every(Duration::from_secs_f64(seconds)))
            }
            Ok(_) => Err(Fault::invalid(format!(
                "interval = {text}: give at least {SECONDS_MIN} seconds, 0, -1 or a cron schedule"
            ))),
            Err(_) => Cron::parse(text).map(Schedule::Cron).ok_or_else(|| {
                Fault::invalid(format!(
                    "interval = {text}: give seconds, or a cron schedule: minute hour day month weekday"
                ))
            }),
        }
    }

    /// The more frequent of two schedules: `Once` is the least frequent, and `After` counts as more frequent than the
    /// others. Returns `self` if they cannot be compared.
    pub(crate) fn more_frequent(self, other: Schedule) -> Schedule {
        match (&self, &other) {
            (Schedule::Once, _) => other,
            (Schedule::Every(own), Schedule::Every(others)) if others < own => other,
            (Schedule::Every(_) | Schedule::Cron(_), Schedule::After(_)) => other,
            _ => self,
        }
    }

    /// Waits for the first start; returns false if there is none.
    pub(crate) fn wait_first(&self, settings: &InputSettings, stop: &StopSignal) -> bool {
        match self {
            Schedule::Cron(cron) => wait_until_next(cron, settings, stop),
            _ => !stop.is_stopped(),
        }
    }

    /// Waits for the next start after a run that began at `started` (monotonic nanoseconds); returns false if there is
    /// none. `failures` is the number of consecutive failed runs up to this one.
    pub(crate) fn wait_next(&self, started: i64, failures: u32, settings: &InputSettings, stop: &StopSignal) -> bool {
        let penalty = if failures == 0 { Duration::ZERO } else { backoff(failures) };
        let since = Duration::from_nanos((settings.clock.elapsed_ns() - started).unsigned_abs());
        let wait = match self {
            Schedule::Once => return false,
            Schedule::Every(interval) => interval.saturating_sub(since).max(penalty),
            Schedule::After(pause) => (*pause).max(penalty),
            Schedule::Cron(cron) => return wait_until_next(cron, settings, stop),
        };
        !stop.wait(wait)
    }
}

fn backoff(failures: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(1 << (failures - 1).min(16)).min(BACKOFF_MAX)
}

fn wait_until_next(cron: &Cron, settings: &InputSettings, stop: &StopSignal) -> bool {
    let clock = &settings.clock;
    let Some(next): Option<TimeNs> = cron.next_after(clock.now_ns(), &settings.zone) else { return false };
    loop {
        let left = next.saturating_sub(clock.now_ns());
        if left <= 0 {
            return !stop.is_stopped();
        }
        if stop.wait(Duration::from_nanos(left.unsigned_abs()).min(CLOCK_CHECK_INTERVAL)) {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Schedule, backoff};

    #[test]
    fn intervals_are_parsed() {
        assert_eq!(Schedule::parse("-1"), Ok(Schedule::Once));
        assert_eq!(Schedule::parse("0.5"), Ok(Schedule::Every(Duration::from_millis(500))));
        assert!(matches!(Schedule::parse("0"), Ok(Schedule::After(_))));
        assert!(matches!(Schedule::parse("*/5 * * * *"), Ok(Schedule::Cron(_))));
        for faulty in ["-2", "daily", "inf", "NaN", "* * *"] {
            assert!(Schedule::parse(faulty).is_err(), "{faulty}");
        }
        let five = Schedule::Every(Duration::from_secs(5));
        assert_eq!(Schedule::Once.more_frequent(five.clone()), five);
        assert_eq!(Schedule::Every(Duration::from_secs(9)).more_frequent(five.clone()), five);
    }

    #[test]
    fn failures_increase_the_wait() {
        let waits: Vec<u64> = [1, 2, 3, 11, 99].iter().map(|failures| backoff(*failures).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 600, 600]);
    }
}
