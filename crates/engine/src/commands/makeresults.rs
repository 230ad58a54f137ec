//! `makeresults`: generates rows, empty or from inline data.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, TimestampNanosecondArray};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::lookup::read_csv;
use quarry_eval::rows::{ColumnBuilder, RowIter, batch_of, concat_rows, null_column, of_batches, with_column};
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_pipeline::extract::json_fields;
use quarry_spl::ast::{InlineData, MakeResultsCommand};

use super::Execute;
use crate::lowering::SearchEnvironment;

/// Maximum number of rows of `makeresults`.
const ROWS_MAX: usize = 10_000_000;
/// Rows generated at once; the search can be stopped in between.
const BATCH_ROWS: usize = 16_384;

impl Execute for MakeResultsCommand {
    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        make_results(self, search.node().name(), search.context()).map(Some)
    }
}

/// The rows.
pub(crate) fn make_results(
    command: &MakeResultsCommand,
    server: String,
    context: &CommandContext,
) -> Result<RowIter, EngineError> {
    let rows = match &command.data {
        Some(InlineData::Csv(text)) => return Ok(of_batches(vec![read_csv(text)?])),
        Some(InlineData::Json(text)) => return Ok(of_batches(vec![json_rows(text, context)?])),
        None => command.count,
    };
    if rows > ROWS_MAX {
        let what = "makeresults: too many rows".to_owned();
        return Err(EngineError::Limit { what, limit: "count", value: ROWS_MAX as u64 });
    }
    let now = start_second(context);
    let server = command.annotate.then_some(server);
    let starts = (0..rows).step_by(BATCH_ROWS);
    Ok(Box::new(starts.map(move |start| empty_rows(now, BATCH_ROWS.min(rows - start), server.as_deref()))))
}

/// The second in which the search began: the time of all rows except CSV data.
fn start_second(context: &CommandContext) -> TimeNs {
    context.now.div_euclid(NS_PER_SEC) * NS_PER_SEC
}

/// `rows` rows with the time and, if a server is given, the default fields of events.
fn empty_rows(now: TimeNs, rows: usize, server: Option<&str>) -> Result<RecordBatch, EngineError> {
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from_value(now, rows));
    let mut batch = batch_of([("_time", times)], rows)?;
    if let Some(server) = server {
        for field in ["_raw", "host", "source", "sourcetype", "splunk_server_group"] {
            batch = with_column(&batch, field, null_column(rows))?;
        }
        let servers: ArrayRef = Arc::new(std::iter::repeat_n(Some(server), rows).collect::<StringViewArray>());
        batch = with_column(&batch, "splunk_server", servers)?;
    }
    Ok(batch)
}

/// One row per object of a JSON array, with the object's members as fields.
fn json_rows(text: &str, context: &CommandContext) -> Result<RecordBatch, EngineError> {
    let values: Vec<serde_json::Value> = serde_json::from_str(text)
        .map_err(|error| EngineError::invalid(format!("makeresults data is not a JSON array of objects: {error}")))?;
    let mut batches = Vec::new();
    for value in values {
        let text = value.to_string();
        let mut columns: Vec<(String, Vec<String>)> = Vec::new();
        json_fields(&text, &mut |path, value| match columns.iter_mut().find(|(name, _)| name == path) {
            Some((_, values)) => values.push(value.into_owned()),
            None => columns.push((path.to_owned(), vec![value.into_owned()])),
        });
        let time: ArrayRef = Arc::new(TimestampNanosecondArray::from_value(start_second(context), 1));
        let mut batch = batch_of([("_time", time)], 1)?;
        for (name, values) in columns {
            let mut column = ColumnBuilder::new(1);
            column.push_multi(values);
            batch = with_column(&batch, &name, column.finish())?;
        }
        batches.push(batch);
    }
    concat_rows(batches)
}
