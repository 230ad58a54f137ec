//! `tojson`: formats fields of a row as a JSON object.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::{names_of, wildcard_parts};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, is_hidden};
use quarry_event::value::{Number, parse_canonical_number};
use quarry_spl::ast::{JsonType, ToJsonCommand};
use serde_json::Value as Json;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for ToJsonCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = Arc::new(self.clone());
        Ok(vec![row(move || ToJson(Arc::clone(&command)))])
    }
}

struct ToJson(Arc<ToJsonCommand>);

impl RowCommand for ToJson {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let fields: Vec<(String, JsonType, ColumnReader)> = names_of(&rows)
            .into_iter()
            .filter_map(|name| self.kind_of(&name).map(|kind| (kind, name)))
            .map(|(kind, name)| {
                let reader = rows::reader(&rows, &name);
                (name, kind, reader)
            })
            .collect();
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            let mut text = String::from("{");
            for (name, kind, reader) in &fields {
                let mut values: Vec<Json> =
                    reader.values(row).filter_map(|value| json_of(&value, *kind, self.0.fill_null)).collect();
                let value = match (values.len(), reader.values(row).nth(1).is_some()) {
                    (0, _) if self.0.fill_null => Json::Null,
                    (0, _) => continue,
                    (_, true) => Json::Array(values),
                    (_, false) => values.swap_remove(0),
                };
                if text.len() > 1 {
                    text.push(',');
                }
                text.push_str(&format!("{}:{value}", Json::String(name.clone())));
            }
            text.push('}');
            column.push_text(&text);
        }
        rows::with_column(&rows, &self.0.output, column.finish())
    }
}

impl ToJson {
    /// Type in which a field is written; `None` omits it.
    fn kind_of(&self, name: &str) -> Option<JsonType> {
        if is_hidden(name) {
            return None;
        }
        let internal = name.starts_with('_');
        if self.0.fields.is_empty() {
            return (self.0.internal || !internal).then_some(self.0.default_type);
        }
        let fits = |pattern: &str| {
            wildcard_parts(pattern, name).is_some() && (!internal || self.0.internal || pattern.starts_with('_'))
        };
        self.0.fields.iter().find(|(_, pattern)| fits(pattern)).map(|(kind, _)| *kind)
    }
}

/// Converts a value to JSON of a type. If that is not possible, the result is `null` with `fills`, otherwise `None`.
fn json_of(text: &str, kind: JsonType, fills: bool) -> Option<Json> {
    let number = || {
        parse_canonical_number(text).and_then(|number| match number {
            Number::Int(number) => Some(Json::from(number)),
            number => serde_json::Number::from_f64(number.as_f64()).map(Json::Number),
        })
    };
    let plain = || Json::String(text.to_owned());
    let written = match kind {
        JsonType::Str => Some(plain()),
        JsonType::None => Some(number().unwrap_or_else(plain)),
        JsonType::Num => number()
            .or_else(|| text.trim().parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Json::Number)),
        JsonType::Json => serde_json::from_str(text).ok(),
        JsonType::Bool => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "1" => Some(Json::Bool(true)),
            "false" | "f" | "no" | "0" => Some(Json::Bool(false)),
            _ => None,
        },
        JsonType::Auto => Some(number().unwrap_or_else(|| match text.to_ascii_lowercase().as_str() {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            "null" => Json::Null,
            _ if text.starts_with(['{', '[']) => serde_json::from_str(text).unwrap_or_else(|_| plain()),
            _ => plain(),
        })),
    };
    written.or(fills.then_some(Json::Null))
}
