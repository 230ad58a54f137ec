//! `fromjson`: extracts the members of a JSON object as fields.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_spl::ast::FromJsonCommand;
use serde_json::Value;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

/// Maximum number of distinct members per batch; further members are dropped.
const MEMBERS_MAX: usize = 1_000;

impl Execute for FromJsonCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || FromJson(command.clone()))])
    }
}

/// Extracts the members.
struct FromJson(FromJsonCommand);

impl RowCommand for FromJson {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.0.field);
        let mut members: Vec<(String, Vec<Option<String>>)> = Vec::new();
        for row in 0..rows.num_rows() {
            let text = reader.value(row);
            let object = text.text().and_then(|text| serde_json::from_str::<serde_json::Map<_, _>>(&text).ok());
            for (name, value) in object.into_iter().flatten() {
                let at = members.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                    members.push((name, Vec::new()));
                    members.len() - 1
                });
                if at >= MEMBERS_MAX {
                    members.truncate(MEMBERS_MAX);
                    continue;
                }
                let values = &mut members[at].1;
                values.resize(row, None);
                values.push(member_text(value));
            }
        }
        let mut result = rows.clone();
        for (name, values) in members {
            let name = format!("{}{name}", self.0.prefix);
            let old = rows::reader(&rows, &name);
            let mut column = ColumnBuilder::new(rows.num_rows());
            for row in 0..rows.num_rows() {
                match values.get(row).and_then(Option::as_ref) {
                    Some(text) => column.push_text(text),
                    None => column.push(old.value(row)),
                }
            }
            result = rows::with_column(&result, &name, column.finish())?;
        }
        Ok(result)
    }
}

/// A member's value: strings as they are, objects and arrays as JSON.
fn member_text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}
