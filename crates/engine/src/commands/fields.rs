//! `fields`: keeps or removes fields.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::{covers, matching_names, names_of};
use quarry_eval::rows::{self, is_hidden};
use quarry_spl::ast::{FieldPattern, FieldsCommand};

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for FieldsCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let fields = self.fields.clone();
        Ok(vec![match self.removes {
            true => row(move || DropFields(fields.clone())),
            false => row(move || KeepFields(fields.clone())),
        }])
    }
}

/// Keeps the matching fields, as well as `_raw` and `_time`.
struct KeepFields(Vec<FieldPattern>);

impl RowCommand for KeepFields {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names = names_of(&rows);
        let mut kept = matching_names(&self.0, &names);
        let internal = |name: &&String| matches!(name.as_str(), "_raw" | "_time") || is_hidden(name);
        for name in names.iter().filter(internal) {
            if !kept.contains(&name.as_str()) {
                kept.push(name);
            }
        }
        rows::select(&rows, &kept)
    }
}

/// Drops the matching fields.
struct DropFields(Vec<FieldPattern>);

impl RowCommand for DropFields {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        rows::drop_columns(&rows, |name| self.0.iter().any(|pattern| covers(pattern, name)))
    }
}
