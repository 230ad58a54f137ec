//! `transaction`: events that belong together become one row.
//!
//! Events come newest first, so a transaction begins with its last event: one that matches `endswith=` opens, one that
//! matches `startswith=` closes. Open transactions are found by the values of their fields. Those that no older event
//! can join any more are closed as time goes back; beyond the limits the one unchanged for longest is evicted. Open
//! transactions count towards the search's memory; closed ones wait for their order in [`rows`], in files if need be.

mod rows;

use std::collections::VecDeque;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::TimeNs;
use quarry_spl::ast::TransactionCommand;

use self::rows::{ClosedRows, Ending, Member, Names};
use super::spans::{length_of, time_ns};
use crate::EngineError;
use crate::command::{Blocking, CommandContext, RowIter};
use crate::dataflow::MemoryAccount;
use crate::expr::CompiledExpr;
use crate::field_names::names_of;
use crate::row_filter::RowFilter;
use crate::rows::{ColumnReader, is_hidden, reader};

/// Bytes by which open transactions grow before they are accounted for again.
const UNACCOUNTED_BYTES: usize = 1 << 20;
/// Bytes of an open transaction beside its events, about.
const OPEN_BYTES: usize = 256;

/// A test of events, compiled.
pub(crate) enum Test {
    /// A search condition.
    Condition(RowFilter),
    /// An expression.
    Expression(CompiledExpr),
}

impl Test {
    fn of_rows(&self, rows: &RecordBatch) -> Result<BooleanArray, EngineError> {
        match self {
            Test::Condition(filter) => filter.matches(rows),
            Test::Expression(expr) => expr.matches(rows),
        }
    }
}

/// The command with its tests compiled.
pub(crate) struct Transaction {
    /// Command.
    pub command: TransactionCommand,
    /// `startswith=`.
    pub starts: Option<Test>,
    /// `endswith=`.
    pub ends: Option<Test>,
}

impl Blocking for Transaction {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut gathered = Gathered::new(&self.command, context);
        for batch in rows {
            if context.stop.is_cancelled() {
                break;
            }
            let batch = batch?;
            let starts = self.starts.as_ref().map(|test| test.of_rows(&batch)).transpose()?;
            let ends = self.ends.as_ref().map(|test| test.of_rows(&batch)).transpose()?;
            let events = Events::new(&batch, &self.command.fields);
            for row in 0..events.count() {
                let holds = |test: &Option<BooleanArray>| {
                    test.as_ref().is_some_and(|test| arrow::array::Array::is_valid(test, row) && test.value(row))
                };
                gathered.add(&events, row, holds(&starts), holds(&ends))?;
            }
        }
        gathered.finish(context)
    }
}

/// The events of one batch.
struct Events {
    columns: Vec<(String, ColumnReader)>,
    /// Places of the transaction's fields among the columns.
    keys: Vec<Option<usize>>,
    times: Vec<TimeNs>,
}

impl Events {
    fn new(batch: &RecordBatch, fields: &[String]) -> Events {
        let time = reader(batch, "_time");
        let times = (0..batch.num_rows()).map(|row| time_ns(&time, row).unwrap_or(0)).collect();
        let names: Vec<String> =
            names_of(batch).into_iter().filter(|name| !is_hidden(name) && name != "_time").collect();
        let keys = fields.iter().map(|field| names.iter().position(|name| name == field)).collect();
        let columns = names.into_iter().map(|name| {
            let reader = reader(batch, &name);
            (name, reader)
        });
        Events { columns: columns.collect(), keys, times }
    }

    fn count(&self) -> usize {
        self.times.len()
    }

    /// The values of the transaction's fields.
    fn key(&self, row: usize) -> Vec<Option<String>> {
        let value = |at: &Option<usize>| {
            let values: Vec<_> = at.map(|at| self.columns[at].1.values(row).collect()).unwrap_or_default();
            if values.is_empty() { None } else { Some(values.join("\n")) }
        };
        self.keys.iter().map(value).collect()
    }
}

/// A transaction that may still grow.
struct Open {
    key: Vec<Option<String>>,
    /// Newest first.
    members: Vec<Member>,
    newest: TimeNs,
    oldest: TimeNs,
    changed: u64,
}

struct Gathered<'c> {
    command: &'c TransactionCommand,
    max_span: Option<i64>,
    max_pause: Option<i64>,
    max_open: usize,
    max_open_events: usize,
    open: HashMap<u64, Open, FixedState>,
    /// Open transactions by place of a field and its value.
    by_value: HashMap<(usize, String), Vec<u64>, FixedState>,
    /// In the order they were opened, with some that are closed.
    opened: VecDeque<u64>,
    /// In the order they were changed, with what is out of date.
    changes: VecDeque<(u64, u64)>,
    open_events: usize,
    /// Bytes of the events of open transactions.
    open_bytes: usize,
    accounted: usize,
    account: MemoryAccount,
    next: u64,
    done: ClosedRows,
    names: Names,
    evicted_by_limit: bool,
}

/// Why a transaction takes no more events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Evicted,
}

impl<'c> Gathered<'c> {
    fn new(command: &'c TransactionCommand, context: &CommandContext) -> Gathered<'c> {
        Gathered {
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
            accounted: 0,
            account: context.dataflow.account("open transactions"),
            next: 0,
            done: ClosedRows::new(&context.dataflow),
            names: Names::default(),
            evicted_by_limit: false,
        }
    }

    fn add(&mut self, events: &Events, row: usize, starts: bool, ends: bool) -> Result<(), EngineError> {
        let time = events.times[row];
        self.close_outlived(time)?;
        let key = events.key(row);
        if !self.command.fields.is_empty() && key.iter().all(Option::is_none) {
            return self.orphan(events, row);
        }
        let found = self.compatible(&key, time);
        if ends {
            if let Some(found) = found {
                let end = if self.command.starts_with.is_some() { End::Evicted } else { End::Closed };
                self.close(found, end)?;
            }
            let member = Member::new(events, row, &mut self.names);
            let opened = self.open(key, member);
            if starts {
                self.close(opened, End::Closed)?;
            }
            self.keep_limits()?;
            return self.note_size();
        }
        if found.is_none() && self.command.ends_with.is_some() {
            // Without its end, an event is of no transaction.
            return self.orphan(events, row);
        }
        let member = Member::new(events, row, &mut self.names);
        let place = match found {
            Some(found) => {
                self.join(found, key, member);
                found
            }
            None => self.open(key, member),
        };
        let is_full = self.open.get(&place).is_some_and(|open| open.members.len() >= self.command.max_events);
        if starts || is_full {
            self.close(place, End::Closed)?;
        }
        self.keep_limits()?;
        self.note_size()
    }

    /// Accounts for what is open, now and then.
    fn note_size(&mut self) -> Result<(), EngineError> {
        let bytes = self.open_bytes + self.open.len() * OPEN_BYTES;
        if bytes.abs_diff(self.accounted) >= UNACCOUNTED_BYTES {
            self.account.set(bytes)?;
            self.accounted = bytes;
        }
        Ok(())
    }

    /// The open transaction changed last that the event may join.
    fn compatible(&self, key: &[Option<String>], time: TimeNs) -> Option<u64> {
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
            let lists = key.iter().enumerate().filter_map(|(at, value)| self.by_value.get(&(at, value.clone()?)));
            lists.flatten().filter_map(fits).max()
        };
        found.map(|(_, id)| id)
    }

    fn open(&mut self, key: Vec<Option<String>>, member: Member) -> u64 {
        let id = self.next;
        self.next += 1;
        let time = member.time;
        let open = Open { key: vec![None; key.len()], members: Vec::new(), newest: time, oldest: time, changed: 0 };
        self.open.insert(id, open);
        self.opened.push_back(id);
        self.join(id, key, member);
        id
    }

    fn join(&mut self, id: u64, key: Vec<Option<String>>, member: Member) {
        let Some(open) = self.open.get_mut(&id) else { return };
        for (at, value) in key.into_iter().enumerate() {
            if let (None, Some(value)) = (&open.key[at], value) {
                self.by_value.entry((at, value.clone())).or_default().push(id);
                open.key[at] = Some(value);
            }
        }
        open.oldest = open.oldest.min(member.time);
        open.newest = open.newest.max(member.time);
        self.open_bytes += member.bytes();
        open.members.push(member);
        self.open_events += 1;
        self.next += 1;
        open.changed = self.next;
        self.changes.push_back((id, self.next));
    }

    /// Closes what no event of this time or older can join.
    fn close_outlived(&mut self, time: TimeNs) -> Result<(), EngineError> {
        if let Some(span) = self.max_span {
            while let Some(id) = self.opened.front().copied() {
                match self.open.get(&id) {
                    Some(open) if open.newest - time <= span => break,
                    Some(_) => self.close(id, self.end_of_outlived())?,
                    None => {}
                }
                self.opened.pop_front();
            }
        }
        if let Some(pause) = self.max_pause {
            while let Some((id, changed)) = self.changes.front().copied() {
                match self.open.get(&id) {
                    Some(open) if open.changed == changed && open.oldest - time <= pause => break,
                    Some(open) if open.changed == changed => self.close(id, self.end_of_outlived())?,
                    _ => {}
                }
                self.changes.pop_front();
            }
        }
        Ok(())
    }

    /// A transaction that had to begin with a certain event, and did not, is not whole.
    fn end_of_outlived(&self) -> End {
        if self.command.starts_with.is_some() { End::Evicted } else { End::Closed }
    }

    /// Evicts the transaction unchanged for longest while there are too many.
    fn keep_limits(&mut self) -> Result<(), EngineError> {
        while self.open.len() > self.max_open || self.open_events > self.max_open_events {
            let Some((id, changed)) = self.changes.pop_front() else { return Ok(()) };
            if self.open.get(&id).is_some_and(|open| open.changed == changed) {
                self.evicted_by_limit = true;
                self.close(id, End::Evicted)?;
            }
        }
        // What is out of date is dropped before it outgrows what is open.
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

    fn close(&mut self, id: u64, end: End) -> Result<(), EngineError> {
        let Some(open) = self.open.remove(&id) else { return Ok(()) };
        self.open_events -= open.members.len();
        self.open_bytes -= open.members.iter().map(Member::bytes).sum::<usize>();
        for (at, value) in open.key.iter().enumerate() {
            let Some(value) = value else { continue };
            let slot = (at, value.clone());
            if let Some(ids) = self.by_value.get_mut(&slot) {
                ids.retain(|known| *known != id);
                if ids.is_empty() {
                    self.by_value.remove(&slot);
                }
            }
        }
        if end == End::Closed || self.command.keep_evicted {
            let ending = Ending { closed: end == End::Closed, orphan: false };
            self.done.add(open.members, ending, self.command, &self.names)?;
        }
        Ok(())
    }

    fn orphan(&mut self, events: &Events, row: usize) -> Result<(), EngineError> {
        if self.command.keep_orphans {
            let member = Member::new(events, row, &mut self.names);
            self.done.add(vec![member], Ending { closed: false, orphan: true }, self.command, &self.names)?;
        }
        Ok(())
    }

    /// All rows, the newest transaction first.
    fn finish(mut self, context: &CommandContext) -> Result<RowIter, EngineError> {
        if self.evicted_by_limit {
            context
                .messages
                .push("transaction: more were open than maxopentxn= or maxopenevents= allow; some were evicted");
        }
        let mut left: Vec<u64> = self.open.keys().copied().collect();
        left.sort_unstable();
        let end = self.end_of_outlived();
        let is_limited = self.max_span.is_some() || self.max_pause.is_some();
        for id in left {
            let Some(open) = self.open.remove(&id) else { continue };
            if end == End::Closed || self.command.keep_evicted {
                let ending = Ending { closed: end == End::Closed && is_limited, orphan: false };
                self.done.add(open.members, ending, self.command, &self.names)?;
            }
        }
        if self.names.is_cut {
            context.messages.push("transaction: there are too many fields; those beyond the first 1000 are left out");
        }
        self.done.finish(self.command, &self.names, context)
    }
}
