//! `rangemap`: names the range that a number lies in.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_event::value::parse_number;
use quarry_spl::ast::RangeMapCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

/// Field that rangemap writes.
const RANGE_FIELD: &str = "range";

impl Execute for RangeMapCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || RangeMap(command.clone()))])
    }
}

struct RangeMap(RangeMapCommand);

impl RowCommand for RangeMap {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.0.field);
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            let numbers: Vec<f64> = reader.values(row).filter_map(|value| parse_number(&value)).collect();
            let holds =
                |least: f64, greatest: f64| numbers.iter().any(|number| least <= *number && *number <= greatest);
            let mut names: Vec<&str> = Vec::new();
            for (name, least, greatest) in &self.0.ranges {
                if holds(*least, *greatest) && !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
            match names.as_slice() {
                [] => column.push_text(&self.0.default),
                [name] => column.push_text(name),
                names => column.push_multi(names),
            }
        }
        rows::with_column(&rows, RANGE_FIELD, column.finish())
    }
}
