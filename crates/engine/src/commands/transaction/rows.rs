//! What `transaction` holds of events, and the rows it makes of them.
//!
//! An event that waits for its transaction is its own values back to back, so that it keeps no batch alive. Finished
//! rows are kept within the search's memory and sorted when the last one is there, with files where they must.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::compute::SortOptions;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::{TransactionCommand, TransactionLists};

use super::Events;
use crate::EngineError;
use crate::command::{CommandContext, RowIter};
use crate::dataflow::Dataflow;
use crate::rows::{self, ColumnBuilder, KeptRows, batch_of};

/// Distinct fields of all transactions at most.
const FIELDS_MAX: usize = 1_000;
/// Finished rows that become a batch.
const BATCH_ROWS: usize = 1_024;
/// Bytes of such rows from which on they do.
const BATCH_BYTES: usize = 1 << 20;

/// The fields of all transactions, numbered.
#[derive(Default)]
pub(super) struct Names {
    all: Vec<Arc<str>>,
    known: HashMap<Arc<str>, u32, FixedState>,
    /// Whether a field was left out.
    pub(super) is_cut: bool,
}

impl Names {
    fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.known.get(name) {
            return Some(*number);
        }
        if self.all.len() >= FIELDS_MAX {
            self.is_cut = true;
            return None;
        }
        let (name, number): (Arc<str>, u32) = (name.into(), self.all.len() as u32);
        self.known.insert(Arc::clone(&name), number);
        self.all.push(name);
        Some(number)
    }

    fn number_of(&self, name: &str) -> Option<u32> {
        self.known.get(name).copied()
    }
}

/// One event of a transaction.
pub(super) struct Member {
    pub(super) time: TimeNs,
    /// All values, back to back.
    text: Box<str>,
    /// Field and end of each value; those of a field are neighbours.
    values: Box<[(u32, u32)]>,
}

impl Member {
    pub(super) fn new(events: &Events, row: usize, names: &mut Names) -> Member {
        let (mut text, mut values) = (String::new(), Vec::new());
        for (name, reader) in &events.columns {
            for value in reader.values(row) {
                let Some(number) = names.number(name) else { break };
                text.push_str(&value);
                values.push((number, text.len() as u32));
            }
        }
        Member { time: events.times[row], text: text.into(), values: values.into() }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Member>() + self.text.len() + self.values.len() * size_of::<(u32, u32)>()
    }

    /// Fields and values.
    fn values(&self) -> impl Iterator<Item = (u32, &str)> {
        let mut start = 0;
        self.values.iter().map(move |(field, end)| {
            let value = &self.text[start as usize..*end as usize];
            start = *end;
            (*field, value)
        })
    }
}

/// A row of the result.
struct Closed {
    time: TimeNs,
    /// Values of fields by number, in ascending order.
    values: Vec<(u32, Vec<String>)>,
    closed: bool,
    orphan: bool,
    events: usize,
    duration: f64,
}

/// Rows of the result so far.
pub(super) struct ClosedRows {
    waiting: Vec<Closed>,
    waiting_bytes: usize,
    kept: KeptRows,
}

/// How a transaction ended.
pub(super) struct Ending {
    pub(super) closed: bool,
    pub(super) orphan: bool,
}

impl ClosedRows {
    pub(super) fn new(dataflow: &Arc<Dataflow>) -> ClosedRows {
        ClosedRows { waiting: Vec::new(), waiting_bytes: 0, kept: KeptRows::new("transaction", dataflow) }
    }

    /// Adds the row of a transaction.
    pub(super) fn add(
        &mut self,
        mut members: Vec<Member>,
        ending: Ending,
        command: &TransactionCommand,
        names: &Names,
    ) -> Result<(), EngineError> {
        members.reverse();
        members.sort_by_key(|member| member.time);
        let first = members.first().map_or(0, |member| member.time);
        let last = members.last().map_or(0, |member| member.time);
        let Ending { closed, orphan } = ending;
        let duration = (last - first) as f64 / NS_PER_SEC as f64;
        let values = values_of(&members, command, names);
        self.waiting_bytes += members.iter().map(Member::bytes).sum::<usize>();
        self.waiting.push(Closed { time: first, values, closed, orphan, events: members.len(), duration });
        if self.waiting.len() >= BATCH_ROWS || self.waiting_bytes >= BATCH_BYTES {
            self.keep_waiting(command, names)?;
        }
        Ok(())
    }

    /// Makes a batch of the rows that wait.
    fn keep_waiting(&mut self, command: &TransactionCommand, names: &Names) -> Result<(), EngineError> {
        self.waiting_bytes = 0;
        let done = std::mem::take(&mut self.waiting);
        let count = done.len();
        let mut time = ColumnBuilder::new(count);
        let (mut duration, mut events, mut closed) =
            (ColumnBuilder::new(count), ColumnBuilder::new(count), ColumnBuilder::new(count));
        let mut orphan = ColumnBuilder::new(count);
        for row in &done {
            time.push_time(row.time);
            duration.push(rows::Value::number_of(row.duration));
            events.push_int(row.events as i64);
            closed.push_int(i64::from(row.closed));
            if row.orphan { orphan.push_int(1) } else { orphan.push_null() }
        }
        let mut columns = vec![("_time", time.finish())];
        let fields: BTreeSet<u32> = done.iter().flat_map(|row| row.values.iter().map(|(field, _)| *field)).collect();
        for field in fields {
            let mut column = ColumnBuilder::new(count);
            for row in &done {
                match row.values.binary_search_by_key(&field, |(of, _)| *of) {
                    Ok(at) => column.push_multi(&row.values[at].1),
                    Err(_) => column.push_null(),
                }
            }
            columns.push((names.all[field as usize].as_ref(), column.finish()));
        }
        columns.push(("duration", duration.finish()));
        columns.push(("eventcount", events.finish()));
        columns.push(("closed_txn", closed.finish()));
        if command.keep_orphans {
            columns.push(("_txn_orphan", orphan.finish()));
        }
        self.kept.push(&batch_of(columns, count)?)
    }

    /// All rows, the newest transaction first, with the fields in order of their names.
    pub(super) fn finish(
        mut self,
        command: &TransactionCommand,
        names: &Names,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        self.keep_waiting(command, names)?;
        let schema = self.kept.schema();
        let has = |name: &str| schema.index_of(name).is_ok();
        let mut order = vec!["_time".to_owned()];
        let fields: BTreeSet<&str> = names.all.iter().map(AsRef::as_ref).filter(|name| has(name)).collect();
        let made = ["duration", "eventcount", "closed_txn", "_txn_orphan"];
        order.extend(fields.iter().map(|name| (*name).to_owned()));
        order.extend(made.into_iter().filter(|name| has(name) && !fields.contains(name)).map(str::to_owned));
        let newest_first = SortOptions { descending: true, nulls_first: false };
        let keys: Vec<_> = schema.index_of("_time").into_iter().map(|at| (at, newest_first)).collect();
        let sorted = rows::sorted(self.kept, &keys, None, &context.dataflow)?;
        Ok(Box::new(sorted.map(move |batch| rows::select(&batch?, &order))))
    }
}

/// The values of a transaction's fields, fields in the order of their numbers.
fn values_of(members: &[Member], command: &TransactionCommand, names: &Names) -> Vec<(u32, Vec<String>)> {
    let fields: BTreeSet<u32> =
        members.iter().flat_map(|member| member.values.iter().map(|(field, _)| *field)).collect();
    let mut all: Vec<(u32, Vec<String>)> = fields.into_iter().map(|field| (field, Vec::new())).collect();
    let is_list: Vec<bool> = all.iter().map(|(field, _)| is_list(&names.all[*field as usize], command)).collect();
    for member in members {
        let lengths: Vec<usize> = match is_list.contains(&true) {
            true => all.iter().map(|(_, values)| values.len()).collect(),
            false => Vec::new(),
        };
        for (field, value) in member.values() {
            if let Ok(at) = all.binary_search_by_key(&field, |(of, _)| *of) {
                all[at].1.push(value.to_owned());
            }
        }
        // A list has a place for each event.
        for (at, before) in lengths.into_iter().enumerate().filter(|(at, _)| is_list[*at]) {
            if all[at].1.len() == before {
                all[at].1.push(command.null_text.clone());
            }
        }
    }
    let raw = names.number_of("_raw");
    for ((field, values), is_list) in all.iter_mut().zip(is_list) {
        if Some(*field) == raw {
            *values = vec![values.join("\n")];
        } else if !is_list {
            values.sort_unstable();
            values.dedup();
        }
    }
    all
}

fn is_list(name: &str, command: &TransactionCommand) -> bool {
    match &command.lists {
        TransactionLists::All => true,
        TransactionLists::None => false,
        TransactionLists::Fields(fields) => fields.iter().any(|field| field == name),
    }
}
