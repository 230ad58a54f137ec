//! External merge sort of buffered rows within the search's memory.
//!
//! Rows are collected into runs that fit into memory. A single run is sorted in memory. Several runs are sorted one
//! after the other, buffered again ([`RowBuffer`], which may spill), and merged several at a time with a small batch of
//! each run in memory. Keys are compared as bytes of Arrow's row format, so that the order is the same with one or
//! several runs. The sort is stable. During the sort, rows contain only the columns that have values
//! ([`super::present_columns`]).
//!
//! The sort of a search that was finalised ends early ([`sort_rows_in_time`]): rows that are not in a sorted run
//! by then are dropped, and the first rows of the sorted runs are returned.
//!
//! Not here: sort keys (engine).

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_execution::memory_pool::MemoryReservation;
use quarry_stdx::number::u32_of;

use super::cancellable_sort::sort_first_until;
use super::key_heads::KeyHeads;
use super::present_columns::PresentColumns;
use super::row_buffer::{RowBuffer, compact, value_bytes};
use super::stream::RowIter;
use crate::EngineError;
use crate::context::{Stop, WorkStart};
use crate::dataflow::Dataflow;

/// Divisor of the memory for the maximum size of a run; sorting the run also needs its keys and a copy.
const RUN_MEMORY_DIVISOR: usize = 8;
/// Divisor of that maximum for the minimum size of a run. A run reaches the minimum even if the memory pool refuses,
/// because there would otherwise be too many runs.
const SMALLEST_RUN_DIVISOR: usize = 8;
/// Divisor of the memory for the maximum size of a run's batch.
const BATCH_MEMORY_DIVISOR: usize = 128;
/// Approximate overhead of a column of a batch, in bytes.
const COLUMN_OVERHEAD_BYTES: usize = 128;
/// Maximum number of rows of a run's batch.
const BATCH_ROWS: usize = 8_192;
/// Minimum number of rows of a run's batch.
const BATCH_ROWS_MIN: usize = 16;
/// Maximum number of runs merged at once; more runs need several merges.
const MERGED_RUNS_MAX: usize = 16;

/// A column by index, with its direction.
pub(crate) type SortColumn = (usize, SortOptions);

/// Converts the rows to their common schema and sorts them by the columns at `keys`; returns the first `limit`.
pub fn sort_rows(
    rows: RowBuffer,
    keys: &[SortColumn],
    limit: Option<usize>,
    dataflow: &Arc<Dataflow>,
) -> Result<RowIter, EngineError> {
    sort_until(rows, keys, limit, dataflow, EarlyEnd(None))
}

/// Like [`sort_rows`], for a command whose rows may be incomplete if its search was finalised
/// ([`Stop::should_end_rows`]).
pub fn sort_rows_in_time(
    rows: RowBuffer,
    keys: &[SortColumn],
    limit: Option<usize>,
    dataflow: &Arc<Dataflow>,
) -> Result<RowIter, EngineError> {
    let stop = Arc::clone(dataflow.stop());
    let start = stop.begin_work();
    sort_until(rows, keys, limit, dataflow, EarlyEnd(Some((stop, start))))
}

/// The early end of a sort; `None` if the sort always runs to its end.
#[derive(Clone)]
struct EarlyEnd(Option<(Arc<Stop>, WorkStart)>);

impl EarlyEnd {
    /// Whether the sort should end with the rows sorted so far. A cancelled sort fails instead.
    fn has_come(&self) -> bool {
        self.0.as_ref().is_some_and(|(stop, start)| !stop.is_cancelled() && stop.should_end_rows(*start))
    }
}

fn sort_until(
    rows: RowBuffer,
    keys: &[SortColumn],
    limit: Option<usize>,
    dataflow: &Arc<Dataflow>,
    end: EarlyEnd,
) -> Result<RowIter, EngineError> {
    if keys.is_empty() {
        return Ok(rows.into_unified_rows());
    }
    let schema = PresentColumns::new(&rows.schema());
    let row_bytes = rows.row_bytes().max(schema.row_bytes()).max(1);
    let order = Arc::new(SortOrder {
        keys: keys.to_vec(),
        limit: limit.unwrap_or(usize::MAX),
        batch_rows: (dataflow.memory_bytes() / BATCH_MEMORY_DIVISOR / row_bytes).clamp(BATCH_ROWS_MIN, BATCH_ROWS),
        schema,
    });
    let converter = order.converter()?;
    let mut pile = RunBuffer::new(Arc::clone(&order), converter, dataflow, end.clone());
    let mut runs: Option<Runs> = None;
    for batch in rows.into_rows() {
        let batch = order.schema.without_null_columns(&batch?)?;
        if (runs.is_some() || pile.bytes > 0) && end.has_come() {
            break;
        }
        for start in (0..batch.num_rows()).step_by(order.batch_rows) {
            pile.push(batch.slice(start, order.batch_rows.min(batch.num_rows() - start)))?;
            if pile.is_full() {
                runs.get_or_insert_with(|| Runs::new(dataflow)).add(pile.take_sorted()?, &end)?;
            }
        }
    }
    let Some(mut runs) = runs else { return Ok(restore_columns(order, pile.take_sorted()?, end)) };
    if !end.has_come() {
        runs.add(pile.take_sorted()?, &end)?;
    }
    let converter = pile.converter;
    while runs.ends.len() > MERGED_RUNS_MAX && !end.has_come() {
        let mut merged = Runs::new(dataflow);
        let all: Vec<Range<usize>> = runs.ranges().collect();
        let runs_now = Arc::new(runs.rows);
        for some in all.chunks(MERGED_RUNS_MAX) {
            merged.add(Merge::new(Arc::clone(&order), &converter, Arc::clone(&runs_now), some)?, &end)?;
            if end.has_come() {
                break;
            }
        }
        runs = merged;
    }
    let all: Vec<Range<usize>> = runs.ranges().take(MERGED_RUNS_MAX).collect();
    let merge = Merge::new(Arc::clone(&order), &converter, Arc::new(runs.rows), &all)?;
    Ok(restore_columns(order, merge, end))
}

/// Restores all columns of rows that contain only columns with values. At least one batch is returned.
fn restore_columns(
    order: Arc<SortOrder>,
    rows: impl Iterator<Item = Result<RecordBatch, EngineError>> + Send + 'static,
    end: EarlyEnd,
) -> RowIter {
    let mut has_rows = false;
    Box::new(rows.map_while(move |batch| {
        let is_first = !std::mem::replace(&mut has_rows, true);
        (is_first || !end.has_come()).then(|| order.schema.restore(&batch?))
    }))
}

/// Sort keys and batch sizes.
struct SortOrder {
    keys: Vec<SortColumn>,
    limit: usize,
    batch_rows: usize,
    schema: PresentColumns,
}

impl SortOrder {
    fn converter(&self) -> Result<Arc<RowConverter>, EngineError> {
        let kinds =
            self.keys.iter().map(|(at, options)| SortField::new_with_options(self.schema.kind(*at).clone(), *options));
        Ok(Arc::new(RowConverter::new(kinds.collect())?))
    }

    fn columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.keys.iter().map(|(at, _)| self.schema.column(batch, *at)).collect()
    }
}

/// Rows of the run being collected.
struct RunBuffer {
    order: Arc<SortOrder>,
    converter: Arc<RowConverter>,
    dataflow: Arc<Dataflow>,
    batches: Vec<RecordBatch>,
    bytes: usize,
    bytes_max: usize,
    held: MemoryReservation,
    refused: bool,
    end: EarlyEnd,
}

impl RunBuffer {
    fn new(order: Arc<SortOrder>, converter: Arc<RowConverter>, dataflow: &Arc<Dataflow>, end: EarlyEnd) -> RunBuffer {
        RunBuffer {
            order,
            converter,
            dataflow: Arc::clone(dataflow),
            batches: Vec::new(),
            bytes: 0,
            bytes_max: dataflow.memory_bytes() / RUN_MEMORY_DIVISOR,
            held: dataflow.reservation("sort", true),
            refused: false,
            end,
        }
    }

    fn push(&mut self, batch: RecordBatch) -> Result<(), EngineError> {
        let (batch, bytes) = compact(&batch)?;
        let bytes = bytes + batch.num_columns() * COLUMN_OVERHEAD_BYTES;
        // The keys need about as much memory as the rows.
        self.refused |= self.held.try_grow(2 * bytes).is_err();
        self.bytes += bytes;
        self.batches.push(batch);
        Ok(())
    }

    fn is_full(&self) -> bool {
        let most = if self.refused { self.bytes_max / SMALLEST_RUN_DIVISOR } else { self.bytes_max };
        self.bytes > most
    }

    /// Sorts and returns the rows; the buffer is empty afterwards.
    fn take_sorted(&mut self) -> Result<SortedBatches, EngineError> {
        let batches = std::mem::take(&mut self.batches);
        (self.bytes, self.refused) = (0, false);
        let count = batches.iter().map(RecordBatch::num_rows).sum();
        let key_bytes = batches.iter().flat_map(|batch| self.order.columns(batch)).map(|key| value_bytes(&key)).sum();
        let mut keys = self.converter.empty_rows(count, key_bytes);
        let mut positions: Vec<(u32, u32)> = Vec::with_capacity(count);
        for (at, batch) in (0u32..).zip(&batches) {
            self.dataflow.check_cancelled()?;
            if at > 0 && self.end.has_come() {
                break;
            }
            self.converter.append(&mut keys, &self.order.columns(batch))?;
            positions.extend((0..u32_of(batch.num_rows())).map(|row| (at, row)));
        }
        if positions.len() == count && (1..count).all(|at| keys.row(at - 1) <= keys.row(at)) {
            let (order, held) = (Arc::clone(&self.order), self.held.take());
            return Ok(SortedBatches::of_ordered(order, batches, held));
        }
        let heads = KeyHeads::of(&keys);
        let mut sorted: Vec<(u64, u32)> = keys.iter().map(|key| heads.head(key.as_ref())).zip(0..).collect();
        let order = |(one, a): &(u64, u32), (other, b): &(u64, u32)| {
            let by_keys = || keys.row(*a as usize).cmp(&keys.row(*b as usize));
            one.cmp(other).then_with(by_keys).then(a.cmp(b))
        };
        let check = || self.dataflow.check_cancelled();
        sort_first_until(&mut sorted, self.order.limit, order, check, || self.end.has_come())?;
        let sorted = sorted.into_iter().map(|(_, position)| position).collect();
        drop(keys);
        let (order, held) = (Arc::clone(&self.order), self.held.take());
        Ok(SortedBatches { order, batches, positions, sorted, next: 0, ready: VecDeque::new(), _held: held })
    }
}

/// Sorted rows of a run, in batches.
struct SortedBatches {
    order: Arc<SortOrder>,
    batches: Vec<RecordBatch>,
    positions: Vec<(u32, u32)>,
    sorted: Vec<u32>,
    next: usize,
    /// Finished batches.
    ready: VecDeque<RecordBatch>,
    _held: MemoryReservation,
}

impl SortedBatches {
    /// The first rows of batches that are in order already.
    fn of_ordered(order: Arc<SortOrder>, batches: Vec<RecordBatch>, held: MemoryReservation) -> SortedBatches {
        let mut left = order.limit;
        let mut first = |batch: RecordBatch| {
            let rows = batch.num_rows().min(left);
            left -= rows;
            (rows > 0).then(|| batch.slice(0, rows))
        };
        let ready = batches.into_iter().filter_map(&mut first).collect();
        let (batches, positions, sorted) = (Vec::new(), Vec::new(), Vec::new());
        SortedBatches { order, batches, positions, sorted, next: 0, ready, _held: held }
    }

    /// Builds the next batches; no batch at the end.
    fn build_batches(&mut self) -> Result<(), EngineError> {
        let end = self.sorted.len().min(self.next + self.order.batch_rows);
        let some = &self.sorted[self.next..end];
        self.next = end;
        if some.is_empty() {
            return Ok(());
        }
        let position = |at: &u32| {
            let (batch, row) = self.positions[*at as usize];
            (batch as usize, row as usize)
        };
        let positions: Vec<(usize, usize)> = some.iter().map(position).collect();
        self.ready = self.order.schema.gather(&self.batches, &positions)?.into();
        Ok(())
    }
}

impl Iterator for SortedBatches {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && let Err(error) = self.build_batches()
        {
            self.next = self.sorted.len();
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }
}

/// Sorted runs, concatenated.
struct Runs {
    rows: RowBuffer,
    /// End of each run, as a batch number.
    ends: Vec<usize>,
}

impl Runs {
    fn new(dataflow: &Arc<Dataflow>) -> Runs {
        Runs { rows: RowBuffer::new("sorted rows", dataflow), ends: Vec::new() }
    }

    /// Adds a run or, when the end has come, the first rows of the run.
    fn add(
        &mut self,
        run: impl Iterator<Item = Result<RecordBatch, EngineError>>,
        end: &EarlyEnd,
    ) -> Result<(), EngineError> {
        for batch in run {
            self.rows.push(&batch?)?;
            if end.has_come() {
                break;
            }
        }
        self.ends.push(self.rows.num_batches());
        Ok(())
    }

    /// The batch numbers of each run.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| start..*end)
    }
}

/// Position of the merge in a run.
struct Cursor {
    batches: Range<usize>,
    keys: Rows,
    row: usize,
    /// Index of the current batch among the source batches.
    source: usize,
}

/// Merges several sorted runs.
struct Merge {
    order: Arc<SortOrder>,
    converter: Arc<RowConverter>,
    runs: Arc<RowBuffer>,
    cursors: Vec<Cursor>,
    /// Indices of cursors with rows left, as a binary heap: the children of position `i` are at `2i + 1` and `2i + 2`.
    heap: Vec<usize>,
    sources: Vec<RecordBatch>,
    left: usize,
    /// Finished batches.
    ready: VecDeque<RecordBatch>,
}

impl Merge {
    fn new(
        order: Arc<SortOrder>,
        converter: &Arc<RowConverter>,
        runs: Arc<RowBuffer>,
        ranges: &[Range<usize>],
    ) -> Result<Merge, EngineError> {
        let left = order.limit;
        let converter = Arc::clone(converter);
        let mut merge = Merge {
            order,
            converter,
            runs,
            cursors: Vec::new(),
            heap: Vec::new(),
            sources: Vec::new(),
            left,
            ready: VecDeque::new(),
        };
        for batches in ranges {
            let keys = merge.converter.empty_rows(0, 0);
            merge.cursors.push(Cursor { batches: batches.clone(), keys, row: 0, source: 0 });
            let number = merge.cursors.len() - 1;
            if merge.open(number)? {
                merge.heap.push(number);
            }
        }
        (0..merge.heap.len()).rev().for_each(|at| merge.sift_down(at));
        Ok(merge)
    }

    /// Reads the next batch of a run; false at its end.
    fn open(&mut self, number: usize) -> Result<bool, EngineError> {
        let Some(next) = self.cursors[number].batches.next() else { return Ok(false) };
        let batch = self.runs.batch(next)?;
        let cursor = &mut self.cursors[number];
        cursor.keys = self.converter.convert_columns(&self.order.columns(&batch))?;
        (cursor.row, cursor.source) = (0, self.sources.len());
        self.sources.push(batch);
        Ok(true)
    }

    /// Order of two cursors; among equal keys, the earlier run comes first.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (first, second) = (&self.cursors[a], &self.cursors[b]);
        first.keys.row(first.row).cmp(&second.keys.row(second.row)).then(a.cmp(&b))
    }

    /// Restores the heap below this position, whose cursor has moved.
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1)..(2 * at + 3).min(self.heap.len());
            let Some(least) = children.min_by(|a, b| self.compare(self.heap[*a], self.heap[*b])) else { return };
            if self.compare(self.heap[at], self.heap[least]).is_le() {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Builds the next batches; no batch at the end.
    fn build_batches(&mut self) -> Result<(), EngineError> {
        let most = self.order.batch_rows.min(self.left);
        let mut positions = Vec::with_capacity(most);
        while positions.len() < most
            && let Some(number) = self.heap.first().copied()
        {
            let cursor = &mut self.cursors[number];
            positions.push((cursor.source, cursor.row));
            cursor.row += 1;
            if cursor.row == cursor.keys.num_rows() && !self.open(number)? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
        }
        if positions.is_empty() {
            return Ok(());
        }
        self.left -= positions.len();
        self.ready = self.order.schema.gather(&self.sources, &positions)?.into();
        self.drop_unused_batches();
        Ok(())
    }

    /// Drops source batches that no cursor uses.
    fn drop_unused_batches(&mut self) {
        let mut known = std::mem::take(&mut self.sources);
        for number in &self.heap {
            let cursor = &mut self.cursors[*number];
            self.sources.push(std::mem::replace(&mut known[cursor.source], PresentColumns::empty()));
            cursor.source = self.sources.len() - 1;
        }
    }
}

impl Iterator for Merge {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && let Err(error) = self.build_batches()
        {
            self.left = 0;
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::rows::batch_of;

    const ROWS: i64 = 20_000;

    /// Rows with a key that many rows share, a key that few share, and the row's number.
    fn rows(dataflow: &Arc<Dataflow>) -> RowBuffer {
        let mut kept = RowBuffer::new("test", dataflow);
        for start in (0..ROWS).step_by(1_000) {
            let numbers = || (start..start + 1_000).map(|row| (row * 7_919) % 5_003);
            let few: Int64Array = numbers().map(|number| (number % 11 > 0).then_some(number % 11)).collect();
            let many: StringViewArray = numbers().map(|number| Some(format!("a text, the {number}th"))).collect();
            let number = Int64Array::from_iter_values(start..start + 1_000);
            let columns: [(&str, ArrayRef); 3] =
                [("few", Arc::new(few)), ("many", Arc::new(many)), ("row", Arc::new(number))];
            kept.push(&batch_of(columns.map(|(name, column)| (name.to_owned(), column)), 1_000).unwrap()).unwrap();
        }
        kept
    }

    fn sorted_numbers(memory: usize, limit: Option<usize>) -> Vec<i64> {
        let dataflow = Arc::new(Dataflow::new(memory, None).unwrap());
        let option = |descending, nulls_first| SortOptions { descending, nulls_first };
        let keys = [(0, option(true, false)), (1, option(false, false))];
        let mut found = Vec::new();
        for batch in sort_rows(rows(&dataflow), &keys, limit, &dataflow).unwrap() {
            found.extend(batch.unwrap().column(2).as_primitive::<Int64Type>().values());
        }
        found
    }

    fn expected() -> Vec<i64> {
        let key = |row: &i64| {
            let number = (row * 7_919) % 5_003;
            let few = if number % 11 > 0 { -(number % 11) } else { 1 };
            (few, format!("a text, the {number}th"), *row)
        };
        let mut all: Vec<i64> = (0..ROWS).collect();
        all.sort_by_key(key);
        all
    }

    #[test]
    fn sorting_gives_the_same_rows_for_any_number_of_runs() {
        let expected = expected();
        // About 1.2 MB of rows: in one run, in a few runs, and in more runs than are merged at once.
        for memory in [1 << 30, 1 << 20, 128 << 10] {
            assert!(sorted_numbers(memory, None) == expected, "{memory}");
            assert!(sorted_numbers(memory, Some(3_333)) == expected[..3_333], "{memory} with a limit");
        }
    }

    #[test]
    fn rows_in_order_stay_in_order() {
        for (memory, limit) in [(1 << 30, None), (1 << 30, Some(3_333)), (128 << 10, None), (128 << 10, Some(3_333))] {
            let dataflow = Arc::new(Dataflow::new(memory, None).unwrap());
            let keys = [(2, SortOptions { descending: false, nulls_first: false })];
            let mut found: Vec<i64> = Vec::new();
            for batch in sort_rows(rows(&dataflow), &keys, limit, &dataflow).unwrap() {
                found.extend(batch.unwrap().column(2).as_primitive::<Int64Type>().values());
            }
            let expected = 0..limit.map_or(ROWS, |limit| limit as i64);
            assert!(found.into_iter().eq(expected), "{memory} {limit:?}");
        }
    }

    #[test]
    fn many_runs_spill_and_merge_in_several_rounds() {
        let dataflow = Arc::new(Dataflow::new(128 << 10, None).unwrap());
        let input = rows(&dataflow);
        assert!(input.is_spilled());
        let runs = input.bytes() / (dataflow.memory_bytes() / RUN_MEMORY_DIVISOR) as u64;
        assert!(runs > MERGED_RUNS_MAX as u64, "{runs} runs");
    }
}
