//! Number of threads that are sealing slabs, for searches that decide how many threads they use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of threads of a store that are encoding a slab; always zero in a store that seals nothing.
#[derive(Clone, Debug, Default)]
pub struct SealingThreads(Arc<AtomicUsize>);

/// A thread counted as sealing until this is dropped.
#[derive(Debug)]
pub(crate) struct SealingThread(Arc<AtomicUsize>);

impl SealingThreads {
    /// Number of threads that are encoding a slab now.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts the calling thread.
    pub(crate) fn begin(&self) -> SealingThread {
        self.0.fetch_add(1, Ordering::Relaxed);
        SealingThread(Arc::clone(&self.0))
    }
}

impl Drop for SealingThread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_while_they_seal() {
        let threads = SealingThreads::default();
        let of_snapshot = threads.clone();
        let (first, second) = (threads.begin(), threads.begin());
        assert_eq!(of_snapshot.count(), 2);
        drop(first);
        assert_eq!(of_snapshot.count(), 1);
        drop(second);
        assert_eq!(of_snapshot.count(), 0);
    }
}
