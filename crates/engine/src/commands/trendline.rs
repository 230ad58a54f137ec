//! `trendline`: computes moving averages.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_event::value::Number;
use quarry_spl::ast::{Trend, TrendKind, TrendLineCommand};
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::lowering::{Lowering, Step, ordered};

impl Execute for TrendLineCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let trends = Arc::new(self.trends.clone());
        Ok(vec![ordered(move || TrendLine::new(Arc::clone(&trends)))])
    }
}

struct TrendLine {
    trends: Arc<Vec<Trend>>,
    /// Per trend: the last numbers, oldest first.
    windows: Vec<VecDeque<Number>>,
    /// Per trend: the previous average.
    averages: Vec<Option<Number>>,
}

impl TrendLine {
    fn new(trends: Arc<Vec<Trend>>) -> TrendLine {
        let windows = trends.iter().map(|_| VecDeque::new()).collect();
        let averages = vec![None; trends.len()];
        TrendLine { trends, windows, averages }
    }
}

/// The average of the numbers in a full window, as exact as in `stats`; `None` without numbers.
fn average(kind: TrendKind, window: &VecDeque<Number>) -> Option<Number> {
    if kind != TrendKind::Weighted {
        let count = i64::try_from(window.len()).ok()?;
        return window.iter().copied().reduce(Number::plus)?.divided_by(Number::Int(count));
    }
    let weights = || (1..).map(Number::Int);
    let sum = window.iter().zip(weights()).map(|(number, weight)| number.times(weight)).reduce(Number::plus)?;
    sum.divided_by(weights().take(window.len()).reduce(Number::plus)?)
}

/// The exponential average after another number; the initial average is a simple average.
fn exponential_average(before: Number, number: Number, period: usize) -> Number {
    let (before, share) = (before.as_f64(), 2.0 / (f64_of(period) + 1.0));
    Number::Float(before + share * (number.as_f64() - before))
}

impl RowCommand for TrendLine {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut result = rows.clone();
        for ((trend, window), last) in self.trends.iter().zip(&mut self.windows).zip(&mut self.averages) {
            let reader = rows::reader(&rows, &trend.field);
            let mut column = ColumnBuilder::new(rows.num_rows());
            for row in 0..rows.num_rows() {
                let Some(number) = reader.exact_number(row) else {
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
                    (TrendKind::Exponential, Some(before)) => Some(exponential_average(before, number, trend.period)),
                    (kind, _) => average(kind, window),
                };
                *last = average;
                column.push(average.map_or(Value::Null, Value::from_number));
            }
            result = rows::with_column(&result, &trend.output, column.finish())?;
        }
        Ok(result)
    }
}
