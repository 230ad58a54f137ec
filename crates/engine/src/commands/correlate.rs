//! `correlate`: measures how often each pair of fields occurs in the same rows.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowIter, Value, rows_in_memory};
use quarry_spl::ast::CorrelateCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use super::field_texts::{FieldTexts, shown_names, table_of, texts_of};
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
        let fields = texts_of(&all, &chosen, "correlate")?;
        let share = |a: &FieldTexts, b: &FieldTexts| {
            let pairs = || a.texts.iter().zip(&b.texts);
            let both = pairs().filter(|(a, b)| a.is_some() && b.is_some()).count();
            let either = pairs().filter(|(a, b)| a.is_some() || b.is_some()).count();
            if either == 0 { 0.0 } else { f64_of(both) / f64_of(either) }
        };
        let start = context.stop.begin_work();
        let mut table: Vec<Vec<Value<'static>>> = Vec::new();
        'fields: for row in &fields {
            let mut cells = vec![Value::owned_text(row.name.clone())];
            for column in &fields {
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
