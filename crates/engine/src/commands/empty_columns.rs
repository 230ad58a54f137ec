//! Removes columns without values, for results that need not have all fields of all rows.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef};
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, KeptRows, RowIter};

use crate::blocking::Blocking;

/// For a subset of events: columns in which none of them has a value are not part of the result.
pub(crate) struct DropEmptyColumns;

impl Blocking for DropEmptyColumns {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut filled = BTreeSet::new();
        let mut kept = KeptRows::new("rows whose columns may be empty", &context.dataflow);
        for batch in rows {
            let batch = batch?;
            let has_value = |(_, column): &(_, &ArrayRef)| column.logical_null_count() < column.len();
            let columns = batch.schema_ref().fields().iter().zip(batch.columns());
            filled.extend(columns.filter(has_value).map(|(field, _)| field.name().clone()));
            kept.push(&batch)?;
        }
        let shown = kept.into_rows().map(move |batch| rows::without(&batch?, |name| !filled.contains(name)));
        Ok(Box::new(shown))
    }
}
