//! Pipeline sets: files added in parallel, each through one set from beginning to end.
//!
//! A set is a thread with its own sink, and therefore its own share of the store's queue and its own hot slabs; a set
//! takes the next file when it has finished its current file. Files are started in the given order, so that timing does
//! not decide which of two identical files is skipped. With one set, everything runs on the caller's thread.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use quarry_event::EventBatch;
use quarry_inputs::{FilePosition, Sink, SinkError};

use crate::error::IngestError;

/// Name of a set's thread.
const SET_THREAD: &str = "quarry-set";

/// Files to be processed by several sets.
#[derive(Debug)]
pub struct Files {
    next: AtomicUsize,
    count: usize,
    is_over: AtomicBool,
}

impl Files {
    /// Takes the next file; `None` if all are taken or processing is to stop.
    pub fn take(&self) -> Option<usize> {
        let is_over = self.is_over.load(Ordering::SeqCst);
        let taken = || self.next.fetch_add(1, Ordering::SeqCst);
        if is_over { None } else { Some(taken()).filter(|file| *file < self.count) }
    }
}

/// Processes `files` files with `sets` sets. `work` is called once per set with the set's number, and takes files until
/// none are left. An error or a break ends all sets after their current file; of several errors, the one from the set
/// with the lowest number is returned.
pub fn run<E: From<IngestError> + Send>(
    sets: usize,
    files: usize,
    work: impl Fn(usize, &Files) -> Result<ControlFlow<()>, E> + Sync,
) -> Result<(), E> {
    let files = Files { next: AtomicUsize::new(0), count: files, is_over: AtomicBool::new(false) };
    let work = |set: usize| {
        let done = work(set, &files);
        if !matches!(done, Ok(ControlFlow::Continue(()))) {
            files.is_over.store(true, Ordering::SeqCst);
        }
        done.map(drop)
    };
    let sets = sets.min(files.count).max(1);
    if sets == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let start = |set: usize| {
            let thread = std::thread::Builder::new().name(format!("{SET_THREAD}-{set}"));
            thread.spawn_scoped(scope, move || work(set))
        };
        let threads: Vec<_> = (0..sets).map(start).collect();
        let ended = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(IngestError::SetEnded.into())),
            Err(error) => Err(IngestError::Thread(error).into()),
        });
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Order in which the sinks of files look up stored positions, so that of several identical files, the first is read.
#[derive(Debug, Default)]
pub struct LookupOrder {
    inner: Mutex<LookupState>,
    passed: Condvar,
}

#[derive(Debug, Default)]
struct LookupState {
    /// Number of the file whose turn it is.
    now: usize,
    /// Files after `now` whose turns were ended before they began.
    done: BTreeSet<usize>,
}

impl LookupOrder {
    fn lock(&self) -> MutexGuard<'_, LookupState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of a file.
    fn wait(&self, file: usize) {
        let mut turn = self.lock();
        while turn.now < file {
            turn = self.passed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the turn of a file, even if it has not begun.
    fn pass(&self, file: usize) {
        let mut turn = self.lock();
        turn.done.insert(file);
        while let Some(first) = turn.done.first().copied()
            && first <= turn.now
        {
            turn.done.remove(&first);
            turn.now = turn.now.max(first + 1);
        }
        drop(turn);
        self.passed.notify_all();
    }
}

/// Sink of one file, which waits for the file's turn before it looks up positions.
pub struct OrderedSink<'a, S: Sink> {
    sink: &'a mut S,
    turns: &'a LookupOrder,
    file: usize,
    has_passed: bool,
}

impl<'a, S: Sink> OrderedSink<'a, S> {
    /// Creates the sink of file number `file`; dropping it passes the file's turn.
    pub fn new(sink: &'a mut S, turns: &'a LookupOrder, file: usize) -> OrderedSink<'a, S> {
        OrderedSink { sink, turns, file, has_passed: false }
    }

    fn pass(&mut self) {
        if !std::mem::replace(&mut self.has_passed, true) {
            self.turns.pass(self.file);
        }
    }
}

impl<S: Sink> Drop for OrderedSink<'_, S> {
    fn drop(&mut self) {
        self.pass();
    }
}

impl<S: Sink> Sink for OrderedSink<'_, S> {
    fn positions(&mut self, index: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        self.turns.wait(self.file);
        let known = self.sink.positions(index, head);
        self.pass();
        known
    }

    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError> {
        // A source without positions, such as a stream, looks nothing up, so its first events end the turn.
        self.pass();
        self.sink.accept(batch, position)
    }

    fn spare_batch(&mut self) -> Option<EventBatch> {
        self.sink.spare_batch()
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_processed_once() {
        for (sets, count) in [(1, 5), (3, 0), (3, 2), (4, 50)] {
            let taken = Mutex::new(Vec::new());
            let work = |set: usize, files: &Files| {
                assert!(set < sets);
                while let Some(file) = files.take() {
                    taken.lock().unwrap().push(file);
                }
                Ok(ControlFlow::Continue(()))
            };
            run::<IngestError>(sets, count, work).unwrap();
            let mut taken = taken.into_inner().unwrap();
            taken.sort_unstable();
            assert_eq!(taken, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn failing_sets_stop_the_others() {
        let work = |_: usize, files: &Files| match files.take() {
            Some(0) => Ok(ControlFlow::Break(())),
            _ => Ok(ControlFlow::Continue(())),
        };
        run::<IngestError>(1, 9, work).unwrap();
        let failed = run(2, 9, |set, _| match set {
            0 => Ok(ControlFlow::Continue(())),
            _ => Err(IngestError::SetEnded),
        });
        assert!(matches!(failed.unwrap_err(), IngestError::SetEnded));
    }

    #[test]
    fn turns_are_ordered_and_skipped_if_not_needed() {
        let turns = LookupOrder::default();
        turns.pass(2);
        turns.pass(0);
        turns.wait(1);
        std::thread::scope(|scope| {
            let third = scope.spawn(|| turns.wait(3));
            turns.pass(1);
            third.join().unwrap();
        });
        assert_eq!(turns.lock().now, 3);
        assert!(turns.lock().done.is_empty());
    }
}
