//! `replace`: replaces whole values with other values.

use std::borrow::Cow;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::{fill_wildcards, names_of, wildcard_parts};
use quarry_eval::rows::{self, ColumnBuilder, Value};
use quarry_spl::ast::{FieldPattern, ReplaceCommand};

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for ReplaceCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let command = self.clone();
        Ok(vec![row(move || Replace::new(&command))])
    }
}

/// The pairs in the order in which they are tried.
struct Replace {
    /// Old and new value.
    pairs: Vec<(String, String)>,
    fields: Vec<FieldPattern>,
}

impl Replace {
    fn new(command: &ReplaceCommand) -> Replace {
        // Pairs without wildcards come before pairs with wildcards, of which those with more other characters come
        // first; otherwise, later pairs come first.
        let mut pairs: Vec<(String, String)> = command.pairs.iter().rev().cloned().collect();
        let fixed = |text: &str| text.chars().filter(|character| *character != '*').count();
        pairs.sort_by_key(|(from, _)| match from.contains('*') {
            false => (false, 0),
            true => (true, usize::MAX - fixed(from)),
        });
        Replace { pairs, fields: command.fields.clone() }
    }

    fn is_named(&self, name: &str) -> bool {
        if self.fields.is_empty() {
            return !name.starts_with('_');
        }
        self.fields.iter().any(|field| wildcard_parts(&field.text, name).is_some())
    }

    fn replace_value(&self, value: &str) -> Option<String> {
        self.pairs.iter().find_map(|(from, to)| {
            let parts = wildcard_matches(from, value)?;
            Some(if to.contains('*') { fill_wildcards(to, &parts) } else { to.clone() })
        })
    }
}

/// Texts matched by the wildcards of `pattern` in `text`, each as short as possible; the last wildcard takes the
/// remaining text.
fn wildcard_matches<'t>(pattern: &str, text: &'t str) -> Option<Vec<&'t str>> {
    let mut pieces = pattern.split('*');
    let mut rest = text.strip_prefix(pieces.next()?)?;
    let mut parts = Vec::new();
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty().then_some(parts);
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            parts.push(rest.strip_suffix(piece)?);
            break;
        }
        let at = rest.find(piece)?;
        parts.push(&rest[..at]);
        rest = &rest[at + piece.len()..];
    }
    Some(parts)
}

impl RowCommand for Replace {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for name in names_of(&rows).into_iter().filter(|name| self.is_named(name)).collect::<Vec<_>>() {
            let reader = rows::reader(&rows, &name);
            let mut column = ColumnBuilder::new(rows.num_rows());
            let mut is_changed = false;
            for row in 0..rows.num_rows() {
                let texts: Vec<Cow<'_, str>> = reader.values(row).collect();
                let found: Vec<Option<String>> = texts.iter().map(|text| self.replace_value(text)).collect();
                if found.iter().all(Option::is_none) {
                    column.push(reader.value(row));
                    continue;
                }
                is_changed = true;
                let values = texts.into_iter().zip(found).map(|(text, new)| new.map_or(text, Cow::Owned));
                column.push(Value::multi(values.collect()));
            }
            if is_changed {
                rows = rows::with_column(&rows, &name, column.finish())?;
            }
        }
        Ok(rows)
    }
}
