//! Commands about more than one search: appendcols, appendpipe, multireport, the row sets of `set`, and the merge of `multisearch`.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{BooleanArray, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_event::TimeNs;
use quarry_spl::ast::SetOperation;

use super::spans::time_ns;
use crate::EngineError;
use crate::aggregate::keys::KeyTable;
use crate::command::{Blocking, BlockingTable, CommandContext, RowIter};
use crate::field_names::names_of;
use crate::lower::Step;
use crate::rows::{self, ColumnBuilder, ColumnReader, KeptRows, Value, concat_rows, is_hidden};
use crate::run::apply;

/// `appendcols`: rows side by side with those of a subsearch.
pub(crate) struct AppendCols {
    /// Result of the subsearch.
    pub right: Vec<RecordBatch>,
    /// Whether its values win.
    pub replaces: bool,
}

impl BlockingTable for AppendCols {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let left = concat_rows(rows.collect::<Result<Vec<_>, _>>()?)?;
        let right = concat_rows(self.right.clone())?;
        let count = left.num_rows().max(right.num_rows());
        let names = names_of(&right).into_iter().filter(|name| !name.starts_with('_'));
        // Rows beyond the shorter side lack its fields.
        let places = (0..count as u32).map(|row| (row < left.num_rows() as u32).then_some(row));
        let mut joined = match left.num_rows() {
            0 => rows::batch_of(Vec::<(String, arrow::array::ArrayRef)>::new(), count)?,
            _ => rows::take(&left, &places.collect::<UInt32Array>())?,
        };
        for name in names.collect::<Vec<_>>() {
            let (old, new) = (rows::reader(&joined, &name), rows::reader(&right, &name));
            let mut column = ColumnBuilder::new(count);
            for row in 0..count {
                let value = if row < right.num_rows() { new.value(row) } else { Value::Null };
                let keeps = !old.is_null(row) && (value.is_null() || !self.replaces);
                column.push(if keeps { old.value(row) } else { value });
            }
            let column = column.finish();
            drop(old);
            joined = rows::with_column(&joined, &name, column)?;
        }
        Ok(vec![joined])
    }
}

/// `appendpipe`: the rows, then what commands make of them.
pub(crate) struct AppendPipe(pub Vec<Step>);

impl BlockingTable for AppendPipe {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let mut all = rows.collect::<Result<Vec<_>, _>>()?;
        let again: RowIter = Box::new(all.clone().into_iter().map(Ok));
        for batch in apply(again, self.0.clone(), context)? {
            all.push(batch?);
        }
        Ok(all)
    }
}

/// `multireport`: what several runs of commands make of the same rows, one result after the other.
pub(crate) struct MultiReport(pub Vec<Vec<Step>>);

impl Blocking for MultiReport {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = Arc::new(KeptRows::collect("multireport", rows, &context.dataflow)?);
        let mut all = KeptRows::new("multireport", &context.dataflow);
        for steps in &self.0 {
            for batch in apply(kept.shared(), steps.clone(), context)? {
                all.push(&batch?)?;
            }
        }
        Ok(all.into_rows())
    }
}

/// What tells a row from others: its fields that have a value, by name.
fn row_key(columns: &[(String, ColumnReader)], row: usize, key: &mut Vec<u8>) {
    key.clear();
    let add = |key: &mut Vec<u8>, text: &str| {
        key.extend_from_slice(&(text.len() as u32).to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    };
    for (name, reader) in columns.iter().filter(|(_, reader)| !reader.is_null(row)) {
        add(key, name);
        key.extend_from_slice(&(reader.values(row).count() as u32).to_le_bytes());
        reader.values(row).for_each(|value| add(key, &value));
    }
}

/// The rows of two results that an operation of sets keeps, each once, in the order of their first appearance.
pub(crate) fn set_of(
    operation: SetOperation,
    left: Vec<RecordBatch>,
    right: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>, EngineError> {
    let sides = [concat_rows(left)?, concat_rows(right)?];
    let mut keys = KeyTable::default();
    let mut numbers: [Vec<u32>; 2] = Default::default();
    let mut key = Vec::new();
    for (side, numbers) in sides.iter().zip(&mut numbers) {
        let mut names: Vec<String> = names_of(side).into_iter().filter(|name| !is_hidden(name)).collect();
        names.sort_unstable();
        let columns: Vec<(String, ColumnReader)> =
            names.into_iter().map(|name| (name.clone(), rows::reader(side, &name))).collect();
        for row in 0..side.num_rows() {
            row_key(&columns, row, &mut key);
            numbers.push(keys.intern(&key));
        }
    }
    let holds = |side: usize| {
        let mut is_there = vec![false; keys.len()];
        numbers[side].iter().for_each(|number| is_there[*number as usize] = true);
        is_there
    };
    let (in_left, in_right) = (holds(0), holds(1));
    let mut is_taken = vec![false; keys.len()];
    let mut kept = Vec::new();
    for (side, numbers) in sides.iter().zip(&numbers) {
        let keep = numbers.iter().map(|number| {
            let at = *number as usize;
            let wanted = match operation {
                SetOperation::Union => true,
                SetOperation::Diff => in_left[at] != in_right[at],
                SetOperation::Intersect => in_left[at] && in_right[at],
            };
            wanted && !std::mem::replace(&mut is_taken[at], true)
        });
        kept.push(rows::filter(side, &BooleanArray::from(keep.collect::<Vec<_>>()))?);
    }
    Ok(kept)
}

/// Rows of several searches, each newest first, as one such stream.
pub(crate) struct MergedRows {
    sources: Vec<Source>,
    is_started: bool,
}

/// One search of a merge.
struct Source {
    rows: RowIter,
    /// Rows that wait, with their times.
    batch: Option<(RecordBatch, VecDeque<Option<TimeNs>>)>,
}

impl Source {
    /// Reads on until rows wait or none are left.
    fn fill(&mut self) -> Result<(), EngineError> {
        while self.batch.is_none() {
            let Some(batch) = self.rows.next().transpose()? else { return Ok(()) };
            if batch.num_rows() > 0 {
                let reader = rows::reader(&batch, "_time");
                let times = (0..batch.num_rows()).map(|row| time_ns(&reader, row)).collect();
                self.batch = Some((batch, times));
            }
        }
        Ok(())
    }

    fn newest(&self) -> Option<Option<TimeNs>> {
        self.batch.as_ref().and_then(|(_, times)| times.front().copied())
    }

    /// Takes the rows that are no older than `bound`; at least one.
    fn take(&mut self, bound: Option<Option<TimeNs>>) -> Option<RecordBatch> {
        let (batch, mut times) = self.batch.take()?;
        let is_due = |time: &Option<TimeNs>| bound.is_none_or(|bound| *time >= bound);
        let count = times.iter().take_while(|time| is_due(time)).count().max(1);
        if count < times.len() {
            times.drain(..count);
            self.batch = Some((batch.slice(count, times.len()), times));
        }
        Some(batch.slice(0, count))
    }
}

impl MergedRows {
    /// The rows of `sources`; of rows of one time those of the first source come first.
    pub(crate) fn new(sources: Vec<RowIter>) -> MergedRows {
        let sources = sources.into_iter().map(|rows| Source { rows, batch: None }).collect();
        MergedRows { sources, is_started: false }
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        if !self.is_started {
            self.is_started = true;
            self.sources.iter_mut().try_for_each(Source::fill)?;
        }
        let newest = self.sources.iter().enumerate().filter_map(|(at, source)| Some((source.newest()?, at)));
        let Some((_, at)) = newest.max_by_key(|(time, at)| (*time, std::cmp::Reverse(*at))) else { return Ok(None) };
        let others = self.sources.iter().enumerate().filter(|(other, _)| *other != at);
        let bound = others.filter_map(|(_, source)| source.newest()).max();
        let taken = self.sources[at].take(bound);
        self.sources[at].fill()?;
        Ok(taken)
    }
}

impl Iterator for MergedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_rows().transpose();
        if matches!(next, Some(Err(_))) {
            self.sources.clear();
        }
        next
    }
}
