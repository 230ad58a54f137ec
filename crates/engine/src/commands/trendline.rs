//! `trendline`: moving averages.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_spl::ast::{Trend, TrendKind, TrendLineCommand};

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
    windows: Vec<VecDeque<f64>>,
    /// Per trend: the previous average.
    averages: Vec<Option<f64>>,
}

impl TrendLine {
    fn new(trends: Arc<Vec<Trend>>) -> TrendLine {
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
        // Initial value; later ones are computed by [`smoothed`].
        TrendKind::Exponential => window.iter().sum::<f64>() / period,
    }
}

/// Next value of an exponential moving average; the newest number has weight `2 / (period + 1)`.
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
