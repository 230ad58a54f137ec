//! Index-time fields of a page that are stored by row: sparse rows with pooled names and values.
//!
//! A source may produce thousands of names, so only frequent fields get columns of their own (`crate::templates`). All
//! other fields of a page, or all its fields if its texts are not stored as columns, are stored in one or more blocks,
//! each with a small dictionary of names. Names beyond the dictionary's limit are written next to their values, so that
//! a very large number of names costs bytes on disk but no memory for a dictionary.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use quarry_event::template::{ColumnValues, Dictionary, NumberFormat, PageColumn};
use quarry_event::{FieldNames, FieldRef, FieldRun, IndexedFields};
use quarry_stdx::number::u32_of;

use crate::block::{Block, BlockKind, BlockWriter};
use crate::columns::{BATCH_CELLS, Cells};
use crate::error::BucketError;
use crate::limits::{
    MAX_FIELD_BLOCK_ENTRIES, MAX_FIELD_BLOCK_NAMES, MAX_FIELD_BYTES, MAX_PAGE_EVENTS, TARGET_FIELD_BLOCK_BYTES,
};
use crate::templates::texts_equal;
use crate::wire::{Cursor, Malformed, put_bytes, put_varint};

/// Number of streams of a field block: dictionary names; rows and name numbers; value lengths; values; names beyond the
/// dictionary.
const FIELD_STREAMS: usize = 5;
/// Name number that marks a name beyond the dictionary.
const INLINE_NAME: u64 = 0;
/// Number of fields after which the values are compared, column by column; so few that they stay in the processor's
/// cache.
const COMPARED_FIELDS: usize = 2_048;
/// Maximum decoded size of a field block: the size at which it is closed, and one more field of the greatest size.
pub(crate) const MAX_FIELD_BLOCK_BYTES: usize =
    TARGET_FIELD_BLOCK_BYTES + MAX_FIELD_BYTES + MAX_FIELD_BLOCK_ENTRIES * 16;

/// Writes the fields of one page, with rows counted from `first_row`. Returns the stored size of each block.
pub(crate) fn write_fields(
    fields: FieldRun<'_>,
    first_row: u32,
    blocks: &mut BlockWriter,
) -> Result<Vec<u32>, BucketError> {
    let mut stored = Vec::new();
    let mut left = fields;
    while !left.is_empty() {
        let (now, later) = left.split_at(block_entry_count(left));
        stored.push(write_block(now, first_row, blocks)?);
        left = later;
    }
    Ok(stored)
}

fn block_entry_count(fields: FieldRun<'_>) -> usize {
    let mut bytes = 0;
    let fits = |field: &FieldRef<'_>| {
        let before = bytes;
        bytes += field.name.len() + field.value.len();
        before == 0 || bytes <= TARGET_FIELD_BLOCK_BYTES
    };
    fields.iter().take(MAX_FIELD_BLOCK_ENTRIES).take_while(fits).count()
}

fn write_block(fields: FieldRun<'_>, first_row: u32, blocks: &mut BlockWriter) -> Result<u32, BucketError> {
    // By code of the name.
    let mut numbers: HashMap<u32, u64, FixedState> = HashMap::default();
    let [mut names, mut rows, mut lengths, mut values, mut beside] = [const { Vec::new() }; FIELD_STREAMS];
    put_varint(&mut rows, fields.len() as u64);
    assert!(fields.len() <= MAX_FIELD_BLOCK_ENTRIES, "a block has at most MAX_FIELD_BLOCK_ENTRIES fields");
    assert!(fields.rows().is_sorted(), "fields are in the order of their events");
    assert!(fields.rows().next().is_none_or(|row| row >= first_row), "fields are of this page");
    let mut last_row = first_row;
    for field in fields.iter() {
        let next = numbers.len() as u64 + 1;
        let number = match numbers.get(&field.code) {
            Some(number) => *number,
            None if numbers.len() < MAX_FIELD_BLOCK_NAMES => {
                numbers.insert(field.code, next);
                put_bytes(&mut names, field.name.as_bytes());
                next
            }
            None => {
                put_bytes(&mut beside, field.name.as_bytes());
                INLINE_NAME
            }
        };
        put_varint(&mut rows, u64::from(field.row - last_row));
        put_varint(&mut rows, number);
        put_varint(&mut lengths, field.value.len() as u64);
        values.extend_from_slice(field.value.as_bytes());
        last_row = field.row;
    }
    blocks.write_parts(BlockKind::Fields, &[&names, &rows, &lengths, &values, &beside])
}

/// Appends the fields of one block that have these names to `fields`; `events` is the number of events of the page.
pub(crate) fn read_fields(
    block: &Block<'_>,
    wanted: FieldNames,
    events: usize,
    fields: &mut IndexedFields,
) -> Result<(), BucketError> {
    let streams = block.decode_parts::<FIELD_STREAMS>()?;
    block.position().map_malformed(decode_streams(&streams, wanted, events, fields))
}

fn decode_streams(
    [names, rows, lengths, values, beside]: &[Vec<u8>; FIELD_STREAMS],
    wanted: FieldNames,
    events: usize,
    fields: &mut IndexedFields,
) -> Result<(), Malformed> {
    assert!(events <= MAX_PAGE_EVENTS, "a page holds no more events");
    let [mut names, mut rows, mut lengths, mut values, mut beside] =
        [names, rows, lengths, values, beside].map(|stream| Cursor::new(stream));
    // Names that are not wanted are `None`.
    let mut dictionary: Vec<Option<Arc<str>>> = Vec::new();
    let known = |name: &str| wanted.may_contain(name).then(|| Arc::from(name));
    while names.remaining() > 0 {
        dictionary.push(known(names.text("name of a field", MAX_FIELD_BYTES)?));
    }
    // An entry takes at least two bytes of this stream.
    let count = rows.count("number of fields", MAX_FIELD_BLOCK_ENTRIES.min(rows.remaining() / 2))?;
    let mut row = 0;
    if wanted == FieldNames::ALL {
        fields.reserve(count.min(events), count, values.remaining());
    }
    for _ in 0..count {
        row += rows.count("row of a field", events)?;
        if row >= events {
            return Err(Malformed(format!("a field belongs to row {row} of {events}")));
        }
        let inline;
        let name = match rows.count("name number", dictionary.len())? as u64 {
            INLINE_NAME => {
                inline = known(beside.text("name of a field", MAX_FIELD_BYTES)?);
                &inline
            }
            number => &dictionary[number as usize - 1],
        };
        let len = lengths.count("length of a value", MAX_FIELD_BYTES)?;
        let value = values.take(len, "value of a field")?;
        let Some(name) = name else { continue };
        let value = std::str::from_utf8(value).map_err(|_| Malformed::new("value of a field is not UTF-8"))?;
        fields.push(u32_of(row), name, value);
    }
    rows.finish("the rows")?;
    lengths.finish("the lengths")?;
    values.finish("the values")?;
    beside.finish("the names")
}

/// Values of a field that is stored as a column.
pub(crate) struct FieldValues {
    pub(crate) name: Arc<str>,
    pub(crate) column: Arc<PageColumn>,
    /// Texts of the column's codes, if it has codes.
    pub(crate) dictionary: Arc<Dictionary>,
    /// Format of the column's numbers, if it has numbers.
    pub(crate) format: NumberFormat,
}

impl FieldValues {
    /// Writes value number `at` to `out`, which is empty.
    fn write(&self, at: usize, out: &mut Vec<u8>) {
        match &self.column.values {
            ColumnValues::Codes(codes) => out.extend_from_slice(self.dictionary.get(codes[at])),
            ColumnValues::Numbers(numbers) => self.format.write(numbers[at], out),
            ColumnValues::Texts { bytes, ends } => {
                let start = if at == 0 { 0 } else { ends[at - 1] as usize };
                out.extend_from_slice(&bytes[start..ends[at] as usize]);
            }
        }
    }
}

/// The values of a column, while they are compared with given ones.
struct ComparedValues<'a> {
    field: &'a FieldValues,
    /// Rows of the column's values; `None` if every event has a value.
    rows: Option<&'a [u32]>,
    /// Number of values compared so far.
    compared: usize,
    /// The given values that are to equal the next values.
    noted: Vec<&'a [u8]>,
    /// Memory for formatted numbers.
    cells: Option<Box<Cells>>,
}

impl ComparedValues<'_> {
    /// Whether the value after the compared and noted ones belongs to this row of the page.
    #[inline]
    fn is_of(&self, row: u32) -> bool {
        let next = self.compared + self.noted.len();
        match self.rows {
            None => next == row as usize,
            Some(rows) => rows.get(next) == Some(&row),
        }
    }

    /// Whether the next values equal the values of the noted fields.
    fn are_noted_equal(&mut self) -> bool {
        if self.noted.is_empty() {
            return true;
        }
        let next = self.compared..self.compared + self.noted.len();
        if next.end > self.field.column.values.len() {
            return false;
        }
        self.compared = next.end;
        let mut given = self.noted.iter().copied();
        let are_equal = match &self.field.column.values {
            ColumnValues::Codes(codes) => {
                codes[next].iter().zip(given).all(|(code, given)| texts_equal(self.field.dictionary.get(*code), given))
            }
            ColumnValues::Numbers(numbers) => {
                let cells = self.cells.get_or_insert_with(Cells::new);
                numbers[next].chunks(BATCH_CELLS).all(|numbers| {
                    cells.format_numbers(self.field.format, numbers);
                    let texts = cells.bytes.iter().zip(&cells.lens).take(numbers.len());
                    texts.zip(&mut given).all(|((cell, len), given)| texts_equal(&cell[..usize::from(*len)], given))
                })
            }
            ColumnValues::Texts { bytes, ends } => {
                let mut start = if next.start == 0 { 0 } else { ends[next.start - 1] as usize };
                ends[next].iter().zip(given).all(|(end, given)| {
                    let end = *end as usize;
                    texts_equal(&bytes[std::mem::replace(&mut start, end)..end], given)
                })
            }
        };
        self.noted.clear();
        are_equal
    }
}

/// Whether a page has exactly the given fields. The first of its `count` events has number `start` in the numbering of
/// the given fields. Within an event, fields stored as columns may be at any position among the other fields.
pub(crate) fn are_fields_equal<'a>(
    by_row: &IndexedFields,
    columns: &'a [FieldValues],
    (start, count): (usize, usize),
    given: FieldRun<'a>,
) -> bool {
    let numbers: HashMap<&str, usize, FixedState> =
        columns.iter().enumerate().map(|(number, column)| (&*column.name, number)).collect();
    // By code of a name: its column, if it has one and the name was met before.
    let mut column_of: Vec<Option<Option<usize>>> = vec![None; given.names().len()];
    let compared = |field: &'a FieldValues| {
        let rows = field.column.rows.as_deref();
        ComparedValues { field, rows, compared: 0, noted: Vec::new(), cells: None }
    };
    let mut compared: Vec<ComparedValues<'a>> = columns.iter().map(compared).collect();
    let mut by_row = by_row.iter();
    let mut noted = 0;
    for event in given.events() {
        let Some(row) = (event.row as usize).checked_sub(start).filter(|row| *row < count).map(u32_of) else {
            return false;
        };
        for (code, value) in event.codes.iter().zip(event.values()) {
            let name = &given.names()[*code as usize];
            let column = *column_of[*code as usize].get_or_insert_with(|| numbers.get(&**name).copied());
            if let Some(column) = column.map(|number| &mut compared[number]).filter(|column| column.is_of(row)) {
                column.noted.push(value.as_bytes());
                continue;
            }
            let is_same = by_row.next().is_some_and(|read| read.row == row && read.name == name && read.value == value);
            if !is_same {
                return false;
            }
        }
        noted += event.codes.len();
        if noted >= COMPARED_FIELDS {
            noted = 0;
            if !compared.iter_mut().all(ComparedValues::are_noted_equal) {
                return false;
            }
        }
    }
    if !compared.iter_mut().all(ComparedValues::are_noted_equal) {
        return false;
    }
    compared.iter().all(|column| column.compared == column.field.column.values.len()) && by_row.next().is_none()
}

/// Adds the fields that are stored as columns to the fields of a page that are stored by row.
pub(crate) fn add_column_fields(
    by_row: &IndexedFields,
    columns: &[FieldValues],
    events: usize,
) -> Result<IndexedFields, Malformed> {
    let mut all = IndexedFields::default();
    let in_columns: usize = columns.iter().map(|field| field.column.values.len()).sum();
    all.reserve(events, by_row.len() + in_columns, by_row.value_bytes());
    let mut by_row = by_row.iter().peekable();
    let mut next = vec![0; columns.len()];
    let mut text = Vec::new();
    for row in 0..u32_of(events) {
        while let Some(field) = by_row.next_if(|field| field.row == row) {
            all.push(row, field.name, field.value);
        }
        for (field, next) in columns.iter().zip(&mut next) {
            let is_here = match &field.column.rows {
                None => true,
                Some(rows) => rows.get(*next) == Some(&row),
            };
            if is_here {
                text.clear();
                field.write(*next, &mut text);
                let value = std::str::from_utf8(&text).map_err(|_| Malformed::new("value of a field is not UTF-8"))?;
                all.push(row, &field.name, value);
                *next += 1;
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::open_block;
    use crate::error::BlockPosition;

    #[test]
    fn names_beyond_the_dictionary_round_trip() {
        let names = 0..MAX_FIELD_BLOCK_NAMES as u32 * 2;
        let fields: IndexedFields = names.map(|at| (10 + at / 1_000, format!("n{at}"), "v")).collect();
        let mut blocks = BlockWriter::new(Vec::new(), 1).unwrap();
        let stored = write_fields(fields.all(), 10, &mut blocks).unwrap();
        assert_eq!(stored, [u32_of(blocks.object.len())]);
        let place = BlockPosition::outside_slabs("", 0);
        let block = open_block(&blocks.object, BlockKind::Fields, place, MAX_FIELD_BLOCK_BYTES).unwrap();
        let (mut back, mut moved) = (IndexedFields::default(), IndexedFields::default());
        read_fields(&block, FieldNames::ALL, 100, &mut back).unwrap();
        moved.append(back.all(), 0, 10);
        assert_eq!(moved, fields);
    }

    /// Number of events of [`columns`]; their numbers take several batches of cells, and their fields are compared in two
    /// steps.
    const EVENTS: u32 = 14 * BATCH_CELLS as u32 + 5;

    /// A column of each kind: a dictionary and numbers for all events, texts for every second event.
    fn columns() -> Vec<FieldValues> {
        let column = |name: &str, rows: Option<Vec<u32>>, values: ColumnValues| FieldValues {
            name: name.into(),
            column: Arc::new(PageColumn { rows: rows.map(Arc::from), values }),
            dictionary: Arc::new(Dictionary { bytes: "abb".into(), ends: vec![1, 3] }),
            format: NumberFormat::Integer,
        };
        let odd: Vec<u32> = (0..EVENTS).filter(|row| row % 2 == 1).collect();
        let texts = ColumnValues::Texts {
            bytes: odd.iter().map(|row| format!("{row:03}")).collect::<String>().into(),
            ends: (1..=u32_of(odd.len())).map(|count| count * 3).collect(),
        };
        vec![
            column("code", None, ColumnValues::Codes((0..EVENTS).map(|row| row % 2).collect())),
            column("number", None, ColumnValues::Numbers((0..i64::from(EVENTS)).map(|row| row * row).collect())),
            column("text", Some(odd), texts),
        ]
    }

    /// The fields of these columns and a field that is stored by row; row 0 is event `start`.
    fn given(start: u32) -> Vec<(u32, &'static str, String)> {
        let of_row = |row: u32| {
            let mut fields = vec![
                (start + row, "code", if row.is_multiple_of(2) { "a".to_owned() } else { "bb".to_owned() }),
                (start + row, "number", (row * row).to_string()),
            ];
            if row % 2 == 1 {
                fields.push((start + row, "text", format!("{row:03}")));
            }
            if row == 7 {
                fields.push((start + row, "rare", "x".to_owned()));
            }
            fields
        };
        (0..EVENTS).flat_map(of_row).collect()
    }

    fn are_equal(given: &[(u32, &'static str, String)], start: u32) -> bool {
        let by_row: IndexedFields = [(7, "rare", "x")].into_iter().collect();
        let given: IndexedFields = given.iter().map(|(row, name, value)| (*row, name, value)).collect();
        are_fields_equal(&by_row, &columns(), (start as usize, EVENTS as usize), given.all())
    }

    #[test]
    fn every_changed_missing_or_additional_field_is_found() {
        for start in [0, 4_096] {
            let given = given(start);
            assert!(are_equal(&given, start));
            assert!(given.len() > COMPARED_FIELDS + 20, "{} fields", given.len());
            let is_near_step = |at: &usize| at.abs_diff(COMPARED_FIELDS) < 10;
            for at in (0..given.len()).filter(|at| *at < 30 || at % 7 == 0 || is_near_step(at)) {
                let mut other = given.clone();
                other[at].2.push('1');
                assert!(!are_equal(&other, start), "another value of field {at}");
                let mut other = given.clone();
                other.remove(at);
                assert!(!are_equal(&other, start), "no field {at}");
                let mut other = given.clone();
                other.insert(at, given[at].clone());
                assert!(!are_equal(&other, start), "field {at} twice");
            }
        }
        assert!(!are_equal(&given(0), 1) && !are_equal(&given(1), 0), "fields of other events");
    }

    #[test]
    fn large_values_are_split_across_blocks() {
        let value = "x".repeat(TARGET_FIELD_BLOCK_BYTES / 2);
        let fields: IndexedFields = (0..5).map(|row| (row, "n", &value)).collect();
        let mut blocks = BlockWriter::new(Vec::new(), 1).unwrap();
        let stored = write_fields(fields.all(), 0, &mut blocks).unwrap();
        assert_eq!(stored.len(), 5);
        let (mut back, mut at) = (IndexedFields::default(), 0);
        for len in stored.into_iter().map(|len| len as usize) {
            let bytes = &blocks.object[at..at + len];
            let block =
                open_block(bytes, BlockKind::Fields, BlockPosition::outside_slabs("", 0), MAX_FIELD_BLOCK_BYTES)
                    .unwrap();
            read_fields(&block, FieldNames::ALL, 5, &mut back).unwrap();
            at += len;
        }
        assert_eq!(back, fields);
    }
}
