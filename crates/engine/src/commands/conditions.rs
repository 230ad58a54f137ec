//! `format` and `return`: rows as the text of a condition, in the field `search`.

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{FormatCommand, ReturnCommand, ReturnItem};

use crate::EngineError;
use crate::command::{BlockingTable, CommandContext, RowIter};
use crate::field_names::names_of;
use crate::rows::{self, ColumnBuilder, ColumnReader, batch_of};

/// Field that holds the condition; a subsearch that ends with it is one.
const SEARCH_FIELD: &str = "search";
/// Fields whose values are conditions themselves.
const CONDITION_FIELDS: [&str; 2] = [SEARCH_FIELD, "query"];
/// Bytes of a condition at most.
const CONDITION_BYTES_MAX: usize = 1 << 20;

/// `format`.
pub(crate) struct Format(pub FormatCommand);

impl BlockingTable for Format {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let format = &self.0;
        let limit = if format.rows_max == 0 { usize::MAX } else { format.rows_max };
        let mut parts: Vec<String> = Vec::new();
        let mut bytes = 0;
        for batch in rows {
            let batch = batch?;
            let names: Vec<String> = names_of(&batch).into_iter().filter(|name| !name.starts_with('_')).collect();
            let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&batch, name)).collect();
            for row in (0..batch.num_rows()).take(limit - parts.len()) {
                let fields = names.iter().zip(&readers).filter_map(|(name, reader)| self.field(name, reader, row));
                let fields = fields.collect::<Vec<_>>().join(&format!(" {} ", format.column_separator));
                if !fields.is_empty() {
                    parts.push(format!("{} {fields} {}", format.column_prefix, format.column_end));
                    bytes += fields.len();
                }
                check(bytes)?;
            }
            if parts.len() >= limit {
                break;
            }
        }
        if parts.is_empty() {
            return condition(&format.empty);
        }
        let rows = parts.join(&format!(" {} ", format.row_separator));
        condition(&format!("{} {rows} {}", format.row_prefix, format.row_end))
    }
}

impl Format {
    /// A field of a row as a condition; none where it has no value.
    fn field(&self, name: &str, reader: &ColumnReader, row: usize) -> Option<String> {
        let is_condition = CONDITION_FIELDS.contains(&name);
        let one = |value: &str| if is_condition { value.to_owned() } else { format!("{name}={}", quoted(value)) };
        let mut values: Vec<String> = reader.values(row).map(|value| one(&value)).collect();
        match values.len() {
            0 => None,
            1 => values.pop(),
            _ => Some(format!("( {} )", values.join(&format!(" {} ", self.0.value_separator)))),
        }
    }
}

/// `return`.
pub(crate) struct Return(pub ReturnCommand);

impl BlockingTable for Return {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let (mut parts, mut taken, mut bytes) = (Vec::new(), 0, 0);
        for batch in rows {
            let batch = batch?;
            for row in (0..batch.num_rows()).take(self.0.count - taken) {
                taken += 1;
                let items = self.0.items.iter().filter_map(|item| written(item, &batch, row));
                let text = items.collect::<Vec<_>>().join(" ");
                bytes += text.len();
                check(bytes)?;
                if !text.is_empty() {
                    parts.push(text);
                }
            }
            if taken >= self.0.count {
                break;
            }
        }
        match parts.as_slice() {
            [] => Ok(Vec::new()),
            [only] => condition(only),
            parts => {
                let parts: Vec<String> = parts.iter().map(|part| format!("({part})")).collect();
                condition(&parts.join(" OR "))
            }
        }
    }
}

fn written(item: &ReturnItem, rows: &RecordBatch, row: usize) -> Option<String> {
    let mut scratch = String::new();
    match item {
        ReturnItem::Pair { name, field } => {
            let reader = rows::reader(rows, field);
            Some(format!("{name}={}", quoted(reader.text(row, &mut scratch)?)))
        }
        ReturnItem::Value(field) => rows::reader(rows, field).text(row, &mut scratch).map(str::to_owned),
    }
}

/// The value in quotes, as the parser reads it back.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn check(bytes: usize) -> Result<(), EngineError> {
    if bytes > CONDITION_BYTES_MAX {
        let what = "condition made of rows".to_owned();
        return Err(EngineError::Limit { what, limit: "bytes", value: CONDITION_BYTES_MAX as u64 });
    }
    Ok(())
}

/// One row with the condition.
fn condition(text: &str) -> Result<Vec<RecordBatch>, EngineError> {
    let mut column = ColumnBuilder::new(1);
    column.push_text(text);
    Ok(vec![batch_of([(SEARCH_FIELD, column.finish())], 1)?])
}
