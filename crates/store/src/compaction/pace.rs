//! Rate limit of a compaction, as a share of one core and of disk bandwidth.
//!
//! Work consists of steps of one page or object each; after each step the compaction rests as its budget requires. A
//! step that cannot be divided, such as encoding, is followed by a longer rest.

use std::time::Duration;

use quarry_event::time::NS_PER_SEC;

use crate::options::CompactionOptions;
use crate::state::Shared;
use crate::sync::wait_for;

/// Shortest rest; shorter ones are accumulated, because waking up has a cost.
const REST_NS_MIN: i64 = 2_000_000;
/// Percentage that stands for a whole core.
const PERCENT_MAX: i64 = 100;

/// The store is stopping.
#[derive(Debug)]
pub(crate) struct Stopped;

/// The rate limit of one compaction.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    shared: &'a Shared,
    budget: Option<&'a CompactionOptions>,
    /// Monotonic time at which the step began.
    since: i64,
    /// Rest owed so far, in nanoseconds.
    owed_ns: i64,
}

impl<'a> Pace<'a> {
    /// A pace limited by the budget in the options, unless a caller waits for the compaction.
    pub(crate) fn within_budget(shared: &'a Shared) -> Pace<'a> {
        Pace { budget: Some(&shared.options.compaction), ..Pace::unlimited(shared) }
    }

    /// A pace without limit.
    pub(crate) fn unlimited(shared: &'a Shared) -> Pace<'a> {
        Pace { shared, budget: None, since: shared.clock.elapsed_ns(), owed_ns: 0 }
    }

    /// Ends a step that transferred `bytes`, and rests if enough rest has accumulated.
    pub(crate) fn step(&mut self, bytes: u64) -> Result<(), Stopped> {
        let worked = self.shared.clock.elapsed_ns().saturating_sub(self.since);
        if let Some(budget) = self.budget {
            self.owed_ns = self.owed_ns.saturating_add(rest_ns(worked, bytes, budget));
        }
        let state = self.shared.state();
        if state.stopping {
            return Err(Stopped);
        }
        if state.compaction_requests > 0 {
            self.owed_ns = 0;
        }
        if self.owed_ns >= REST_NS_MIN {
            let rest = Duration::from_nanos(self.owed_ns.unsigned_abs());
            self.owed_ns = 0;
            if wait_for(&self.shared.compaction_wakeup, state, rest).stopping {
                return Err(Stopped);
            }
        }
        self.since = self.shared.clock.elapsed_ns();
        Ok(())
    }
}

/// Rest in nanoseconds after a step that took `worked_ns` and transferred `bytes`.
fn rest_ns(worked_ns: i64, bytes: u64, budget: &CompactionOptions) -> i64 {
    let percent = i64::from(budget.cpu_percent).clamp(1, PERCENT_MAX);
    let by_cpu = worked_ns.saturating_mul(PERCENT_MAX - percent) / percent;
    let by_disk = match budget.bytes_per_second {
        0 => 0,
        rate => {
            let due = u128::from(bytes) * NS_PER_SEC as u128 / u128::from(rate);
            i64::try_from(due).unwrap_or(i64::MAX).saturating_sub(worked_ns)
        }
    };
    by_cpu.max(by_disk).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_keep_cpu_and_disk_use_within_the_budget() {
        for (cpu_percent, bytes_per_second, worked, bytes, expected) in [
            (100, 0, 1_000, 1 << 30, 0),
            (50, 0, 1_000, 0, 1_000),
            (25, 0, 1_000, 0, 3_000),
            (0, 0, 1_000, 0, 99_000),
            (300, 0, 1_000, 0, 0),
            (100, 1_000, 0, 1_000, NS_PER_SEC),
            (100, 1_000, NS_PER_SEC / 4, 1_000, NS_PER_SEC * 3 / 4),
            (100, 1_000, 2 * NS_PER_SEC, 1_000, 0),
            (50, 1_000, NS_PER_SEC, 1_500, NS_PER_SEC),
            (100, 1, 0, u64::MAX, i64::MAX),
        ] {
            let budget = CompactionOptions { cpu_percent, bytes_per_second, ..CompactionOptions::default() };
            assert_eq!(rest_ns(worked, bytes, &budget), expected, "{cpu_percent} % and {bytes_per_second} B/s");
        }
    }
}
