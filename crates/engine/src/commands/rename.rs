//! `rename`: renames fields.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::{fill_wildcards, names_of, wildcard_parts};
use quarry_eval::rows::{self, is_hidden};
use quarry_spl::ast::{FieldPattern, RenameCommand};

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for RenameCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let pairs = self.pairs.clone();
        Ok(vec![row(move || Rename(pairs.clone()))])
    }
}

/// Old and new names.
struct Rename(Vec<(FieldPattern, FieldPattern)>);

impl RowCommand for Rename {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for (from, to) in &self.0 {
            if !from.is_wildcard() {
                // If the source field is missing, the values of an existing target are removed.
                let missing = rows::column(&rows, &from.text).is_none();
                rows = match missing && from.text != to.text {
                    true => rows::drop_columns(&rows, |name| name == to.text)?,
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
