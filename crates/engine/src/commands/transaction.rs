//! `transaction`: events that belong together become one row.
//!
//! Events come newest first, so a transaction begins with its last event: one that matches `endswith=` opens, one that
//! matches `startswith=` closes. Open transactions are found by the values of their fields. Those that no older event
//! can join any more are closed as time goes back; beyond the limits the one unchanged for longest is evicted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::{TransactionCommand, TransactionLists};

use super::spans::{length_of, time_ns};
use crate::EngineError;
use crate::command::{BlockingTable, CommandContext, RowIter};
use crate::expr::CompiledExpr;
use crate::field_names::names_of;
use crate::row_filter::RowFilter;
use crate::rows::{self, ColumnBuilder, batch_of, is_hidden};

/// Distinct fields of all transactions at most.
const FIELDS_MAX: usize = 1_000;

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

impl BlockingTable for Transaction {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let mut gathered = Gathered::new(&self.command);
        for batch in rows {
            if context.stop.is_cancelled() {
                break;
            }
            let batch = batch?;
            let starts = self.starts.as_ref().map(|test| test.of_rows(&batch)).transpose()?;
            let ends = self.ends.as_ref().map(|test| test.of_rows(&batch)).transpose()?;
            let events = Events::new(batch, &self.command.fields);
            for row in 0..events.count() {
                let holds = |test: &Option<BooleanArray>| {
                    test.as_ref().is_some_and(|test| arrow::array::Array::is_valid(test, row) && test.value(row))
                };
                gathered.add(&events, row, holds(&starts), holds(&ends));
            }
        }
        if gathered.evicted_by_limit {
            context
                .messages
                .push("transaction: more were open than maxopentxn= or maxopenevents= allow; some were evicted");
        }
        Ok(vec![gathered.finish()?])
    }
}

/// The events of one batch.
struct Events {
    columns: Arc<Vec<(String, rows::ColumnReader)>>,
    /// Places of the transaction's fields among the columns.
    keys: Vec<Option<usize>>,
    times: Vec<TimeNs>,
}

impl Events {
    fn new(batch: RecordBatch, fields: &[String]) -> Events {
        let time = rows::reader(&batch, "_time");
        let times = (0..batch.num_rows()).map(|row| time_ns(&time, row).unwrap_or(0)).collect();
        let names: Vec<String> =
            names_of(&batch).into_iter().filter(|name| !is_hidden(name) && name != "_time").collect();
        let keys = fields.iter().map(|field| names.iter().position(|name| name == field)).collect();
        let columns = names.into_iter().map(|name| {
            let reader = rows::reader(&batch, &name);
            (name, reader)
        });
        Events { columns: Arc::new(columns.collect()), keys, times }
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

/// One event of a transaction.
struct Member {
    columns: Arc<Vec<(String, rows::ColumnReader)>>,
    row: usize,
    time: TimeNs,
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

/// A row of the result.
struct Closed {
    time: TimeNs,
    values: BTreeMap<Arc<str>, Vec<String>>,
    closed: bool,
    orphan: bool,
    events: usize,
    duration: f64,
}

struct Gathered<'c> {
    command: &'c TransactionCommand,
    max_span: Option<i64>,
    max_pause: Option<i64>,
    open: HashMap<u64, Open, FixedState>,
    /// Open transactions by place of a field and its value.
    by_value: HashMap<(usize, String), Vec<u64>, FixedState>,
    /// In the order they were opened, with some that are closed.
    opened: VecDeque<u64>,
    /// In the order they were changed, with what is out of date.
    changes: VecDeque<(u64, u64)>,
    open_events: usize,
    next: u64,
    done: Vec<Closed>,
    names: BTreeSet<Arc<str>>,
    evicted_by_limit: bool,
}

/// Why a transaction takes no more events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Evicted,
}

impl<'c> Gathered<'c> {
    fn new(command: &'c TransactionCommand) -> Gathered<'c> {
        Gathered {
            command,
            max_span: command.max_span.as_ref().map(length_of),
            max_pause: command.max_pause.as_ref().map(length_of),
            open: HashMap::default(),
            by_value: HashMap::default(),
            opened: VecDeque::new(),
            changes: VecDeque::new(),
            open_events: 0,
            next: 0,
            done: Vec::new(),
            names: BTreeSet::new(),
            evicted_by_limit: false,
        }
    }

    fn add(&mut self, events: &Events, row: usize, starts: bool, ends: bool) {
        let time = events.times[row];
        self.close_outlived(time);
        let key = events.key(row);
        let member = Member { columns: Arc::clone(&events.columns), row, time };
        if !self.command.fields.is_empty() && key.iter().all(Option::is_none) {
            return self.orphan(member);
        }
        let found = self.compatible(&key, time);
        if ends {
            if let Some(found) = found {
                let end = if self.command.starts_with.is_some() { End::Evicted } else { End::Closed };
                self.close(found, end);
            }
            let opened = self.open(key, member);
            if starts {
                self.close(opened, End::Closed);
            }
            return;
        }
        let place = match found {
            Some(found) => {
                self.join(found, key, member);
                found
            }
            // Without its end, an event is of no transaction.
            None if self.command.ends_with.is_some() => return self.orphan(member),
            None => self.open(key, member),
        };
        let is_full = self.open.get(&place).is_some_and(|open| open.members.len() >= self.command.max_events);
        if starts || is_full {
            self.close(place, End::Closed);
        }
        self.keep_limits();
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
        open.members.push(member);
        self.open_events += 1;
        self.next += 1;
        open.changed = self.next;
        self.changes.push_back((id, self.next));
    }

    /// Closes what no event of this time or older can join.
    fn close_outlived(&mut self, time: TimeNs) {
        if let Some(span) = self.max_span {
            while let Some(id) = self.opened.front().copied() {
                match self.open.get(&id) {
                    Some(open) if open.newest - time <= span => break,
                    Some(_) => self.close(id, self.end_of_outlived()),
                    None => {}
                }
                self.opened.pop_front();
            }
        }
        if let Some(pause) = self.max_pause {
            while let Some((id, changed)) = self.changes.front().copied() {
                match self.open.get(&id) {
                    Some(open) if open.changed == changed && open.oldest - time <= pause => break,
                    Some(open) if open.changed == changed => self.close(id, self.end_of_outlived()),
                    _ => {}
                }
                self.changes.pop_front();
            }
        }
    }

    /// A transaction that had to begin with a certain event, and did not, is not whole.
    fn end_of_outlived(&self) -> End {
        if self.command.starts_with.is_some() { End::Evicted } else { End::Closed }
    }

    /// Evicts the transaction unchanged for longest while there are too many.
    fn keep_limits(&mut self) {
        while self.open.len() > self.command.max_open || self.open_events > self.command.max_open_events {
            let Some((id, changed)) = self.changes.pop_front() else { return };
            if self.open.get(&id).is_some_and(|open| open.changed == changed) {
                self.evicted_by_limit = true;
                self.close(id, End::Evicted);
            }
        }
        // What is out of date is dropped before it outgrows what is open.
        if self.changes.len() > 2 * self.open_events + self.command.max_open {
            let open = &self.open;
            self.changes.retain(|(id, changed)| open.get(id).is_some_and(|open| open.changed == *changed));
        }
        if self.opened.len() > 2 * self.open.len() + self.command.max_open {
            let open = &self.open;
            self.opened.retain(|id| open.contains_key(id));
        }
    }

    fn close(&mut self, id: u64, end: End) {
        let Some(open) = self.open.remove(&id) else { return };
        self.open_events -= open.members.len();
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
            let closed = self.row_of(open.members, end == End::Closed, false);
            self.done.push(closed);
        }
    }

    fn orphan(&mut self, member: Member) {
        if self.command.keep_orphans {
            let closed = self.row_of(vec![member], false, true);
            self.done.push(closed);
        }
    }

    /// The row of a transaction.
    fn row_of(&mut self, mut members: Vec<Member>, closed: bool, orphan: bool) -> Closed {
        members.reverse();
        members.sort_by_key(|member| member.time);
        let first = members.first().map_or(0, |member| member.time);
        let last = members.last().map_or(0, |member| member.time);
        let mut names: BTreeSet<&str> = BTreeSet::new();
        members.iter().for_each(|member| names.extend(member.columns.iter().map(|(name, _)| name.as_str())));
        let mut values = BTreeMap::new();
        for name in names {
            let is_list = match &self.command.lists {
                TransactionLists::All => true,
                TransactionLists::None => false,
                TransactionLists::Fields(fields) => fields.iter().any(|field| field == name),
            };
            let found = self.values_of(&members, name, is_list);
            if found.is_empty() {
                continue;
            }
            let Some(name) = self.name(name) else { continue };
            values.insert(name, found);
        }
        let duration = (last - first) as f64 / NS_PER_SEC as f64;
        Closed { time: first, values, closed, orphan, events: members.len(), duration }
    }

    fn name(&mut self, name: &str) -> Option<Arc<str>> {
        if let Some(known) = self.names.get(name) {
            return Some(Arc::clone(known));
        }
        if self.names.len() >= FIELDS_MAX {
            return None;
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        Some(name)
    }

    fn values_of(&self, members: &[Member], name: &str, is_list: bool) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut any = false;
        for member in members {
            let column = member.columns.iter().find(|(known, _)| known == name).map(|(_, reader)| reader);
            let mut values = column.map(|reader| reader.values(member.row)).into_iter().flatten().peekable();
            if is_list && values.peek().is_none() {
                found.push(self.command.null_text.clone());
                continue;
            }
            for value in values {
                any = true;
                found.push(value.into_owned());
            }
        }
        if !any {
            return Vec::new();
        }
        if name == "_raw" {
            return vec![found.join("\n")];
        }
        if !is_list {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// All rows, the newest transaction first.
    fn finish(mut self) -> Result<RecordBatch, EngineError> {
        let mut left: Vec<u64> = self.open.keys().copied().collect();
        left.sort_unstable();
        let end = self.end_of_outlived();
        let is_limited = self.max_span.is_some() || self.max_pause.is_some();
        for id in left {
            let Some(open) = self.open.remove(&id) else { continue };
            if end == End::Closed || self.command.keep_evicted {
                let closed = self.row_of(open.members, end == End::Closed && is_limited, false);
                self.done.push(closed);
            }
        }
        self.done.sort_by_key(|row| std::cmp::Reverse(row.time));
        let count = self.done.len();
        let mut time = ColumnBuilder::new(count);
        let (mut duration, mut events, mut closed) =
            (ColumnBuilder::new(count), ColumnBuilder::new(count), ColumnBuilder::new(count));
        let mut orphan = ColumnBuilder::new(count);
        for row in &self.done {
            time.push_time(row.time);
            duration.push(rows::Value::number_of(row.duration));
            events.push_int(row.events as i64);
            closed.push_int(i64::from(row.closed));
            if row.orphan { orphan.push_int(1) } else { orphan.push_null() }
        }
        let mut columns = vec![("_time".to_owned(), time.finish())];
        for name in &self.names {
            let mut column = ColumnBuilder::new(count);
            for row in &self.done {
                match row.values.get(name) {
                    Some(values) => column.push_multi(values),
                    None => column.push_null(),
                }
            }
            columns.push((name.to_string(), column.finish()));
        }
        columns.push(("duration".to_owned(), duration.finish()));
        columns.push(("eventcount".to_owned(), events.finish()));
        columns.push(("closed_txn".to_owned(), closed.finish()));
        if self.command.keep_orphans {
            columns.push(("_txn_orphan".to_owned(), orphan.finish()));
        }
        batch_of(columns, count)
    }
}
