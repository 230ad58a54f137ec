//! `erex`: learns a regular expression from example values.
//!
//! Rows that contain an example show what comes before and after it. The common suffix of the texts before the examples
//! is used, as short as possible while every example and no counterexample is found. The pattern of the value is
//! derived from the characters of the examples.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::extract::rex::Rex;
use quarry_eval::pattern::Regex;
use quarry_eval::rows::{self, RowIter, rows_in_memory};
use quarry_spl::ast::{ErexCommand, Pattern, RexExtraction};

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of characters examined before a value.
const BEFORE_MAX: usize = 30;

impl Execute for ErexCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Erex(self.clone()))])
    }
}

/// The command with its options.
struct Erex(ErexCommand);

/// An occurrence of an example.
struct Sighting {
    text: String,
    example: String,
    start: usize,
}

impl Sighting {
    fn before(&self) -> &str {
        &self.text[..self.start]
    }

    fn next(&self) -> Option<char> {
        self.text[self.start + self.example.len()..].chars().next()
    }
}

impl BlockingTable for Erex {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("erex", rows, context)?;
        if all.num_rows() == 0 {
            return Ok(vec![all]);
        }
        let sightings = self.sightings(&all);
        let Some(pattern) = self.learnt(&sightings) else {
            let message = match sightings.is_empty() {
                true => format!("erex: {} holds none of the examples", self.0.field),
                false => "erex: no regular expression fits all examples and no counterexample".to_owned(),
            };
            return Err(EngineError::Invalid { message, span: Some(self.0.span) });
        };
        let field = if self.0.field == "_raw" { String::new() } else { format!("field={} ", self.0.field) };
        let shown = pattern.replace('"', "\\\"");
        context.messages.push(format!("erex found a regular expression; in place of it: rex {field}\"{shown}\""));
        let regex = Regex::new(&pattern)?;
        let command = RexExtraction {
            field: self.0.field.clone(),
            pattern: Pattern { text: pattern, span: self.0.span },
            groups: vec![self.group()],
            max_match: 1,
            offset_field: None,
        };
        let rows = Rex::new(Arc::new(command), regex).apply(all)?;
        match self.group() == self.0.output {
            true => Ok(vec![rows]),
            false => Ok(vec![rows::rename(&rows, &self.group(), &self.0.output)?]),
        }
    }
}

impl Erex {
    /// Name of the group: the field name, if it is valid as one.
    fn group(&self) -> String {
        let letters = self.0.output.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' });
        let name: String = letters.collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
    }

    /// Occurrences of the examples as whole values in the first rows.
    fn sightings(&self, all: &RecordBatch) -> Vec<Sighting> {
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
                if let Some(start) = text.match_indices(example.as_str()).map(|(start, _)| start).find(whole) {
                    found.push(Sighting { text: text.to_owned(), example: example.clone(), start });
                }
            }
        }
        found
    }

    /// The first pattern that finds every example at its place.
    fn learnt(&self, sightings: &[Sighting]) -> Option<String> {
        let first = sightings.first()?;
        let before: Vec<char> = first.before().chars().rev().take(BEFORE_MAX).collect();
        let common = (0..before.len())
            .take_while(|at| {
                sightings.iter().all(|other| other.before().chars().rev().nth(*at) == before.get(*at).copied())
            })
            .count();
        let begins = sightings.iter().all(|sighting| sighting.before().is_empty());
        let value = self.value(sightings);
        let group = self.group();
        // Shortest prefix first; one that starts inside a word only if no other works.
        let has_word = |length: usize| before[..length].iter().any(|c| c.is_alphanumeric());
        let is_whole = |length: &usize| {
            has_word(*length) && before.get(*length).is_none_or(|c| !c.is_alphanumeric() || *length == common)
        };
        let lengths = (1..=common).filter(is_whole).chain(1..=common).chain(std::iter::once(0));
        for length in lengths {
            let head: String = before[..length].iter().rev().map(|c| escaped(*c)).collect();
            let head = if length == 0 && begins { "^".to_owned() } else { head };
            let pattern = format!("{head}(?<{group}>{value})");
            if self.fits(&pattern, sightings) {
                return Some(pattern);
            }
        }
        None
    }

    /// Character classes of the examples.
    fn value(&self, sightings: &[Sighting]) -> String {
        let all = |test: fn(char) -> bool| sightings.iter().all(|sighting| sighting.example.chars().all(test));
        if all(|c| c.is_ascii_digit()) {
            return r"\d+".to_owned();
        }
        if all(|c| c.is_ascii_digit() || c == '.') && sightings.iter().all(|s| s.example.matches('.').count() == 3) {
            return r"\d+\.\d+\.\d+\.\d+".to_owned();
        }
        if all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return r"\w+".to_owned();
        }
        let next = sightings.first().and_then(Sighting::next);
        let is_end = |c: &char| sightings.iter().all(|s| s.next() == Some(*c) && !s.example.contains(*c));
        match next.filter(is_end) {
            Some(c) if c.is_whitespace() => r"\S+".to_owned(),
            Some(c) => format!("[^{}]+", escaped(c)),
            None if all(|c| !c.is_whitespace()) => r"\S+".to_owned(),
            None => ".+".to_owned(),
        }
    }

    fn fits(&self, pattern: &str, sightings: &[Sighting]) -> bool {
        let Ok(regex) = Regex::new(pattern) else { return false };
        let finds = |text: &str, wanted: &str| regex.first_group(text).is_some_and(|found| found == wanted);
        let good = sightings.iter().all(|sighting| finds(&sighting.text, &sighting.example));
        good && !self.0.counterexamples.iter().any(|wrong| sightings.iter().any(|s| finds(&s.text, wrong)))
    }
}

/// A letter as a regular expression.
fn escaped(letter: char) -> String {
    if letter.is_alphanumeric() || letter == ' ' || letter == '_' { letter.to_string() } else { format!("\\{letter}") }
}
