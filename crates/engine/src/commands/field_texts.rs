//! Fields compared by `associate`, `correlate` and `arules`.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, Value, batch_of, is_hidden};

/// Maximum number of compared fields.
const FIELDS_MAX: usize = 100;

/// The texts of a field, row by row.
pub(super) struct FieldTexts {
    pub(super) name: String,
    pub(super) texts: Vec<Option<String>>,
}

/// An error when there are too many fields.
pub(super) fn check_field_count(names: &[&str], command: &str) -> Result<(), EngineError> {
    if names.len() > FIELDS_MAX {
        let what = format!("{command}: too many fields; name those to compare");
        return Err(EngineError::Limit { what, limit: "fields compared", value: FIELDS_MAX as u64 });
    }
    Ok(())
}

/// The texts of these fields; an error when there are too many.
pub(super) fn texts_of(rows: &RecordBatch, names: &[&str], command: &str) -> Result<Vec<FieldTexts>, EngineError> {
    check_field_count(names, command)?;
    let texts = |name: &str| {
        let reader = rows::reader(rows, name);
        (0..rows.num_rows()).map(|row| reader.value(row).into_text().map(|text| text.into_owned())).collect()
    };
    Ok(names.iter().map(|name| FieldTexts { name: (*name).to_owned(), texts: texts(name) }).collect())
}

/// Names of the fields that a table of results shows.
pub(super) fn shown_names(rows: &RecordBatch) -> Vec<String> {
    names_of(rows).into_iter().filter(|name| !is_hidden(name) && !name.starts_with('_')).collect()
}

/// A table of texts and numbers under these names.
pub(super) fn table_of(names: &[&str], rows: Vec<Vec<Value<'static>>>) -> Result<RecordBatch, EngineError> {
    let count = rows.len();
    let mut columns: Vec<ColumnBuilder> = names.iter().map(|_| ColumnBuilder::new(count)).collect();
    for row in rows {
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    batch_of(names.iter().copied().zip(columns.into_iter().map(ColumnBuilder::finish)), count)
}
