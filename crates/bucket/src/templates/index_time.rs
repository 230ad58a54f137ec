//! Columns of index-time fields: the values of each name, represented like the values of a variable.
//!
//! A field gets a column if enough events have exactly one value of it. Fields that occur several times in an event, or
//! in few events only, are stored by row (`crate::fields`), so that thousands of names cost no columns.
//!
//! Not here: how such a column is stored, and how its rows are found (`crate::columns`).

use std::sync::Arc;

use quarry_event::template::{ByteSet, FieldColumn, MAX_COLUMNS, MAX_TEMPLATES, Template, TemplatePart, ValueTraits};
use quarry_event::{EventBatch, IndexedFields};
use quarry_stdx::number::u32_of;

use super::builder::SlabBuilder;
use super::trie::Span;
use super::{CHUNK_EVENTS, SlabColumn, SlabValues, TemplateSlab, finish_values};
use crate::limits::{MAX_FIELD_COLUMN_BYTES, MAX_FIELD_COLUMNS, MAX_PAGE_EVENTS};

/// A field gets a column if at least one in this many events has exactly one value of it.
const EVENTS_PER_VALUE_MAX: usize = 64;
/// Bytes of the values that may wait for their column to process them; so few that their texts stay in the processor's
/// cache.
const PENDING_BYTES_MAX: usize = 256 << 10;
/// Number of templates of the column above a field that some events lack: one without the field, and one with it.
const TEMPLATES_PER_FIELD: usize = 2;
/// Column of a field that is stored by row.
const BY_ROW: u32 = u32::MAX;

/// The index-time fields of a slab: fields with columns, and fields stored by row.
#[derive(Debug, Default)]
pub(crate) struct FieldSplit {
    names: Vec<Arc<str>>,
    columns: Vec<SlabColumn>,
    /// For each name with a column, the column of the texts that has the same values, if any.
    shared: Vec<Option<u32>>,
    /// For each name with a column, the events that have a value; `None` if all events have a value.
    present: Vec<Option<Vec<bool>>>,
    /// The fields stored by row.
    pub(crate) by_row: IndexedFields,
}

/// The fields of each name, by its code.
struct NameCounts {
    /// Number of events with exactly one value.
    sole_events: Vec<usize>,
    /// Bytes of all values; 0 if the values of all names together fit into a column.
    bytes: Vec<usize>,
}

/// Marks of the fields of an event that are the only ones of their names. Computed once for consecutive events that share
/// their codes.
struct SoleFields<'e> {
    codes: &'e [u32],
    /// For each of the codes.
    is_sole: Vec<bool>,
    /// By code: number of the event's fields.
    counts: Vec<u32>,
}

impl<'e> SoleFields<'e> {
    fn new(names: usize) -> SoleFields<'e> {
        SoleFields { codes: &[], is_sole: Vec::new(), counts: vec![0; names] }
    }

    /// For each of an event's fields with these codes, whether it is the only one of its name.
    fn of(&mut self, codes: &'e [u32]) -> &[bool] {
        if !std::ptr::eq(codes, self.codes) {
            self.codes = codes;
            let counts = &mut self.counts;
            codes.iter().for_each(|code| counts[*code as usize] += 1);
            self.is_sole.clear();
            self.is_sole.extend(codes.iter().map(|code| counts[*code as usize] == 1));
            codes.iter().for_each(|code| counts[*code as usize] = 0);
        }
        &self.is_sole
    }
}

impl NameCounts {
    fn of(fields: &IndexedFields) -> NameCounts {
        let names = fields.names().len();
        let mut counts = NameCounts { sole_events: vec![0; names], bytes: vec![0; names] };
        let mut sole = SoleFields::new(names);
        let counts_bytes = fields.value_bytes() > MAX_FIELD_COLUMN_BYTES;
        for event in fields.all().events() {
            for (code, is_sole) in event.codes.iter().zip(sole.of(event.codes)) {
                counts.sole_events[*code as usize] += usize::from(*is_sole);
            }
            if counts_bytes {
                let values = event.codes.iter().zip(event.values());
                values.for_each(|(code, value)| counts.bytes[*code as usize] += value.len());
            }
        }
        counts
    }

    /// By name: the number of its column, or [`BY_ROW`].
    fn choose_columns(&self, events: usize, most: usize) -> Vec<u32> {
        let mut next = 0;
        let column = |(sole_events, bytes): (&usize, &usize)| {
            let is_frequent = *sole_events * EVENTS_PER_VALUE_MAX >= events;
            if next as usize >= most || !is_frequent || *bytes > MAX_FIELD_COLUMN_BYTES {
                return BY_ROW;
            }
            next += 1;
            next - 1
        };
        self.sole_events.iter().zip(&self.bytes).map(column).collect()
    }
}

/// The values of one field that wait for its column to process them.
#[derive(Default)]
struct PendingValues {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl PendingValues {
    fn push(&mut self, value: &[u8]) {
        self.spans.push(Span { start: u32_of(self.bytes.len()), len: u32_of(value.len()) });
        self.bytes.extend_from_slice(value);
    }

    fn feed(&mut self, column: usize, builder: &mut SlabBuilder) {
        if !self.spans.is_empty() {
            builder.feed(u32_of(column), &self.bytes, &self.spans);
            self.bytes.clear();
            self.spans.clear();
        }
    }
}

impl FieldSplit {
    /// Splits the fields of a slab whose texts have these columns.
    pub(crate) fn of(events: &EventBatch, texts: &TemplateSlab) -> FieldSplit {
        if events.fields.is_empty() {
            return FieldSplit::default();
        }
        let counts = NameCounts::of(&events.fields);
        let names = events.fields.names();
        let most = MAX_FIELD_COLUMNS
            .min((MAX_COLUMNS - texts.columns.len().min(MAX_COLUMNS)) / 2)
            .min((MAX_TEMPLATES - texts.template_count().min(MAX_TEMPLATES)) / TEMPLATES_PER_FIELD);
        let column_of = counts.choose_columns(events.len(), most);
        let mut split = FieldSplit::default();
        for (code, name) in names.iter().enumerate().filter(|(code, _)| column_of[*code] != BY_ROW) {
            split.names.push(Arc::clone(name));
            let is_total = counts.sole_events[code] == events.len();
            split.present.push((!is_total).then(|| vec![false; events.len()]));
        }
        split.find_shared(texts, &counts.sole_events, (names, &column_of));
        let builder = split.feed_columns(events, &counts, &column_of);
        for ((column, shared), name) in builder.columns.into_iter().zip(&split.shared).zip(&split.names) {
            split.columns.push(match shared {
                Some(shared) => texts.columns[*shared as usize].copied_to(path_of(name)),
                None => {
                    let (values, traits) = finish_values(column.kind);
                    SlabColumn { parent: None, path: column.path, values, traits, page_starts: column.page_starts }
                }
            });
        }
        assert_eq!(split.columns.len(), split.names.len(), "each name has a column");
        split
    }

    /// Finds the fields whose values are all in a column of the texts. Such a column has a value for an event only if
    /// the event has a single value of the field, so equal numbers of values mean equal values.
    fn find_shared(&mut self, texts: &TemplateSlab, sole_events: &[usize], (names, column_of): (&[Arc<str>], &[u32])) {
        for (code, name) in names.iter().enumerate().filter(|(code, _)| column_of[*code] != BY_ROW) {
            let has_all = |column: u32| {
                let values = texts.columns[column as usize].page_starts.last();
                values.is_some_and(|values| *values as usize == sole_events[code])
            };
            let found = texts.cells.iter().find(|(cell, column)| cell == name && has_all(*column));
            self.shared.push(found.map(|(_, column)| *column));
        }
    }

    /// Whether the columns of the texts have the values of all fields, and every event has each field once.
    fn is_in_texts(&self, fields: usize, counts: &NameCounts, column_of: &[u32]) -> bool {
        counts.sole_events.iter().sum::<usize>() == fields
            && column_of.iter().all(|column| *column != BY_ROW)
            && self.shared.iter().all(Option::is_some)
            && self.present.iter().all(Option::is_none)
    }

    fn feed_columns(&mut self, events: &EventBatch, counts: &NameCounts, column_of: &[u32]) -> SlabBuilder {
        let mut builder = SlabBuilder::default();
        let mut pending: Vec<PendingValues> = Vec::new();
        for name in &self.names {
            // Such values are not split into columns of their own.
            builder.add_column(None, path_of(name), u8::MAX, vec![0]);
            pending.push(PendingValues::default());
        }
        let fields = &events.fields;
        if self.is_in_texts(fields.len(), counts, column_of) {
            return builder;
        }
        let mut sole = SoleFields::new(fields.names().len());
        for first_row in (0..events.len()).step_by(MAX_PAGE_EVENTS) {
            for event in fields.of_rows(first_row..events.len().min(first_row + MAX_PAGE_EVENTS)).events() {
                let of_event = event.codes.iter().zip(event.values()).zip(sole.of(event.codes));
                for ((code, value), is_sole) in of_event {
                    let column = column_of[*code as usize];
                    if column == BY_ROW || !is_sole {
                        self.by_row.push(event.row, &fields.names()[*code as usize], value);
                        continue;
                    }
                    let column = column as usize;
                    if let Some(present) = &mut self.present[column] {
                        present[event.row as usize] = true;
                    }
                    if self.shared[column].is_some() {
                        continue;
                    }
                    let values = &mut pending[column];
                    values.push(value.as_bytes());
                    if values.spans.len() >= CHUNK_EVENTS || values.bytes.len() >= PENDING_BYTES_MAX {
                        values.feed(column, &mut builder);
                    }
                }
            }
            pending.iter_mut().enumerate().for_each(|(column, values)| values.feed(column, &mut builder));
            builder.end_page();
        }
        builder.choose_all_representations();
        builder
    }

    /// The columns with the names of their fields, and whether each text with a value contains it between breakers.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, &SlabColumn, bool)> {
        let names = self.names.iter().zip(&self.shared);
        names.zip(&self.columns).map(|((name, shared), column)| (&**name, column, shared.is_some()))
    }

    /// Adds the columns to the columns of the texts.
    pub(crate) fn append_to(self, slab: &mut TemplateSlab) {
        for ((name, mut column), present) in self.names.into_iter().zip(self.columns).zip(self.present) {
            if let Some(present) = present {
                let parent = u32_of(slab.columns.len());
                let above = presence_column(&present, parent + 1, &column);
                slab.columns.push(above);
                column.parent = Some(parent);
            }
            slab.fields.push(FieldColumn { name, column: u32_of(slab.columns.len()) });
            slab.columns.push(column);
        }
    }
}

/// The column above the column of a field; it shows which events have the field. `number` is the number of `column`.
pub(super) fn presence_column(present: &[bool], number: u32, column: &SlabColumn) -> SlabColumn {
    let with = Template { parts: vec![TemplatePart::Variable(number)] };
    let templates = vec![Template::default(), with];
    let codes: Vec<u32> = present.iter().map(|is_there| u32::from(*is_there)).collect();
    let starts = (0..present.len()).step_by(MAX_PAGE_EVENTS).chain([present.len()]);
    SlabColumn {
        parent: None,
        path: column.path,
        page_starts: starts.map(u32_of).collect(),
        values: Arc::new(SlabValues::Templates { templates, codes }),
        traits: ValueTraits {
            min_len: 0,
            string_contents: false,
            json_scalars: false,
            value_set: None,
            prefix: Box::default(),
            after_prefix: ByteSet::EMPTY,
            ..column.traits.clone()
        },
    }
}

/// Path of a field's column (FNV-1a), by which columns of different slabs correspond.
pub(super) fn path_of(name: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    name.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
