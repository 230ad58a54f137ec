//! What commands may know of the search they run in: its moment, range and user, memory, messages, whether to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use quarry_conf::Permissions;
use quarry_spl::ast::PercentileMethod;

use crate::dataflow::Dataflow;
use crate::expr::{ExprContext, ExprTables};
use crate::messages::Messages;

/// Open transactions unless told otherwise (limits.conf `[transactions] maxopentxn`).
const OPEN_TRANSACTIONS: usize = 5_000;
/// Their events (limits.conf `[transactions] maxopenevents`).
const OPEN_TRANSACTION_EVENTS: usize = 100_000;

/// What a command may know about the search it runs in.
#[derive(Clone)]
pub struct CommandContext {
    /// Name of the search, unique among those of its server.
    pub id: Arc<str>,
    /// Text of the search as written.
    pub search: Arc<str>,
    /// Start of the search; `now()`.
    pub now: quarry_event::TimeNs,
    /// Time zone of the user.
    pub zone: jiff::tz::TimeZone,
    /// Range the search reads; `timechart` shows it.
    pub range: quarry_event::TimeRange,
    /// DataFusion with its memory pool and spill files.
    pub dataflow: Arc<Dataflow>,
    /// What `transaction` keeps open unless it says otherwise.
    pub transactions: TransactionLimits,
    /// How percentiles are read off.
    pub percentiles: PercentileMethod,
    /// What `lookup()` reads.
    pub tables: ExprTables,
    /// Messages for the user: limits reached, things skipped.
    pub messages: Arc<Messages>,
    /// Whether and how to stop.
    pub stop: Arc<Stop>,
    /// What it can let go of while its reader is slow.
    pub holdings: Arc<Holdings>,
    /// What the user may do.
    pub permissions: Arc<Permissions>,
}

impl CommandContext {
    /// What expressions may know of the search.
    pub fn expressions(&self) -> ExprContext {
        ExprContext {
            now: self.now,
            zone: self.zone.clone(),
            tables: self.tables.clone(),
            percentiles: self.percentiles,
        }
    }
}

/// What a search has in memory only to be quick: it can be made once more.
pub trait LetGo: Send + Sync {
    /// Takes no memory until it is needed again.
    fn let_go(&self);
}

/// All of that of one search.
#[derive(Default)]
pub struct Holdings(Mutex<Vec<Weak<dyn LetGo>>>);

impl Holdings {
    /// Adds what can be let go of, as long as somebody holds it.
    pub fn add(&self, holding: Weak<dyn LetGo>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(holding);
    }

    /// Lets go of everything: nobody waits for the search's rows for now.
    pub fn let_go(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|holding| holding.let_go());
    }
}

/// What the user of a search wants of it while it runs: to end, or to wait.
#[derive(Debug, Default)]
pub struct Stop {
    cancelled: AtomicBool,
    finishing: AtomicBool,
    partial: AtomicBool,
    paused: AtomicBool,
    /// Readers of a paused search wait here.
    gate: (Mutex<()>, Condvar),
}

impl Stop {
    /// Ends the search without a result.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.partial.store(true, Ordering::Relaxed);
        self.open_gate();
    }

    /// Reads no more events and answers from those read.
    pub fn finish_early(&self) {
        self.finishing.store(true, Ordering::Relaxed);
        self.open_gate();
    }

    /// Reads no more events until [`Stop::resume`], or until the search is to end.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Goes on reading.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
        self.open_gate();
    }

    /// Wakes who waits. Flags are set before: whoever holds the lock has not looked at them yet or waits already.
    fn open_gate(&self) {
        let (lock, waiters) = &self.gate;
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        waiters.notify_all();
    }

    fn is_held(&self) -> bool {
        self.paused.load(Ordering::Relaxed) && !self.finishing.load(Ordering::Relaxed) && !self.is_cancelled()
    }

    /// Waits while the search is paused.
    pub fn wait_while_paused(&self) {
        if !self.paused.load(Ordering::Relaxed) {
            return;
        }
        let (lock, waiters) = &self.gate;
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(waiters.wait_while(held, |()| self.is_held()));
    }

    /// Whether the result must not be waited for.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether no more events are to be read, asked before each page: a paused search waits here.
    pub fn stops_reading(&self) -> bool {
        self.wait_while_paused();
        self.finishing.load(Ordering::Relaxed) || self.is_cancelled()
    }

    /// Notes that the answer lacks something.
    pub fn mark_partial(&self) {
        self.partial.store(true, Ordering::Relaxed);
    }

    /// Whether the answer lacks something.
    pub fn is_partial(&self) -> bool {
        self.partial.load(Ordering::Relaxed)
    }
}

/// What `transaction` keeps open at a time; beyond, the one unchanged for longest is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Open transactions.
    pub max_open: usize,
    /// Events of all of them.
    pub max_open_events: usize,
}

impl Default for TransactionLimits {
    fn default() -> TransactionLimits {
        TransactionLimits { max_open: OPEN_TRANSACTIONS, max_open_events: OPEN_TRANSACTION_EVENTS }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_paused_search_reads_on_when_it_is_resumed_or_is_to_end() {
        for (end, stops) in [(Stop::resume as fn(&Stop), false), (Stop::finish_early, true), (Stop::cancel, true)] {
            let stop = Stop::default();
            stop.pause();
            thread::scope(|scope| {
                let (told, hears) = channel();
                let stop = &stop;
                scope.spawn(move || told.send(stop.stops_reading()));
                assert!(hears.try_recv().is_err(), "it waits");
                end(stop);
                assert_eq!(hears.recv(), Ok(stops));
            });
        }
    }
}
