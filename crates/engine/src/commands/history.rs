//! `history`: lists earlier searches.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, of_batches};
use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::HistoryCommand;
use quarry_stdx::number::{f64_of, integer_part};

use super::Execute;
use crate::lowering::SearchEnvironment;
use crate::node::table_of;

impl Execute for HistoryCommand {
    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        let Some(entries) = search.node().history(&search.context().permissions) else {
            search.context().messages.push("history: past searches are not recorded here");
            return Ok(Some(of_batches(Vec::new())));
        };
        Ok(Some(of_batches(vec![parse_times(&table_of(&entries)?)?])))
    }
}

/// Rows with `_time` as a time.
fn parse_times(rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let reader = rows::reader(rows, "_time");
    let mut times = ColumnBuilder::new(rows.num_rows());
    (0..rows.num_rows()).for_each(|row| match reader.number(row) {
        Some(seconds) => times.push_time(integer_part(seconds * f64_of(NS_PER_SEC))),
        None => times.push_null(),
    });
    rows::with_column(rows, "_time", times.finish())
}
