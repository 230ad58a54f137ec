//! `multikv`: returns a row for each row of a table in an event's text.
//!
//! Not here: parsing the table ([`quarry_eval::extract::multikv`]).

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::extract::multikv::TableReader;
use quarry_eval::extract::multikv::rules::TableRule;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_spl::ast::{MultiKvCommand, Span};
use quarry_stdx::number::u32_of;

use super::Execute;
use super::extracted_fields::FoundFields;
use crate::lowering::{Lowering, Step, row};

/// Maximum number of rows from the texts of one batch.
const ROWS_MAX: usize = 5_000_000;

impl Execute for MultiKvCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let rule = self.rule.as_ref().map(|(name, span)| table_rule(lowering, name, *span)).transpose()?;
        let command = MultiKv(TableReader { command: Arc::new(self.clone()), rule });
        Ok(vec![row(move || command.clone())])
    }
}

/// The rule of a multikv.conf stanza.
fn table_rule(lowering: &Lowering<'_>, name: &str, span: Span) -> Result<Arc<TableRule>, EngineError> {
    let invalid = |message: String| EngineError::Invalid { message, span: Some(span) };
    let knowledge = lowering.environment.knowledge();
    let settings = knowledge.table_rule(name).ok_or_else(|| {
        let known = knowledge.table_rules();
        let known = if known.is_empty() { "it is empty".to_owned() } else { format!("it has {}", known.join(", ")) };
        invalid(format!("multikv: multikv.conf has no stanza {name}; {known}"))
    })?;
    let rule = TableRule::new(&settings).map_err(|fault| invalid(format!("multikv.conf [{name}]: {fault}")))?;
    Ok(Arc::new(rule))
}

#[derive(Clone)]
struct MultiKv(TableReader);

impl RowCommand for MultiKv {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (texts, mut scratch) = (rows::reader(&rows, "_raw"), String::new());
        let (mut places, mut lines, mut found) = (Vec::new(), Vec::new(), FoundFields::default());
        for row in 0..rows.num_rows() {
            let Some(text) = texts.text(row, &mut scratch) else { continue };
            if !self.0.command.removes_event {
                places.push(u32_of(row));
                lines.push(text.to_owned());
            }
            let fields = &self.0.command.fields;
            self.0.rows(text, &mut |line, cells| {
                let at = places.len();
                places.push(u32_of(row));
                lines.push(line.to_owned());
                for (name, value) in cells {
                    if fields.is_empty() || fields.contains(&name) {
                        found.add(at, &name, &value, false);
                    }
                }
            });
            if places.len() > ROWS_MAX {
                let what = "multikv: the tables have too many rows".to_owned();
                return Err(EngineError::Limit { what, limit: "rows of tables", value: ROWS_MAX as u64 });
            }
        }
        let count = places.len();
        let mut raw = ColumnBuilder::new(count);
        lines.iter().for_each(|line| raw.push_text(line));
        let copied = match self.0.command.copies_fields {
            true => rows::take(&rows, &UInt32Array::from(places))?,
            false => rows::batch_of([("_raw", rows::null_column(count))], count)?,
        };
        found.into_rows(&rows::with_column(&copied, "_raw", raw.finish())?, true)
    }
}
