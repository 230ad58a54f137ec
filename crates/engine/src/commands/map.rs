//! `map`: runs a search for each row, with the row's values substituted.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, RowBuffer, RowIter, is_hidden};
use quarry_spl::ast::{MapCommand, MapSearch, Span};
use quarry_spl::excerpt;

use super::Execute;
use crate::blocking::Blocking;
use crate::knowledge::macros::expand_macros;
use crate::lowering::{Environment, Lowering, Step, blocking};
use crate::subsearch::SubsearchBounds;

/// Total number of rows of all searches; the searches of further rows are not run, and a message says so.
const ROWS_MAX: usize = 1_000_000;
/// Token for the row number, from 1.
const SERIAL: &str = "_serial_id";

impl Execute for MapCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let text = match &self.search {
            // Macros are expanded before values are substituted, because a value may look like a macro.
            MapSearch::Text(text, span) => expand_quoted(text, *span, lowering)?,
            MapSearch::Saved(name, span) => lowering.environment.saved_search_text(name, *span)?,
        };
        Ok(vec![blocking(Map {
            command: self.clone(),
            text,
            rows_max: ROWS_MAX,
            environment: lowering.environment.detach(),
        })])
    }
}

/// Expands the macros in a quoted search, because macro expansion of the whole search skips quoted texts.
fn expand_quoted(text: &str, span: Span, lowering: &Lowering<'_>) -> Result<String, EngineError> {
    let knowledge = lowering.environment.knowledge();
    let expansion = expand_macros(text, knowledge.as_ref(), &lowering.expressions());
    match expansion.diagnostics.first() {
        Some(fault) => Err(EngineError::Invalid { message: format!("map: {fault}"), span: Some(span) }),
        None => Ok(expansion.text),
    }
}

/// Runs the searches.
struct Map {
    command: MapCommand,
    /// The search text; a saved search is resolved.
    text: String,
    /// Maximum number of rows of all searches.
    rows_max: usize,
    /// Environment that runs the searches.
    environment: Arc<dyn Environment + Send + Sync>,
}

impl Map {
    fn span(&self) -> Span {
        match &self.command.search {
            MapSearch::Text(_, span) | MapSearch::Saved(_, span) => *span,
        }
    }

    fn invalid(&self, message: String) -> EngineError {
        EngineError::Invalid { message, span: Some(self.span()) }
    }

    /// The search with `$field$` replaced by the row's values.
    fn substitute_row(&self, rows: &RecordBatch, row: usize, number: usize) -> Result<String, EngineError> {
        let mut out = String::with_capacity(self.text.len());
        let mut rest = self.text.as_str();
        while let Some(start) = rest.find('$') {
            out.push_str(&rest[..start]);
            let after = &rest[start + 1..];
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '{' | '}' | '-' | ' ');
            let name = after
                .find('$')
                .map(|end| &after[..end])
                .filter(|name| !name.is_empty() && name.chars().all(is_name) && name.trim() == *name);
            let Some(name) = name else {
                out.push('$');
                rest = after;
                continue;
            };
            if name == SERIAL {
                out.push_str(&number.to_string());
            } else {
                let reader = rows::reader(rows, name);
                let values: Vec<_> = reader.values(row).collect();
                if values.is_empty() {
                    return Err(self.invalid(format!("map: row {number} has no value for ${name}$")));
                }
                out.push_str(&values.join(" ").replace('\\', "\\\\").replace('"', "\\\""));
            }
            rest = &after[name.len() + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

impl Blocking for Map {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut made = RowBuffer::new("map", &context.dataflow);
        let (mut number, work) = (0, context.stop.begin_work());
        for batch in rows {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                if number >= self.command.max_searches {
                    let message = format!("map: searches ran only for the first {number} rows (maxsearches)");
                    context.messages.push(message);
                    return Ok(made.into_rows());
                }
                if context.stop.should_end_rows(work) {
                    return Ok(made.into_rows());
                }
                if made.num_rows() >= self.rows_max {
                    let max = self.rows_max;
                    context.messages.push(format!(
                        "map: searches ran only for the first {number} rows, because they returned {max} rows, the limit"
                    ));
                    return Ok(made.into_rows());
                }
                number += 1;
                let bounds = SubsearchBounds::of_count(self.rows_max - made.num_rows());
                let text = self.substitute_row(&batch, row, number)?;
                let parsed = quarry_spl::parse_with_commands(&text, &self.environment.commands().names());
                let fault = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error);
                if let Some(fault) = fault {
                    return Err(self.invalid(format!("map: `{}`: {fault}", excerpt(&text))));
                }
                let admitted = self.environment.admit(&parsed.pipeline);
                let rows = admitted.and_then(|()| self.environment.subsearch(&parsed.pipeline, bounds));
                let rows = rows.map_err(|error| match error {
                    EngineError::Invalid { message, .. } => self.invalid(format!("map: {message}")),
                    other => other,
                })?;
                for batch in rows {
                    made.push(&rows::drop_columns(&batch, is_hidden)?)?;
                }
            }
        }
        Ok(made.into_rows())
    }
}
