//! `format`: formats the rows as one search condition in the field `search`.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnReader, RowIter};
use quarry_spl::ast::FormatCommand;

use super::Execute;
use super::conditions::{SEARCH_FIELD, check_size, condition_row, quote};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Fields whose values are used as conditions verbatim.
const CONDITION_FIELDS: [&str; 2] = [SEARCH_FIELD, "query"];

impl Execute for FormatCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(self.clone())])
    }
}

impl BlockingTable for FormatCommand {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let limit = if self.rows_max == 0 { usize::MAX } else { self.rows_max };
        let mut parts: Vec<String> = Vec::new();
        let mut bytes = 0;
        for batch in rows {
            let batch = batch?;
            let names: Vec<String> = names_of(&batch).into_iter().filter(|name| !name.starts_with('_')).collect();
            let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&batch, name)).collect();
            for row in (0..batch.num_rows()).take(limit - parts.len()) {
                let fields =
                    names.iter().zip(&readers).filter_map(|(name, reader)| format_field(self, name, reader, row));
                let fields = fields.collect::<Vec<_>>().join(&format!(" {} ", self.column_separator));
                if !fields.is_empty() {
                    parts.push(format!("{} {fields} {}", self.column_prefix, self.column_end));
                    bytes += fields.len();
                }
                check_size(bytes)?;
            }
            if parts.len() >= limit {
                break;
            }
        }
        if parts.is_empty() {
            return condition_row(&self.empty);
        }
        let rows = parts.join(&format!(" {} ", self.row_separator));
        condition_row(&format!("{} {rows} {}", self.row_prefix, self.row_end))
    }
}

/// Formats a field of a row as a condition; `None` if it has no value.
fn format_field(command: &FormatCommand, name: &str, reader: &ColumnReader, row: usize) -> Option<String> {
    let is_condition = CONDITION_FIELDS.contains(&name);
    let one = |value: &str| if is_condition { value.to_owned() } else { format!("{name}={}", quote(value)) };
    let mut values: Vec<String> = reader.values(row).map(|value| one(&value)).collect();
    match values.len() {
        0 => None,
        1 => values.pop(),
        _ => Some(format!("( {} )", values.join(&format!(" {} ", command.value_separator)))),
    }
}
