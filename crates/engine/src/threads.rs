//! The threads that searches run on: kept and used again, ended and joined with the engine.
//!
//! A search needs a deep stack, and a thread made for each would cost a needle more than its answer. A search never
//! waits for a thread: without an idle one a new one is made. No thread is ever detached: the C library of common
//! systems (glibc bug 19951) may touch a detached thread's memory after it has gone, which thousands of short
//! searches per second do meet.
//!
//! A panic in a search is an error of this search ([`quarry_eval::panics::caught`]): an answer that only ends would look whole.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes of stack of a search's thread: expressions nest up to the parser's limit, and commands ask one another for rows.
pub const STACK_BYTES: usize = 16 << 20;
/// What of it may be in use already where a search goes on, on a thread that is not its own.
const STACK_USED_MAX: usize = 1 << 20;
/// Threads that stay for the next search; others end with their search.
const IDLE_MAX: usize = 64;

/// Runs a part of a search on this thread with the stack that a search needs: another one where this is not as deep.
pub(crate) fn with_stack<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_BYTES - STACK_USED_MAX, STACK_BYTES, run)
}

type Work = Box<dyn FnOnce() + Send>;

/// What an idle thread waits for.
struct Order {
    work: Work,
    /// The thread's own way back among the idle. It has none while it is idle, so that it ends when they are let go.
    back: Sender<Order>,
}

/// Threads that wait for a search.
#[derive(Default)]
struct Idle {
    /// No search will come any more.
    closed: bool,
    threads: Vec<Sender<Order>>,
}

/// Threads of one engine. Dropping it waits until every search has ended.
#[derive(Default)]
pub(crate) struct SearchThreads {
    idle: Arc<Mutex<Idle>>,
    all: Mutex<Vec<JoinHandle<()>>>,
}

impl SearchThreads {
    /// Runs `work` on a thread of its own from now on.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut work: Work = Box::new(work);
        while let Some(thread) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).threads.pop() {
            match thread.send(Order { work, back: thread.clone() }) {
                Ok(()) => return Ok(()),
                // It ended with a panic; the next one may do.
                Err(returned) => work = returned.0.work,
            }
        }
        let idle = Arc::clone(&self.idle);
        let thread = std::thread::Builder::new().name("search".into()).stack_size(STACK_BYTES);
        let handle = thread.spawn(move || serve(work, &idle))?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<JoinHandle<()>> = all.extract_if(.., |handle| handle.is_finished()).collect();
        all.push(handle);
        drop(all);
        // They have ended: joining only gives their memory back. A panic was told when it happened.
        ended.into_iter().for_each(|handle| drop(handle.join()));
        Ok(())
    }
}

impl Drop for SearchThreads {
    fn drop(&mut self) {
        // An idle thread ends when its sender goes; one at work finds the list closed.
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Idle { closed: true, threads: Vec::new() };
        let all = std::mem::take(self.all.get_mut().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(|handle| drop(handle.join()));
    }
}

/// What a thread does: one search after the other, while there is room among the idle and an engine.
fn serve(first: Work, idle: &Mutex<Idle>) {
    let (back, orders) = channel();
    let mut order = Order { work: first, back };
    loop {
        (order.work)();
        {
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.closed || idle.threads.len() >= IDLE_MAX {
                return;
            }
            idle.threads.push(order.back);
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
    fn a_thread_serves_one_search_after_the_other_and_ends_with_the_engine() {
        let threads = SearchThreads::default();
        let (said, heard) = channel();
        let mut seen = Vec::new();
        // A thread is idle a moment after it has answered, so that another one may be made in between now and then.
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
    fn searches_run_beside_each_other_and_a_panic_ends_only_its_own() {
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
        let (told, hears) = channel::<()>();
        threads
            .run(move || {
                let _told = told;
                std::panic::resume_unwind(Box::new("as wanted"));
            })
            .unwrap();
        assert!(hears.recv().is_err());
        threads.run(move || said.send(std::thread::current().id()).unwrap()).unwrap();
        heard.recv().unwrap();
    }
}
