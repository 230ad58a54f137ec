//! `spath`: extracts fields by JSON or XML paths.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::messages::Messages;
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_scan::spath::{Spath, for_each_path};
use quarry_spl::ast::SpathCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

/// Maximum number of fields that `spath` without a path makes from a batch of rows.
const SPATH_FIELDS_MAX: usize = 2_000;

impl Execute for SpathCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let (command, messages) = (Arc::new(self.clone()), Arc::clone(&lowering.environment.context().messages));
        if self.path.is_some() {
            let spath = Spath::new(command);
            return Ok(vec![row(move || spath.clone())]);
        }
        let every = ExtractAllPaths { command, messages };
        Ok(vec![row(move || every.clone())])
    }
}

#[derive(Clone)]
struct ExtractAllPaths {
    command: Arc<SpathCommand>,
    /// Receives the warnings about exceeded limits.
    messages: Arc<Messages>,
}

impl RowCommand for ExtractAllPaths {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        self.extract_all_paths(&rows)
    }
}

impl ExtractAllPaths {
    fn extract_all_paths(&self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let source = rows::reader(rows, &self.command.input);
        let mut names: Vec<String> = Vec::new();
        let mut places: HashMap<String, usize, foldhash::fast::FixedState> = HashMap::default();
        let mut values: Vec<Vec<(usize, String)>> = Vec::new();
        let mut scratch = String::new();
        for row in 0..rows.num_rows() {
            let Some(text) = source.text(row, &mut scratch) else { continue };
            for_each_path(text, &mut |path, value| {
                let at = match places.get(path) {
                    Some(at) => *at,
                    None if names.len() < SPATH_FIELDS_MAX => {
                        places.insert(path.to_owned(), names.len());
                        names.push(path.to_owned());
                        values.push(Vec::new());
                        names.len() - 1
                    }
                    None => {
                        self.messages.push(format!("spath created {SPATH_FIELDS_MAX} fields; the others are dropped"));
                        return;
                    }
                };
                values[at].push((row, value.into_owned()));
            });
        }
        let mut result = rows.clone();
        for (name, values) in names.into_iter().zip(values) {
            let old = rows::reader(rows, &name);
            let mut column = ColumnBuilder::new(rows.num_rows());
            let mut values = values.into_iter().peekable();
            for row in 0..rows.num_rows() {
                let mut found: Vec<Cow<'_, str>> = Vec::new();
                while let Some((_, value)) = values.next_if(|(at, _)| *at == row) {
                    found.push(Cow::Owned(value));
                }
                column.push(if found.is_empty() { old.value(row) } else { Value::multi(found) });
            }
            result = rows::with_column(&result, &name, column.finish())?;
        }
        Ok(result)
    }
}
