//! Concurrency limit and memory reuse for password hashing.
//!
//! By design, one hash takes 19 MB and about 20 ms, and anyone can trigger one before logging in. The number of running
//! and of waiting hashes is therefore bounded, and the memory of each slot is allocated once and reused.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::AuthError;
use crate::password::Memory;

/// Maximum concurrent hashes.
pub const HASHES_MAX: usize = 2;
/// Maximum number of logins waiting for a slot; further ones are refused at once.
pub const HASH_WAITERS_MAX: usize = 64;
/// Longest wait for a slot.
const HASH_WAIT: Duration = Duration::from_secs(10);
/// `Retry-After` sent to a refused client.
const RETRY_AFTER_S: u64 = 2;

/// The hashing slots.
pub(crate) struct Hashing {
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
    hashing: &'a Hashing,
    pub(crate) memory: Memory,
}

impl Default for Hashing {
    fn default() -> Hashing {
        Hashing::new(HASHES_MAX, HASH_WAITERS_MAX, HASH_WAIT)
    }
}

impl Hashing {
    fn new(places: usize, waiters_max: usize, wait: Duration) -> Hashing {
        let free = (0..places).map(|_| Memory::new()).collect();
        Hashing { state: Mutex::new(State { free, waiting: 0 }), freed: Condvar::new(), waiters_max, wait }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a slot. Fails if too many already wait or the wait takes too long.
    pub(crate) fn place(&self) -> Result<HashingPermit<'_>, AuthError> {
        let busy = || AuthError::Busy { retry_after_s: RETRY_AFTER_S };
        let mut state = self.locked();
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
        self.hashing.locked().free.push(std::mem::take(&mut self.memory));
        self.hashing.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_at_once_and_those_that_wait_are_bounded() {
        let hashing = Hashing::new(2, 0, HASH_WAIT);
        let first = hashing.place().unwrap();
        let second = hashing.place().unwrap();
        assert!(matches!(hashing.place(), Err(AuthError::Busy { .. })), "nobody may wait");
        drop(first);
        assert!(hashing.place().is_ok());
        drop(second);
    }

    #[test]
    fn a_wait_ends_with_a_place_or_with_its_time() {
        let hashing = Hashing::new(1, 1, Duration::from_millis(1));
        let mut held = hashing.place().unwrap();
        held.memory.push(argon2::Block::new());
        assert!(matches!(hashing.place(), Err(AuthError::Busy { .. })));
        assert_eq!(hashing.locked().waiting, 0);
        drop(held);
        assert_eq!(hashing.place().unwrap().memory.len(), 1, "memory is reused");
        let hashing = Hashing::new(1, 1, HASH_WAIT);
        let held = hashing.place().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| hashing.place().is_ok());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
