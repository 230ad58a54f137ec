//! Thread pool of searches: threads are kept and reused, and joined when the engine is dropped.
//!
//! A search needs a deep stack. Creating a thread for each search would take longer than a search for one event. A
//! search never waits for a thread: if no thread is idle, a new thread is created. Threads are never detached: common C
//! libraries (glibc bug 19951) may touch a detached thread's memory after it has ended, which happens in practice at
//! thousands of short searches per second.
//!
//! A panic in a search becomes an error of that search ([`quarry_eval::panics::catch_panic`]); if the result merely
//! ended, it would look complete.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Stack size of a search's thread: expressions nest up to the parser's limit, and commands call one another for rows.
pub const STACK_BYTES: usize = 16 << 20;
/// Maximum stack already in use when a search continues on a foreign thread.
const STACK_USED_MAX: usize = 1 << 20;
/// Maximum number of idle threads; any further thread ends with its search.
const IDLE_MAX: usize = 64;

/// Runs part of a search with a sufficient stack: on this thread's stack or, if that is too small, on a new stack.
pub(crate) fn with_stack<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_BYTES - STACK_USED_MAX, STACK_BYTES, run)
}

type Work = Box<dyn FnOnce() + Send>;

/// Work sent to an idle thread.
struct Assignment {
    work: Work,
    /// Sender with which the thread returns to the idle list. An idle thread does not hold this sender, so that the
    /// thread ends when the list is dropped.
    idle_sender: Sender<Assignment>,
}

/// Threads that wait for a search.
#[derive(Default)]
struct Idle {
    /// Set when no more searches follow.
    closed: bool,
    threads: Vec<Sender<Assignment>>,
}

/// Threads of one engine. Dropping this value waits until every search has ended.
#[derive(Default)]
pub(crate) struct SearchThreads {
    idle: Arc<Mutex<Idle>>,
    all: Mutex<Vec<JoinHandle<()>>>,
}

impl SearchThreads {
    /// Runs `work` on a thread of its own.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut work: Work = Box::new(work);
        while let Some(thread) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).threads.pop() {
            match thread.send(Assignment { work, idle_sender: thread.clone() }) {
                Ok(()) => return Ok(()),
                // This thread ended with a panic; try the next one.
                Err(returned) => work = returned.0.work,
            }
        }
        let idle = Arc::clone(&self.idle);
        let thread = std::thread::Builder::new().name("search".into()).stack_size(STACK_BYTES);
        let handle = thread.spawn(move || run_worker(work, &idle))?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<JoinHandle<()>> = all.extract_if(.., |handle| handle.is_finished()).collect();
        all.push(handle);
        drop(all);
        // These threads have ended; joining only frees their memory. A panic was reported when it happened.
        ended.into_iter().for_each(|handle| drop(handle.join()));
        Ok(())
    }
}

impl Drop for SearchThreads {
    fn drop(&mut self) {
        // An idle thread ends when its sender is dropped; a busy thread finds the list closed.
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Idle { closed: true, threads: Vec::new() };
        let all = std::mem::take(self.all.get_mut().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(|handle| drop(handle.join()));
    }
}

/// Thread main function: runs searches while there is room in the idle list and the engine exists.
fn run_worker(first: Work, idle: &Mutex<Idle>) {
    let (back, orders) = channel();
    let mut order = Assignment { work: first, idle_sender: back };
    loop {
        (order.work)();
        {
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.closed || idle.threads.len() >= IDLE_MAX {
                return;
            }
            idle.threads.push(order.idle_sender);
        }
        match orders.recv() {
            Ok(next) => order = next,
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn threads_are_reused_and_end_with_the_engine() {
        let threads = SearchThreads::default();
        let (said, heard) = channel();
        let mut seen = Vec::new();
        // A thread becomes idle only a moment after it has answered, so another thread is sometimes created in
        // between.
        let reused = (0..10_000).any(|_| {
            let said = said.clone();
            threads.run(move || said.send(std::thread::current().id()).unwrap()).unwrap();
            let id = heard.recv().unwrap();
            let known = seen.contains(&id);
            seen.push(id);
            known
        });
        assert!(reused);
        drop(threads);
    }

    #[test]
    fn searches_run_concurrently_and_a_panic_ends_only_its_search() {
        let threads = SearchThreads::default();
        let (said, heard) = channel();
        let gates: Vec<Sender<()>> = (0..IDLE_MAX + 8)
            .map(|_| {
                let (open, gate) = channel();
                let said = said.clone();
                let wait = move || {
                    gate.recv().unwrap();
                    said.send(std::thread::current().id()).unwrap();
                };
                threads.run(wait).unwrap();
                open
            })
            .collect();
        gates.iter().for_each(|gate| gate.send(()).unwrap());
        let distinct: BTreeSet<String> = gates.iter().map(|_| format!("{:?}", heard.recv().unwrap())).collect();
        assert_eq!(distinct.len(), IDLE_MAX + 8);
        let (reported, hears) = channel::<()>();
        threads
            .run(move || {
                let _told = reported;
                std::panic::resume_unwind(Box::new("as wanted"));
            })
            .unwrap();
        assert!(hears.recv().is_err());
        threads.run(move || said.send(std::thread::current().id()).unwrap()).unwrap();
        heard.recv().unwrap();
    }
}
