//! Event storage of `transaction`.
//!
//! An event stays in the batch in which it arrived, because the transactions of most events are soon closed or evicted.
//! If the batches take too much memory, the remaining events are copied out of them, and all batches are freed.

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

use super::open::KeyValue;

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

    /// Writes the values of the command's fields to `key`; false if the event has none of these fields. Several values
    /// of a field are joined by line feeds.
    pub(super) fn write_key(&self, row: usize, key: &mut [Option<KeyValue>]) -> bool {
        let mut any = false;
        for (place, (value, column)) in key.iter_mut().zip(&self.keys).enumerate() {
            let mut values = column.iter().flat_map(|column| column.values(row));
            let Some(first) = values.next() else {
                *value = None;
                continue;
            };
            any = true;
            let value = value.get_or_insert_default();
            value.text.clear();
            value.text.push_str(&first);
            values.for_each(|next| {
                value.text.push('\n');
                value.text.push_str(&next);
            });
            value.rehash(place);
        }
        any
    }
}

/// The batches that contain events of transactions, by number.
#[derive(Default)]
pub(super) struct Batches {
    all: Vec<Events>,
    /// Approximate bytes held.
    pub(super) bytes: usize,
}

impl Batches {
    /// Adds a batch and returns its number.
    pub(super) fn add(&mut self, events: Events) -> u32 {
        self.bytes += events.bytes;
        self.all.push(events);
        u32_of(self.all.len() - 1)
    }

    /// The batch with this number.
    pub(super) fn batch(&self, number: u32) -> &Events {
        &self.all[number as usize]
    }

    /// Frees all batches; no event may refer to them.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.bytes = 0;
    }
}

/// One event of a transaction.
pub(super) struct Member {
    pub(super) time: TimeNs,
    place: MemberValues,
}

enum MemberValues {
    /// The number of a batch, and a row of it.
    Row(u32, u32),
    Copied(Box<CopiedValues>),
}

/// Copies of an event's values.
struct CopiedValues {
    /// The values, concatenated.
    text: Box<str>,
    /// For each value, the field number and the end position.
    ends: Box<[(u32, u32)]>,
}

impl Member {
    /// The event of this row of a batch, given by its number.
    pub(super) fn new(time: TimeNs, batch: u32, row: usize) -> Member {
        Member { time, place: MemberValues::Row(batch, u32_of(row)) }
    }

    /// Whether the event keeps a batch alive.
    pub(super) fn is_in_batch(&self) -> bool {
        matches!(self.place, MemberValues::Row(..))
    }

    /// Copies the event's values out of the batch.
    pub(super) fn detach(&mut self, batches: &Batches) {
        let MemberValues::Row(batch, row) = self.place else { return };
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (number, column) in &batches.batch(batch).columns {
            for value in column.values(row as usize) {
                text.push_str(&value);
                ends.push((*number, u32_of(text.len())));
            }
        }
        self.place = MemberValues::Copied(Box::new(CopiedValues { text: text.into(), ends: ends.into() }));
    }

    /// Bytes held in addition to batches.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Member>()
            + match &self.place {
                MemberValues::Row(..) => 0,
                MemberValues::Copied(copied) => {
                    size_of::<CopiedValues>() + copied.text.len() + size_of_val::<[(u32, u32)]>(&copied.ends)
                }
            }
    }

    /// Approximate bytes of the event's values.
    pub(super) fn value_bytes(&self, batches: &Batches) -> usize {
        match &self.place {
            MemberValues::Row(batch, _) => {
                let events = batches.batch(*batch);
                size_of::<Member>() + events.bytes / events.count().max(1)
            }
            MemberValues::Copied(..) => self.bytes(),
        }
    }

    /// Appends the values of a field.
    pub(super) fn append_values<'m>(&'m self, field: u32, batches: &'m Batches, values: &mut Vec<Cow<'m, str>>) {
        match &self.place {
            MemberValues::Row(batch, row) => {
                let columns = &batches.batch(*batch).columns;
                if let Ok(at) = columns.binary_search_by_key(&field, |(number, _)| *number) {
                    values.extend(columns[at].1.values(*row as usize));
                }
            }
            MemberValues::Copied(copied) => {
                let CopiedValues { text, ends } = &**copied;
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
    pub(super) fn mark_fields(&self, batches: &Batches, last: &mut Option<u32>, marked: &mut [bool]) {
        let mut mark = |number: u32| marked[number as usize] = true;
        match &self.place {
            MemberValues::Row(batch, _) => {
                if last.replace(*batch) != Some(*batch) {
                    batches.batch(*batch).columns.iter().for_each(|(number, _)| mark(*number));
                }
            }
            MemberValues::Copied(copied) => copied.ends.iter().for_each(|(number, _)| mark(*number)),
        }
    }
}
