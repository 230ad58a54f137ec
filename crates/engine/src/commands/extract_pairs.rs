//! `extract`: pairs of names and values in the text of an event become fields; and the table of fields found row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_pipeline::extract::{auto_kv, clean_key};
use quarry_spl::ast::ExtractCommand;

use crate::EngineError;
use crate::command::RowCommand;
use crate::rows::{self, ColumnBuilder};
use crate::scan::fields::reports::Report;

/// Distinct names found in one batch of rows at most; others are not shown.
const NAMES_MAX: usize = 1_000;

/// Rows with a field, each with its values.
type ValuesByRow = Vec<(usize, Vec<String>)>;

/// Fields found in rows, by name in the order they are met.
#[derive(Default)]
pub(super) struct FoundFields {
    places: BTreeMap<String, usize>,
    columns: Vec<(String, ValuesByRow)>,
}

impl FoundFields {
    /// Notes a value of a row; rows come in order. A second value of a row is added or left out.
    pub(super) fn add(&mut self, row: usize, name: &str, value: &str, adds: bool) {
        let at = match self.places.get(name) {
            Some(at) => *at,
            None if self.columns.len() >= NAMES_MAX => return,
            None => {
                self.places.insert(name.to_owned(), self.columns.len());
                self.columns.push((name.to_owned(), Vec::new()));
                self.columns.len() - 1
            }
        };
        match self.columns[at].1.last_mut() {
            Some((last, values)) if *last == row => {
                if adds {
                    values.push(value.to_owned());
                }
            }
            _ => self.columns[at].1.push((row, vec![value.to_owned()])),
        }
    }

    /// The rows with these fields; values that are there already stay or give way.
    pub(super) fn into_rows(self, rows: &RecordBatch, replaces: bool) -> Result<RecordBatch, EngineError> {
        let mut result = rows.clone();
        for (name, found) in self.columns {
            let old = rows::reader(rows, &name);
            let mut column = ColumnBuilder::new(rows.num_rows());
            let mut found = found.into_iter().peekable();
            for row in 0..rows.num_rows() {
                match found.next_if(|(at, _)| *at == row) {
                    Some((_, values)) if replaces || old.is_null(row) => column.push_multi(values),
                    _ => column.push(old.value(row)),
                }
            }
            result = rows::with_column(&result, &name, column.finish())?;
        }
        Ok(result)
    }
}

/// The command.
pub(crate) struct Extract(pub Arc<ExtractCommand>);

/// The command with stanzas of transforms.conf.
pub(crate) struct ExtractByRules {
    /// The stanzas.
    pub rules: Arc<Vec<Report>>,
    /// Characters of a text that are read.
    pub chars_max: usize,
}

impl RowCommand for ExtractByRules {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut result = rows;
        for rule in self.rules.iter() {
            let (texts, mut scratch) = (rows::reader(&result, rule.source()), String::new());
            let mut found = FoundFields::default();
            for row in 0..result.num_rows() {
                let Some(text) = texts.text(row, &mut scratch) else { continue };
                let end = text.char_indices().nth(self.chars_max).map_or(text.len(), |(at, _)| at);
                rule.run(&text[..end], &mut |name, value| found.add(row, name, value, rule.adds_values()));
            }
            result = found.into_rows(&result, false)?;
        }
        Ok(result)
    }
}

impl RowCommand for Extract {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let texts = rows::reader(&rows, "_raw");
        let (mut found, mut scratch) = (FoundFields::default(), String::new());
        for row in 0..rows.num_rows() {
            let Some(text) = texts.text(row, &mut scratch) else { continue };
            let end = text.char_indices().nth(self.0.chars_max).map_or(text.len(), |(at, _)| at);
            let (text, mut left) = (&text[..end], self.0.limit);
            let mut add = |key: &str, value: &str| {
                if left == 0 || key.is_empty() || value.is_empty() {
                    return;
                }
                left -= 1;
                if self.0.clean_keys {
                    found.add(row, &clean_key(key), value, self.0.adds_values);
                } else {
                    found.add(row, key, value, self.0.adds_values);
                }
            };
            match &self.0.delimiters {
                None => auto_kv(text, &mut |key, value| add(key, value)),
                Some((pair, name)) => delimited(text, pair, name, &mut add),
            }
        }
        found.into_rows(&rows, false)
    }
}

/// The pairs of a text whose ends and middles are marked by any of these characters; quoted parts are whole.
fn delimited(text: &str, pair: &str, name: &str, found: &mut dyn FnMut(&str, &str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let end = unquoted(rest, pair).unwrap_or(rest.len());
        let part = &rest[..end];
        if let Some(at) = unquoted(part, name) {
            let value = part[at..].trim_start_matches(|c| name.contains(c));
            found(bare(&part[..at]), bare(value));
        }
        let next = rest[end..].chars().next().map_or(0, char::len_utf8);
        rest = &rest[end + next..];
    }
}

/// Where the first of these characters stands outside double quotes.
fn unquoted(text: &str, marks: &str) -> Option<usize> {
    let mut quoted = false;
    // A quote that never ends quotes nothing.
    let closes = |at: usize| text[at + 1..].contains('"');
    for (at, c) in text.char_indices() {
        match c {
            '"' if marks.contains('"') => return Some(at),
            '"' if quoted => quoted = false,
            '"' => quoted = closes(at),
            c if !quoted && marks.contains(c) => return Some(at),
            _ => {}
        }
    }
    None
}

/// A name or value without blanks and quotes around it.
fn bare(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(text)
}
