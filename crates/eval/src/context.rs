//! The search context of commands: time, range, user, memory, messages, cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use quarry_conf::Permissions;
use quarry_spl::ast::PercentileMethod;

use crate::EngineError;
use crate::costs::Costs;
use crate::dataflow::Dataflow;
use crate::expr::{ExprContext, ExprTables};
use crate::messages::Messages;

/// Default limit of open transactions (limits.conf `[transactions] maxopentxn`).
const OPEN_TRANSACTIONS_MAX: usize = 5_000;
/// Default limit of events in open transactions (limits.conf `[transactions] maxopenevents`).
const OPEN_TRANSACTION_EVENTS_MAX: usize = 100_000;

/// Access of a command to the search in which it runs.
#[derive(Clone)]
pub struct CommandContext {
    /// Id of the search, unique on its server.
    pub id: Arc<str>,
    /// Text of the search as written.
    pub search: Arc<str>,
    /// Start of the search; `now()`.
    pub now: quarry_event::TimeNs,
    /// Time zone of the user.
    pub zone: jiff::tz::TimeZone,
    /// Time range of the search; `timechart` shows it.
    pub range: quarry_event::TimeRange,
    /// Memory pool and spill files (DataFusion).
    pub dataflow: Arc<Dataflow>,
    /// Default limits of `transaction`.
    pub transactions: TransactionLimits,
    /// Algorithm for percentiles.
    pub percentiles: PercentileMethod,
    /// Tables for `lookup()`.
    pub tables: ExprTables,
    /// Messages for the user: limits reached, data skipped.
    pub messages: Arc<Messages>,
    /// Signals whether and how the search must stop.
    pub stop: Arc<Stop>,
    /// Memory that can be released while the reader is slow.
    pub holdings: Arc<ReleasableMemory>,
    /// Permissions of the user.
    pub permissions: Arc<Permissions>,
    /// Costs of the search's parts.
    pub costs: Arc<Costs>,
}

impl CommandContext {
    /// The context for evaluating expressions.
    pub fn expressions(&self) -> ExprContext {
        ExprContext {
            now: self.now,
            zone: self.zone.clone(),
            tables: self.tables.clone(),
            percentiles: self.percentiles,
        }
    }
}

/// Data that a search keeps only for speed and can compute again.
pub trait ReleaseMemory: Send + Sync {
    /// Releases the memory until it is needed again.
    fn release_memory(&self);
}

/// All data of one search that can be released.
#[derive(Default)]
pub struct ReleasableMemory(Mutex<Vec<Weak<dyn ReleaseMemory>>>);

impl ReleasableMemory {
    /// Registers data that can be released, as long as its owner keeps it.
    pub fn add(&self, holding: Weak<dyn ReleaseMemory>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(holding);
    }

    /// Releases everything, because nobody is waiting for rows of the search.
    pub fn release_memory(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|holding| holding.release_memory());
    }
}

/// The user's control over a running search: end it or pause it.
#[derive(Debug, Default)]
pub struct Stop {
    cancelled: AtomicBool,
    finishing: AtomicBool,
    partial: AtomicBool,
    paused: AtomicBool,
    /// Threads of a paused search wait here.
    gate: (Mutex<()>, Condvar),
}

impl Stop {
    /// Ends the search without a result.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.partial.store(true, Ordering::Relaxed);
        self.wake_waiters();
    }

    /// Stops reading events; the result is based on the events read so far.
    pub fn finish_early(&self) {
        self.finishing.store(true, Ordering::Relaxed);
        self.wake_waiters();
    }

    /// Stops reading events until [`Stop::resume`] is called or the search ends.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Continues reading.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
        self.wake_waiters();
    }

    /// Wakes waiting threads. Callers set flags before: a thread that holds the lock either has not checked the flags
    /// yet or is already waiting.
    fn wake_waiters(&self) {
        let (lock, waiters) = &self.gate;
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        waiters.notify_all();
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed) && !self.finishing.load(Ordering::Relaxed) && !self.is_cancelled()
    }

    /// Waits while the search is paused.
    pub fn wait_while_paused(&self) {
        if !self.paused.load(Ordering::Relaxed) {
            return;
        }
        let (lock, waiters) = &self.gate;
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(waiters.wait_while(held, |()| self.is_paused()));
    }

    /// Whether the result is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Fails if the result is no longer needed. Loops in which one row may take milliseconds call it for every row,
    /// because they do not request further rows meanwhile. The user never sees the error: a cancelled search has no
    /// result.
    pub fn check_cancelled(&self) -> Result<(), EngineError> {
        if self.is_cancelled() { Err(EngineError::invalid("the search is cancelled")) } else { Ok(()) }
    }

    /// Whether to stop reading events; called before each page. While the search is paused, the call waits.
    pub fn should_stop_reading(&self) -> bool {
        self.wait_while_paused();
        self.finishing.load(Ordering::Relaxed) || self.is_cancelled()
    }

    /// Marks the result as incomplete.
    pub fn mark_partial(&self) {
        self.partial.store(true, Ordering::Relaxed);
    }

    /// Whether the result is incomplete.
    pub fn is_partial(&self) -> bool {
        self.partial.load(Ordering::Relaxed)
    }
}

/// Limits of open transactions; beyond them, the least recently changed transaction is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Maximum number of open transactions.
    pub max_open: usize,
    /// Maximum number of events in all open transactions.
    pub max_open_events: usize,
}

impl Default for TransactionLimits {
    fn default() -> TransactionLimits {
        TransactionLimits { max_open: OPEN_TRANSACTIONS_MAX, max_open_events: OPEN_TRANSACTION_EVENTS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn paused_searches_continue_when_resumed_or_ended() {
        for (end, stops) in [(Stop::resume as fn(&Stop), false), (Stop::finish_early, true), (Stop::cancel, true)] {
            let stop = Stop::default();
            stop.pause();
            thread::scope(|scope| {
                let (reported, hears) = channel();
                let stop = &stop;
                scope.spawn(move || reported.send(stop.should_stop_reading()));
                assert!(hears.try_recv().is_err(), "it waits");
                end(stop);
                assert_eq!(hears.recv(), Ok(stops));
            });
        }
    }
}
