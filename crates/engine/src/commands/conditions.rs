//! Rows as the text of a search condition: what `format` and `return` share.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnBuilder, batch_of};

/// Field that holds the condition; a subsearch that ends with it is one.
pub(super) const SEARCH_FIELD: &str = "search";
/// Bytes of a condition at most.
const CONDITION_BYTES_MAX: usize = 1 << 20;

/// The value in quotes, as the parser reads it back.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Refuses a condition of too many bytes.
pub(super) fn check(bytes: usize) -> Result<(), EngineError> {
    if bytes > CONDITION_BYTES_MAX {
        let what = "condition made of rows".to_owned();
        return Err(EngineError::Limit { what, limit: "bytes", value: CONDITION_BYTES_MAX as u64 });
    }
    Ok(())
}

/// One row with the condition.
pub(super) fn condition(text: &str) -> Result<Vec<RecordBatch>, EngineError> {
    let mut column = ColumnBuilder::new(1);
    column.push_text(text);
    Ok(vec![batch_of([(SEARCH_FIELD, column.finish())], 1)?])
}
