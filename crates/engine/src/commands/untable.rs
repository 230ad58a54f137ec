//! `untable`: unpivots a table into rows, the opposite of `xyseries`.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, batch_of};
use quarry_spl::ast::UntableCommand;
use quarry_stdx::number::u32_of;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for UntableCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || Untable(command.clone()))])
    }
}

/// `untable` on rows.
struct Untable(UntableCommand);

impl RowCommand for Untable {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names: Vec<String> =
            names_of(&rows).into_iter().filter(|name| *name != self.0.row && !name.starts_with('_')).collect();
        let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&rows, name)).collect();
        let (mut places, mut labels, mut values) = (Vec::new(), ColumnBuilder::new(0), ColumnBuilder::new(0));
        for row in 0..rows.num_rows() {
            for (name, reader) in names.iter().zip(&readers).filter(|(_, reader)| !reader.is_null(row)) {
                places.push(u32_of(row));
                labels.push_text(name);
                values.push(reader.value(row));
            }
        }
        let count = places.len();
        let keys = rows::take(&rows::select(&rows, &[&self.0.row])?, &UInt32Array::from(places))?;
        let columns: Vec<(&str, ArrayRef)> = vec![
            (&self.0.row, rows::column_or_null(&keys, &self.0.row)),
            (&self.0.name, labels.finish()),
            (&self.0.value, values.finish()),
        ];
        batch_of(columns, count)
    }
}
