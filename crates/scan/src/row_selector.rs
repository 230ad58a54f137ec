//! Late materialisation of fields: for a search that shows all fields, the few fields that its first commands read
//! suffice to find the rows that these commands keep. All fields are extracted from these rows alone.
//!
//! If `where`, `dedup`, `tail` or a sort with a limit directly follows the search, most rows are dropped. Extracting
//! all fields of a row costs ten to a hundred times as much as reading one field from a column. Each page is therefore
//! read twice. First, the commands run on rows of the few fields that decide; then all fields of the remaining rows are
//! extracted from their texts.
//!
//! The commands run again on the whole rows, so the selection may contain rows that they drop, but it must contain
//! every row that they keep. Not here: the choice of the commands (engine); limits of scans that read few fields
//! ([`crate::top_k`], [`crate::first_rows`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{AsArray as _, UInt32Array};
use arrow::datatypes::{TimestampNanosecondType, UInt32Type};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::{KeyTable, add_key_part};
use quarry_eval::command::{MakeRowCommand, RowCommand};
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnReader};
use quarry_event::TimeNs;

use crate::event_scan::EventScan;
use crate::page::PageRef;
use crate::plan::{FirstRows, RowLimit};
use crate::top_k::TopKThreshold;

/// Maximum bytes of the combinations of values whose newest rows are tracked across pages.
const TRACKED_KEYS_BYTES_MAX: usize = 16 << 20;
/// If `dedup` keeps more rows than this per combination, nothing is tracked across pages.
const TRACKED_ROWS_PER_KEY_MAX: usize = 16;
/// Hidden column with the position of a row in its page.
const POSITION_COLUMN: &str = "__position";

/// Rows of a page and their positions in the page, in order of arrival.
pub(crate) struct PositionedRows {
    /// Requested columns of the rows.
    pub rows: RecordBatch,
    /// A position per row; empty if a row represents several events.
    pub positions: Vec<u32>,
}

/// Finds the rows of a page that the first commands keep.
pub(crate) struct RowSelector {
    /// Reads the fields on which the commands decide.
    pub(crate) scan: Box<EventScan>,
    commands: Vec<MakeRowCommand>,
    limit: Option<Limit>,
}

enum Limit {
    Top(TopKThreshold),
    First(FirstRowTimes),
    Oldest(OldestRows),
}

impl RowSelector {
    /// A selector whose commands run on the rows of `scan`.
    pub(crate) fn new(scan: EventScan, commands: Vec<MakeRowCommand>, limit: Option<&RowLimit>) -> RowSelector {
        let limit = limit.map(|limit| match limit {
            // Rows are ranked after the commands have run, so a sort key that a command extracts is like any other.
            RowLimit::Top(top) => Limit::Top(TopKThreshold::new(top, &[])),
            RowLimit::First(first) => Limit::First(FirstRowTimes::new(first.clone())),
            RowLimit::Oldest(count) => Limit::Oldest(OldestRows::new(*count)),
        });
        RowSelector { scan: Box::new(scan), commands, limit }
    }

    /// Whether the rows selected in a page depend on other pages.
    pub(crate) fn has_threshold(&self) -> bool {
        self.limit.is_some()
    }

    /// Positions of the rows of a page that the commands keep, ascending; adds the number of the other matching rows
    /// to `left`.
    pub(crate) fn select(
        &self,
        page: &PageRef,
        context: &CommandContext,
        left: &mut usize,
    ) -> Result<Vec<u32>, EngineError> {
        let Some(PositionedRows { rows, positions }) = self.scan.positioned_rows(page, context, left)? else {
            return Ok(Vec::new());
        };
        assert_eq!(rows.num_rows(), positions.len(), "each row has its position");
        let count = positions.len();
        let mut rows = rows::with_column(&rows, POSITION_COLUMN, Arc::new(UInt32Array::from(positions)))?;
        let mut commands: Vec<Box<dyn RowCommand>> = self.commands.iter().map(|make| make()).collect();
        for command in &mut commands {
            rows = command.apply(rows)?;
        }
        let rows = match &self.limit {
            Some(Limit::Top(top)) => top.filter_rows_within_batch(rows)?,
            Some(Limit::First(first)) => first.filter_rows(rows)?,
            Some(Limit::Oldest(oldest)) => oldest.filter_rows(rows)?,
            None => rows,
        };
        let kept: Vec<u32> =
            match rows::column(&rows, POSITION_COLUMN).and_then(|kept| kept.as_primitive_opt::<UInt32Type>()) {
                Some(kept) => kept.values().to_vec(),
                None => {
                    return Err(EngineError::Internal {
                        stage: "rows were selected",
                        message: "a command removed the position of its rows".to_owned(),
                    });
                }
            };
        assert!(kept.is_sorted_by(|before, after| before < after), "row commands neither reorder nor repeat rows");
        *left += count - kept.len();
        Ok(kept)
    }
}

/// Times of the first rows of each combination of values so far. For a `dedup` that keeps N rows per combination, a
/// row that is older than N others of its combination cannot be in the result.
struct FirstRowTimes {
    rule: FirstRows,
    seen: Mutex<Combinations>,
}

#[derive(Default)]
struct Combinations {
    keys: KeyTable,
    /// For each combination, the times of its newest rows as a heap with the oldest on top.
    times: Vec<BinaryHeap<Reverse<TimeNs>>>,
}

impl FirstRowTimes {
    fn new(rule: FirstRows) -> FirstRowTimes {
        FirstRowTimes { rule, seen: Mutex::default() }
    }

    /// The rows that may be in the result.
    fn filter_rows(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let rows = self.rule.filter_rows(rows)?;
        let Some(times) =
            rows::column(&rows, "_time").and_then(|times| times.as_primitive_opt::<TimestampNanosecondType>())
        else {
            return Ok(rows);
        };
        if self.rule.count > TRACKED_ROWS_PER_KEY_MAX {
            return Ok(rows);
        }
        let readers: Vec<ColumnReader> = self.rule.fields.iter().map(|field| rows::reader(&rows, field)).collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Combinations { keys, times: newest } = &mut *seen;
        let (mut key, mut scratch) = (Vec::new(), String::new());
        let combinations: Vec<Combination> = (0..rows.num_rows())
            .map(|row| {
                key.clear();
                for reader in &readers {
                    match reader.text(row, &mut scratch) {
                        Some(text) => add_key_part(&mut key, text, readers.len()),
                        None => return Combination::Incomplete,
                    }
                }
                let found =
                    if keys.bytes() < TRACKED_KEYS_BYTES_MAX { Some(keys.intern(&key)) } else { keys.find(&key) };
                let Some(at) = found.map(|at| at as usize) else { return Combination::Untracked };
                newest.resize_with(newest.len().max(at + 1), BinaryHeap::new);
                newest[at].push(Reverse(times.value(row)));
                if newest[at].len() > self.rule.count {
                    newest[at].pop();
                }
                Combination::Tracked(at)
            })
            .collect();
        let is_kept = |(row, combination): (usize, Combination)| match combination {
            Combination::Incomplete => self.rule.keeps_empty,
            Combination::Untracked => true,
            Combination::Tracked(at) if newest[at].len() < self.rule.count => true,
            Combination::Tracked(at) => newest[at].peek().is_none_or(|Reverse(oldest)| times.value(row) >= *oldest),
        };
        let kept: Vec<bool> = combinations.into_iter().enumerate().map(is_kept).collect();
        drop(seen);
        if kept.contains(&false) { rows::filter(&rows, &kept.into()) } else { Ok(rows) }
    }
}

/// Combination of values of a row.
enum Combination {
    /// A value is missing, so the row has no combination.
    Incomplete,
    /// Not tracked, because there are too many combinations.
    Untracked,
    /// Number of a tracked combination.
    Tracked(usize),
}

/// The times of the oldest rows so far, as a heap with the newest on top.
struct OldestRows {
    count: usize,
    times: Mutex<BinaryHeap<TimeNs>>,
}

impl OldestRows {
    fn new(count: usize) -> OldestRows {
        OldestRows { count, times: Mutex::default() }
    }

    /// The rows that may be among the oldest, including rows that tie with the newest of the oldest rows so far.
    fn filter_rows(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let Some(times) =
            rows::column(&rows, "_time").and_then(|times| times.as_primitive_opt::<TimestampNanosecondType>())
        else {
            return Ok(rows);
        };
        let kept: Vec<bool> = {
            let mut oldest = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            for time in times.values() {
                if oldest.len() < self.count || oldest.peek().is_some_and(|newest| time < newest) {
                    oldest.push(*time);
                }
                if oldest.len() > self.count {
                    oldest.pop();
                }
            }
            let newest = oldest.peek().filter(|_| oldest.len() == self.count).copied().unwrap_or(TimeNs::MAX);
            times.iter().map(|time| time.is_none_or(|time| time <= newest)).collect()
        };
        if kept.contains(&false) { rows::filter(&rows, &kept.into()) } else { Ok(rows) }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, StringViewArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn rows_beyond_the_newest_n_of_a_combination_are_dropped() {
        for keeps_empty in [true, false] {
            let rule = FirstRows { fields: vec!["a".to_owned(), "b".to_owned()], count: 1, keeps_empty };
            let first = FirstRowTimes::new(rule);
            let times_of = |rows: &[(i64, Option<&str>, &str)]| -> Vec<i64> {
                let times: ArrayRef =
                    Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|(time, ..)| *time)));
                let a: ArrayRef = Arc::new(rows.iter().map(|(_, a, _)| *a).collect::<StringViewArray>());
                let b: ArrayRef = Arc::new(rows.iter().map(|(.., b)| Some(*b)).collect::<StringViewArray>());
                let batch = rows::batch_of([("_time", times), ("a", a), ("b", b)], rows.len()).unwrap();
                first.filter_rows(batch).unwrap().column(0).as_primitive::<TimestampNanosecondType>().values().to_vec()
            };
            assert_eq!(times_of(&[(4, Some("x"), "yz"), (5, Some("x"), "yz"), (3, Some("xy"), "z")]), [5, 3]);
            assert_eq!(
                times_of(&[(4, Some("x"), "yz"), (5, Some("x"), "yz"), (2, Some("xy"), "z")]),
                [5],
                "equal times"
            );
            assert_eq!(times_of(&[(1, None, "z"), (1, Some("x"), "z")]), if keeps_empty { &[1, 1][..] } else { &[1] });
        }
    }

    #[test]
    fn rows_newer_than_the_n_oldest_are_dropped() {
        let oldest = OldestRows::new(2);
        let times_of = |times: &[i64]| -> Vec<i64> {
            let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(times.to_vec()));
            let count = times.len();
            let kept = oldest.filter_rows(rows::batch_of([("_time", times)], count).unwrap()).unwrap();
            kept.column(0).as_primitive::<TimestampNanosecondType>().values().to_vec()
        };
        assert_eq!(times_of(&[9]), [9], "there are not enough others yet");
        assert_eq!(times_of(&[7, 8, 5, 7]), [7, 5, 7], "equal times may come in any order");
        assert_eq!(times_of(&[8, 9]), [0; 0]);
        assert_eq!(times_of(&[6, 7, 1]), [1]);
    }
}
