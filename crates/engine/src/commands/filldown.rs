//! `filldown`: replaces missing values with the last preceding value.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::{names_of, wildcard_parts};
use quarry_eval::rows::{self, ColumnBuilder, Value, is_hidden};
use quarry_spl::ast::{FieldPattern, FillDownCommand};

use super::Execute;
use crate::lowering::{Lowering, Step, ordered};

impl Execute for FillDownCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let fields = self.fields.clone();
        Ok(vec![ordered(move || FillDown { fields: fields.clone(), last: Vec::new() })])
    }
}

/// The last value of each field.
struct FillDown {
    fields: Vec<FieldPattern>,
    last: Vec<(String, Value<'static>)>,
}

impl FillDown {
    fn is_substitution(&self, name: &str) -> bool {
        let fits = |field: &FieldPattern| wildcard_parts(&field.text, name).is_some();
        !is_hidden(name) && (self.fields.is_empty() || self.fields.iter().any(fits))
    }
}

impl RowCommand for FillDown {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut names = names_of(&rows);
        // A field missing from this batch is filled with its last value.
        let earlier: Vec<String> = self.last.iter().map(|(name, _)| name.clone()).collect();
        names.extend(earlier.into_iter().filter(|name| rows::column(&rows, name).is_none()));
        for name in names.into_iter().filter(|name| self.is_substitution(name)).collect::<Vec<_>>() {
            let reader = rows::reader(&rows, &name);
            let at = self.last.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                self.last.push((name.clone(), Value::Null));
                self.last.len() - 1
            });
            let last = &mut self.last[at].1;
            let mut column = ColumnBuilder::new(rows.num_rows());
            for row in 0..rows.num_rows() {
                if reader.is_null(row) {
                    column.push(last.clone());
                } else {
                    column.push(reader.value(row));
                    *last = reader.value(row).into_owned();
                }
            }
            rows = rows::with_column(&rows, &name, column.finish())?;
        }
        Ok(rows)
    }
}
