//! `table`: keeps exactly the listed fields, in the listed order; a field that no row has becomes an empty column.

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::{covers, names_of};
use quarry_eval::rows;
use quarry_spl::ast::{FieldPattern, TableCommand};

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for TableCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let fields = self.fields.clone();
        Ok(vec![row(move || Table(fields.clone()))])
    }
}

/// The columns in their order.
struct Table(Vec<FieldPattern>);

impl RowCommand for Table {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names = names_of(&rows);
        let mut kept: Vec<&str> = Vec::new();
        for pattern in &self.0 {
            // A pattern only matches fields with values.
            let has_value = |column: &ArrayRef| column.logical_null_count() < column.len();
            let occurs = |name: &str| rows::column(&rows, name).is_some_and(has_value);
            let found = names.iter().map(String::as_str).filter(|name| covers(pattern, name) && occurs(name));
            let listed: Vec<&str> = if pattern.is_wildcard() { found.collect() } else { vec![&pattern.text] };
            listed.into_iter().for_each(|name| {
                if !kept.contains(&name) {
                    kept.push(name);
                }
            });
        }
        rows::select(&rows, &kept)
    }
}
