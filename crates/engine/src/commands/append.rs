//! `append`: appends the rows of a subsearch.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::SeenNames;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::AppendCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for AppendCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let rows = lowering.subsearch(&self.subsearch, self.limits)?;
        Ok(vec![blocking(Append { rows })])
    }
}

/// Rows held in memory, emitted after the incoming rows.
pub(crate) struct Append {
    /// Result of the subsearch.
    pub rows: Vec<RecordBatch>,
}

impl Blocking for Append {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<RowIter, EngineError> {
        Ok(append(rows, of_batches(self.rows.clone())))
    }
}

/// The rows, then the appended ones, whose new columns come after all columns of the rows before.
pub(crate) fn append(rows: RowIter, appended: RowIter) -> RowIter {
    Box::new(AppendedRows { rows: Some(rows), names: SeenNames::default(), appended })
}

struct AppendedRows {
    /// `None` once all have been emitted.
    rows: Option<RowIter>,
    /// Columns of the rows emitted so far.
    names: SeenNames,
    appended: RowIter,
}

impl Iterator for AppendedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(rows) = &mut self.rows {
            match rows.next() {
                Some(Ok(batch)) => {
                    self.names.add(&batch);
                    return Some(Ok(batch));
                }
                Some(failed) => return Some(failed),
                None => self.rows = None,
            }
        }
        let batch = self.appended.next()?;
        Some(batch.and_then(|batch| with_columns_first(self.names.all(), &batch)))
    }
}

/// The rows with these columns before all others; columns that the rows lack are null.
fn with_columns_first(names: &[String], rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let schema = rows.schema_ref();
    let mut places: Vec<Option<usize>> = names.iter().map(|name| schema.index_of(name).ok()).collect();
    let lacked = names.iter().zip(&places).filter(|(_, place)| place.is_none()).count();
    if lacked == 0 {
        return Ok(rows.clone());
    }
    let mut names = names.to_vec();
    let mut is_new = vec![true; schema.fields().len()];
    places.iter().flatten().for_each(|at| is_new[*at] = false);
    for (at, field) in schema.fields().iter().enumerate().filter(|(at, _)| is_new[*at]) {
        places.push(Some(at));
        names.push(field.name().clone());
    }
    assert_eq!(places.len(), lacked + schema.fields().len(), "each column of the rows has one place");
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = names
        .iter()
        .zip(places)
        .map(|(name, place)| match place {
            Some(at) => (schema.field(at).clone(), Arc::clone(rows.column(at))),
            None => (Field::new(name, DataType::Null, true), Arc::new(NullArray::new(rows.num_rows())) as ArrayRef),
        })
        .unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}
