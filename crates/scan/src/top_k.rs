//! Top-k threshold: lets a scan skip rows that cannot be among the few rows that a sort keeps.
//!
//! The best rows so far, by the first sort key, determine a threshold. A sort that keeps N rows cannot keep a row that
//! is worse than N others, whatever the other keys and the order of arrival. The threshold is consulted before a row's
//! columns or text are built. Rows that tie with the threshold are kept; with a single sort key, only tied rows that
//! are no older than N others are kept, because rows arrive newest first and the sort keeps their order.
//!
//! Not here: the sort order itself ([`rows::rank`]).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray as _, UInt32Array};
use arrow::datatypes::TimestampNanosecondType;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::rank::{MISSING, NUMBER, TEXT, rank};
use quarry_eval::rows::{self, ColumnReader, DictionaryColumn};
use quarry_event::TimeNs;
use quarry_event::template::{IP4_TEXT_BYTES, ip4_text};
use quarry_spl::ast::{SortKey, SortKind};

use crate::plan::{Extraction, TopK};

/// Maximum number of rows kept by a sort or `tail` for which a scan drops rows early; the rank or time of each is
/// stored.
pub const TOP_ROWS_MAX: usize = 100_000;

/// The ranks of the best rows so far.
pub(crate) struct TopKThreshold {
    key: SortKey,
    descending: bool,
    count: usize,
    is_only_key: bool,
    /// Whether a command within the scan produces the sort field, so that the events' own values do not count.
    is_made: bool,
    ranks: Mutex<BinaryHeap<Rank>>,
}

/// Position of a row by the first key; smaller comes first.
#[derive(Clone, Debug)]
struct Rank {
    /// Class of the value, negated for descending keys.
    class: i64,
    number: Option<f64>,
    text: Option<Box<str>>,
    descending: bool,
    /// Time of the row, if times break ties.
    time: Option<TimeNs>,
}

impl Rank {
    /// Compares a row with this rank; without a time, the row ties with all rows of equal value.
    fn compare_at(&self, class: i64, number: Option<f64>, text: Option<&str>, time: Option<TimeNs>) -> Ordering {
        self.compare(class, number, text).then_with(|| self.compare_times(time))
    }

    /// Compares times; newer rows come first.
    fn compare_times(&self, time: Option<TimeNs>) -> Ordering {
        time.zip(self.time).map_or(Ordering::Equal, |(other, mine)| other.cmp(&mine))
    }

    fn compare(&self, class: i64, number: Option<f64>, text: Option<&str>) -> Ordering {
        let values = || {
            let numbers = self.number.zip(number).map_or(Ordering::Equal, |(mine, other)| mine.total_cmp(&other));
            let order = numbers.then_with(|| self.text.as_deref().cmp(&text));
            if self.descending { order.reverse() } else { order }
        };
        self.class.cmp(&class).then_with(values)
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        self.compare_at(other.class, other.number, other.text.as_deref(), other.time)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Rank) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank {}

impl TopKThreshold {
    /// A threshold for a scan that runs these commands, before any row is read.
    pub(crate) fn new(top: &TopK, extractions: &[Extraction]) -> TopKThreshold {
        let TopK { key, descending, count, is_only_key } = top.clone();
        let is_made = extractions.iter().any(|known| known.names().any(|name| name == key.field.text));
        TopKThreshold { key, descending, count, is_only_key, is_made, ranks: Mutex::default() }
    }

    /// Field of the first key.
    fn field(&self) -> &str {
        &self.key.field.text
    }

    /// The sort field, if its values are the events' own values.
    pub(crate) fn event_field(&self) -> Option<&str> {
        Some(self.field()).filter(|_| !self.is_made)
    }

    /// Mask of the rows that may be in the result, judging by their values of the field and, if known, their times;
    /// `None` if all rows may.
    pub(crate) fn candidate_mask(
        &self,
        values: Option<&ArrayRef>,
        times: Option<&[TimeNs]>,
        count: usize,
    ) -> Option<Vec<bool>> {
        let worst = {
            let ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
            if ranks.len() < self.count {
                return None;
            }
            ranks.peek()?.clone()
        };
        let times = times.filter(|_| self.is_only_key);
        let time_at = |row: usize| times.and_then(|times| times.get(row)).copied();
        if let Some(ColumnReader::Dictionary(coded)) = values.map(ColumnReader::new) {
            let kept = self.candidate_mask_of_codes(&coded, &worst, time_at);
            return kept.contains(&false).then_some(kept);
        }
        if let Some(ColumnReader::Address(addresses)) = values.map(ColumnReader::new)
            && let Some(kept) = self.candidate_mask_of_addresses(&addresses, &worst, time_at)
        {
            return kept.contains(&false).then_some(kept);
        }
        let mut kept = Vec::with_capacity(count);
        self.ranks(values, count, |row, class, number, text| {
            kept.push(worst.compare_at(class, number, text, time_at(row)).is_ge());
        });
        assert_eq!(kept.len(), count, "each row has its rank");
        kept.contains(&false).then_some(kept)
    }

    /// Mask of the rows of a coded column that may be in the result; each text is ranked once.
    fn candidate_mask_of_codes(
        &self,
        coded: &DictionaryColumn,
        worst: &Rank,
        time_at: impl Fn(usize) -> Option<TimeNs>,
    ) -> Vec<bool> {
        let missing = worst.compare(MISSING, None, None);
        let mut known: Vec<Option<Ordering>> = vec![None; coded.texts.len()];
        let rows = (0..coded.codes.len()).map(|row| {
            let order = coded.code(row).map_or(missing, |code| {
                *known[code].get_or_insert_with(|| {
                    let (class, number, text) = rank(self.key.kind, Some(coded.texts.value(code)));
                    worst.compare(self.directed_class(class), number, text)
                })
            });
            order.then_with(|| worst.compare_times(time_at(row))).is_ge()
        });
        rows.collect()
    }

    /// Mask of the rows of a column of addresses that may be in the result of a sort by text; `None` for other sorts
    /// and if the threshold is not a short text.
    fn candidate_mask_of_addresses(
        &self,
        addresses: &UInt32Array,
        worst: &Rank,
        time_at: impl Fn(usize) -> Option<TimeNs>,
    ) -> Option<Vec<bool>> {
        if self.key.kind != SortKind::Str || worst.class != self.directed_class(TEXT) {
            return None;
        }
        let text = worst.text.as_deref()?.as_bytes();
        if text.len() >= IP4_TEXT_BYTES || text.contains(&0) {
            return None;
        }
        let mut limit = [0; IP4_TEXT_BYTES];
        limit[..text.len()].copy_from_slice(text);
        let limit = u128::from_be_bytes(limit);
        let missing = worst.compare(MISSING, None, None);
        let rows = (0..addresses.len()).map(|row| {
            let order = match addresses.is_valid(row) {
                true => limit.cmp(&u128::from_be_bytes(ip4_text(addresses.value(row)).0)),
                false => return missing.then_with(|| worst.compare_times(time_at(row))).is_ge(),
            };
            let order = if worst.descending { order.reverse() } else { order };
            order.then_with(|| worst.compare_times(time_at(row))).is_ge()
        });
        Some(rows.collect())
    }

    /// The class, negated if the order is descending; missing values stay last.
    fn directed_class(&self, class: i64) -> i64 {
        if self.descending && class != MISSING { -class } else { class }
    }

    /// Returns the rows that may be in the result; they count towards the threshold from now on.
    pub(crate) fn filter_rows(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let rows = self.candidate_rows(rows)?;
        let (values, times) = (rows::column(&rows, self.field()), times_of(&rows).filter(|_| self.is_only_key));
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        self.ranks(values, rows.num_rows(), |row, class, number, text| {
            let time = times.and_then(|times| times.get(row)).copied();
            let is_better = ranks.peek().is_none_or(|worst| worst.compare_at(class, number, text, time).is_gt());
            if ranks.len() < self.count || is_better {
                ranks.push(Rank { class, number, text: text.map(Box::from), descending: self.descending, time });
            }
            if ranks.len() > self.count {
                ranks.pop();
            }
        });
        assert!(ranks.len() <= self.count, "no more ranks are kept than rows are wanted");
        drop(ranks);
        Ok(rows)
    }

    /// Like [`TopKThreshold::filter_rows`], but also drops rows that other rows of the same batch exclude.
    pub(crate) fn filter_rows_within_batch(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        self.candidate_rows(self.filter_rows(rows)?)
    }

    fn candidate_rows(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        match self.candidate_mask(rows::column(&rows, self.field()), times_of(&rows), rows.num_rows()) {
            Some(kept) => rows::filter(&rows, &kept.into()),
            None => Ok(rows),
        }
    }

    /// Rank of each row: class, number and text of its value.
    fn ranks(
        &self,
        values: Option<&ArrayRef>,
        count: usize,
        mut each: impl FnMut(usize, i64, Option<f64>, Option<&str>),
    ) {
        let turned = |class: i64| self.directed_class(class);
        let Some(values) = values else {
            return (0..count).for_each(|row| each(row, MISSING, None, None));
        };
        let reader = ColumnReader::new(values);
        let by_number = !matches!(self.key.kind, SortKind::Str);
        let mut scratch = String::new();
        for row in 0..values.len() {
            if by_number && let Some(number) = reader.stored_number(row) {
                each(row, turned(NUMBER), Some(number), None);
                continue;
            }
            let (class, number, text) = rank(self.key.kind, reader.text(row, &mut scratch));
            each(row, turned(class), number, text);
        }
    }
}

/// Times of the rows; `None` unless every row has a time.
fn times_of(rows: &RecordBatch) -> Option<&[TimeNs]> {
    let times = rows::column(rows, "_time")?.as_primitive_opt::<TimestampNanosecondType>()?;
    (times.null_count() == 0).then(|| times.values().as_ref())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{StringViewArray, TimestampNanosecondArray};
    use quarry_spl::ast::{FieldPattern, Span};

    use super::*;

    #[test]
    fn among_equal_values_the_newest_rows_win_without_another_key() {
        for (is_only_key, expected) in [(true, &[8, 6, 6][..]), (false, &[8, 5, 6, 6])] {
            let field = FieldPattern { text: "f".to_owned(), span: Span::default() };
            let key = SortKey { field, descending: true, kind: SortKind::Auto };
            let top_k = TopKThreshold::new(&TopK { key, descending: true, count: 2, is_only_key }, &[]);
            let kept = |times: &[i64], values: &[&str]| -> Vec<i64> {
                let values: ArrayRef = Arc::new(StringViewArray::from_iter_values(values));
                let columns: [(&str, ArrayRef); 2] =
                    [("_time", Arc::new(TimestampNanosecondArray::from(times.to_vec()))), ("f", values)];
                let rows = rows::batch_of(columns, times.len()).unwrap();
                times_of(&top_k.filter_rows_within_batch(rows).unwrap()).unwrap().to_vec()
            };
            assert_eq!(kept(&[4, 8, 5, 6, 6, 9], &["2", "3", "3", "3", "3", "1"]), expected);
            assert_eq!(kept(&[3, 9], &["3", "1"]), if is_only_key { &[][..] } else { &[3] });
            assert_eq!(kept(&[7], &["3"]), [7]);
        }
    }
}
