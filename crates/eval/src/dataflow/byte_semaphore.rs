//! A byte-weighted semaphore for large data: all searches together hold at most a given number of bytes; further
//! searches wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which a waiting search checks again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of checks after which a search gets its bytes regardless: it may hold other permits, and two such searches
/// would otherwise deadlock.
const POLLS_MAX: usize = 100;

/// A semaphore that counts bytes; see the module.
#[derive(Debug)]
pub struct ByteSemaphore {
    bytes_max: usize,
    state: Mutex<SemaphoreState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct SemaphoreState {
    bytes: usize,
    /// Number of waiting searches.
    waiting: usize,
}

/// Bytes held; released on drop.
#[derive(Debug)]
pub struct BytePermit {
    semaphore: Arc<ByteSemaphore>,
    bytes: usize,
}

impl ByteSemaphore {
    /// A semaphore for at most `most` bytes.
    pub(super) fn new(most: usize) -> ByteSemaphore {
        ByteSemaphore { bytes_max: most, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Acquires `bytes` as soon as they fit or no other bytes are held, at the latest after five seconds; `None` if
    /// `is_over` becomes true first. A search that already holds a permit must not wait for another: `may_wait` is then
    /// false.
    pub fn acquire(
        self: &Arc<ByteSemaphore>,
        bytes: usize,
        may_wait: bool,
        is_over: impl Fn() -> bool,
    ) -> Option<BytePermit> {
        let mut held = self.lock_state();
        let mut polls = 0;
        while may_wait && held.bytes > 0 && held.bytes + bytes > self.bytes_max && polls < POLLS_MAX {
            if is_over() {
                return None;
            }
            polls += 1;
            held.waiting += 1;
            held = self.freed.wait_timeout(held, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
            held.waiting -= 1;
        }
        held.bytes += bytes;
        Some(BytePermit { semaphore: Arc::clone(self), bytes })
    }

    /// Whether a search is waiting, so that bytes not needed now should be released.
    pub fn has_waiters(&self) -> bool {
        self.lock_state().waiting > 0
    }

    fn lock_state(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        self.semaphore.lock_state().bytes -= self.bytes;
        self.semaphore.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn acquiring_waits_for_room_unless_exempt_or_cancelled() {
        let semaphore = Arc::new(ByteSemaphore::new(10));
        let first = semaphore.acquire(25, true, || false).unwrap();
        assert!(semaphore.acquire(1, true, || true).is_none());
        let more = semaphore.acquire(5, false, || false).unwrap();
        let acquired = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let permit = semaphore.acquire(8, true, || false).unwrap();
                acquired.store(true, Ordering::SeqCst);
                drop(permit);
            });
            drop(first);
            assert!(!acquired.load(Ordering::SeqCst), "five and eight exceed ten");
            drop(more);
            waiter.join().unwrap();
        });
        assert_eq!((semaphore.lock_state().bytes, acquired.load(Ordering::SeqCst)), (0, true));
    }
}
