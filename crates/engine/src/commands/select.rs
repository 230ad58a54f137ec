//! Commands that choose and name columns: fields, table, rename.

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::FieldPattern;

use crate::EngineError;
use crate::command::RowCommand;
use crate::field_names::{fill_wildcards, matching, names_of, wildcard_parts};
use crate::rows::{self, is_hidden};

/// `fields + ...`: keeps the fields that fit, and the event's `_raw` and `_time`.
pub(crate) struct KeepFields(pub Vec<FieldPattern>);

impl RowCommand for KeepFields {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names = names_of(&rows);
        let mut kept = matching(&self.0, &names);
        let internal = |name: &&String| matches!(name.as_str(), "_raw" | "_time") || is_hidden(name);
        for name in names.iter().filter(internal) {
            if !kept.contains(&name.as_str()) {
                kept.push(name);
            }
        }
        rows::select(&rows, &kept)
    }
}

/// `fields - ...`: drops the fields that fit.
pub(crate) struct DropFields(pub Vec<FieldPattern>);

impl RowCommand for DropFields {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        rows::without(&rows, |name| self.0.iter().any(|pattern| fits(pattern, name)))
    }
}

/// Whether a name fits. A pattern that does not begin with `_` leaves internal fields alone.
fn fits(pattern: &FieldPattern, name: &str) -> bool {
    let internal = name.starts_with('_');
    (!internal || pattern.text.starts_with('_')) && wildcard_parts(&pattern.text, name).is_some()
}

/// Whether no row has a value.
fn is_empty(column: &ArrayRef) -> bool {
    column.logical_null_count() == column.len()
}

/// `table`: exactly the listed fields, in this order; a listed name that no row has is an empty column.
pub(crate) struct Table(pub Vec<FieldPattern>);

impl RowCommand for Table {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names = names_of(&rows);
        let mut kept: Vec<&str> = Vec::new();
        for pattern in &self.0 {
            // A pattern lists what occurs in the rows.
            let occurs = |name: &str| rows::column(&rows, name).is_some_and(|column| !is_empty(column));
            let found = names.iter().map(String::as_str).filter(|name| fits(pattern, name) && occurs(name));
            let listed: Vec<&str> = if pattern.is_wildcard() { found.collect() } else { vec![&pattern.text] };
            listed.into_iter().for_each(|name| {
                if !kept.contains(&name) {
                    kept.push(name);
                }
            });
        }
        rows::select(&rows, &kept)
    }
}

/// `rename`.
pub(crate) struct Rename(pub Vec<(FieldPattern, FieldPattern)>);

impl RowCommand for Rename {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for (from, to) in &self.0 {
            if !from.is_wildcard() {
                // A missing source takes the values of an existing target with it.
                let missing = rows::column(&rows, &from.text).is_none();
                rows = match missing && from.text != to.text {
                    true => rows::without(&rows, |name| name == to.text)?,
                    false => rows::rename(&rows, &from.text, &to.text)?,
                };
                continue;
            }
            for name in names_of(&rows) {
                if is_hidden(&name) || (name.starts_with('_') && !from.text.starts_with('_')) {
                    continue;
                }
                if let Some(parts) = wildcard_parts(&from.text, &name) {
                    rows = rows::rename(&rows, &name, &fill_wildcards(&to.text, &parts))?;
                }
            }
        }
        Ok(rows)
    }
}
