//! Rows formatted as a search condition, shared by `format` and `return`.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnBuilder, batch_of};

/// Field with the condition; a subsearch result with this field is used as a condition.
pub(super) const SEARCH_FIELD: &str = "search";
/// Maximum bytes of a condition.
const CONDITION_BYTES_MAX: usize = 1 << 20;

/// The value in quotes, escaped so that the parser restores it.
pub(super) fn quote(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Checks the size of a condition.
pub(super) fn check_size(bytes: usize) -> Result<(), EngineError> {
    if bytes > CONDITION_BYTES_MAX {
        let what = "the condition formed from the rows is too long; return fewer rows or fields".to_owned();
        return Err(EngineError::Limit { what, limit: "bytes", value: CONDITION_BYTES_MAX as u64 });
    }
    Ok(())
}

/// One row with the condition.
pub(super) fn condition_row(text: &str) -> Result<Vec<RecordBatch>, EngineError> {
    let mut column = ColumnBuilder::new(1);
    column.push_text(text);
    Ok(vec![batch_of([(SEARCH_FIELD, column.finish())], 1)?])
}
