//! Access to the machine for all crates: clocks, random bytes, logging to standard error, error kinds, the open-file
//! limit, durable folders, files and folders private to their owner, and files that nodes share.
//!
//! Components take a [`Clock`], so that tests and the simulation control time; only `server` creates a [`SystemClock`].
//! Nothing here knows the domain.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod descriptors;
pub mod durable_folder;
mod error_kind;
mod fault;
pub mod hex;
pub mod log;
pub mod node_files;
pub mod number;
pub mod private_file;
pub mod private_folder;
pub mod random;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub use error_kind::ErrorKind;
pub use fault::{Fault, HasKind};
pub use node_files::{ChangingFiles, NodeFiles, SharedFiles};

/// Source of wall-clock time and of monotonic time.
pub trait Clock: Debug + Send + Sync {
    /// Nanoseconds since the Unix epoch, UTC.
    fn now_ns(&self) -> i64;
    /// Nanoseconds on a clock that never goes back; its zero is arbitrary.
    fn elapsed_ns(&self) -> i64;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// The system clock; its elapsed time starts here.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    pub fn shared() -> SharedClock {
        Arc::new(SystemClock { start: std::time::Instant::now() })
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    fn now_ns(&self) -> i64 {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
        }
    }

    fn elapsed_ns(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }
}

/// A clock that tests advance by hand.
#[derive(Debug)]
pub struct ManualClock {
    passed: AtomicI64,
    /// Additional offset of the wall clock alone.
    set: AtomicI64,
}

impl ManualClock {
    /// A manual clock whose wall time is `now_ns`.
    pub fn shared(now_ns: i64) -> Arc<ManualClock> {
        Arc::new(ManualClock { passed: AtomicI64::new(now_ns), set: AtomicI64::new(0) })
    }

    /// Advances both clocks.
    pub fn advance_ns(&self, by_ns: i64) {
        self.passed.fetch_add(by_ns, Ordering::SeqCst);
    }

    /// Moves the wall clock by `by_ns` (back if negative); the monotonic clock stays.
    pub fn set_forward_ns(&self, by_ns: i64) {
        self.set.fetch_add(by_ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> i64 {
        self.passed.load(Ordering::SeqCst) + self.set.load(Ordering::SeqCst)
    }

    fn elapsed_ns(&self) -> i64 {
        self.passed.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_when_advanced() {
        let clock = ManualClock::shared(5);
        let shared: SharedClock = clock.clone();
        assert_eq!((shared.now_ns(), shared.elapsed_ns()), (5, 5));
        clock.advance_ns(7);
        assert_eq!((shared.now_ns(), shared.elapsed_ns()), (12, 12));
        clock.advance_ns(-20);
        assert_eq!(shared.now_ns(), -8);
        clock.set_forward_ns(100);
        assert_eq!((shared.now_ns(), shared.elapsed_ns()), (92, -8));
    }

    #[test]
    fn elapsed_time_never_decreases() {
        let clock = SystemClock::shared();
        let (first, second) = (clock.elapsed_ns(), clock.elapsed_ns());
        assert!(0 <= first && first <= second);
        // 2020-01-01; this code is newer.
        assert!(clock.now_ns() > 1_577_836_800_000_000_000);
    }
}
