//! What commands may know of the search they run in: its moment, range and user, memory, messages, whether to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

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

/// A search's wish to end, set by its user.
#[derive(Debug, Default)]
pub struct Stop {
    cancelled: AtomicBool,
    finishing: AtomicBool,
    partial: AtomicBool,
}

impl Stop {
    /// Ends the search without a result.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.partial.store(true, Ordering::Relaxed);
    }

    /// Reads no more events and answers from those read.
    pub fn finish_early(&self) {
        self.finishing.store(true, Ordering::Relaxed);
    }

    /// Whether the result must not be waited for.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether no more events are to be read.
    pub fn stops_reading(&self) -> bool {
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
