//! Pivots groups of (row, series) into a table with one column per series; shared by chart and timechart.
//!
//! The series that get a column are known only when all groups are complete. Series beyond the limit are merged into
//! OTHER by merging their *states*, because an average of averages would be wrong.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::aggregate::running_state::RunningState;
use quarry_eval::aggregate::{AggregatePlan, FunctionBody, Series};
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::rows::rank::sorted_positions_of;
use quarry_eval::rows::{self, ColumnBuilder, Value, batch_of};
use quarry_event::value::{parse_number, sort_key};
use quarry_spl::ast::{CompareOp, DependsOn, SeriesOptions, SeriesTest, StatsFunction};
use quarry_spl::functions::ResultType;
use quarry_stdx::number::u32_of;

use super::aggregate_columns::Outputs;
use super::sorted_positions::sorted_positions;

/// Hidden column with a row's series during grouping.
pub(crate) const SERIES: &str = "__series";
/// Value of [`SERIES`] if the split field is missing; no event text starts with a NUL.
const NULL_SERIES: &str = "\u{0}null";
/// Value of [`SERIES`] for merged series.
const OTHER_SERIES: &str = "\u{0}other";
/// Number of cells of a batch, between which a table can end early.
const BATCH_CELLS: usize = 1 << 18;
/// Number of rows between two checks for cancellation.
const CHECKED_ROWS: usize = 65_536;
/// Maximum number of cells of a table.
const CELLS_MAX: usize = 20_000_000;

/// The series of rows, by their values of `field`.
pub(crate) fn series(field: String) -> Series {
    Series { field, null: NULL_SERIES }
}

/// Maps each group to its row and column of the table.
pub(crate) struct SeriesTable<'a> {
    /// Aggregates; grouped by the row field and [`SERIES`].
    pub plan: &'a AggregatePlan,
    /// Columns of values.
    pub outputs: &'a Outputs,
    /// Series options.
    pub options: &'a SeriesOptions,
}

/// One column per aggregate and series.
pub(crate) struct SeriesColumns {
    /// Text of the row field for each row.
    pub rows: Vec<String>,
    /// For each column: the aggregate, the series name and, by row, the index of the cell's group.
    pub columns: Vec<SeriesColumn>,
    /// Aggregate values of each group.
    pub groups: RecordBatch,
}

/// A column of a [`SeriesColumns`].
pub(crate) struct SeriesColumn {
    /// Index of the aggregate's column.
    pub output: usize,
    /// Shown name.
    pub name: String,
    /// Group of each row.
    pub places: Vec<Option<u32>>,
}

impl SeriesTable<'_> {
    /// Selects the series that get a column, merges all other series, and assigns every group to a cell.
    pub(crate) fn columns(&self, merged: RecordBatch, context: &CommandContext) -> Result<SeriesColumns, EngineError> {
        let merged = self.merge_others(merged, context)?;
        let groups = self.outputs.add_computed(self.plan.finish(&merged)?)?;
        let (row_keys, series) = (texts(merged.column(0)), texts(merged.column(1)));
        let (mut numbers, mut names) = (KeyTable::default(), Vec::new());
        let mut number_of = |name| {
            let number = numbers.intern(str::as_bytes(name));
            if number as usize == names.len() {
                names.push(name);
            }
            number
        };
        let shown = series.iter().map(|name| name.filter(|name| self.is_shown(name)));
        let series_of: Vec<Option<u32>> = shown.map(|name| name.map(&mut number_of)).collect();
        let mut shown_order: Vec<usize> = (0..names.len()).collect();
        // `5` and `005` sort as equal but are two series, which the text keeps in a fixed order.
        shown_order.sort_by_cached_key(|at| (series_rank(names[*at]), sort_key(names[*at]), names[*at]));
        let mut keys = KeyTable::default();
        let row_of: Vec<u32> = row_keys.iter().map(|key| keys.intern(key.unwrap_or_default().as_bytes())).collect();
        if keys.len().saturating_mul(names.len()).saturating_mul(self.outputs.columns().len()) > CELLS_MAX {
            let what = "the table of rows and series is too large".to_owned();
            return Err(EngineError::Limit { what, limit: "cells", value: CELLS_MAX as u64 });
        }
        context.stop.check_cancelled()?;
        let mut places = vec![vec![None; keys.len()]; names.len()];
        for (group, (row, series)) in row_of.iter().zip(&series_of).enumerate() {
            if let Some(series) = series {
                places[*series as usize][*row as usize] = Some(u32_of(group));
            }
        }
        let mut columns = Vec::new();
        for (output, column) in self.outputs.columns().iter().enumerate() {
            for at in &shown_order {
                let name = self.column_name(&column.name, self.display_name(names[*at]));
                columns.push(SeriesColumn { output, name, places: places[*at].clone() });
            }
        }
        let rows = (0..keys.len()).map(|at| String::from_utf8_lossy(keys.key(at)).into_owned()).collect();
        Ok(SeriesColumns { rows, columns, groups })
    }

    fn is_shown(&self, series: &str) -> bool {
        match series {
            NULL_SERIES => self.options.use_null,
            OTHER_SERIES => self.options.use_other,
            _ => true,
        }
    }

    fn display_name<'n>(&'n self, series: &'n str) -> &'n str {
        match series {
            NULL_SERIES => &self.options.null_name,
            OTHER_SERIES => &self.options.other_name,
            name => name,
        }
    }

    fn column_name(&self, aggregate: &str, series: &str) -> String {
        let single = self.outputs.columns().len() == 1;
        if let Some(format) = &self.options.format {
            return format
                .replace("$AGG$", aggregate)
                .replace("$VAL$", series)
                .replace("$agg$", aggregate)
                .replace("$val$", series);
        }
        match single {
            // Column names made from values must not start with an underscore, which marks internal fields.
            true if series.starts_with('_') => format!("VALUE{series}"),
            true => series.to_owned(),
            false => format!("{aggregate}{}{series}", self.options.separator),
        }
    }

    /// Renames the series without a column to OTHER and merges their states.
    fn merge_others(&self, merged: RecordBatch, context: &CommandContext) -> Result<RecordBatch, EngineError> {
        let kept = self.series_with_columns(&merged)?;
        let Some(kept) = kept else { return Ok(merged) };
        let series = texts(merged.column(1));
        let mut renamed = StringViewBuilder::with_capacity(series.len());
        for name in series.iter().flatten() {
            let stays = name == NULL_SERIES || kept.find(name.as_bytes()).is_some();
            renamed.append_value(if stays { name } else { OTHER_SERIES });
        }
        let mut columns = merged.columns().to_vec();
        columns[1] = Arc::new(renamed.finish());
        let renamed = RecordBatch::try_new(merged.schema(), columns)?;
        self.plan.merge(&renamed, context)
    }

    /// The series with a column of their own; `None` if all series have a column.
    fn series_with_columns(&self, merged: &RecordBatch) -> Result<Option<KeyTable>, EngineError> {
        if self.options.limit == 0 && self.options.filter.is_none() {
            return Ok(None);
        }
        let groups = self.outputs.add_computed(self.plan.finish(merged)?)?;
        let series = texts(merged.column(1));
        let mut names = KeyTable::default();
        let mut cells: Vec<Vec<f64>> = Vec::new();
        let first = self.outputs.columns().first().map(|output| rows::reader(&groups, &output.column));
        for (group, name) in series.iter().enumerate() {
            let Some(name) = name.filter(|name| *name != NULL_SERIES) else { continue };
            let at = names.intern(name.as_bytes()) as usize;
            if at >= cells.len() {
                cells.push(Vec::new());
            }
            let value = first.as_ref().and_then(|values| values.number(group));
            cells[at].extend(value);
        }
        let chosen = self.choose_series(&names, &cells);
        if chosen.len() == names.len() {
            return Ok(None);
        }
        let mut kept = KeyTable::default();
        chosen.iter().for_each(|at| {
            kept.intern(names.key(*at));
        });
        Ok(Some(kept))
    }

    fn choose_series(&self, names: &KeyTable, cells: &[Vec<f64>]) -> Vec<usize> {
        let best = |function: &StatsFunction, top: bool, count: usize| {
            let score = |cells: &Vec<f64>| score(function, cells).unwrap_or(f64::NEG_INFINITY);
            best_series(names, &cells.iter().map(score).collect::<Vec<_>>(), top, count)
        };
        let Some(filter) = &self.options.filter else {
            let function = self.options.agg.as_ref().unwrap_or(&StatsFunction::Sum);
            return best(function, !self.options.bottom, self.options.limit);
        };
        match &filter.test {
            SeriesTest::In { top, count } => best(&filter.function, *top, *count),
            SeriesTest::Compare { op, value } => {
                let holds = |at: &usize| {
                    let Some(score) = score(&filter.function, &cells[*at]) else { return false };
                    match op {
                        CompareOp::Lt => score < *value,
                        CompareOp::Le => score <= *value,
                        CompareOp::Gt => score > *value,
                        CompareOp::Ge => score >= *value,
                        CompareOp::Eq => score == *value,
                        CompareOp::Ne => score != *value,
                    }
                };
                (0..names.len()).filter(holds).collect()
            }
        }
    }
}

/// The series with the highest scores, or with the lowest scores unless `top`, in this order; series with equal scores
/// are ordered by name.
fn best_series(names: &KeyTable, scores: &[f64], top: bool, count: usize) -> Vec<usize> {
    let compare = |a: &usize, b: &usize| {
        let order = scores[*b].total_cmp(&scores[*a]);
        (if top { order } else { order.reverse() }).then_with(|| names.key(*a).cmp(names.key(*b)))
    };
    let mut order: Vec<usize> = (0..names.len()).collect();
    // Only the series with a column are sorted: there may be as many series as events.
    if count < order.len() {
        order.select_nth_unstable_by(count, compare);
        order.truncate(count);
    }
    order.sort_unstable_by(compare);
    order
}

/// The rank of a series: the function of its cells, or their sum if the function depends on order or returns texts.
fn score(function: &StatsFunction, cells: &[f64]) -> Option<f64> {
    let ranks = function.depends_on() == DependsOn::Nothing && function.result() != ResultType::Text;
    let body = FunctionBody::of(if ranks { function } else { &StatsFunction::Sum });
    let mut running = RunningState::new(body);
    cells.iter().for_each(|cell| running.add_number(body, *cell));
    match running.value(body) {
        Value::Null if matches!(body, FunctionBody::Sum { .. }) => Some(0.0),
        value => value.number(),
    }
}

/// Named series first, then OTHER, then NULL.
fn series_rank(series: &str) -> u8 {
    match series {
        OTHER_SERIES => 1,
        NULL_SERIES => 2,
        _ => 0,
    }
}

fn texts(column: &ArrayRef) -> StringViewArray {
    rows::as_text_array(column)
}

/// The cells at `places` of an aggregate's values; a missing cell is 0 for counts, otherwise null.
pub(crate) fn cells(values: &ArrayRef, places: &[Option<u32>], zero: bool) -> ArrayRef {
    let reader = rows::ColumnReader::new(values);
    let mut column = ColumnBuilder::new(places.len());
    for place in places {
        match place {
            Some(place) => column.push(reader.value(*place as usize)),
            None if zero => column.push(Value::Int(0)),
            None => column.push_null(),
        }
    }
    column.finish()
}

/// The positions of rows in the order of their texts: numbers by value, numeric spans by start, then texts. `ties` orders
/// rows that are equal otherwise. Each text is examined once, because there may be a million rows.
pub(super) fn row_positions<T: AsRef<str>>(
    texts: &[T],
    ties: impl Fn(usize, usize) -> Ordering,
    stop: &Stop,
) -> Result<Vec<usize>, EngineError> {
    let (mut spans, mut keys) = (Vec::with_capacity(texts.len()), Vec::with_capacity(texts.len()));
    for (row, text) in texts.iter().enumerate() {
        if row.is_multiple_of(CHECKED_ROWS) {
            stop.check_cancelled()?;
        }
        spans.push(span_start(text.as_ref()));
        keys.push(sort_key(text.as_ref()));
    }
    if spans.iter().all(Option::is_none) {
        let order = sorted_positions_of(&keys, |a, b| ties(a as usize, b as usize), stop, || false)?;
        return Ok(order.into_iter().map(|(_, row)| row as usize).collect());
    }
    let by_text = |a: usize, b: usize| match (spans[a], spans[b]) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => keys[a].cmp(&keys[b]),
    };
    sorted_positions(texts.len(), |a, b| by_text(a, b).then_with(|| ties(a, b)), stop)
}

/// Start of a span named `low-high`.
fn span_start(text: &str) -> Option<f64> {
    let dash = text.char_indices().skip(1).find(|(_, character)| *character == '-')?.0;
    parse_number(&text[dash + 1..])?;
    parse_number(&text[..dash])
}

/// Builds a table from a row column and cells, in batches of at most [`BATCH_CELLS`] cells. If the search was finalised,
/// the table may end early; its rows are complete.
pub(crate) fn table(
    (key, keys): (String, ArrayRef),
    pivot: &SeriesColumns,
    outputs: &Outputs,
    order: &[usize],
    stop: &Stop,
) -> Result<Vec<RecordBatch>, EngineError> {
    let (work, batch_rows) = (stop.begin_work(), (BATCH_CELLS / pivot.columns.len().max(1)).max(1));
    let mut batches = Vec::new();
    for (number, part) in order.chunks(batch_rows).enumerate() {
        stop.check_cancelled()?;
        if stop.should_end_rows(work) {
            break;
        }
        let mut columns = vec![(key.clone(), keys.slice(number * batch_rows, part.len()))];
        for column in &pivot.columns {
            let output = &outputs.columns()[column.output];
            let places: Vec<Option<u32>> = part.iter().map(|row| column.places.get(*row).copied().flatten()).collect();
            let values = rows::column_or_null(&pivot.groups, &output.column);
            columns.push((column.name.clone(), cells(&values, &places, output.is_zero_when_missing)));
        }
        batches.push(batch_of(columns, part.len())?);
    }
    Ok(batches)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use quarry_spl::ast::{Aggregate, AggregateArg, Span};

    use super::*;
    use crate::plan::tests::{ReadClock, runner};

    #[test]
    fn the_best_series_are_the_first_of_all_series_in_order() {
        let mut names = KeyTable::default();
        (0..300).for_each(|at| assert_eq!(names.intern(format!("n{}", at * 7_919 % 1_009).as_bytes()), at));
        let scores: Vec<f64> = (0..300_u32).map(|at| f64::from(at * 31 % 11)).collect();
        let text = |at: &usize| String::from_utf8_lossy(names.key(*at)).into_owned();
        let mut sorted: Vec<usize> = (0..300).collect();
        sorted.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then_with(|| text(a).cmp(&text(b))));
        for count in [0, 1, 10, 299, 300, 1_000] {
            assert_eq!(best_series(&names, &scores, true, count), sorted[..count.min(300)], "{count}");
        }
        sorted.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]).then_with(|| text(a).cmp(&text(b))));
        assert_eq!(best_series(&names, &scores, false, 25), sorted[..25]);
    }

    #[test]
    fn rows_are_ordered_by_number_by_start_of_span_and_by_text() {
        let order = |texts: &[&'static str]| {
            let ties = |a: usize, b: usize| texts[a].cmp(texts[b]);
            let order = row_positions(texts, ties, &Stop::default()).unwrap();
            order.into_iter().map(|row| texts[row]).collect::<Vec<_>>()
        };
        assert_eq!(order(&["b", "10", "9", "9.0", "a"]), ["9", "9.0", "10", "a", "b"]);
        assert_eq!(order(&["100-200", "20-30", "3-20"]), ["3-20", "20-30", "100-200"]);
        let stop = Stop::default();
        stop.cancel();
        assert!(row_positions(&["a"], |_, _| Ordering::Equal, &stop).is_err());
    }

    #[test]
    fn a_wide_table_of_a_finalised_search_ends_between_rows() {
        let (function, arg, name) = (StatsFunction::Count, AggregateArg::Rows, "count".to_owned());
        let count = Aggregate { function, arg, name, renamed: false, span: Span::default() };
        let outputs = Outputs::new(&[count], &[], &runner("*").context.expressions()).unwrap();
        let groups = batch_of([("count", ColumnBuilder::new(0).finish())], 0).unwrap();
        let column = |at: usize| SeriesColumn { output: 0, name: at.to_string(), places: vec![None; 320] };
        // 64 rows per batch.
        let columns = (0..BATCH_CELLS / 64).map(column).collect();
        let pivot = SeriesColumns { rows: vec![String::new(); 320], columns, groups };
        let order: Vec<usize> = (0..320).collect();
        let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..320).map(|at| at.to_string())));
        let rows_of = |stop: &Stop| {
            let batches = table(("key".to_owned(), Arc::clone(&keys)), &pivot, &outputs, &order, stop)?;
            Ok::<_, EngineError>(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>())
        };
        assert_eq!(rows_of(&Stop::default()).unwrap(), [64, 64, 64, 64, 64]);
        let stop = Stop::default();
        stop.set_clock(Arc::new(ReadClock::default()));
        // Finalised at 0 ms; the work begins at 40 ms. It may go on at 80 and 120 ms, and ends at 160 ms.
        stop.finish_early();
        assert_eq!(rows_of(&stop).unwrap(), [64, 64]);
        assert!(stop.was_cut());
        stop.cancel();
        assert!(rows_of(&stop).is_err());
    }
}
