//! Reads of remote objects, counted for the search that makes them.
//!
//! All searches share the open objects, so an object cannot tell which search reads it. Instead, each thread of a
//! search registers the search's counters ([`SearchReads::count_thread_reads`]), and the cache adds to the counters of
//! the reading thread. A block that two searches wait for counts as fetched for the search that requested it, and as
//! cached for the other.
//!
//! Not here: totals of the process ([`crate::CacheStats`]).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a search's reads of remote objects.
#[derive(Debug, Default)]
pub struct SearchReads {
    cached_reads: AtomicU64,
    cached_bytes: AtomicU64,
    requests: AtomicU64,
    fetched_bytes: AtomicU64,
    waited_ns: AtomicU64,
}

/// The counts of [`SearchReads`] at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Runs of neighbouring blocks read from the cache.
    pub cached_reads: u64,
    /// Bytes read from the cache.
    pub cached_bytes: u64,
    /// Ranges requested from volumes.
    pub requests: u64,
    /// Bytes fetched from volumes.
    pub fetched_bytes: u64,
    /// Time spent waiting for volumes, in nanoseconds, summed over the threads of the search.
    pub waited_ns: u64,
}

impl ReadStats {
    /// Whether no remote object was read.
    pub fn is_empty(&self) -> bool {
        self.cached_reads == 0 && self.requests == 0
    }
}

thread_local! {
    static SEARCH: RefCell<Option<Arc<SearchReads>>> = const { RefCell::new(None) };
}

/// Guard: until it is dropped, reads of this thread count for a search.
#[derive(Debug)]
pub struct CountingGuard(Option<Arc<SearchReads>>);

impl Drop for CountingGuard {
    fn drop(&mut self) {
        let before = self.0.take();
        SEARCH.with(|search| *search.borrow_mut() = before);
    }
}

impl SearchReads {
    /// The counters to which this thread's reads are added, if any; helper threads of the search register the same
    /// ones.
    pub fn of_current_thread() -> Option<Arc<SearchReads>> {
        SEARCH.with(|search| search.borrow().clone())
    }

    /// Adds this thread's reads to these counters until the returned guard is dropped.
    pub fn count_thread_reads(self: &Arc<SearchReads>) -> CountingGuard {
        CountingGuard(SEARCH.with(|search| search.borrow_mut().replace(Arc::clone(self))))
    }

    /// The counts so far.
    pub fn stats(&self) -> ReadStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReadStats {
            cached_reads: of(&self.cached_reads),
            cached_bytes: of(&self.cached_bytes),
            requests: of(&self.requests),
            fetched_bytes: of(&self.fetched_bytes),
            waited_ns: of(&self.waited_ns),
        }
    }
}

/// Adds to the counts of this thread's search.
pub(crate) fn add_to_current(read: ReadStats) {
    SEARCH.with(|search| {
        if let Some(search) = &*search.borrow() {
            let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
            add(&search.cached_reads, read.cached_reads);
            add(&search.cached_bytes, read.cached_bytes);
            add(&search.requests, read.requests);
            add(&search.fetched_bytes, read.fetched_bytes);
            add(&search.waited_ns, read.waited_ns);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_counted_for_the_search_of_their_thread() {
        let (one, other) = (Arc::<SearchReads>::default(), Arc::<SearchReads>::default());
        let read = ReadStats { requests: 2, fetched_bytes: 7, ..ReadStats::default() };
        add_to_current(read);
        let counting = one.count_thread_reads();
        add_to_current(read);
        {
            let _other = other.count_thread_reads();
            add_to_current(read);
            let on_another_thread = SearchReads::of_current_thread().unwrap();
            std::thread::spawn(move || {
                assert!(SearchReads::of_current_thread().is_none());
                let _counting = on_another_thread.count_thread_reads();
                add_to_current(read);
            })
            .join()
            .unwrap();
        }
        drop(counting);
        add_to_current(read);
        assert_eq!((one.stats().requests, other.stats().requests), (2, 4));
        assert_eq!((one.stats().fetched_bytes, one.stats().is_empty()), (7, false));
        assert!(SearchReads::of_current_thread().is_none());
    }
}
