//! `untable`: a table unpivoted into a list, the opposite of `xyseries`.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::UntableCommand;

use super::Execute;
use crate::EngineError;
use crate::command::RowCommand;
use crate::field_names::names_of;
use crate::lower::{Lowering, Step, row};
use crate::rows::{self, ColumnBuilder, ColumnReader, batch_of};

impl Execute for UntableCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || command.clone())])
    }
}

impl RowCommand for UntableCommand {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names: Vec<String> =
            names_of(&rows).into_iter().filter(|name| *name != self.row && !name.starts_with('_')).collect();
        let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&rows, name)).collect();
        let (mut places, mut labels, mut values) = (Vec::new(), ColumnBuilder::new(0), ColumnBuilder::new(0));
        for row in 0..rows.num_rows() {
            for (name, reader) in names.iter().zip(&readers).filter(|(_, reader)| !reader.is_null(row)) {
                places.push(row as u32);
                labels.push_text(name);
                values.push(reader.value(row));
            }
        }
        let count = places.len();
        let keys = rows::take(&rows::select(&rows, &[&self.row])?, &UInt32Array::from(places))?;
        let columns: Vec<(&str, ArrayRef)> = vec![
            (&self.row, rows::column_or_null(&keys, &self.row)),
            (&self.name, labels.finish()),
            (&self.value, values.finish()),
        ];
        batch_of(columns, count)
    }
}
