//! The search context of commands: time, range, user, memory, messages, cancellation.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
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
    /// Default limits of subsearches.
    pub subsearches: SubsearchDefaults,
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
    /// Registers data that can be released until its owner drops it.
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
/// [`WORK_MIN_NS`]. A group is returned with all of its rows or, if it was spilled and not merged in time, not at all.
/// In a search that writes, all commands after the first one that needs all rows receive all rows
/// ([`Stop::keep_rows`]).
///
/// A subsearch has a `Stop` of its own ([`Stop::for_subsearch`]), which ends with the outer one.
#[derive(Debug)]
pub struct Stop {
    /// The control over the search around this subsearch.
    outer: Option<Arc<Stop>>,
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
    /// Number of matching events read so far, counted only if there is a limit.
    events: AtomicU64,
    /// Number of matching events after which the search finishes early; [`u64::MAX`] for no limit.
    events_max: AtomicU64,
    /// Time at which the pause began; [`i64::MAX`] if the search is not paused.
    pause_ns: AtomicI64,
    /// Total time of the pauses that have ended, in nanoseconds.
    paused_ns: AtomicI64,
    /// Threads of a paused search wait here.
    gate: (Mutex<()>, Condvar),
}

/// Time at which a command began its work.
#[derive(Clone, Copy, Debug)]
pub struct WorkStart(i64);

impl Default for Stop {
    fn default() -> Stop {
        Stop {
            outer: None,
            cancelled: AtomicBool::default(),
            finishing: AtomicBool::default(),
            clock: OnceLock::new(),
            finish_ns: AtomicI64::new(i64::MAX),
            cut: AtomicBool::default(),
            keeps_rows: AtomicBool::default(),
            partial: AtomicBool::default(),
            paused: AtomicBool::default(),
            events: AtomicU64::default(),
            events_max: AtomicU64::new(u64::MAX),
            pause_ns: AtomicI64::new(i64::MAX),
            paused_ns: AtomicI64::default(),
            gate: <(Mutex<()>, Condvar)>::default(),
        }
    }
}

impl Stop {
    /// The control over a subsearch that ends early after `time_max_s` seconds, or with the search around it; 0 means
    /// no limit. The limit has no effect without a clock.
    pub fn for_subsearch(outer: &Arc<Stop>, time_max_s: u64) -> Stop {
        let time_max_ns = i64::try_from(time_max_s).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        let now_ns = outer.clock().filter(|_| time_max_s > 0).map(|clock| clock.elapsed_ns());
        // Earlier pauses do not count; each later pause extends the limit.
        let end_ns = now_ns.map(|now| now.saturating_sub(outer.total_paused_ns()).saturating_add(time_max_ns));
        Stop {
            outer: Some(Arc::clone(outer)),
            finish_ns: AtomicI64::new(end_ns.unwrap_or(i64::MAX)),
            ..Stop::default()
        }
    }

    /// Whether the result is incomplete because a subsearch has reached its own time limit.
    pub fn has_reached_limit(&self) -> bool {
        self.outer.is_some() && self.partial.load(Ordering::Relaxed) && self.is_past_own_end(0)
    }

    fn clock(&self) -> Option<&SharedClock> {
        self.clock.get().or_else(|| self.outer.as_ref()?.clock())
    }

    /// Total time of the pauses that have ended, in nanoseconds; 0 without a clock.
    pub fn total_paused_ns(&self) -> i64 {
        match &self.outer {
            Some(outer) => outer.total_paused_ns(),
            None => self.paused_ns.load(Ordering::Relaxed),
        }
    }

    /// Sets the clock that limits the time of commands after the search was finalised.
    pub fn set_clock(&self, clock: SharedClock) {
        // A later clock is ignored.
        drop(self.clock.set(clock));
    }

    /// Finalises the search when its clock reaches this time.
    pub fn finish_at(&self, elapsed_ns: i64) {
        self.finish_ns.fetch_min(elapsed_ns, Ordering::Relaxed);
    }

    /// Makes the search finish early when it has read at least this many events that match its condition. The events of
    /// subsearches with a `Stop` of their own do not count. Called before any event is read.
    pub fn finish_after_events(&self, events: u64) {
        self.events_max.store(events, Ordering::Relaxed);
    }

    /// Counts events that were read and match the condition.
    pub fn count_events(&self, events: u64) {
        let most = self.events_max.load(Ordering::Relaxed);
        if most < u64::MAX && self.events.fetch_add(events, Ordering::Relaxed).saturating_add(events) >= most {
            self.finish_early();
        }
    }

    /// Reverts [`Stop::count_events`] for events that will be read again.
    pub fn uncount_events(&self, events: u64) {
        if self.events_max.load(Ordering::Relaxed) < u64::MAX {
            self.events.fetch_sub(events, Ordering::Relaxed);
        }
    }

    /// Number of matching events after which the search finishes early.
    pub fn events_max(&self) -> Option<u64> {
        Some(self.events_max.load(Ordering::Relaxed)).filter(|most| *most < u64::MAX)
    }

    /// Whether the search has read as many events as it may.
    pub fn has_read_enough_events(&self) -> bool {
        self.events.load(Ordering::Relaxed) >= self.events_max.load(Ordering::Relaxed)
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
        if let Some(clock) = self.clock() {
            self.pause_ns.fetch_min(clock.elapsed_ns(), Ordering::Relaxed);
        }
    }

    /// Continues reading.
    pub fn resume(&self) {
        let began_ns = self.pause_ns.swap(i64::MAX, Ordering::Relaxed);
        if let Some(clock) = self.clock().filter(|_| began_ns != i64::MAX) {
            self.paused_ns.fetch_add(clock.elapsed_ns().saturating_sub(began_ns).max(0), Ordering::Relaxed);
        }
        self.paused.store(false, Ordering::Relaxed);
        self.wake_waiters();
    }

    /// Wakes waiting threads. Callers set flags first. Once the lock has been taken, no thread is between its check of
    /// the flags and its wait.
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
        self.is_past_own_end(after_ns) || self.outer.as_ref().is_some_and(|outer| outer.is_overdue(after_ns))
    }

    fn is_past_own_end(&self, after_ns: i64) -> bool {
        let finish_ns = self.finish_ns.load(Ordering::Relaxed);
        // Only the limit of a subsearch excludes pauses: a job sets its end again after each pause.
        let paused_ns = if self.outer.is_some() { self.total_paused_ns() } else { 0 };
        // Unless the search is finalised, the clock is not read.
        let passed_ns = |clock: &SharedClock| clock.elapsed_ns().saturating_sub(paused_ns).saturating_sub(finish_ns);
        finish_ns != i64::MAX && self.clock().is_some_and(|clock| passed_ns(clock) >= after_ns)
    }

    /// Like [`Stop::is_overdue`]; if true, records that work ended early.
    fn cuts_after(&self, after_ns: i64) -> bool {
        let is_cut_by_outer = self.outer.as_ref().is_some_and(|outer| outer.cuts_after(after_ns));
        let is_overdue = is_cut_by_outer || self.is_past_own_end(after_ns);
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
        if let Some(outer) = &self.outer {
            outer.keep_rows();
        }
    }

    /// Whether a command that began its work at `start` receives no more rows, if its rows are not events.
    pub fn should_end_rows(&self, start: WorkStart) -> bool {
        match self.is_keeping_rows() {
            true => self.is_cancelled(),
            false => self.should_end_work(start),
        }
    }

    fn is_keeping_rows(&self) -> bool {
        self.keeps_rows.load(Ordering::Relaxed) || self.outer.as_ref().is_some_and(|outer| outer.is_keeping_rows())
    }

    /// Begins the work of a command that calls [`Stop::should_end_work`].
    pub fn begin_work(&self) -> WorkStart {
        WorkStart(self.clock().map_or(i64::MIN, |clock| clock.elapsed_ns()))
    }

    /// Whether a command that began its work at `start` should end with what it has computed. Called wherever one step
    /// of the command may take milliseconds. While the search is paused, the call waits.
    pub fn should_end_work(&self, start: WorkStart) -> bool {
        self.wait_while_paused();
        let worked_ns = |clock: &SharedClock| clock.elapsed_ns().saturating_sub(start.0);
        self.is_cancelled()
            || self.is_overdue(WORK_AFTER_FINISH_NS)
                && self.clock().is_some_and(|clock| worked_ns(clock) >= WORK_MIN_NS)
                && self.cuts_after(WORK_AFTER_FINISH_NS)
    }

    /// Whether a command has ended before it had processed all events that were read.
    pub fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Waits while the search is paused.
    pub fn wait_while_paused(&self) {
        if let Some(outer) = &self.outer {
            return outer.wait_while_paused();
        }
        if !self.paused.load(Ordering::Relaxed) {
            return;
        }
        let (lock, waiters) = &self.gate;
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(waiters.wait_while(held, |()| self.is_paused()));
    }

    /// Whether the result is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.outer.as_ref().is_some_and(|outer| outer.is_cancelled())
    }

    /// Fails if the result is no longer needed. Loops in which one row may take milliseconds call this for every row,
    /// because they do not request further rows meanwhile. The user never sees the error: a cancelled search has no
    /// result. While the search is paused, the call waits.
    pub fn check_cancelled(&self) -> Result<(), EngineError> {
        self.wait_while_paused();
        if self.is_cancelled() { Err(EngineError::invalid("the search is cancelled")) } else { Ok(()) }
    }

    /// Whether to stop reading events; called before each page. While the search is paused, the call waits.
    pub fn should_stop_reading(&self) -> bool {
        self.wait_while_paused();
        self.is_finishing() || self.is_cancelled() || self.is_overdue(0)
    }

    fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Relaxed) || self.outer.as_ref().is_some_and(|outer| outer.is_finishing())
    }

    /// Marks the result as incomplete.
    pub fn mark_partial(&self) {
        self.partial.store(true, Ordering::Relaxed);
        if let Some(outer) = &self.outer {
            outer.mark_partial();
        }
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

/// Default limits of subsearches (limits.conf); a time of 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubsearchDefaults {
    /// Maximum number of rows that become conditions (`[subsearch] maxout`).
    pub condition_rows: usize,
    /// Run time in seconds (`[subsearch] maxtime`).
    pub time_s: u64,
    /// Maximum number of rows for `join` (`[join] subsearch_maxout`).
    pub join_rows: usize,
    /// Run time in seconds for `join` (`[join] subsearch_maxtime`).
    pub join_time_s: u64,
}

impl Default for SubsearchDefaults {
    fn default() -> SubsearchDefaults {
        SubsearchDefaults { condition_rows: 10_000, time_s: 60, join_rows: 50_000, join_time_s: 60 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use quarry_stdx::ManualClock;

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    #[test]
    fn a_subsearch_ends_at_its_own_limit_or_with_the_search_around_it() {
        let (clock, outer) = (ManualClock::shared(7), Arc::new(Stop::default()));
        outer.set_clock(clock.clone());
        let (limited, unlimited) = (Stop::for_subsearch(&outer, 5), Stop::for_subsearch(&outer, 0));
        clock.advance_ns(3 * SECOND_NS);
        // Pauses do not count.
        outer.pause();
        clock.advance_ns(100 * SECOND_NS);
        outer.resume();
        clock.advance_ns(2 * SECOND_NS - 1);
        assert!(!limited.should_stop_reading() && !limited.has_reached_limit());
        clock.advance_ns(1);
        assert!(limited.should_stop_reading() && !outer.should_stop_reading() && !unlimited.should_stop_reading());
        assert!(!limited.has_reached_limit(), "nothing is missing yet");
        limited.mark_partial();
        assert!(limited.has_reached_limit() && outer.is_partial());
        clock.advance_ns(SECOND_NS);
        assert!(limited.should_end_input() && limited.was_cut() && !outer.was_cut());
        outer.finish_early();
        assert!(unlimited.should_stop_reading() && !unlimited.is_cancelled());
        clock.advance_ns(SECOND_NS);
        assert!(unlimited.should_end_input() && unlimited.was_cut() && outer.was_cut());
        outer.cancel();
        assert!(unlimited.is_cancelled() && !unlimited.has_reached_limit());
    }

    #[test]
    fn a_search_finishes_after_a_number_of_matching_events() {
        let unlimited = Stop::default();
        unlimited.count_events(u64::MAX);
        assert!(!unlimited.should_stop_reading() && !unlimited.has_read_enough_events());
        let outer = Arc::new(Stop::default());
        outer.finish_after_events(10);
        Stop::for_subsearch(&outer, 0).count_events(100);
        outer.count_events(9);
        outer.uncount_events(4);
        outer.count_events(4);
        assert!(!outer.should_stop_reading() && !outer.has_read_enough_events());
        outer.count_events(1);
        assert!(outer.should_stop_reading() && outer.has_read_enough_events() && !outer.is_cancelled());
    }

    #[test]
    fn paused_searches_continue_when_resumed_or_ended() {
        // Each call, and its results after the search was resumed, finalised and cancelled.
        type Call = fn(&Stop) -> bool;
        let calls: [(Call, [bool; 3]); 3] = [
            (Stop::should_stop_reading, [false, true, true]),
            (|stop| stop.check_cancelled().is_err(), [false, false, true]),
            (|stop| stop.should_end_work(stop.begin_work()), [false, false, true]),
        ];
        let ends = [Stop::resume as fn(&Stop), Stop::finish_early, Stop::cancel];
        for (call, expected) in calls {
            for (end, expected) in ends.iter().zip(expected) {
                let stop = Stop::default();
                stop.pause();
                thread::scope(|scope| {
                    let (reported, hears) = channel();
                    let stop = &stop;
                    scope.spawn(move || reported.send(call(stop)));
                    assert!(hears.try_recv().is_err(), "it waits");
                    end(stop);
                    assert_eq!(hears.recv(), Ok(expected));
                });
            }
        }
    }
}
