//! `correlate`: measures how often each pair of fields occurs in the same rows.

use arrow::buffer::BooleanBuffer;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, RowIter, Value, rows_in_memory};
use quarry_spl::ast::CorrelateCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use super::field_texts::{check_field_count, shown_names, table_of};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for CorrelateCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Correlate)])
    }
}

/// Number of rows with both fields, divided by the number of rows with at least one of them.
struct Correlate;

impl BlockingTable for Correlate {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("correlate", rows, context)?;
        let names = shown_names(&all);
        let chosen: Vec<&str> = names.iter().map(String::as_str).collect();
        check_field_count(&chosen, "correlate")?;
        let rows = all.num_rows();
        let marks = |name: &&str| match rows::reader(&all, name).validity() {
            Some(present) => present.into_inner(),
            None => BooleanBuffer::new_set(rows),
        };
        let fields: Vec<(&str, BooleanBuffer)> = chosen.iter().map(|name| (*name, marks(name))).collect();
        let share = |a: &BooleanBuffer, b: &BooleanBuffer| {
            let (both, either) = ((a & b).count_set_bits(), (a | b).count_set_bits());
            if either == 0 { 0.0 } else { f64_of(both) / f64_of(either) }
        };
        let start = context.stop.begin_work();
        let mut table: Vec<Vec<Value<'static>>> = Vec::new();
        'fields: for (name, row) in &fields {
            let mut cells = vec![Value::owned_text((*name).to_owned())];
            for (_, column) in &fields {
                if context.stop.should_end_work(start) {
                    break 'fields;
                }
                cells.push(Value::owned_text(format!("{:.2}", share(row, column))));
            }
            table.push(cells);
        }
        context.stop.check_cancelled()?;
        let names: Vec<&str> = std::iter::once("RowField").chain(chosen.iter().copied()).collect();
        table_of(&names, table).map(|table| vec![table])
    }
}
