//! `mvcombine`: combines rows that differ in one field into one row with all values of the field.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, is_hidden, of_batches, rows_in_memory};
use quarry_spl::ast::MvCombineCommand;
use quarry_stdx::number::u32_of;

use super::Execute;
use super::delimiter::DELIMITER_KEY;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for MvCombineCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(self.clone())])
    }
}

/// Number of rows between two checks whether to end.
const CHECKED_ROWS: usize = 4_096;

impl Blocking for MvCombineCommand {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let all = rows_in_memory("mvcombine", rows, context)?;
        if rows::column(&all, &self.field).is_none() {
            return Ok(of_batches(vec![all.into_batch()]));
        }
        let values = rows::reader(&all, &self.field);
        let others = names_of(&all).into_iter().filter(|name| *name != self.field && !is_hidden(name));
        let readers: Vec<ColumnReader> = others.map(|name| rows::reader(&all, &name)).collect();
        let mut keys = KeyTable::default();
        let (mut first, mut gathered): (Vec<u32>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
        let mut key = Vec::new();
        let work = context.stop.begin_work();
        for row in 0..all.num_rows() {
            if row.is_multiple_of(CHECKED_ROWS) {
                context.stop.check_cancelled()?;
                if context.stop.should_end_rows(work) {
                    break;
                }
            }
            row_key(&readers, values.is_null(row), row, &mut key);
            let at = keys.intern(&key) as usize;
            // Rows without the field are not combined.
            if at < gathered.len() && !values.is_null(row) {
                gathered[at].push(u32_of(row));
                continue;
            }
            if at < gathered.len() {
                key.extend_from_slice(&(row as u64).to_le_bytes());
                keys.intern(&key);
            }
            first.push(u32_of(row));
            gathered.push(vec![u32_of(row)]);
        }
        let mut column = ColumnBuilder::new(gathered.len());
        for places in &gathered {
            column.push_multi(places.iter().flat_map(|row| values.values(*row as usize)).collect::<Vec<_>>());
        }
        let combined = rows::take(&all, &UInt32Array::from(first))?;
        let combined = rows::with_column(&combined, &self.field, column.finish())?;
        Ok(of_batches(vec![with_delimiter(&combined, &self.field, &self.delimiter)?]))
    }
}

/// Key of a row: whether it lacks the field, and every value of every other column, length-prefixed.
fn row_key(readers: &[ColumnReader], lacks_field: bool, row: usize, key: &mut Vec<u8>) {
    key.clear();
    key.push(u8::from(lacks_field));
    for reader in readers {
        let start = key.len();
        key.extend_from_slice(&0_u32.to_le_bytes());
        let mut count = 0_u32;
        for value in reader.values(row) {
            key.extend_from_slice(&u32_of(value.len()).to_le_bytes());
            key.extend_from_slice(value.as_bytes());
            count += 1;
        }
        key[start..start + size_of::<u32>()].copy_from_slice(&count.to_le_bytes());
    }
}

/// Sets the delimiter for the values of a column.
fn with_delimiter(rows: &RecordBatch, name: &str, delimiter: &str) -> Result<RecordBatch, EngineError> {
    let noted = rows.schema_ref().fields().iter().map(|field| match field.name() == name {
        true => {
            let note = [(DELIMITER_KEY.to_owned(), delimiter.to_owned())];
            Arc::new(Field::clone(field).with_metadata(note.into_iter().collect()))
        }
        false => Arc::clone(field),
    });
    let schema = Arc::new(Schema::new(noted.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, rows.columns().to_vec())?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use quarry_eval::rows::batch_of;
    use quarry_spl::ast::Command;

    use super::*;
    use crate::plan::tests::{ReadClock, runner};

    #[test]
    fn a_finalised_search_combines_its_first_rows() {
        let parsed = quarry_spl::parse("* | mvcombine a");
        let Command::MvCombine(command) = &parsed.pipeline.commands[1].command else { panic!("{parsed:?}") };
        let context = runner("*").context;
        let combined = || {
            let mut column = ColumnBuilder::new(4 * CHECKED_ROWS);
            (0..4 * CHECKED_ROWS).for_each(|_| column.push_text("x"));
            let batch = batch_of([("a", column.finish())], 4 * CHECKED_ROWS).unwrap();
            let made = command.run(of_batches(vec![batch]), &context).unwrap().next().unwrap().unwrap();
            (made.num_rows(), rows::reader(&made, "a").values(0).count())
        };
        assert_eq!(combined(), (1, 4 * CHECKED_ROWS));
        context.stop.set_clock(Arc::new(ReadClock::default()));
        // Finalised at 0 ms; the work begins at 40 ms. It may go on at 80 and 120 ms, and ends at 160 ms.
        context.stop.finish_early();
        assert_eq!(combined(), (1, 2 * CHECKED_ROWS));
        assert!(context.stop.was_cut());
    }
}
