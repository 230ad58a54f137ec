//! Event storage of `transaction`.
//!
//! An event stays in the batch in which it arrived, because the transactions of most events are soon closed or evicted.
//! If the batches take too much memory, the remaining events are copied out of them, so that the batches can be freed.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnReader, column, compact, is_hidden, reader};
use quarry_eval::spans::time_ns;
use quarry_event::TimeNs;
use quarry_stdx::number::u32_of;

/// Maximum number of distinct fields of all transactions.
const FIELDS_MAX: usize = 1_000;
/// Approximate overhead of a column of a batch, in bytes.
const COLUMN_OVERHEAD_BYTES: usize = 256;

/// The fields of all transactions, numbered.
#[derive(Default)]
pub(super) struct FieldNames {
    pub(super) all: Vec<Arc<str>>,
    known: HashMap<Arc<str>, u32, FixedState>,
    /// Whether a field was dropped.
    pub(super) is_cut: bool,
    /// Whether some row has a time.
    pub(super) has_times: bool,
}

impl FieldNames {
    fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.known.get(name) {
            return Some(*number);
        }
        if self.all.len() >= FIELDS_MAX {
            self.is_cut = true;
            return None;
        }
        let (name, number): (Arc<str>, u32) = (name.into(), u32_of(self.all.len()));
        self.known.insert(Arc::clone(&name), number);
        self.all.push(name);
        Some(number)
    }
}

/// The events of one batch.
pub(super) struct Events {
    pub(super) times: Vec<TimeNs>,
    /// The columns of the command's fields, if the batch has them.
    keys: Vec<Option<ColumnReader>>,
    /// Fields with values, by ascending field number.
    columns: Vec<(u32, ColumnReader)>,
    /// Approximate bytes held.
    pub(super) bytes: usize,
}

impl Events {
    pub(super) fn new(batch: &RecordBatch, fields: &[String], names: &mut FieldNames) -> Result<Events, EngineError> {
        let (batch, bytes) = compact(batch)?;
        let time = reader(&batch, "_time");
        names.has_times |= (0..batch.num_rows()).any(|row| time_ns(&time, row).is_some());
        let times = (0..batch.num_rows()).map(|row| time_ns(&time, row).unwrap_or(0)).collect();
        let is_of_events = |name: &str| !is_hidden(name) && name != "_time";
        let key = |field: &String| is_of_events(field).then(|| column(&batch, field).map(ColumnReader::new)).flatten();
        let keys = fields.iter().map(key).collect();
        let mut columns = Vec::new();
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if is_of_events(field.name())
                && array.logical_null_count() < array.len()
                && let Some(number) = names.number(field.name())
            {
                columns.push((number, ColumnReader::new(array)));
            }
        }
        columns.sort_unstable_by_key(|(number, _)| *number);
        Ok(Events { times, keys, bytes: bytes + columns.len() * COLUMN_OVERHEAD_BYTES, columns })
    }

    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    /// Writes the values of the command's fields to `key`; false if the event has none of these fields.
    pub(super) fn write_key(&self, row: usize, key: &mut [Option<String>]) -> bool {
        let mut any = false;
        for (place, column) in key.iter_mut().zip(&self.keys) {
            let mut values = column.iter().flat_map(|column| column.values(row));
            let Some(first) = values.next() else {
                *place = None;
                continue;
            };
            any = true;
            let text = place.get_or_insert_default();
            text.clear();
            text.push_str(&first);
            values.for_each(|value| {
                text.push('\n');
                text.push_str(&value);
            });
        }
        any
    }
}

/// One event of a transaction.
pub(super) struct Member {
    pub(super) time: TimeNs,
    place: MemberValues,
}

enum MemberValues {
    /// A row of a batch.
    Row(Arc<Events>, u32),
    /// Concatenated copies of the values; for each value, the field number and the end position.
    Copied(Box<str>, Box<[(u32, u32)]>),
}

impl Member {
    pub(super) fn new(events: &Arc<Events>, row: usize) -> Member {
        Member { time: events.times[row], place: MemberValues::Row(Arc::clone(events), u32_of(row)) }
    }

    /// Whether the event keeps a batch alive.
    pub(super) fn is_in_batch(&self) -> bool {
        matches!(self.place, MemberValues::Row(..))
    }

    /// Copies the event's values out of the batch.
    pub(super) fn detach(&mut self) {
        let MemberValues::Row(events, row) = &self.place else { return };
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (number, column) in &events.columns {
            for value in column.values(*row as usize) {
                text.push_str(&value);
                ends.push((*number, u32_of(text.len())));
            }
        }
        self.place = MemberValues::Copied(text.into(), ends.into());
    }

    /// Bytes held in addition to batches.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Member>()
            + match &self.place {
                MemberValues::Row(..) => 0,
                MemberValues::Copied(text, ends) => text.len() + size_of_val::<[(u32, u32)]>(ends),
            }
    }

    /// Approximate bytes of the event's values.
    pub(super) fn value_bytes(&self) -> usize {
        match &self.place {
            MemberValues::Row(events, _) => size_of::<Member>() + events.bytes / events.count().max(1),
            MemberValues::Copied(..) => self.bytes(),
        }
    }

    /// Appends the values of a field.
    pub(super) fn append_values<'m>(&'m self, field: u32, values: &mut Vec<Cow<'m, str>>) {
        match &self.place {
            MemberValues::Row(events, row) => {
                if let Ok(at) = events.columns.binary_search_by_key(&field, |(number, _)| *number) {
                    values.extend(events.columns[at].1.values(*row as usize));
                }
            }
            MemberValues::Copied(text, ends) => {
                let at = ends.partition_point(|(number, _)| *number < field);
                let mut start = if at == 0 { 0 } else { ends[at - 1].1 as usize };
                for (_, end) in ends[at..].iter().take_while(|(number, _)| *number == field) {
                    values.push(Cow::Borrowed(&text[start..*end as usize]));
                    start = *end as usize;
                }
            }
        }
    }

    /// Marks the fields in which the event may have values; `last` is the batch marked last.
    pub(super) fn mark_fields(&self, last: &mut Option<*const Events>, marked: &mut [bool]) {
        let mut mark = |number: u32| marked[number as usize] = true;
        match &self.place {
            MemberValues::Row(events, _) => {
                if last.replace(Arc::as_ptr(events)) != Some(Arc::as_ptr(events)) {
                    events.columns.iter().for_each(|(number, _)| mark(*number));
                }
            }
            MemberValues::Copied(_, ends) => ends.iter().for_each(|(number, _)| mark(*number)),
        }
    }
}
