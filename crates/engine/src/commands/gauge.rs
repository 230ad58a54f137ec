//! `gauge`: returns the value and the ranges that a gauge shows.

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, of_batches};
use quarry_event::value::parse_number;
use quarry_spl::ast::GaugeCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for GaugeCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(self.clone())])
    }
}

impl Blocking for GaugeCommand {
    fn run(&self, mut rows: RowIter, _: &CommandContext) -> Result<RowIter, EngineError> {
        let first = loop {
            match rows.next().transpose()? {
                Some(batch) if batch.num_rows() > 0 => break batch.slice(0, 1),
                Some(_) => {}
                None => return Ok(of_batches(Vec::new())),
            }
        };
        let value = |part: &str| match parse_number(part) {
            Some(number) => Value::from_f64(number),
            None => rows::reader(&first, part).value(0).into_owned(),
        };
        let mut parts: Vec<(String, Value<'static>)> = Vec::new();
        let names = std::iter::once("x".to_owned()).chain((1..).map(|at| format!("y{at}")));
        for (name, part) in names.zip(&self.parts) {
            parts.push((name, value(part)));
        }
        // A single bound does not delimit a range, so the range is 0 to 100.
        if parts.len() <= 2 {
            parts.truncate(1);
            parts.extend([("y1".to_owned(), Value::Int(0)), ("y2".to_owned(), Value::Int(100))]);
        }
        let columns = parts.into_iter().map(|(name, value)| {
            let mut column = ColumnBuilder::new(1);
            column.push(value);
            (name, column.finish())
        });
        Ok(of_batches(vec![batch_of(columns.collect::<Vec<_>>(), 1)?]))
    }
}
