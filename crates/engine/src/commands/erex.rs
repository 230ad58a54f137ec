//! `erex`: learns a regular expression from example values.
//!
//! The first rows show the texts around each example, from which [`patterns_of`] derives the pattern.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::extract::examples::{Example, patterns_of};
use quarry_eval::extract::rex::Rex;
use quarry_eval::pattern::Regex;
use quarry_eval::rows::{self, RowIter, rows_in_memory};
use quarry_spl::ast::{ErexCommand, Pattern, RexExtraction};

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for ErexCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Erex(self.clone()))])
    }
}

struct Erex(ErexCommand);

impl BlockingTable for Erex {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("erex", rows, context)?;
        if all.num_rows() == 0 {
            return Ok(vec![all.into_batch()]);
        }
        let sightings = self.occurrences(&all);
        let learnt = patterns_of(&self.group_name(), &sightings, &self.0.counterexamples, 1);
        let Some(pattern) = learnt.into_iter().next() else {
            let message = match sightings.is_empty() {
                true => format!("erex: {} contains none of the examples", self.0.field),
                false => "erex: no regular expression fits all examples and no counterexample".to_owned(),
            };
            return Err(EngineError::Invalid { message, span: Some(self.0.span) });
        };
        let field = if self.0.field == "_raw" { String::new() } else { format!("field={} ", self.0.field) };
        let shown = pattern.replace('"', "\\\"");
        context.messages.push(format!("erex found a regular expression; use it with: rex {field}\"{shown}\""));
        let regex = Regex::new(&pattern)?;
        let command = RexExtraction {
            field: self.0.field.clone(),
            pattern: Pattern { text: pattern, span: self.0.span },
            groups: vec![self.group_name()],
            max_match: 1,
            offset_field: None,
        };
        let rows = Rex::new(Arc::new(command), regex).apply(RecordBatch::clone(&all))?;
        match self.group_name() == self.0.output {
            true => Ok(vec![rows]),
            false => Ok(vec![rows::rename(&rows, &self.group_name(), &self.0.output)?]),
        }
    }
}

impl Erex {
    /// Name of the group: the field name, with `_` in place of characters that a group name cannot contain.
    fn group_name(&self) -> String {
        let letters = self.0.output.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' });
        let name: String = letters.collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
    }

    /// In each of the first rows, the first occurrence of each example that is not part of a longer word.
    fn occurrences(&self, all: &RecordBatch) -> Vec<Example> {
        let (reader, mut scratch) = (rows::reader(all, &self.0.field), String::new());
        let mut found = Vec::new();
        for row in 0..all.num_rows().min(self.0.rows) {
            let Some(text) = reader.text(row, &mut scratch) else { continue };
            for example in &self.0.examples {
                let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                let whole = |start: &usize| {
                    !is_part(text[..*start].chars().next_back())
                        && !is_part(text[start + example.len()..].chars().next())
                };
                let start = text.match_indices(example.as_str()).map(|(start, _)| start).find(whole);
                found.extend(start.and_then(|start| Example::new(text.to_owned(), start, start + example.len())));
            }
        }
        found
    }
}
