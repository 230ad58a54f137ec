//! Retries of failed requests: exponential backoff with jitter, and a retry budget.
//!
//! The maximum wait doubles with each attempt, and the actual wait is random up to that maximum, so that clients that
//! failed together do not retry together ([exponential backoff and
//! jitter](https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/)). A *budget* shared by all
//! requests bounds the share of retries: when a store is down and the budget is spent, requests fail after their first
//! attempt, instead of multiplying the load when the store comes back. A part of the budget is reserved for reads, so
//! that uploads that fail in the background do not keep searches from retrying.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use quarry_stdx::random;

/// Maximum wait before the second attempt.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// Maximum wait before any attempt.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Maximum budget.
const BUDGET_MAX: i64 = 750;
/// Part of the budget that only reads may spend.
pub(super) const READ_RESERVE: i64 = 250;
/// Cost of a retry. Each request that succeeds at its first attempt earns 1.
const RETRY_COST: i64 = 5;

/// The retry budget.
#[derive(Debug)]
pub(crate) struct Budget(AtomicI64);

impl Budget {
    pub(crate) fn full() -> Budget {
        Budget(AtomicI64::new(BUDGET_MAX))
    }

    /// Adds to the budget for a request that succeeded at its first attempt.
    pub(crate) fn earn(&self) {
        self.adjust(1, 0);
    }

    /// Deducts a retry from the budget; `false` if less than `reserve` would be left.
    pub(crate) fn spend(&self, reserve: i64) -> bool {
        self.adjust(-RETRY_COST, reserve)
    }

    fn adjust(&self, by: i64, reserve: i64) -> bool {
        let changed = |left: i64| (left + by >= reserve).then_some((left + by).min(BUDGET_MAX));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed).is_ok()
    }
}

/// Random wait before a retry; `attempt` is its number, from 2.
pub(crate) fn wait_before(attempt: u32) -> Duration {
    let longest = WAIT_FIRST.saturating_mul(1 << attempt.saturating_sub(2).min(10)).min(WAIT_MAX);
    let mut drawn = [0; 4];
    random::fill(&mut drawn);
    longest.mul_f64(f64::from(u32::from_le_bytes(drawn)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        for attempt in 2..40 {
            let longest = Duration::from_millis(100 << (attempt - 2).min(6)).min(WAIT_MAX);
            assert!((0..50).all(|_| wait_before(attempt) <= longest), "{attempt}");
        }
        assert!((0..50).any(|_| wait_before(30) > WAIT_FIRST));
    }

    #[test]
    fn retries_are_limited_to_a_fifth_of_successes() {
        let budget = Budget::full();
        assert_eq!((0..1000).filter(|_| budget.spend(0)).count(), 150);
        assert!(!budget.spend(0));
        (0..50).for_each(|_| budget.earn());
        assert_eq!((0..1000).filter(|_| budget.spend(0)).count(), 10);
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..1000).filter(|_| budget.spend(0)).count(), 150);
    }

    #[test]
    fn failing_writes_leave_a_third_of_the_budget_to_reads() {
        let budget = Budget::full();
        assert_eq!((0..1000).filter(|_| budget.spend(READ_RESERVE)).count(), 100);
        assert_eq!((0..1000).filter(|_| budget.spend(0)).count(), 50);
        (0..50).for_each(|_| budget.earn());
        assert!(!budget.spend(READ_RESERVE) && budget.spend(0));
    }
}
