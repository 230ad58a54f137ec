//! `transaction`: groups related events into one row.
//!
//! Events come newest first, so the last event of a transaction comes first: an event that matches `endswith=` opens
//! a transaction, and an event that matches `startswith=` closes it. Open transactions are found by their field values.
//! A transaction that no older event can join is closed; if a limit is exceeded, the transaction that has been
//! unchanged for longest is evicted. Open transactions count towards the search's memory ([`members`]). Closed
//! transactions wait until their position in the output order is known ([`rows`]), on disk if necessary.

mod members;
mod rows;

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows::RowIter;
use quarry_eval::spans::length_of;
use quarry_event::TimeNs;
use quarry_spl::ast::{EventTest, TransactionCommand};

use self::members::{Events, FieldNames, Member};
use self::rows::{ClosedRows, FinalState};
use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

/// Change of the memory in use, in bytes, after which it is accounted for again.
const UNACCOUNTED_BYTES: usize = 1 << 20;
/// Approximate overhead of an open transaction besides its events, in bytes.
const OPEN_OVERHEAD_BYTES: usize = 256;
/// Maximum bytes of batches kept alive by events.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// Divisor: these batches may take at most the search's memory divided by this.
const BATCH_MEMORY_DIVISOR: usize = 32;

impl Execute for TransactionCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = with_stanza_settings(self, lowering)?;
        let test = |test: &Option<EventTest>| test.as_ref().map(|test| CompiledTest::new(test, lowering)).transpose();
        let (starts, ends) = (test(&command.starts_with)?, test(&command.ends_with)?);
        Ok(vec![blocking(Transaction { command, starts, ends })])
    }
}

/// The command with the settings of its transactiontypes.conf stanza.
fn with_stanza_settings(
    transaction: &TransactionCommand,
    lowering: &Lowering<'_>,
) -> Result<TransactionCommand, EngineError> {
    let Some(kind) = &transaction.kind else { return Ok(transaction.clone()) };
    let (name, knowledge) = (&kind.name, lowering.environment.knowledge());
    let invalid = |message: String| EngineError::Invalid { message, span: Some(kind.span) };
    let settings = knowledge.transaction_type(name).ok_or_else(|| {
        let known = knowledge.transaction_types();
        let known = if known.is_empty() { "it is empty".to_owned() } else { format!("it has {}", known.join(", ")) };
        invalid(format!("transaction: transactiontypes.conf has no stanza {name}; {known}"))
    })?;
    transaction.with_settings(&settings).map_err(|fault| invalid(format!("transactiontypes.conf [{name}]: {fault}")))
}

/// A compiled test of events.
enum CompiledTest {
    Condition(RowFilter),
    Expression(CompiledExpr),
}

impl CompiledTest {
    fn new(test: &EventTest, lowering: &Lowering<'_>) -> Result<CompiledTest, EngineError> {
        Ok(match test {
            EventTest::Condition(expr) => CompiledTest::Condition(RowFilter::new(expr, &lowering.expressions())?),
            EventTest::Expression(expr) => CompiledTest::Expression(CompiledExpr::new(expr, &lowering.expressions())?),
        })
    }

    fn matches(&self, rows: &RecordBatch) -> Result<BooleanArray, EngineError> {
        match self {
            CompiledTest::Condition(filter) => filter.matches(rows),
            CompiledTest::Expression(expr) => expr.matches(rows),
        }
    }
}

/// The command with its tests compiled.
struct Transaction {
    command: TransactionCommand,
    /// `startswith=`: test of the first event.
    starts: Option<CompiledTest>,
    /// `endswith=`: test of the last event.
    ends: Option<CompiledTest>,
}

impl Blocking for Transaction {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut gathered = TransactionGroups::new(&self.command, context);
        for batch in rows {
            let batch = batch?;
            let starts = self.starts.as_ref().map(|test| test.matches(&batch)).transpose()?;
            let ends = self.ends.as_ref().map(|test| test.matches(&batch)).transpose()?;
            let events = Arc::new(Events::new(&batch, &self.command.fields, &mut gathered.names)?);
            gathered.retain_batch(&events)?;
            for row in 0..events.count() {
                // An event is compared with all open transactions if the command has no fields.
                context.stop.check_cancelled()?;
                let holds = |test: &Option<BooleanArray>| {
                    test.as_ref().is_some_and(|test| arrow::array::Array::is_valid(test, row) && test.value(row))
                };
                gathered.add(&events, row, holds(&starts), holds(&ends))?;
            }
        }
        gathered.finish(context)
    }
}

/// A transaction that may still grow.
struct OpenTransaction {
    key: Vec<Option<String>>,
    /// Newest first.
    members: Vec<Member>,
    newest: TimeNs,
    oldest: TimeNs,
    changed: u64,
    /// Whether the required end event is missing.
    is_endless: bool,
}

struct TransactionGroups<'c> {
    command: &'c TransactionCommand,
    max_span: Option<i64>,
    max_pause: Option<i64>,
    max_open: usize,
    max_open_events: usize,
    open: HashMap<u64, OpenTransaction, FixedState>,
    /// Open transactions by the hash of a field's index and value.
    by_value: HashMap<u64, OpenIds, FixedState>,
    /// Transactions in order of opening; may include closed transactions.
    opened: VecDeque<u64>,
    /// Transactions in order of change; may include outdated entries.
    changes: VecDeque<(u64, u64)>,
    open_events: usize,
    /// Bytes of the events of open transactions.
    open_bytes: usize,
    /// Open transactions whose events may keep batches alive.
    batch_bound: Vec<u64>,
    /// Bytes of the batches kept alive, and their maximum.
    held_bytes: usize,
    held_bytes_max: usize,
    accounted: usize,
    account: MemoryAccount,
    next: u64,
    /// Field values of the current event.
    key: Vec<Option<String>>,
    /// Time of the current event.
    now: TimeNs,
    done: ClosedRows,
    names: FieldNames,
    evicted_by_limit: bool,
    /// Whether an event was newer than the event before it.
    is_out_of_order: bool,
}

/// Open transactions that share a field value.
enum OpenIds {
    One(u64),
    Several(Vec<u64>),
}

impl OpenIds {
    fn all(&self) -> &[u64] {
        match self {
            OpenIds::One(id) => std::slice::from_ref(id),
            OpenIds::Several(all) => all,
        }
    }

    fn add(&mut self, id: u64) {
        match self {
            OpenIds::One(first) => *self = OpenIds::Several(vec![*first, id]),
            OpenIds::Several(all) => all.push(id),
        }
    }

    /// Removes a transaction; true if no transaction is left.
    fn remove(&mut self, id: u64) -> bool {
        match self {
            OpenIds::One(only) => *only == id,
            OpenIds::Several(all) => {
                all.retain(|known| *known != id);
                all.is_empty()
            }
        }
    }
}

/// Key in `by_value` for the open transactions whose field at index `place` has this value.
fn value_key(place: usize, value: &str) -> u64 {
    FixedState::default().hash_one((place, value))
}

/// Reason why a transaction accepts no more events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CloseReason {
    Closed,
    Evicted,
}

impl<'c> TransactionGroups<'c> {
    fn new(command: &'c TransactionCommand, context: &CommandContext) -> TransactionGroups<'c> {
        TransactionGroups {
            command,
            max_span: command.max_span.as_ref().map(length_of),
            max_pause: command.max_pause.as_ref().map(length_of),
            max_open: command.max_open.unwrap_or(context.transactions.max_open),
            max_open_events: command.max_open_events.unwrap_or(context.transactions.max_open_events),
            open: HashMap::default(),
            by_value: HashMap::default(),
            opened: VecDeque::new(),
            changes: VecDeque::new(),
            open_events: 0,
            open_bytes: 0,
            batch_bound: Vec::new(),
            held_bytes: 0,
            held_bytes_max: BATCH_BYTES_MAX.min(context.dataflow.memory_bytes() / BATCH_MEMORY_DIVISOR),
            accounted: 0,
            account: context.dataflow.account("open transactions"),
            next: 0,
            key: vec![None; command.fields.len()],
            now: TimeNs::MAX,
            done: ClosedRows::new(&context.dataflow),
            names: FieldNames::default(),
            evicted_by_limit: false,
            is_out_of_order: false,
        }
    }

    /// Keeps a batch in memory; earlier batches are released if they take too much memory.
    fn retain_batch(&mut self, events: &Arc<Events>) -> Result<(), EngineError> {
        if self.held_bytes + events.bytes > self.held_bytes_max {
            self.done.detach_members();
            for id in std::mem::take(&mut self.batch_bound) {
                let Some(open) = self.open.get_mut(&id) else { continue };
                for member in open.members.iter_mut().rev().take_while(|member| member.is_in_batch()) {
                    self.open_bytes -= member.bytes();
                    member.detach();
                    self.open_bytes += member.bytes();
                }
            }
            self.held_bytes = 0;
        }
        self.held_bytes += events.bytes;
        self.account_memory()
    }

    fn add(&mut self, events: &Arc<Events>, row: usize, starts: bool, ends: bool) -> Result<(), EngineError> {
        let time = events.times[row];
        self.is_out_of_order |= time > self.now;
        self.now = time;
        self.close_expired(time)?;
        let has_key = events.write_key(row, &mut self.key);
        let member = Member::new(events, row);
        if !self.command.fields.is_empty() && !has_key {
            return self.emit_orphan(member);
        }
        let found = self.find_compatible(time);
        if ends {
            if let Some(found) = found {
                let end = if self.command.starts_with.is_some() { CloseReason::Evicted } else { CloseReason::Closed };
                self.close(found, end)?;
            }
            let opened = self.open(member);
            if starts {
                self.close(opened, CloseReason::Closed)?;
            }
            self.enforce_limits()?;
            return self.account_memory();
        }
        if found.is_none() && self.command.ends_with.is_some() && !self.command.keep_evicted {
            // The end event would have come before the other events of its transaction. No end event was seen, so the
            // transaction of this event would not be shown.
            return self.emit_orphan(member);
        }
        let place = match found {
            Some(found) => {
                self.join(found, member);
                found
            }
            None => {
                let opened = self.open(member);
                if let Some(open) = self.open.get_mut(&opened) {
                    open.is_endless = self.command.ends_with.is_some();
                }
                opened
            }
        };
        let is_full = self.open.get(&place).is_some_and(|open| open.members.len() >= self.command.max_events);
        if starts || is_full {
            self.close(place, CloseReason::Closed)?;
        }
        self.enforce_limits()?;
        self.account_memory()
    }

    /// Periodically accounts for memory.
    fn account_memory(&mut self) -> Result<(), EngineError> {
        let bytes = self.open_bytes + self.open.len() * OPEN_OVERHEAD_BYTES + self.held_bytes + self.done.waiting_bytes;
        if bytes.abs_diff(self.accounted) >= UNACCOUNTED_BYTES {
            self.account.set(bytes)?;
            self.accounted = bytes;
        }
        Ok(())
    }

    /// The most recently changed open transaction that the current event may join (the event's field values are in
    /// [`TransactionGroups::key`]).
    fn find_compatible(&self, time: TimeNs) -> Option<u64> {
        let key = &self.key;
        let fits = |id: &u64| {
            let open = self.open.get(id)?;
            let same = open.key.iter().zip(key).all(|(a, b)| a.is_none() || b.is_none() || a == b);
            let shared = open.key.iter().zip(key).any(|(a, b)| a.is_some() && a == b);
            let connected = key.is_empty() || shared || !self.command.connected;
            let in_span = self.max_span.is_none_or(|span| (open.newest - time).abs() <= span);
            let in_pause = self.max_pause.is_none_or(|pause| (open.oldest - time).abs() <= pause);
            (same && connected && in_span && in_pause).then_some((open.changed, *id))
        };
        let found = if key.is_empty() || !self.command.connected {
            self.open.keys().filter_map(fits).max()
        } else {
            let lists =
                key.iter().enumerate().filter_map(|(at, value)| self.by_value.get(&value_key(at, value.as_ref()?)));
            lists.flat_map(OpenIds::all).filter_map(fits).max()
        };
        found.map(|(_, id)| id)
    }

    fn open(&mut self, member: Member) -> u64 {
        let id = self.next;
        self.next += 1;
        let (time, key) = (member.time, vec![None; self.key.len()]);
        let open =
            OpenTransaction { key, members: Vec::new(), newest: time, oldest: time, changed: 0, is_endless: false };
        self.open.insert(id, open);
        self.opened.push_back(id);
        self.join(id, member);
        id
    }

    fn join(&mut self, id: u64, member: Member) {
        let Some(open) = self.open.get_mut(&id) else { return };
        for (at, (known, value)) in open.key.iter_mut().zip(&self.key).enumerate() {
            if let (None, Some(value)) = (&known, value) {
                let sharing = self.by_value.entry(value_key(at, value));
                sharing.and_modify(|sharing| sharing.add(id)).or_insert(OpenIds::One(id));
                *known = Some(value.clone());
            }
        }
        open.oldest = open.oldest.min(member.time);
        open.newest = open.newest.max(member.time);
        self.open_bytes += member.bytes();
        if open.members.last().is_none_or(|last| !last.is_in_batch()) {
            self.batch_bound.push(id);
        }
        open.members.push(member);
        self.open_events += 1;
        self.next += 1;
        open.changed = self.next;
        self.changes.push_back((id, self.next));
    }

    /// Closes transactions that no event at or before this time can join.
    fn close_expired(&mut self, time: TimeNs) -> Result<(), EngineError> {
        if let Some(span) = self.max_span {
            while let Some(id) = self.opened.front().copied() {
                match self.open.get(&id) {
                    Some(open) if open.newest - time <= span => break,
                    Some(_) => self.close(id, self.expiry_reason())?,
                    None => {}
                }
                self.opened.pop_front();
            }
        }
        if let Some(pause) = self.max_pause {
            while let Some((id, changed)) = self.changes.front().copied() {
                match self.open.get(&id) {
                    Some(open) if open.changed == changed && open.oldest - time <= pause => break,
                    Some(open) if open.changed == changed => self.close(id, self.expiry_reason())?,
                    _ => {}
                }
                self.changes.pop_front();
            }
        }
        Ok(())
    }

    /// The end of a transaction that reaches its time limits or the end of the input: evicted if it lacks the start
    /// event that `startswith` demands.
    fn expiry_reason(&self) -> CloseReason {
        if self.command.starts_with.is_some() { CloseReason::Evicted } else { CloseReason::Closed }
    }

    /// Evicts the least recently changed transactions while too many are open.
    fn enforce_limits(&mut self) -> Result<(), EngineError> {
        while self.open.len() > self.max_open || self.open_events > self.max_open_events {
            let Some((id, changed)) = self.changes.pop_front() else { return Ok(()) };
            if self.open.get(&id).is_some_and(|open| open.changed == changed) {
                self.evicted_by_limit = true;
                self.close(id, CloseReason::Evicted)?;
            }
        }
        // Outdated entries are removed from time to time, so that they do not accumulate.
        if self.changes.len() > 2 * self.open_events + self.max_open {
            let open = &self.open;
            self.changes.retain(|(id, changed)| open.get(id).is_some_and(|open| open.changed == *changed));
        }
        if self.opened.len() > 2 * self.open.len() + self.max_open {
            let open = &self.open;
            self.opened.retain(|id| open.contains_key(id));
        }
        Ok(())
    }

    fn close(&mut self, id: u64, end: CloseReason) -> Result<(), EngineError> {
        let Some(open) = self.open.remove(&id) else { return Ok(()) };
        self.open_events -= open.members.len();
        self.open_bytes -= open.members.iter().map(Member::bytes).sum::<usize>();
        for (at, value) in open.key.iter().enumerate() {
            let Some(value) = value else { continue };
            let slot = value_key(at, value);
            if self.by_value.get_mut(&slot).is_some_and(|sharing| sharing.remove(id)) {
                self.by_value.remove(&slot);
            }
        }
        self.emit(open, end, true)
    }

    /// Outputs a transaction that is no longer open; an unclosed transaction only with `keepevicted`. If `counts` is
    /// false, its rows are marked as not closed even if `end` is `Closed`.
    fn emit(&mut self, open: OpenTransaction, end: CloseReason, counts: bool) -> Result<(), EngineError> {
        if open.is_endless && end == CloseReason::Evicted && self.command.keep_orphans {
            // Neither the start event nor the end event of the transaction was found.
            return open.members.into_iter().try_for_each(|member| self.emit_orphan(member));
        }
        let is_closed = end == CloseReason::Closed && !open.is_endless;
        if is_closed || self.command.keep_evicted {
            self.done.add(open.members, FinalState { closed: is_closed && counts, orphan: false });
            self.make_rows()?;
        }
        Ok(())
    }

    fn emit_orphan(&mut self, member: Member) -> Result<(), EngineError> {
        if self.command.keep_orphans {
            self.done.add(vec![member], FinalState { closed: false, orphan: true });
            self.make_rows()?;
        }
        Ok(())
    }

    /// Periodically turns waiting transactions into rows.
    fn make_rows(&mut self) -> Result<(), EngineError> {
        if !self.done.is_full() {
            return Ok(());
        }
        let open = self.open.values().map(|open| open.oldest).max();
        let latest = open.map_or(self.now, |open| open.max(self.now));
        self.done.make_rows(latest, self.command, &self.names)
    }

    /// All rows, the newest transaction first.
    fn finish(mut self, context: &CommandContext) -> Result<RowIter, EngineError> {
        if self.evicted_by_limit {
            context
                .messages
                .push("transaction: maxopentxn= or maxopenevents= was reached; some transactions were evicted");
        }
        if self.is_out_of_order && (self.command.starts_with.is_some() || self.command.ends_with.is_some()) {
            context.messages.push(
                "transaction: rows do not come newest first, so beginnings and ends cannot be found: put \
                 `sort 0 -_time` in front",
            );
        }
        // No more events follow.
        self.now = TimeNs::MIN;
        let mut left: Vec<u64> = self.open.keys().copied().collect();
        left.sort_unstable();
        let end = self.expiry_reason();
        let is_limited = self.max_span.is_some() || self.max_pause.is_some();
        for id in left {
            context.stop.check_cancelled()?;
            let Some(open) = self.open.remove(&id) else { continue };
            self.emit(open, end, is_limited)?;
        }
        if self.names.is_cut {
            context.messages.push("transaction: there are too many fields; those beyond the first 1000 are omitted");
        }
        self.done.finish(self.command, &self.names, context)
    }
}
