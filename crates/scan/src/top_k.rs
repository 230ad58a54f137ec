//! Top-k threshold: a sort that keeps few rows tells the scan which rows it need not read.
//!
//! The best rows so far, by the first sort key, give a threshold. A row that is worse than as many others as are
//! requested cannot be in the result, whatever the other keys and the order of arrival are. The threshold is consulted
//! before a row's columns or text are built. Rows that tie with it are kept.
//!
//! Not here: the sort order itself ([`rows::rank`]).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::rank::{MISSING, NUMBER, rank};
use quarry_eval::rows::{self, ColumnReader, DictionaryColumn};
use quarry_spl::ast::{SortKey, SortKind};

use crate::plan::{Extraction, TopK};

/// Maximum number of requested rows; the rank of each is kept.
pub const ROWS_MAX: usize = 100_000;

/// The ranks of the best rows so far.
pub(crate) struct TopKThreshold {
    key: SortKey,
    descending: bool,
    count: usize,
    /// Whether a command that the scan runs makes the field, so that its values are not those that events have.
    is_made: bool,
    ranks: Mutex<BinaryHeap<Rank>>,
}

/// Position of a row by the first key; smaller comes first.
#[derive(Clone, Debug)]
struct Rank {
    /// Turned for descending keys.
    class: i64,
    number: Option<f64>,
    text: Option<Box<str>>,
    descending: bool,
}

impl Rank {
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
        self.compare(other.class, other.number, other.text.as_deref())
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
    /// No row seen yet of a scan that runs these commands.
    pub(crate) fn new(top: &TopK, extractions: &[Extraction]) -> TopKThreshold {
        let TopK { key, descending, count } = top.clone();
        let is_made = extractions.iter().any(|known| known.names().any(|name| name == key.field.text));
        TopKThreshold { key, descending, count, is_made, ranks: Mutex::default() }
    }

    /// Field of the first key.
    fn field(&self) -> &str {
        &self.key.field.text
    }

    /// The sort field, if its values are those that events have.
    pub(crate) fn field_of_events(&self) -> Option<&str> {
        Some(self.field()).filter(|_| !self.is_made)
    }

    /// Mask of the rows that may be in the result, by their values of the field; `None` if all may.
    pub(crate) fn keep(&self, values: Option<&ArrayRef>, count: usize) -> Option<Vec<bool>> {
        let worst = {
            let ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
            if ranks.len() < self.count {
                return None;
            }
            ranks.peek()?.clone()
        };
        let is_kept = |class, number, text: Option<&str>| worst.compare(class, number, text).is_ge();
        if let Some(ColumnReader::Dictionary(coded)) = values.map(ColumnReader::new) {
            let kept = self.keep_codes(&coded, is_kept);
            return kept.contains(&false).then_some(kept);
        }
        let mut kept = Vec::with_capacity(count);
        self.each_rank(values, count, |class, number, text| kept.push(worst.compare(class, number, text).is_ge()));
        assert_eq!(kept.len(), count, "each row has its rank");
        kept.contains(&false).then_some(kept)
    }

    /// Mask of the rows of a coded column that may be in the result; each text is ranked once.
    fn keep_codes(
        &self,
        coded: &DictionaryColumn,
        is_kept: impl Fn(i64, Option<f64>, Option<&str>) -> bool,
    ) -> Vec<bool> {
        let missing = is_kept(MISSING, None, None);
        let mut known: Vec<Option<bool>> = vec![None; coded.texts.len()];
        let rows = (0..coded.codes.len()).map(|row| {
            let Some(code) = coded.code(row) else { return missing };
            *known[code].get_or_insert_with(|| {
                let (class, number, text) = rank(self.key.kind, Some(coded.texts.value(code)));
                is_kept(self.turned(class), number, text)
            })
        });
        rows.collect()
    }

    /// The class as it is sorted.
    fn turned(&self, class: i64) -> i64 {
        if self.descending && class != MISSING { -class } else { class }
    }

    /// The rows that may be in the result; they count towards the threshold from now on.
    pub(crate) fn take(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let values = rows::column(&rows, self.field()).cloned();
        let rows = match self.keep(values.as_ref(), rows.num_rows()) {
            Some(kept) => rows::filter(&rows, &kept.into())?,
            None => rows,
        };
        let values = rows::column(&rows, self.field());
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        self.each_rank(values, rows.num_rows(), |class, number, text| {
            let is_better = ranks.peek().is_none_or(|worst| worst.compare(class, number, text).is_gt());
            if ranks.len() < self.count || is_better {
                ranks.push(Rank { class, number, text: text.map(Box::from), descending: self.descending });
            }
            if ranks.len() > self.count {
                ranks.pop();
            }
        });
        assert!(ranks.len() <= self.count, "no more ranks are kept than rows are wanted");
        drop(ranks);
        Ok(rows)
    }

    /// Rank of each value: class, number, text.
    fn each_rank(&self, values: Option<&ArrayRef>, count: usize, mut each: impl FnMut(i64, Option<f64>, Option<&str>)) {
        let turned = |class: i64| self.turned(class);
        let Some(values) = values else {
            return (0..count).for_each(|_| each(MISSING, None, None));
        };
        let reader = ColumnReader::new(values);
        let is_number = matches!(values.data_type(), DataType::Int64 | DataType::Decimal64(..));
        let is_number = is_number && !matches!(self.key.kind, SortKind::Str);
        let mut scratch = String::new();
        for row in 0..values.len() {
            if is_number && let Some(number) = reader.number(row) {
                each(turned(NUMBER), Some(number), None);
                continue;
            }
            let (class, number, text) = rank(self.key.kind, reader.text(row, &mut scratch));
            each(turned(class), number, text);
        }
    }
}
