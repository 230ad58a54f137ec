//! `transaction`: groups related events into one row.
//!
//! Events come newest first, so the last event of a transaction comes first: an event that matches `endswith=` opens
//! a transaction, and an event that matches `startswith=` closes it. Open transactions are found by their field values.
//! A transaction that no older event can join is closed; if a limit is exceeded, the transaction that has been
//! unchanged for longest is evicted. Open transactions count towards the search's memory ([`members`]). Closed
//! transactions wait until their position in the output order is known ([`rows`]), on disk if necessary.

mod members;
mod open;
mod rows;

use std::collections::VecDeque;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows::RowIter;
use quarry_eval::spans::length_of;
use quarry_event::TimeNs;
use quarry_spl::ast::{EventTest, TransactionCommand};

use self::members::{Batches, Events, FieldNames, Member};
use self::open::{KeyValue, OpenTransaction, OpenTransactions};
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
            let events = Events::new(&batch, &self.command.fields, &mut gathered.names)?;
            let (count, number) = (events.count(), gathered.retain_batch(events)?);
            for row in 0..count {
                // An event is compared with all open transactions if the command has no fields.
                context.stop.check_cancelled()?;
                let holds = |test: &Option<BooleanArray>| {
                    test.as_ref().is_some_and(|test| arrow::array::Array::is_valid(test, row) && test.value(row))
                };
                gathered.add(number, row, holds(&starts), holds(&ends))?;
            }
        }
        gathered.finish(context)
    }
}

struct TransactionGroups<'c> {
    command: &'c TransactionCommand,
    max_span: Option<i64>,
    max_pause: Option<i64>,
    max_open: usize,
    max_open_events: usize,
    open: OpenTransactions,
    /// Slots and numbers of transactions in order of opening; may include closed transactions.
    opened: VecDeque<(usize, u64)>,
    /// Slots of transactions in order of change, with the numbers of the changes; may include outdated entries.
    changes: VecDeque<(usize, u64)>,
    open_events: usize,
    /// Bytes of the events of open transactions.
    open_bytes: usize,
    /// The batches that contain events of transactions, and their maximum number of bytes.
    batches: Batches,
    held_bytes_max: usize,
    /// Slots of open transactions that may have events in batches.
    batch_bound: Vec<usize>,
    accounted: usize,
    account: MemoryAccount,
    next: u64,
    /// Field values of the current event.
    key: Vec<Option<KeyValue>>,
    /// Time of the current event.
    now: TimeNs,
    done: ClosedRows,
    names: FieldNames,
    evicted_by_limit: bool,
    /// Whether an event was newer than the previous event.
    is_out_of_order: bool,
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
            open: OpenTransactions::default(),
            opened: VecDeque::new(),
            changes: VecDeque::new(),
            open_events: 0,
            open_bytes: 0,
            batches: Batches::default(),
            batch_bound: Vec::new(),
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

    /// Keeps a batch in memory and returns its number; earlier batches are released if they take too much memory.
    fn retain_batch(&mut self, events: Events) -> Result<u32, EngineError> {
        if self.batches.bytes + events.bytes > self.held_bytes_max {
            self.done.detach_members(&self.batches);
            for slot in std::mem::take(&mut self.batch_bound) {
                let Some(open) = self.open.get_mut(slot) else { continue };
                for member in open.members.iter_mut().rev().take_while(|member| member.is_in_batch()) {
                    self.open_bytes -= member.bytes();
                    member.detach(&self.batches);
                    self.open_bytes += member.bytes();
                }
            }
            self.batches.clear();
        }
        let number = self.batches.add(events);
        self.account_memory()?;
        Ok(number)
    }

    fn add(&mut self, batch: u32, row: usize, starts: bool, ends: bool) -> Result<(), EngineError> {
        let events = self.batches.batch(batch);
        let time = events.times[row];
        let has_key = events.write_key(row, &mut self.key);
        self.is_out_of_order |= time > self.now;
        self.now = time;
        self.close_expired(time)?;
        let member = Member::new(time, batch, row);
        if !self.command.fields.is_empty() && !has_key {
            self.emit_orphan(member);
            return self.make_rows();
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
            // Events come newest first, so an end event would have been seen before this event. A transaction without
            // one would not be shown.
            self.emit_orphan(member);
            return self.make_rows();
        }
        let place = match found {
            Some(found) => {
                self.join(found, member);
                found
            }
            None => {
                let opened = self.open(member);
                if let Some(open) = self.open.get_mut(opened) {
                    open.is_endless = self.command.ends_with.is_some();
                }
                opened
            }
        };
        let is_full = self.open.get(place).is_some_and(|open| open.members.len() >= self.command.max_events);
        if starts || is_full {
            self.close(place, CloseReason::Closed)?;
        }
        self.enforce_limits()?;
        self.account_memory()
    }

    /// Periodically accounts for memory.
    fn account_memory(&mut self) -> Result<(), EngineError> {
        let open_bytes = self.open_bytes + self.open.count() * OPEN_OVERHEAD_BYTES;
        let bytes = open_bytes + self.batches.bytes + self.done.waiting_bytes;
        if bytes.abs_diff(self.accounted) >= UNACCOUNTED_BYTES {
            self.account.set(bytes)?;
            self.accounted = bytes;
        }
        Ok(())
    }

    /// Slot of the most recently changed open transaction that the current event may join (the event's field values are
    /// in [`TransactionGroups::key`]).
    fn find_compatible(&self, time: TimeNs) -> Option<usize> {
        let key = &self.key;
        let fits = |open: &OpenTransaction| {
            let same = open.key.iter().zip(key).all(|(a, b)| a.is_none() || b.is_none() || a == b);
            let shared = open.key.iter().zip(key).any(|(a, b)| a.is_some() && a == b);
            let connected = key.is_empty() || shared || !self.command.connected;
            let in_span = self.max_span.is_none_or(|span| (open.newest - time).abs() <= span);
            let in_pause = self.max_pause.is_none_or(|pause| (open.oldest - time).abs() <= pause);
            (same && connected && in_span && in_pause).then_some(open.changed)
        };
        let found = if key.is_empty() || !self.command.connected {
            self.open.iter().filter_map(|(slot, open)| Some((fits(open)?, slot))).max()
        } else {
            let sharing = self.open.sharing(key);
            sharing.filter_map(|slot| Some((fits(self.open.get(slot)?)?, slot))).max()
        };
        found.map(|(_, slot)| slot)
    }

    /// Opens a transaction with its last event; returns its slot.
    fn open(&mut self, member: Member) -> usize {
        let number = self.next;
        self.next += 1;
        let (time, key, members) = (member.time, vec![None; self.key.len()], Vec::new());
        let slot = self.open.add(OpenTransaction {
            number,
            key,
            members,
            newest: time,
            oldest: time,
            changed: 0,
            is_endless: false,
        });
        self.opened.push_back((slot, number));
        self.join(slot, member);
        slot
    }

    fn join(&mut self, slot: usize, member: Member) {
        self.open.add_key(slot, &self.key);
        let Some(open) = self.open.get_mut(slot) else { return };
        open.oldest = open.oldest.min(member.time);
        open.newest = open.newest.max(member.time);
        self.open_bytes += member.bytes();
        if open.members.last().is_none_or(|last| !last.is_in_batch()) {
            self.batch_bound.push(slot);
        }
        open.members.push(member);
        self.open_events += 1;
        self.next += 1;
        open.changed = self.next;
        self.changes.push_back((slot, self.next));
    }

    /// Closes transactions that no event at or before this time can join.
    fn close_expired(&mut self, time: TimeNs) -> Result<(), EngineError> {
        if let Some(span) = self.max_span {
            while let Some((slot, number)) = self.opened.front().copied() {
                match self.open.numbered(slot, number) {
                    Some(open) if open.newest - time <= span => break,
                    Some(_) => self.close(slot, self.expiry_reason())?,
                    None => {}
                }
                self.opened.pop_front();
            }
        }
        if let Some(pause) = self.max_pause {
            while let Some((slot, changed)) = self.changes.front().copied() {
                match self.open.get(slot).filter(|open| open.changed == changed) {
                    Some(open) if open.oldest - time <= pause => break,
                    Some(_) => self.close(slot, self.expiry_reason())?,
                    None => {}
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
        while self.open.count() > self.max_open || self.open_events > self.max_open_events {
            let Some((slot, changed)) = self.changes.pop_front() else { return Ok(()) };
            if self.open.is_unchanged(slot, changed) {
                self.evicted_by_limit = true;
                self.close(slot, CloseReason::Evicted)?;
            }
        }
        // Outdated entries are removed from time to time, so that they do not accumulate.
        if self.changes.len() > 2 * self.open_events + self.max_open {
            let open = &self.open;
            self.changes.retain(|(slot, changed)| open.is_unchanged(*slot, *changed));
        }
        if self.opened.len() > 2 * self.open.count() + self.max_open {
            let open = &self.open;
            self.opened.retain(|(slot, number)| open.numbered(*slot, *number).is_some());
        }
        Ok(())
    }

    fn close(&mut self, slot: usize, end: CloseReason) -> Result<(), EngineError> {
        let Some(open) = self.open.remove(slot) else { return Ok(()) };
        self.open_events -= open.members.len();
        self.open_bytes -= open.members.iter().map(Member::bytes).sum::<usize>();
        self.emit(open, end, true);
        self.make_rows()
    }

    /// Outputs a transaction that is no longer open; an unclosed transaction only with `keepevicted`. If `counts` is
    /// false, its rows are marked as not closed even if `end` is `Closed`.
    fn emit(&mut self, open: OpenTransaction, end: CloseReason, counts: bool) {
        if open.is_endless && end == CloseReason::Evicted && self.command.keep_orphans {
            // Neither the start event nor the end event of the transaction was found.
            open.members.into_iter().for_each(|member| self.emit_orphan(member));
            return;
        }
        let is_closed = end == CloseReason::Closed && !open.is_endless;
        if is_closed || self.command.keep_evicted {
            let ending = FinalState { closed: is_closed && counts, orphan: false };
            self.done.add(open.key, open.members, ending, &self.batches);
        }
    }

    fn emit_orphan(&mut self, member: Member) {
        if self.command.keep_orphans {
            self.done.add(Vec::new(), vec![member], FinalState { closed: false, orphan: true }, &self.batches);
        }
    }

    /// Periodically turns waiting transactions into rows.
    fn make_rows(&mut self) -> Result<(), EngineError> {
        if !self.done.is_full() {
            return Ok(());
        }
        let open = self.open.iter().map(|(_, open)| open.oldest).max();
        let latest = open.map_or(self.now, |open| open.max(self.now));
        self.done.make_rows(latest, self.command, &self.names, &self.batches)
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
        let end = self.expiry_reason();
        let is_limited = self.max_span.is_some() || self.max_pause.is_some();
        self.open.take_all().into_iter().for_each(|open| self.emit(open, end, is_limited));
        if self.names.is_cut {
            context.messages.push("transaction: there are too many fields; those beyond the first 1000 are omitted");
        }
        self.done.finish(self.command, &self.names, &self.batches, context)
    }
}

#[cfg(test)]
mod tests;
