//! The search context of commands: time, range, user, memory, messages, cancellation.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};

use quarry_conf::Permissions;
use quarry_spl::ast::PercentileMethod;
use quarry_stdx::SharedClock;

use crate::EngineError;
use crate::costs::Costs;
use crate::dataflow::Dataflow;
use crate::expr::{ExprContext, ExprTables};
use crate::messages::Messages;

/// Default limit of open transactions (limits.conf `[transactions] maxopentxn`).
const OPEN_TRANSACTIONS_MAX: usize = 5_000;
/// Default limit of events in open transactions (limits.conf `[transactions] maxopenevents`).
const OPEN_TRANSACTION_EVENTS_MAX: usize = 100_000;

/// Time for which commands still receive rows after the search was finalised.
const INPUT_AFTER_FINISH_NS: i64 = 100_000_000;
/// Time after finalisation at which commands leave their loops.
const WORK_AFTER_FINISH_NS: i64 = 150_000_000;
/// Minimum time for the work of a command, even if the commands before it have used all the time of the search: without
/// it, the command would return no rows.
const WORK_MIN_NS: i64 = 50_000_000;

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

    /// Releases everything; called when nobody is waiting for rows of the search.
    pub fn release_memory(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|holding| holding.release_memory());
    }
}

/// The user's control over a running search: end it or pause it.
///
/// A finalised search reads no more events. If it has a clock, the commands that work on events receive rows for
/// another [`INPUT_AFTER_FINISH_NS`]. After [`WORK_AFTER_FINISH_NS`], iterative commands end with what they have
/// computed, and the other commands with the rows that they have received; each command may work for at least
/// [`WORK_MIN_NS`]. Folds are completed, because groups without some of their rows would be wrong. In a search that
/// writes, all commands after the first one that needs all rows receive all rows ([`Stop::keep_rows`]).
#[derive(Debug)]
pub struct Stop {
    cancelled: AtomicBool,
    finishing: AtomicBool,
    clock: OnceLock<SharedClock>,
    /// Time by the clock at which the search is finalised.
    finish_ns: AtomicI64,
    /// Whether a command received fewer rows, or worked less, because the search was finalised.
    cut: AtomicBool,
    /// Whether a command of the search writes, so that the rows it receives must be complete.
    keeps_rows: AtomicBool,
    partial: AtomicBool,
    paused: AtomicBool,
    /// Threads of a paused search wait here.
    gate: (Mutex<()>, Condvar),
}

/// Time at which a command began its work.
#[derive(Clone, Copy, Debug)]
pub struct WorkStart(i64);

impl Default for Stop {
    fn default() -> Stop {
        Stop {
            cancelled: AtomicBool::default(),
            finishing: AtomicBool::default(),
            clock: OnceLock::new(),
            finish_ns: AtomicI64::new(i64::MAX),
            cut: AtomicBool::default(),
            keeps_rows: AtomicBool::default(),
            partial: AtomicBool::default(),
            paused: AtomicBool::default(),
            gate: <(Mutex<()>, Condvar)>::default(),
        }
    }
}

impl Stop {
    /// Sets the clock that limits the time of commands after the search was finalised.
    pub fn set_clock(&self, clock: SharedClock) {
        // Only the first clock counts.
        drop(self.clock.set(clock));
    }

    /// Finalises the search when its clock reaches this time.
    pub fn finish_at(&self, elapsed_ns: i64) {
        self.finish_ns.fetch_min(elapsed_ns, Ordering::Relaxed);
    }

    /// Ends the search without a result.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.partial.store(true, Ordering::Relaxed);
        self.wake_waiters();
    }

    /// Finalises the search: it reads no more events, and its result is based on the events read so far.
    pub fn finish_early(&self) {
        if let Some(clock) = self.clock.get() {
            self.finish_at(clock.elapsed_ns());
        }
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

    /// Wakes waiting threads. Callers set flags first. Once the lock was taken, no thread is between its check of the
    /// flags and its wait.
    fn wake_waiters(&self) {
        let (lock, waiters) = &self.gate;
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        waiters.notify_all();
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed) && !self.finishing.load(Ordering::Relaxed) && !self.is_cancelled()
    }

    /// Whether the search was finalised at least `after_ns` ago.
    fn is_overdue(&self, after_ns: i64) -> bool {
        let finish_ns = self.finish_ns.load(Ordering::Relaxed);
        // Unless the search is finalised, the clock is not read.
        finish_ns != i64::MAX
            && self.clock.get().is_some_and(|clock| clock.elapsed_ns().saturating_sub(finish_ns) >= after_ns)
    }

    /// Like [`Stop::is_overdue`]; if true, records that work was cut short.
    fn cuts_after(&self, after_ns: i64) -> bool {
        let is_overdue = self.is_overdue(after_ns);
        if is_overdue {
            self.cut.store(true, Ordering::Relaxed);
            self.mark_partial();
        }
        is_overdue
    }

    /// Whether commands that work on events receive no more rows.
    pub fn should_end_input(&self) -> bool {
        self.is_cancelled() || self.cuts_after(INPUT_AFTER_FINISH_NS)
    }

    /// Makes commands receive all rows of the commands before them, even if the search is finalised. Called for searches
    /// that write: a lookup table must not lose rows that were already computed.
    pub fn keep_rows(&self) {
        self.keeps_rows.store(true, Ordering::Relaxed);
    }

    /// Whether a command that began its work at `start` receives no more rows, if its rows are not events.
    pub fn should_end_rows(&self, start: WorkStart) -> bool {
        match self.keeps_rows.load(Ordering::Relaxed) {
            true => self.is_cancelled(),
            false => self.should_end_work(start),
        }
    }

    /// Begins the work of a command that calls [`Stop::should_end_work`].
    pub fn begin_work(&self) -> WorkStart {
        WorkStart(self.clock.get().map_or(i64::MIN, |clock| clock.elapsed_ns()))
    }

    /// Whether a command that began its work at `start` should end with what it has computed. Called wherever one step
    /// of the command may take milliseconds.
    pub fn should_end_work(&self, start: WorkStart) -> bool {
        let worked_ns = |clock: &SharedClock| clock.elapsed_ns().saturating_sub(start.0);
        self.is_cancelled()
            || self.is_overdue(WORK_AFTER_FINISH_NS)
                && self.clock.get().is_some_and(|clock| worked_ns(clock) >= WORK_MIN_NS)
                && self.cuts_after(WORK_AFTER_FINISH_NS)
    }

    /// Whether a command has ended before it had processed all events that were read.
    pub fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
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

    /// Fails if the result is no longer needed. Loops in which one row may take milliseconds call this for every row,
    /// because they do not request further rows meanwhile. The user never sees the error: a cancelled search has no
    /// result.
    pub fn check_cancelled(&self) -> Result<(), EngineError> {
        if self.is_cancelled() { Err(EngineError::invalid("the search is cancelled")) } else { Ok(()) }
    }

    /// Whether to stop reading events; called before each page. While the search is paused, the call waits.
    pub fn should_stop_reading(&self) -> bool {
        self.wait_while_paused();
        self.finishing.load(Ordering::Relaxed) || self.is_cancelled() || self.is_overdue(0)
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
