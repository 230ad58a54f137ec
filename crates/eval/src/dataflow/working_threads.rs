//! Threads that work for searches, counted over all searches of a node.
//!
//! A search that runs alone reads with one thread per core. If as many searches run as there are cores, further threads
//! do not make any of them faster: each thread repeats the work that is done once per thread and slab, and the results
//! of all threads of a search must be merged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of threads that work for searches.
#[derive(Debug, Default)]
pub(super) struct ThreadCount(AtomicUsize);

/// A thread counted as working until this is dropped.
#[derive(Debug)]
pub struct WorkingThread(Arc<ThreadCount>);

impl WorkingThread {
    /// Counts one more thread; returns the number of threads, including this one.
    pub(super) fn begin(count: &Arc<ThreadCount>) -> (WorkingThread, usize) {
        let before = count.0.fetch_add(1, Ordering::Relaxed);
        (WorkingThread(Arc::clone(count)), before + 1)
    }
}

impl Drop for WorkingThread {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::dataflow::{Dataflow, Slicing};

    #[test]
    fn threads_count_until_they_end() {
        let count = Arc::default();
        let (first, of_first) = WorkingThread::begin(&count);
        let (second, of_second) = WorkingThread::begin(&count);
        assert_eq!((of_first, of_second), (1, 2));
        drop(first);
        let (_third, of_third) = WorkingThread::begin(&count);
        assert_eq!(of_third, 2);
        drop(second);
        assert_eq!(WorkingThread::begin(&count).1, 2);
    }

    #[test]
    fn helpers_are_permitted_while_cores_are_free() {
        let dataflow = Dataflow::new(1 << 20, None).unwrap();
        let searches: Vec<WorkingThread> = (0..dataflow.workers()).map(|_| dataflow.begin_work()).collect();
        assert!(dataflow.begin_help(false, 0).is_none());
        assert!(dataflow.begin_help(true, 0).is_some());
        let fixed = dataflow.clone().with_slicing(&Slicing { workers: Some(3), ..Slicing::default() });
        assert!(fixed.begin_help(false, 0).is_some());
        drop(searches);
        assert!(dataflow.begin_help(false, dataflow.workers()).is_none());
        let first = dataflow.begin_help(false, dataflow.workers() - 1);
        assert!(first.is_some());
    }
}
