//! Value counts: how often each value of a column with few distinct values occurs in each page. Reports that only count
//! values use these counts instead of reading the column.
//!
//! The counts are at the end of the column layout block. Blocks of older versions end after the columns.

use std::collections::BTreeMap;

use quarry_event::template::{ColumnKind, CountedValues, TemplateSet, ValueCounts};
use quarry_stdx::number::u32_of;

use crate::columns::layout::StoredColumn;
use crate::limits::MAX_PAGE_EVENTS;
use crate::templates::{SlabColumn, SlabValues};
use crate::wire::{Cursor, Malformed, put_signed, put_varint};

/// Maximum number of distinct texts or numbers of a counted column.
const MAX_COUNTED_VALUES: usize = 64;
/// Maximum number of templates of a counted column whose values are templates.
const MAX_COUNTED_TEMPLATES: usize = 512;
/// If the smallest and the largest counted number of a column differ by less than this, a table maps each number to its
/// position; otherwise the position is searched for.
const MAX_TABLE_RANGE: usize = 4_096;
/// Number of slots of the table by which most repeated numbers are recognised without a search; a power of two.
const FOUND_SLOTS: usize = 256;
// The count of a value in a page is stored in two bytes.
const _: () = assert!(MAX_PAGE_EVENTS <= u16::MAX as usize);

/// The counts of a column, if it has few distinct values.
pub(super) fn count_values(column: &SlabColumn) -> Option<ValueCounts> {
    let of_codes = |codes: &[u32], len: usize, most: usize| {
        let few = (1..=most).contains(&len);
        few.then(|| count_per_page(column, CountedValues::Codes(u32_of(len)), |place| codes[place] as usize))
    };
    match &*column.values {
        SlabValues::Templates { templates, codes } => of_codes(codes, templates.len(), MAX_COUNTED_TEMPLATES),
        SlabValues::Dictionary { ends, codes, .. } => of_codes(codes, ends.len(), MAX_COUNTED_VALUES),
        SlabValues::Numbers { numbers, .. } => {
            let distinct = distinct_numbers(numbers)?;
            let counted = CountedValues::Numbers(distinct.as_slice().into());
            Some(match codes_by_offset(&distinct) {
                Some(codes) => {
                    let code_of = |number: i64| codes[number.wrapping_sub(distinct[0]) as usize];
                    count_per_page(column, counted, |place| usize::from(code_of(numbers[place])))
                }
                None => {
                    count_per_page(column, counted, |place| distinct.partition_point(|known| *known < numbers[place]))
                }
            })
        }
        SlabValues::Texts { .. } => None,
    }
}

fn count_per_page(column: &SlabColumn, values: CountedValues, value_at: impl Fn(usize) -> usize) -> ValueCounts {
    let len = values.len();
    let mut counts = vec![0u16; len * (column.page_starts.len() - 1)];
    for (page, range) in column.page_starts.windows(2).enumerate() {
        for place in range[0] as usize..range[1] as usize {
            counts[page * len + value_at(place)] += 1;
        }
    }
    ValueCounts::new(values, counts.into())
}

/// The distinct numbers, ascending, if they are few.
fn distinct_numbers(numbers: &[i64]) -> Option<Vec<i64>> {
    let mut distinct: Vec<i64> = Vec::new();
    // The last number found in each slot. At first, every slot has a number that belongs to another slot.
    let mut found: [i64; FOUND_SLOTS] = std::array::from_fn(|slot| !(slot as i64));
    for number in numbers {
        let slot = &mut found[*number as usize % FOUND_SLOTS];
        if *slot == *number {
            continue;
        }
        *slot = *number;
        if let Err(place) = distinct.binary_search(number) {
            if distinct.len() == MAX_COUNTED_VALUES {
                return None;
            }
            distinct.insert(place, *number);
        }
    }
    (!distinct.is_empty()).then_some(distinct)
}

/// A table with the position of each of these ascending numbers, indexed by the number's offset from the first number;
/// `None` if the table would be too large. Reading a position from a table is faster than searching for it.
fn codes_by_offset(distinct: &[i64]) -> Option<Vec<u8>> {
    const { assert!(MAX_COUNTED_VALUES <= u8::MAX as usize, "a byte holds a number's position") };
    let (first, last) = (*distinct.first()?, *distinct.last()?);
    let range = usize::try_from(last.wrapping_sub(first)).ok().filter(|range| *range < MAX_TABLE_RANGE)?;
    let mut codes = vec![0; range + 1];
    for (code, number) in (0u8..).zip(distinct) {
        codes[number.wrapping_sub(first) as usize] = code;
    }
    Some(codes)
}

/// Appends the counts of the columns that have counts.
pub(super) fn put(template_set: &TemplateSet, stored: &[StoredColumn], out: &mut Vec<u8>) {
    put_varint(out, template_set.counts.len() as u64);
    for (column, counts) in &template_set.counts {
        put_varint(out, u64::from(*column));
        if let CountedValues::Numbers(numbers) = counts.values() {
            put_varint(out, numbers.len() as u64);
            numbers.iter().for_each(|number| put_signed(out, *number));
        }
        let pages = stored[*column as usize].counts.iter().enumerate().filter(|(_, values)| **values > 0);
        for (page, _) in pages {
            counts.page_counts(page).iter().for_each(|count| put_varint(out, u64::from(*count)));
        }
    }
}

/// Reads the counts; none if the block ends here.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    template_set: &TemplateSet,
    stored: &[StoredColumn],
) -> Result<BTreeMap<u32, ValueCounts>, Malformed> {
    let mut all = BTreeMap::new();
    if cursor.remaining() == 0 {
        return Ok(all);
    }
    for _ in 0..cursor.count("number of counted columns", stored.len())? {
        let column = cursor.count("counted column", stored.len().saturating_sub(1))?;
        let values = read_values(cursor, &template_set.columns[column].kind)?;
        let len = values.len();
        let mut counts = vec![0u16; len * stored[column].counts.len()];
        for (of_page, values) in counts.chunks_exact_mut(len).zip(&stored[column].counts) {
            if *values == 0 {
                continue;
            }
            let mut left = *values as usize;
            for count in of_page {
                let found = cursor.count("count of a value", left)?;
                left -= found;
                *count = u16::try_from(found).map_err(|_| Malformed(format!("a page has a value {found} times")))?;
            }
            if left > 0 {
                return Err(Malformed(format!(
                    "{left} of {values} values of column {column} in a page are not counted"
                )));
            }
        }
        all.insert(u32_of(column), ValueCounts::new(values, counts.into()));
    }
    Ok(all)
}

fn read_values(cursor: &mut Cursor<'_>, kind: &ColumnKind) -> Result<CountedValues, Malformed> {
    let (codes, most) = match kind {
        ColumnKind::Templates(templates) => (templates.len(), MAX_COUNTED_TEMPLATES),
        ColumnKind::Dictionary { len } => (*len as usize, MAX_COUNTED_VALUES),
        ColumnKind::Numbers { min, max, .. } => {
            let mut numbers: Vec<i64> = Vec::new();
            for _ in 0..cursor.count("number of counted numbers", MAX_COUNTED_VALUES)? {
                numbers.push(cursor.signed("counted number")?);
            }
            let ascend = numbers.windows(2).all(|pair| pair[0] < pair[1]);
            let (first, last) = (numbers.first(), numbers.last());
            if !ascend || first.is_none_or(|first| first < min) || last.is_none_or(|last| last > max) {
                return Err(Malformed(format!("the counted numbers {numbers:?} do not ascend from {min} to {max}")));
            }
            return Ok(CountedValues::Numbers(numbers.into()));
        }
        ColumnKind::Texts => return Err(Malformed::new("a column of texts has counts")),
    };
    match (1..=most).contains(&codes) {
        true => Ok(CountedValues::Codes(u32_of(codes))),
        false => Err(Malformed(format!(
            "a column with {codes} distinct values has counts, but only columns with 1 to {most} can have them"
        ))),
    }
}
