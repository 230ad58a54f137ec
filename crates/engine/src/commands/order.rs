//! Commands about the order of rows: sort, tail, reverse.
//!
//! Sorting by values whose kind is known row by row needs a rank per row: numbers before texts, missing values last
//! in either direction. The ranks are plain columns that DataFusion sorts, with spilling, and drops rows beyond the
//! limit as it goes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray, UInt32Array};
use arrow::compute::SortOptions;
use arrow::record_batch::RecordBatch;
use quarry_event::value::{SortKey as ValueKey, parse_number, sort_key};
use quarry_spl::ast::{SortCommand, SortKey, SortKind};

use crate::EngineError;
use crate::command::{Blocking, CommandContext, RowIter};
use crate::rows::{self, ColumnReader, concat_rows, conform, unified_schema};

/// `sort`.
pub(crate) struct Sort(pub SortCommand);

impl Blocking for Sort {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let limit = (self.0.limit > 0).then_some(self.0.limit);
        let mut held: Vec<RecordBatch> = Vec::new();
        let (mut count, mut arrived) = (0, 0_i64);
        for batch in rows {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            held.push(self.ranked(&batch, arrived)?);
            arrived += batch.num_rows() as i64;
            count += batch.num_rows();
            // With a limit only so many rows can come out: drop the others before they pile up.
            if let Some(limit) = limit
                && count > limit.saturating_mul(4).max(PILE_ROWS)
            {
                held = self.sorted(held, Some(limit), context)?;
                count = held.iter().map(RecordBatch::num_rows).sum();
            }
        }
        let sorted = self.sorted(held, limit, context)?;
        sorted.iter().map(|batch| rows::without(batch, |name| name.starts_with(RANK))).collect()
    }
}

/// Rows held before a limited sort drops what cannot come out.
const PILE_ROWS: usize = 100_000;
/// Start of the names of rank columns.
const RANK: &str = "__rank";

impl Sort {
    /// The rows with their ranks: per key a class, a number and a text, and the order of arrival.
    fn ranked(&self, rows: &RecordBatch, arrived: i64) -> Result<RecordBatch, EngineError> {
        let mut ranked = rows.clone();
        for (at, key) in self.0.keys.iter().enumerate() {
            let [class, number, text] = ranks(&rows::reader(rows, &key.field.text), key, self.is_descending(key));
            ranked = rows::with_column(&ranked, &format!("{RANK}_{at}_class"), class)?;
            ranked = rows::with_column(&ranked, &format!("{RANK}_{at}_number"), number)?;
            ranked = rows::with_column(&ranked, &format!("{RANK}_{at}_text"), text)?;
        }
        let arrival = Int64Array::from_iter_values(arrived..arrived + rows.num_rows() as i64);
        rows::with_column(&ranked, &format!("{RANK}_arrival"), Arc::new(arrival))
    }

    fn is_descending(&self, key: &SortKey) -> bool {
        key.descending != self.0.reverse
    }

    fn sorted(
        &self,
        rows: Vec<RecordBatch>,
        limit: Option<usize>,
        context: &CommandContext,
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let schema = unified_schema(&rows);
        let rows = rows.iter().map(|batch| conform(batch, &schema)).collect::<Result<Vec<_>, _>>()?;
        let mut keys = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let Some(rank) = field.name().strip_prefix(RANK) else { continue };
            let key = rank.trim_start_matches('_').split('_').next().and_then(|key| key.parse::<usize>().ok());
            // The class is already turned for descending keys; missing values stay last.
            let descending = key.is_some_and(|key| self.is_descending(&self.0.keys[key])) && !rank.ends_with("class");
            keys.push((at, SortOptions { descending, nulls_first: false }));
        }
        context.dataflow.sort(rows, &keys, limit)
    }
}

/// Class, number and text of each row for one key.
fn ranks(reader: &ColumnReader, key: &SortKey, descending: bool) -> [ArrayRef; 3] {
    let (mut classes, mut numbers, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut scratch = String::new();
    for row in 0..reader.len() {
        let (class, number, text) = match (key.kind, reader.text(row, &mut scratch)) {
            (_, None) => (MISSING, None, None),
            (SortKind::Str, Some(text)) => (TEXT, None, Some(text.to_owned())),
            (SortKind::Num, Some(text)) => match parse_number(text) {
                Some(number) => (NUMBER, Some(number), None),
                None => (MISSING, None, None),
            },
            (SortKind::Auto | SortKind::Ip, Some(text)) => match sort_key(text) {
                ValueKey::Number(number) => (NUMBER, Some(number.as_f64()), None),
                ValueKey::Address(address) => (ADDRESS, Some(f64::from(address)), None),
                ValueKey::Text(text) => (TEXT, None, Some(text.to_owned())),
            },
        };
        let turned = if descending && class != MISSING { -class } else { class };
        classes.push(turned);
        numbers.push(number);
        texts.push(text);
    }
    [
        Arc::new(Int64Array::from(classes)),
        Arc::new(Float64Array::from(numbers)),
        Arc::new(StringViewArray::from(texts.iter().map(Option::as_deref).collect::<Vec<_>>())),
    ]
}

/// Classes of values in ascending order.
const NUMBER: i64 = 1;
const ADDRESS: i64 = 2;
const TEXT: i64 = 3;
const MISSING: i64 = 4;

/// `tail`: the last rows, the last one first.
pub(crate) struct Tail(pub usize);

impl Blocking for Tail {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let mut held: std::collections::VecDeque<RecordBatch> = std::collections::VecDeque::new();
        let mut count = 0;
        for batch in rows {
            let batch = batch?;
            count += batch.num_rows();
            held.push_back(batch);
            while held.front().is_some_and(|first| count - first.num_rows() >= self.0) {
                count -= held.pop_front().map_or(0, |first| first.num_rows());
            }
        }
        let all = concat_rows(held.into())?;
        let skipped = all.num_rows().saturating_sub(self.0);
        Ok(vec![reversed(&all.slice(skipped, all.num_rows() - skipped))?])
    }
}

/// `reverse`.
pub(crate) struct Reverse;

impl Blocking for Reverse {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let mut all = rows.collect::<Result<Vec<_>, _>>()?;
        all.reverse();
        all.iter().map(reversed).collect()
    }
}

fn reversed(rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let places: UInt32Array = (0..rows.num_rows() as u32).rev().collect();
    rows::take(rows, &places)
}
