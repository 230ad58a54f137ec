//! A byte-weighted semaphore for large data: all searches together hold at most a given number of bytes; further
//! searches wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which a waiting search checks again.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// Number of checks after which a search enters regardless: it may hold other entries, and two such searches would
/// otherwise deadlock.
const LOOKS_MAX: usize = 100;

/// The gate.
#[derive(Debug)]
pub struct ByteGate {
    most: usize,
    state: Mutex<Held>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// Number of waiting searches.
    waiting: usize,
}

/// Bytes held; released on drop.
#[derive(Debug)]
pub struct GateEntry {
    gate: Arc<ByteGate>,
    bytes: usize,
}

impl ByteGate {
    /// A gate for at most `most` bytes.
    pub(super) fn new(most: usize) -> ByteGate {
        ByteGate { most, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Enters with `bytes` as soon as they fit, no other search is inside, or five seconds have passed; `None` if
    /// `is_over` becomes true first. A search that already holds an entry must not wait for another: `may_wait` is
    /// then false.
    pub fn enter(self: &Arc<ByteGate>, bytes: usize, may_wait: bool, is_over: impl Fn() -> bool) -> Option<GateEntry> {
        let mut held = self.locked();
        let mut looks = 0;
        while may_wait && held.bytes > 0 && held.bytes + bytes > self.most && looks < LOOKS_MAX {
            if is_over() {
                return None;
            }
            looks += 1;
            held.waiting += 1;
            held = self.freed.wait_timeout(held, POLL_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            held.waiting -= 1;
        }
        held.bytes += bytes;
        Some(GateEntry { gate: Arc::clone(self), bytes })
    }

    /// Whether a search is waiting, so that bytes not needed now should be released.
    pub fn is_wanted(&self) -> bool {
        self.locked().waiting > 0
    }

    fn locked(&self) -> MutexGuard<'_, Held> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GateEntry {
    fn drop(&mut self) {
        self.gate.locked().bytes -= self.bytes;
        self.gate.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn who_does_not_fit_waits_unless_it_holds_some_or_is_over() {
        let gate = Arc::new(ByteGate::new(10));
        let first = gate.enter(25, true, || false).unwrap();
        assert!(gate.enter(1, true, || true).is_none());
        let more = gate.enter(5, false, || false).unwrap();
        let entered = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let entry = gate.enter(8, true, || false).unwrap();
                entered.store(true, Ordering::SeqCst);
                drop(entry);
            });
            drop(first);
            assert!(!entered.load(Ordering::SeqCst), "five and eight exceed ten");
            drop(more);
            waiter.join().unwrap();
        });
        assert_eq!((gate.locked().bytes, entered.load(Ordering::SeqCst)), (0, true));
    }
}
