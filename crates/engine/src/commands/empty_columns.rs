//! Columns without a value, which a result that may hold only some of its rows' fields does not show.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef};
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, KeptRows, RowIter};

use crate::blocking::Blocking;

/// Of events of which only some come out: the columns that none of these has a value in are no columns of theirs.
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
