//! Commands that look from row to row: autoregress, delta, trendline, uniq.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{AutoRegressCommand, DeltaCommand, Trend, TrendKind};

use crate::EngineError;
use crate::command::RowCommand;
use crate::field_names::names_of;
use crate::rows::{self, ColumnBuilder, ColumnReader, Value, is_hidden};

/// `autoregress`: the values of rows before.
pub(crate) struct AutoRegress {
    command: Arc<AutoRegressCommand>,
    /// The last values, newest first.
    last: VecDeque<Value<'static>>,
}

impl AutoRegress {
    /// The command at its first row.
    pub(crate) fn new(command: Arc<AutoRegressCommand>) -> AutoRegress {
        AutoRegress { command, last: VecDeque::new() }
    }
}

impl RowCommand for AutoRegress {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.command.field);
        let distances = self.command.first..=self.command.last;
        let mut columns: Vec<ColumnBuilder> = distances.clone().map(|_| ColumnBuilder::new(rows.num_rows())).collect();
        for row in 0..rows.num_rows() {
            for (column, distance) in columns.iter_mut().zip(distances.clone()) {
                match self.last.get(distance - 1) {
                    Some(value) => column.push(value.clone()),
                    None => column.push_null(),
                }
            }
            self.last.push_front(reader.value(row).into_owned());
            self.last.truncate(self.command.last);
        }
        let mut result = rows.clone();
        for (column, distance) in columns.into_iter().zip(distances) {
            let name = match &self.command.output {
                Some(output) => output.clone(),
                None => format!("{}_p{distance}", self.command.field),
            };
            result = rows::with_column(&result, &name, column.finish())?;
        }
        Ok(result)
    }
}

/// `delta`: the difference to a row before.
pub(crate) struct Delta {
    command: Arc<DeltaCommand>,
    /// The last values, oldest first.
    last: VecDeque<Value<'static>>,
}

impl Delta {
    /// The command at its first row.
    pub(crate) fn new(command: Arc<DeltaCommand>) -> Delta {
        Delta { command, last: VecDeque::new() }
    }
}

/// `a - b`, where both are numbers.
fn difference(a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    match (a.exact_number(), b.exact_number()) {
        (Some(a), Some(b)) => Value::of_number(a.minus(b)),
        _ => Value::Null,
    }
}

impl RowCommand for Delta {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.command.field);
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            let value = reader.value(row);
            let earlier = if self.last.len() >= self.command.distance { self.last.pop_front() } else { None };
            column.push(earlier.map_or(Value::Null, |earlier| difference(&value, &earlier)));
            self.last.push_back(value.into_owned());
        }
        rows::with_column(&rows, &self.command.output, column.finish())
    }
}

/// `trendline`: moving averages.
pub(crate) struct TrendLine {
    trends: Arc<Vec<Trend>>,
    /// Per line the last numbers, oldest first.
    windows: Vec<VecDeque<f64>>,
    /// Per line the average that the next one starts from.
    averages: Vec<Option<f64>>,
}

impl TrendLine {
    /// The command at its first row.
    pub(crate) fn new(trends: Arc<Vec<Trend>>) -> TrendLine {
        let windows = trends.iter().map(|_| VecDeque::new()).collect();
        let averages = vec![None; trends.len()];
        TrendLine { trends, windows, averages }
    }
}

/// The average of a full window.
fn average(kind: TrendKind, window: &VecDeque<f64>) -> f64 {
    let period = window.len() as f64;
    match kind {
        TrendKind::Simple => window.iter().sum::<f64>() / period,
        TrendKind::Weighted => {
            let weighted: f64 = window.iter().zip(1..).map(|(number, weight)| number * f64::from(weight)).sum();
            weighted / (period * (period + 1.0) / 2.0)
        }
        // Not an average of the window: see [`smoothed`].
        TrendKind::Exponential => window.iter().sum::<f64>() / period,
    }
}

/// The next value of an exponential average: the share of the newest number is `2 / (period + 1)`.
fn smoothed(before: f64, number: f64, period: usize) -> f64 {
    let share = 2.0 / (period as f64 + 1.0);
    before + share * (number - before)
}

impl RowCommand for TrendLine {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut result = rows.clone();
        for ((trend, window), last) in self.trends.iter().zip(&mut self.windows).zip(&mut self.averages) {
            let reader = rows::reader(&rows, &trend.field);
            let mut column = ColumnBuilder::new(rows.num_rows());
            for row in 0..rows.num_rows() {
                let Some(number) = reader.number(row) else {
                    column.push_null();
                    continue;
                };
                if window.len() == trend.period {
                    window.pop_front();
                }
                window.push_back(number);
                if window.len() < trend.period {
                    column.push_null();
                    continue;
                }
                let average = match (trend.kind, *last) {
                    (TrendKind::Exponential, Some(before)) => smoothed(before, number, trend.period),
                    (kind, _) => average(kind, window),
                };
                *last = Some(average);
                column.push(Value::number_of(average));
            }
            result = rows::with_column(&result, &trend.output, column.finish())?;
        }
        Ok(result)
    }
}

/// `uniq`: drops a row that is like the one before it in every field.
#[derive(Default)]
pub(crate) struct Uniq {
    last: Option<Vec<(String, Vec<String>)>>,
}

impl RowCommand for Uniq {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut names: Vec<String> = names_of(&rows).into_iter().filter(|name| !is_hidden(name)).collect();
        names.sort_unstable();
        let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&rows, name)).collect();
        let mut kept = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let values = names.iter().zip(&readers).filter(|(_, reader)| !reader.is_null(row)).map(|(name, reader)| {
                (name.clone(), reader.values(row).map(|value| value.into_owned()).collect::<Vec<_>>())
            });
            let this = Some(values.collect::<Vec<_>>());
            kept.push(this != self.last);
            self.last = this;
        }
        rows::filter(&rows, &BooleanArray::from(kept))
    }
}
