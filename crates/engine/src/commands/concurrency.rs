//! `concurrency`: counts, for each row, the rows whose intervals contain its start.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, rows_in_memory};
use quarry_spl::ast::ConcurrencyCommand;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for ConcurrencyCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Concurrency(self.clone()))])
    }
}

struct Concurrency(ConcurrencyCommand);

impl BlockingTable for Concurrency {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("concurrency", rows, context)?;
        let (starts, durations) = (rows::reader(&all, &self.0.start), rows::reader(&all, &self.0.duration));
        let spans: Vec<Option<(f64, f64)>> = (0..all.num_rows())
            .map(|row| {
                let (start, duration) = (starts.number(row)?, durations.number(row)?);
                (start.is_finite() && duration >= 0.0).then_some((start, start + duration))
            })
            .collect();
        let sorted = |number: fn(&(f64, f64)) -> f64| {
            let mut numbers: Vec<f64> = spans.iter().flatten().map(number).collect();
            numbers.sort_by(f64::total_cmp);
            numbers
        };
        let (begun, ended) = (sorted(|span| span.0), sorted(|span| span.1));
        let mut column = ColumnBuilder::new(all.num_rows());
        for span in &spans {
            match span {
                Some((start, end)) => {
                    let before = |numbers: &[f64]| numbers.partition_point(|number| number <= start) as i64;
                    // A row without duration is still counted at its start.
                    let own = i64::from(start == end);
                    column.push_int(before(&begun) - before(&ended) + own);
                }
                None => column.push_null(),
            }
        }
        Ok(vec![rows::with_column(&all, &self.0.output, column.finish())?])
    }
}
