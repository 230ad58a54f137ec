//! Hedged reads: a small read that is slow is sent a second time, if possible to another server.
//!
//! A store answers most reads within milliseconds and a few after seconds. A small read not answered within the 95th
//! percentile of latency is sent again, and the first answer wins. At most one read in twenty is sent twice, so that a
//! slow store does not get twice the load. The idea and its numbers are from Dean and Barroso, [The Tail at
//! Scale](https://research.google/pubs/the-tail-at-scale/) (2013).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Largest read that may be hedged. The duration of a larger read depends on the bandwidth, of which a second read
/// would take a part.
pub(crate) const READ_BYTES_MAX: u64 = 128 << 10;

const DELAY_MIN: Duration = Duration::from_millis(10);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// A read slower than the delay raises the delay by one step, the delay divided by this constant; any other read lowers
/// it by a nineteenth of a step.
const STEP_DIVISOR: i64 = 100;
/// Number of reads that allow one hedge.
const READS_PER_HEDGE: i64 = 20;
/// Maximum number of hedges saved up.
const SAVED_HEDGES_MAX: i64 = 10;

/// The delay before a read is hedged, and the budget of hedges.
#[derive(Debug)]
pub(crate) struct Hedge {
    delay_us: AtomicI64,
    saved: AtomicI64,
}

impl Hedge {
    pub(crate) fn new() -> Hedge {
        let delay_us = AtomicI64::new(micros(Duration::from_millis(200)));
        Hedge { delay_us, saved: AtomicI64::new(SAVED_HEDGES_MAX * READS_PER_HEDGE) }
    }

    /// The delay learnt so far.
    pub(crate) fn delay(&self) -> Duration {
        Duration::from_micros(self.delay_us.load(Ordering::Relaxed).unsigned_abs())
    }

    /// Learns from a read's duration. Moves the delay towards the 95th percentile, where one increase balances 19
    /// decreases.
    pub(crate) fn record_duration(&self, took: Duration) {
        let took = micros(took);
        let delay = self.delay_us.load(Ordering::Relaxed);
        let part = (delay / STEP_DIVISOR / 19).max(1);
        let to = if took > delay { delay + 19 * part } else { delay - part };
        // If two reads end at the same time, one observation may be lost.
        self.delay_us.store(to.clamp(micros(DELAY_MIN), micros(DELAY_MAX)), Ordering::Relaxed);
        self.adjust_budget(1);
    }

    /// Whether a read may be hedged now; if so, deducts the hedge from the budget.
    pub(crate) fn take_hedge(&self) -> bool {
        self.adjust_budget(-READS_PER_HEDGE)
    }

    fn adjust_budget(&self, by: i64) -> bool {
        let most = SAVED_HEDGES_MAX * READS_PER_HEDGE;
        let changed = |saved: i64| (saved + by >= 0).then_some((saved + by).min(most));
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed).is_ok()
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_converges_above_most_reads() {
        let hedge = Hedge::new();
        // 1 to 100 ms in a scrambled order.
        for at in 0..20_000_u64 {
            hedge.record_duration(Duration::from_millis(at * 37 % 100 + 1));
        }
        let delay = hedge.delay().as_millis();
        assert!((85..=100).contains(&delay), "{delay} ms");
        for _ in 0..20_000 {
            hedge.record_duration(Duration::from_millis(30));
        }
        let delay = hedge.delay().as_millis();
        assert!((28..=33).contains(&delay), "{delay} ms");
        (0..20_000).for_each(|_| hedge.record_duration(Duration::ZERO));
        assert_eq!(hedge.delay(), DELAY_MIN);
        (0..20_000).for_each(|_| hedge.record_duration(Duration::from_secs(3600)));
        assert_eq!(hedge.delay(), DELAY_MAX);
    }

    #[test]
    fn one_read_in_twenty_is_hedged() {
        let hedge = Hedge::new();
        assert_eq!((0..100).filter(|_| hedge.take_hedge()).count(), 10);
        (0..200).for_each(|_| hedge.record_duration(Duration::ZERO));
        assert_eq!((0..100).filter(|_| hedge.take_hedge()).count(), 10);
    }
}
