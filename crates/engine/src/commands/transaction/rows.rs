//! Output rows of `transaction`.
//!
//! Rows are output newest first, by the times of the first events of the transactions. A finished transaction therefore
//! waits until no open or future transaction can have a later time. It then becomes a row, in the search's memory or
//! spilled to a file. If too many transactions would have to wait, rows are made out of order and sorted at the end.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::Dataflow;
use quarry_eval::rows::{self, ColumnBuilder, RowBuffer, RowIter, batch_of};
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::{TransactionCommand, TransactionLists};
use quarry_stdx::number::f64_of;

use super::members::{Batches, FieldNames, Member};
use super::open::KeyValue;

/// Maximum number of finished rows of a batch.
const BATCH_ROWS: usize = 1_024;
/// Maximum bytes of the finished rows of a batch, unless a single row has more.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of finished rows that wait for their place in the order.
const WAITING_ROWS_MAX: usize = 32_768;
/// Maximum bytes of finished rows that wait.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Divisor: waiting rows may take at most the search's memory divided by this.
const WAITING_MEMORY_DIVISOR: usize = 32;

struct FinishedTransaction {
    time: TimeNs,
    /// Number in the order in which transactions ended.
    number: u64,
    /// Values of the command's fields; empty if they are not known.
    key: Vec<Option<KeyValue>>,
    /// Oldest first.
    members: Vec<Member>,
    ending: FinalState,
    bytes: usize,
}

/// Final state of a transaction: whether it is complete (`closed_txn`), and whether it is a single event that belongs
/// to no transaction (`_txn_orphan`).
#[derive(Clone, Copy)]
pub(super) struct FinalState {
    pub(super) closed: bool,
    pub(super) orphan: bool,
}

/// Rows of the result so far.
pub(super) struct ClosedRows {
    waiting: Vec<FinishedTransaction>,
    /// Approximate bytes of waiting transactions.
    pub(super) waiting_bytes: usize,
    /// Rows and bytes at which waiting transactions are examined again.
    next_check: (usize, usize),
    bytes_max: usize,
    next: u64,
    kept: RowBuffer,
    /// Time of the last row kept.
    last: TimeNs,
    is_in_order: bool,
}

impl ClosedRows {
    pub(super) fn new(dataflow: &Arc<Dataflow>) -> ClosedRows {
        ClosedRows {
            waiting: Vec::new(),
            waiting_bytes: 0,
            next_check: (BATCH_ROWS, BATCH_BYTES),
            bytes_max: WAITING_BYTES_MAX.min(dataflow.memory_bytes() / WAITING_MEMORY_DIVISOR),
            next: 0,
            kept: RowBuffer::new("transaction", dataflow),
            last: TimeNs::MAX,
            is_in_order: true,
        }
    }

    /// Adds a transaction; `key` has the values of the command's fields, or is empty if they are not known.
    pub(super) fn add(
        &mut self,
        key: Vec<Option<KeyValue>>,
        mut members: Vec<Member>,
        ending: FinalState,
        batches: &Batches,
    ) {
        members.reverse();
        members.sort_by_key(|member| member.time);
        let time = members.first().map_or(0, |member| member.time);
        let key_bytes = key.iter().flatten().map(|value| value.text.len()).sum::<usize>();
        let bytes = key_bytes + members.iter().map(|member| member.value_bytes(batches)).sum::<usize>();
        self.waiting_bytes += bytes;
        self.next += 1;
        self.waiting.push(FinishedTransaction { time, number: self.next, key, members, ending, bytes });
    }

    /// Whether it is time to turn waiting transactions into rows.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.next_check.0 || self.waiting_bytes >= self.next_check.1.min(self.bytes_max)
    }

    /// Rows are output newest first, and all further transactions are at `latest` or earlier: turns the transactions at
    /// `latest` or later into rows, or all transactions if too many would remain.
    pub(super) fn make_rows(
        &mut self,
        latest: TimeNs,
        command: &TransactionCommand,
        names: &FieldNames,
        batches: &Batches,
    ) -> Result<(), EngineError> {
        // The next row is the last in the list, so that finished rows can be removed at once.
        self.waiting.sort_by(|a, b| a.time.cmp(&b.time).then(b.number.cmp(&a.number)));
        let mut left = self.waiting.partition_point(|row| row.time < latest);
        let left_bytes: usize = self.waiting[..left].iter().map(|row| row.bytes).sum();
        if left > WAITING_ROWS_MAX || left_bytes > self.bytes_max / 2 {
            left = 0;
        }
        while self.waiting.len() > left {
            let mut bytes = 0;
            let fits = |row: &&FinishedTransaction| {
                bytes += row.bytes;
                bytes <= BATCH_BYTES
            };
            let ready = self.waiting[left..].iter().rev();
            let count = ready.take(BATCH_ROWS).take_while(fits).count().max(1);
            let mut rows = self.waiting.split_off(self.waiting.len() - count);
            rows.reverse();
            self.is_in_order &= rows.first().is_some_and(|row| row.time <= self.last);
            self.last = rows.last().map_or(self.last, |row| row.time);
            self.waiting_bytes -= rows.iter().map(|row| row.bytes).sum::<usize>();
            self.kept.push(&batch_of_rows(&rows, command, names, batches)?)?;
        }
        self.next_check = (self.waiting.len() + BATCH_ROWS, self.waiting_bytes + BATCH_BYTES);
        Ok(())
    }

    /// Copies the values of all waiting transactions out of their batches.
    pub(super) fn detach_members(&mut self, batches: &Batches) {
        self.waiting.iter_mut().flat_map(|row| &mut row.members).for_each(|member| member.detach(batches));
    }

    /// All rows, the newest transaction first, with fields in order of name.
    pub(super) fn finish(
        mut self,
        command: &TransactionCommand,
        names: &FieldNames,
        batches: &Batches,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        self.make_rows(TimeNs::MIN, command, names, batches)?;
        let schema = self.kept.schema();
        let has = |name: &str| schema.index_of(name).is_ok();
        // Rows of a report have no times.
        let mut order: Vec<String> = names.has_times.then(|| "_time".to_owned()).into_iter().collect();
        let fields: BTreeSet<&str> = names.all.iter().map(AsRef::as_ref).filter(|name| has(name)).collect();
        let made = ["duration", "eventcount", "closed_txn", "transactiontype", "_txn_orphan"];
        order.extend(fields.iter().map(|name| (*name).to_owned()));
        order.extend(made.into_iter().filter(|name| has(name) && !fields.contains(name)).map(str::to_owned));
        let newest_first = SortOptions { descending: true, nulls_first: false };
        let keys: Vec<_> = schema.index_of("_time").into_iter().map(|at| (at, newest_first)).collect();
        let sorted = match self.is_in_order {
            true => self.kept.into_unified_rows(),
            false => rows::sort_rows(self.kept, &keys, None, &context.dataflow)?,
        };
        Ok(Box::new(sorted.map(move |batch| rows::select(&batch?, &order))))
    }
}

fn batch_of_rows(
    closed: &[FinishedTransaction],
    command: &TransactionCommand,
    names: &FieldNames,
    batches: &Batches,
) -> Result<arrow::record_batch::RecordBatch, EngineError> {
    let count = closed.len();
    let column = || ColumnBuilder::new(count);
    let (mut time, mut duration, mut events) = (column(), column(), column());
    let (mut ended, mut orphan) = (column(), column());
    let mut marked = vec![false; names.all.len()];
    let mut last = None;
    for row in closed {
        let newest = row.members.last().map_or(row.time, |member| member.time);
        time.push_time(row.time);
        duration.push(rows::Value::from_f64(f64_of(newest - row.time) / f64_of(NS_PER_SEC)));
        events.push_int(row.members.len() as i64);
        ended.push_int(i64::from(row.ending.closed));
        if row.ending.orphan {
            orphan.push_int(1)
        } else {
            orphan.push_null()
        }
        row.members.iter().for_each(|member| member.mark_fields(batches, &mut last, &mut marked));
    }
    let mut columns: Vec<(&str, ArrayRef)> = vec![("_time", time.finish())];
    for (field, name) in (0u32..).zip(&names.all).filter(|(field, _)| marked[*field as usize]) {
        let values = field_column(closed, (field, name), command, batches);
        if values.data_type() != &DataType::Null {
            columns.push((name, values));
        }
    }
    columns.push(("duration", duration.finish()));
    columns.push(("eventcount", events.finish()));
    columns.push(("closed_txn", ended.finish()));
    if let Some(kind) = &command.kind {
        let mut names = column();
        closed.iter().for_each(|_| names.push_text(&kind.name));
        columns.push(("transactiontype", names.finish()));
    }
    if command.keep_orphans {
        columns.push(("_txn_orphan", orphan.finish()));
    }
    batch_of(columns, count)
}

/// A field of each transaction: for `_raw`, the texts of all events; for a list, the values of one event after the
/// other; otherwise the distinct values, sorted.
fn field_column(
    closed: &[FinishedTransaction],
    (field, name): (u32, &str),
    command: &TransactionCommand,
    batches: &Batches,
) -> ArrayRef {
    let (is_raw, is_list) = (name == "_raw", is_list(name, command));
    // All events of a transaction have the same value in a field of the command, if they have one. A text with a line
    // feed may stand for several values.
    let place = command.fields.iter().position(|known| known == name && !is_list && !is_raw);
    let mut column = ColumnBuilder::new(closed.len());
    let mut values: Vec<Cow<'_, str>> = Vec::new();
    for row in closed {
        match place.and_then(|place| row.key.get(place)) {
            Some(None) => {
                column.push_null();
                continue;
            }
            Some(Some(value)) if !value.text.contains('\n') => {
                column.push_text(&value.text);
                continue;
            }
            _ => {}
        }
        values.clear();
        let mut has_value = false;
        for member in &row.members {
            let before = values.len();
            member.append_values(field, batches, &mut values);
            has_value |= values.len() > before;
            if is_list && values.len() == before {
                values.push(Cow::Borrowed(&command.null_text));
            }
        }
        match values.as_slice() {
            _ if !has_value => column.push_null(),
            [only] => column.push_text(only),
            raw if is_raw && command.raw_is_list => column.push_multi(raw),
            _ if is_raw => column.push_text(&values.join("\n")),
            _ => {
                if !is_list {
                    values.sort_unstable();
                    values.dedup();
                }
                column.push_multi(&values);
            }
        }
    }
    column.finish()
}

fn is_list(name: &str, command: &TransactionCommand) -> bool {
    match &command.lists {
        TransactionLists::All => true,
        TransactionLists::None => false,
        TransactionLists::Fields(fields) => fields.iter().any(|field| field == name),
    }
}
