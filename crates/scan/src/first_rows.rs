//! `dedup` pushed down to the scan: for each combination of values, only the first rows of each page are read.
//!
//! If `dedup` keeps N rows per combination, a row after N others of its page with the same values cannot be in the
//! result, whatever rows other pages have: the overall order of rows preserves the order within each page. Rows are
//! compared by codes alone, so no text of a skipped row is rebuilt; without codes, only rows that lack a field are
//! skipped. Rows that lack a field are kept if `dedup` keeps them.
//!
//! Not here: the `dedup` command, which makes the final choice of rows (engine).

use arrow::array::{Array as _, AsArray as _, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::TimestampNanosecondType;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::rows::{self, ColumnReader};

use crate::plan::FirstRows;

/// Maximum number of fields whose codes form a key.
pub const KEY_FIELDS_MAX: usize = 2;
/// Maximum number of combinations of codes that are counted in an array.
const DENSE_KEYS_MAX: usize = 16_384;

impl FirstRows {
    /// The rows of a page that may be in the result.
    pub(crate) fn filter_rows(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        assert!(self.fields.len() <= KEY_FIELDS_MAX, "a key consists of the codes of all fields");
        let columns: Option<Vec<ColumnReader>> =
            self.fields.iter().map(|field| rows::column(&rows, field).map(ColumnReader::new)).collect();
        let times = rows::column(&rows, "_time").and_then(|times| times.as_primitive_opt::<TimestampNanosecondType>());
        let Some(columns) = columns else {
            // No row has all fields.
            return Ok(if self.keeps_empty { rows } else { rows.slice(0, 0) });
        };
        let Some(times) = times else { return Ok(rows) };
        if !columns.iter().all(has_codes) {
            return if self.keeps_empty { Ok(rows) } else { rows_with_all(rows, &columns) };
        }
        let count = rows.num_rows();
        // Newest first; rows of equal time in reverse order of arrival.
        let mut order: Vec<usize> = (0..count).rev().collect();
        if !times.values().is_sorted() {
            order.sort_by_key(|row| std::cmp::Reverse(times.value(*row)));
        }
        let mut seen = SeenKeys::of(&columns, count);
        let mut kept = vec![true; count];
        for row in order {
            let mut key = [0; KEY_FIELDS_MAX];
            let codes = key.iter_mut().zip(&columns);
            if codes.into_iter().any(|(place, column)| code_of(column, row).map(|code| *place = code).is_none()) {
                kept[row] = self.keeps_empty;
                continue;
            }
            let before = seen.count_of(key);
            kept[row] = (*before as usize) < self.count;
            *before += 1;
        }
        if !kept.contains(&false) {
            return Ok(rows);
        }
        rows::filter(&rows, &BooleanArray::new(BooleanBuffer::collect_bool(count, |row| kept[row]), None))
    }
}

/// The rows that have a value in each of these columns.
fn rows_with_all(rows: RecordBatch, columns: &[ColumnReader]) -> Result<RecordBatch, EngineError> {
    let valid = columns
        .iter()
        .fold(None, |valid: Option<NullBuffer>, column| NullBuffer::union(valid.as_ref(), column.validity().as_ref()));
    match valid {
        Some(valid) => rows::filter(&rows, &BooleanArray::new(valid.into_inner(), None)),
        None => Ok(rows),
    }
}

/// Number of rows so far with each combination of codes.
enum SeenKeys {
    /// For small dictionaries: an array, indexed by the first code times the size of the second dictionary, plus the
    /// second code.
    Few { counts: Vec<u32>, second: usize },
    /// By both codes, the first in the upper bits.
    Many(HashMap<u64, u32, FixedState>),
}

impl SeenKeys {
    /// For this many rows.
    fn of(columns: &[ColumnReader], rows: usize) -> SeenKeys {
        let sizes: Option<Vec<usize>> = columns.iter().map(dictionary_size).collect();
        let keys = sizes.as_ref().map_or(usize::MAX, |sizes| sizes.iter().copied().fold(1, usize::saturating_mul));
        let second = sizes.and_then(|sizes| sizes.get(1).copied()).unwrap_or(1);
        match keys {
            ..=DENSE_KEYS_MAX => SeenKeys::Few { counts: vec![0; keys], second },
            _ => SeenKeys::Many(HashMap::with_capacity_and_hasher(rows, FixedState::default())),
        }
    }

    #[inline]
    fn count_of(&mut self, [first, last]: [u32; KEY_FIELDS_MAX]) -> &mut u32 {
        match self {
            SeenKeys::Few { counts, second } => &mut counts[first as usize * *second + last as usize],
            SeenKeys::Many(seen) => seen.entry(u64::from(first) << u32::BITS | u64::from(last)).or_insert(0),
        }
    }
}

/// Number of texts of a dictionary.
fn dictionary_size(column: &ColumnReader) -> Option<usize> {
    match column {
        ColumnReader::Dictionary(coded) => Some(coded.texts.len()),
        _ => None,
    }
}

/// Whether equal codes of a column mean equal values.
fn has_codes(column: &ColumnReader) -> bool {
    matches!(column, ColumnReader::Dictionary(_) | ColumnReader::Address(_))
}

fn code_of(column: &ColumnReader, row: usize) -> Option<u32> {
    match column {
        ColumnReader::Dictionary(coded) => coded.code(row).and_then(|code| u32::try_from(code).ok()),
        ColumnReader::Address(addresses) => addresses.is_valid(row).then(|| addresses.value(row)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DictionaryArray, StringViewArray, TimestampNanosecondArray, UInt32Array};

    use super::*;

    #[test]
    fn rows_of_texts_are_kept_if_they_have_all_fields() {
        let texts = |texts: [Option<&str>; 4]| -> ArrayRef { Arc::new(StringViewArray::from_iter(texts)) };
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3, 4]));
        let f = texts([Some("a"), Some("a"), None, Some("b")]);
        let g = texts([Some("x"), None, None, Some("x")]);
        let rows = rows::batch_of([("_time", times), ("f", f), ("g", g)], 4).unwrap();
        for (keeps_empty, expected) in [(false, &[1, 4][..]), (true, &[1, 2, 3, 4])] {
            let fields = vec!["f".to_owned(), "g".to_owned()];
            let kept = FirstRows { fields, count: 1, keeps_empty }.filter_rows(rows.clone()).unwrap();
            assert_eq!(kept.column(0).as_primitive::<TimestampNanosecondType>().values(), expected);
        }
    }

    #[test]
    fn newest_rows_per_address_are_kept() {
        let addresses: ArrayRef = Arc::new(UInt32Array::from(vec![Some(7), Some(u32::MAX), Some(7), None, Some(7)]));
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3, 4, 5]));
        let columns = [("_time", times), ("f", Arc::clone(&addresses)), ("g", addresses)];
        let rows = rows::batch_of(columns, 5).unwrap();
        for fields in [vec!["f"], vec!["f", "g"]] {
            let fields = fields.into_iter().map(str::to_owned).collect();
            let kept = FirstRows { fields, count: 2, keeps_empty: false }.filter_rows(rows.clone()).unwrap();
            assert_eq!(kept.column(0).as_primitive::<TimestampNanosecondType>().values(), &[2, 3, 5]);
        }
    }

    #[test]
    fn newest_rows_per_combination_and_rows_lacking_a_field_are_kept() {
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a", "b"]));
        let codes = UInt32Array::from(vec![Some(0), Some(1), Some(0), None, Some(0), Some(1)]);
        let coded: ArrayRef = Arc::new(DictionaryArray::try_new(codes, texts).unwrap());
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![9, 1, 5, 5, 5, 7]));
        let rows = rows::batch_of([("_time", times), ("f", coded)], 6).unwrap();
        let times_of = |count: usize, field: &str, keeps_empty: bool| -> Vec<i64> {
            let first = FirstRows { fields: vec![field.to_owned()], count, keeps_empty };
            let kept = first.filter_rows(rows.clone()).unwrap();
            kept.column(0).as_primitive::<TimestampNanosecondType>().values().to_vec()
        };
        assert_eq!(times_of(1, "f", true), [9, 5, 7]);
        assert_eq!(times_of(2, "f", true), [9, 1, 5, 5, 7]);
        assert_eq!(times_of(1, "f", false), [9, 7]);
        assert_eq!(times_of(1, "missing", true), [9, 1, 5, 5, 5, 7]);
        assert_eq!(times_of(1, "missing", false), [0; 0]);
    }
}
