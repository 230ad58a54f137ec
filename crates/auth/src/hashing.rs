//! Concurrency limit and memory reuse for password hashing.
//!
//! By design, one hash takes 19 MB and about 20 ms, and anyone can trigger a hash before logging in. The number of
//! running and of waiting hashes is therefore bounded. Each running hash has a *slot*, whose memory is allocated once
//! and reused.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::AuthError;
use crate::password::Memory;

/// Maximum number of concurrent hashes; further logins wait for a slot.
pub const HASHES_MAX: usize = 2;
/// Maximum number of logins waiting for a slot; further logins are refused at once.
pub const HASH_WAITERS_MAX: usize = 64;
/// Longest wait for a slot; then the login is refused.
const HASH_WAIT: Duration = Duration::from_secs(10);
/// `Retry-After` sent to a refused client, in seconds.
const RETRY_AFTER_S: u64 = 2;

/// Semaphore of concurrent password hashes, each with memory that is reused.
pub(crate) struct HashingSlots {
    state: Mutex<State>,
    freed: Condvar,
    waiters_max: usize,
    wait: Duration,
}

struct State {
    /// Memory of free slots.
    free: Vec<Memory>,
    waiting: usize,
}

/// A slot, released when dropped.
pub(crate) struct HashingPermit<'a> {
    hashing: &'a HashingSlots,
    pub(crate) memory: Memory,
}

impl Default for HashingSlots {
    fn default() -> HashingSlots {
        HashingSlots::new(HASHES_MAX, HASH_WAITERS_MAX, HASH_WAIT)
    }
}

impl HashingSlots {
    fn new(places: usize, waiters_max: usize, wait: Duration) -> HashingSlots {
        let free = (0..places).map(|_| Memory::new()).collect();
        HashingSlots { state: Mutex::new(State { free, waiting: 0 }), freed: Condvar::new(), waiters_max, wait }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a slot. Fails if too many already wait or the wait takes too long.
    pub(crate) fn acquire(&self) -> Result<HashingPermit<'_>, AuthError> {
        let busy = || AuthError::Busy { retry_after_s: RETRY_AFTER_S };
        let mut state = self.lock();
        if state.free.is_empty() {
            if state.waiting >= self.waiters_max {
                return Err(busy());
            }
            state.waiting += 1;
            let waited = self.freed.wait_timeout_while(state, self.wait, |state| state.free.is_empty());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        let memory = state.free.pop().ok_or_else(busy)?;
        Ok(HashingPermit { hashing: self, memory })
    }
}

impl Drop for HashingPermit<'_> {
    fn drop(&mut self) {
        self.hashing.lock().free.push(std::mem::take(&mut self.memory));
        self.hashing.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_and_waiting_hashes_are_bounded() {
        let hashing = HashingSlots::new(2, 0, HASH_WAIT);
        let first = hashing.acquire().unwrap();
        let second = hashing.acquire().unwrap();
        assert!(matches!(hashing.acquire(), Err(AuthError::Busy { .. })), "nobody may wait");
        drop(first);
        assert!(hashing.acquire().is_ok());
        drop(second);
    }

    #[test]
    fn waits_end_with_a_slot_or_a_timeout() {
        let hashing = HashingSlots::new(1, 1, Duration::from_millis(1));
        let mut held = hashing.acquire().unwrap();
        held.memory.push(argon2::Block::new());
        assert!(matches!(hashing.acquire(), Err(AuthError::Busy { .. })));
        assert_eq!(hashing.lock().waiting, 0);
        drop(held);
        assert_eq!(hashing.acquire().unwrap().memory.len(), 1, "memory is reused");
        let hashing = HashingSlots::new(1, 1, HASH_WAIT);
        let held = hashing.acquire().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| hashing.acquire().is_ok());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
