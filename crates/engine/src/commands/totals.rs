//! `addtotals` and `addcoltotals`: sums of rows as a field, sums of columns as a last row.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_event::value::Number;
use quarry_spl::ast::AddTotalsCommand;

use super::sequence::{added, value_of};
use crate::EngineError;
use crate::command::{Blocking, CommandContext, RowCommand, RowIter};
use crate::field_names::{names_of, wildcard_parts};
use crate::rows::{self, ColumnBuilder, ColumnReader, concat_rows, is_hidden};

/// The sums of rows.
pub(crate) struct RowTotals(pub Arc<AddTotalsCommand>);

/// Whether a column is summed: a named one, else any that is not internal.
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
            let numbers = readers.iter().filter_map(|reader| reader.value(row).exact_number());
            column.push(value_of(numbers.fold(Number::Int(0), added)));
        }
        rows::with_column(&rows, &self.0.field_name, column.finish())
    }
}

/// The sums of columns.
pub(crate) struct ColumnTotals(pub Arc<AddTotalsCommand>);

impl Blocking for ColumnTotals {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = concat_rows(rows.collect::<Result<Vec<_>, _>>()?)?;
        if all.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let mut totals: Vec<(String, ArrayRef)> = Vec::new();
        for name in names_of(&all) {
            // The sums of rows are summed with the others.
            let is_total = self.0.row && name == self.0.field_name;
            if is_total || is_summed(&self.0, &name) {
                let reader = rows::reader(&all, &name);
                let numbers = (0..all.num_rows()).filter_map(|row| reader.value(row).exact_number());
                if let Some(sum) = numbers.reduce(added) {
                    let mut column = ColumnBuilder::new(1);
                    column.push(value_of(sum));
                    totals.push((name, column.finish()));
                }
            }
        }
        if let Some(field) = &self.0.label_field {
            let mut column = ColumnBuilder::new(1);
            column.push_text(&self.0.label);
            totals.push((field.clone(), column.finish()));
        }
        let totals = rows::batch_of(totals, 1)?;
        Ok(vec![all, totals])
    }
}
