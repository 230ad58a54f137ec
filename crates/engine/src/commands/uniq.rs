//! `uniq`: removes rows equal to the previous row.

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnReader, is_hidden};
use quarry_spl::ast::UniqCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, ordered};

impl Execute for UniqCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![ordered(Uniq::default)])
    }
}

/// Fields and values of the previous row.
#[derive(Default)]
struct Uniq {
    last: Option<Vec<(String, Vec<String>)>>,
}

impl RowCommand for Uniq {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut names: Vec<String> = names_of(&rows).into_iter().filter(|name| !is_hidden(name)).collect();
        names.sort_unstable();
        let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&rows, name)).collect();
        let mut kept = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let values = names.iter().zip(&readers).filter(|(_, reader)| !reader.is_null(row)).map(|(name, reader)| {
                (name.clone(), reader.values(row).map(|value| value.into_owned()).collect::<Vec<_>>())
            });
            let this = Some(values.collect::<Vec<_>>());
            kept.push(this != self.last);
            self.last = this;
        }
        rows::filter(&rows, &BooleanArray::from(kept))
    }
}
