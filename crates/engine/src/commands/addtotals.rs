//! `addtotals`: adds row sums as a field, and column sums as a last row.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::{names_of, wildcard_parts};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowBuffer, RowIter, Value, conform, is_hidden, of_batches};
use quarry_event::value::Number;
use quarry_spl::ast::AddTotalsCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking, row};

impl Execute for AddTotalsCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = Arc::new(self.clone());
        let mut steps = Vec::new();
        if self.row {
            let command = Arc::clone(&command);
            steps.push(row(move || RowTotals(Arc::clone(&command))));
        }
        if self.column {
            steps.push(blocking(ColumnTotals(command)));
        }
        Ok(steps)
    }
}

/// The sums of rows.
struct RowTotals(Arc<AddTotalsCommand>);

/// Whether a column is summed: the named columns or, without names, all columns that are not internal.
fn is_summed(command: &AddTotalsCommand, name: &str) -> bool {
    let named = |pattern: &str| {
        let internal = name.starts_with('_') && !pattern.starts_with('_');
        !internal && wildcard_parts(pattern, name).is_some()
    };
    match command.fields.as_slice() {
        [] => !name.starts_with('_'),
        fields => !is_hidden(name) && fields.iter().any(|field| named(&field.text)),
    }
}

impl RowCommand for RowTotals {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names = names_of(&rows).into_iter();
        let summed = names.filter(|name| *name != self.0.field_name && is_summed(&self.0, name));
        let readers: Vec<ColumnReader> = summed.map(|name| rows::reader(&rows, &name)).collect();
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            let numbers = readers.iter().filter_map(|reader| reader.exact_number(row));
            column.push(Value::from_number(numbers.fold(Number::Int(0), Number::plus)));
        }
        rows::with_column(&rows, &self.0.field_name, column.finish())
    }
}

/// The sums of columns.
struct ColumnTotals(Arc<AddTotalsCommand>);

impl Blocking for ColumnTotals {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = RowBuffer::collect("addtotals", rows, &context.dataflow)?;
        if kept.num_rows() == 0 {
            return Ok(of_batches(Vec::new()));
        }
        let schema = kept.schema();
        // The column with the sums of rows is summed, too.
        let is_told = |name: &String| (self.0.row && *name == self.0.field_name) || is_summed(&self.0, name);
        let names: Vec<String> =
            names_of(&RecordBatch::new_empty(Arc::clone(&schema))).into_iter().filter(is_told).collect();
        let mut sums = vec![None; names.len()];
        for batch in kept.iter() {
            let batch = conform(&batch?, &schema)?;
            for (name, sum) in names.iter().zip(&mut sums) {
                let reader = rows::reader(&batch, name);
                let numbers = (0..batch.num_rows()).filter_map(|row| reader.exact_number(row));
                *sum = sum.take().into_iter().chain(numbers).reduce(Number::plus);
            }
        }
        let mut totals: Vec<(String, ArrayRef)> = Vec::new();
        for (name, sum) in names.into_iter().zip(sums) {
            if let Some(sum) = sum {
                let mut column = ColumnBuilder::new(1);
                column.push(Value::from_number(sum));
                totals.push((name, column.finish()));
            }
        }
        if let Some(field) = &self.0.label_field {
            let mut column = ColumnBuilder::new(1);
            column.push_text(&self.0.label);
            totals.push((field.clone(), column.finish()));
        }
        let totals = rows::batch_of(totals, 1)?;
        Ok(Box::new(kept.into_unified_rows().chain(of_batches(vec![totals]))))
    }
}
