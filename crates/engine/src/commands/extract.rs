//! Commands that cut values out of values: spath, makemv, mvexpand.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_pipeline::extract::{json_fields, json_get};
use quarry_spl::ast::{MvSplit, SpathCommand};

use super::rex::next_character;
use crate::EngineError;
use crate::command::{Messages, RowCommand, Stop};
use crate::functions::xml::{is_xml, xml_fields, xml_get};
use crate::pattern::Regex;
use crate::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, Numbers, Value};

/// Characters that `spath` without a path reads of a value (limits.conf `[spath] extraction_cutoff`).
const SPATH_BYTES_MAX: usize = 5_000;
/// Fields that `spath` without a path makes at most.
const SPATH_FIELDS_MAX: usize = 2_000;
/// Rows one batch may grow to by `mvexpand`.
const EXPANDED_ROWS_MAX: usize = 10_000_000;

/// `spath`.
#[derive(Clone)]
pub(crate) struct Spath {
    /// Command.
    pub command: Arc<SpathCommand>,
    /// Where limits are reported.
    pub messages: Arc<Messages>,
    /// What values hold at the path.
    pub memo: Arc<DistinctMemo>,
}

impl RowCommand for Spath {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        match &self.command.path {
            Some(path) => self.one_path(&rows, path),
            None => self.every_path(&rows),
        }
    }
}

/// The values at a path of JSON or XML.
fn values_at<'t>(text: &'t str, path: &str) -> Vec<Cow<'t, str>> {
    if is_xml(text) { xml_get(text, path) } else { json_get(text, path) }
}

fn every_value(text: &str, found: &mut dyn FnMut(&str, String)) {
    if is_xml(text) {
        xml_fields(text, &mut |path, value| found(path, value.to_owned()));
    } else {
        json_fields(text, &mut |path, value| found(path, value.into_owned()));
    }
}

impl Spath {
    fn one_path(&self, rows: &RecordBatch, path: &str) -> Result<RecordBatch, EngineError> {
        let output = self.command.output.as_deref().unwrap_or(path);
        let source = rows::column_or_null(rows, &self.command.input);
        let at_path = |values: &ArrayRef| {
            let reader = ColumnReader::new(values);
            let (mut column, mut scratch) = (ColumnBuilder::new(values.len()), String::new());
            for row in 0..values.len() {
                let found = reader.text(row, &mut scratch).map(|text| values_at(text, path)).unwrap_or_default();
                column.push_multi(found);
            }
            column.finish()
        };
        let by_value = self.memo.run(&source, Numbers::ByValue, |values| Ok(Some(vec![at_path(values)])))?;
        let found = by_value.and_then(|mut columns| columns.pop()).unwrap_or_else(|| at_path(&source));
        let found = rows::column(rows, output).map_or(Arc::clone(&found), |old| rows::first_of(&found, old));
        rows::with_column(rows, output, found)
    }

    fn every_path(&self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let source = rows::reader(rows, &self.command.input);
        let mut names: Vec<String> = Vec::new();
        let mut places: HashMap<String, usize, foldhash::fast::FixedState> = HashMap::default();
        let mut values: Vec<Vec<(usize, String)>> = Vec::new();
        let mut scratch = String::new();
        for row in 0..rows.num_rows() {
            let Some(text) = source.text(row, &mut scratch) else { continue };
            every_value(first_bytes(text, SPATH_BYTES_MAX), &mut |path, value| {
                let at = match places.get(path) {
                    Some(at) => *at,
                    None if names.len() < SPATH_FIELDS_MAX => {
                        places.insert(path.to_owned(), names.len());
                        names.push(path.to_owned());
                        values.push(Vec::new());
                        names.len() - 1
                    }
                    None => {
                        self.messages.push(format!("spath made {SPATH_FIELDS_MAX} fields; the others are dropped"));
                        return;
                    }
                };
                values[at].push((row, value));
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

/// At most so many bytes of the text, cut at a character.
fn first_bytes(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `makemv`.
#[derive(Clone)]
pub(crate) struct MakeMv {
    /// Field split.
    pub field: String,
    /// How.
    pub split: MvSplitter,
    /// Whether empty values stay.
    pub allow_empty: bool,
    /// Values that were split.
    pub memo: Arc<DistinctMemo>,
}

/// [`MvSplit`], compiled.
#[derive(Clone)]
pub(crate) enum MvSplitter {
    /// At each occurrence.
    Delimiter(String),
    /// Group 1 of each match, or the match.
    Tokenizer(Regex),
}

impl MvSplitter {
    /// Compiles a tokenizer.
    pub(crate) fn new(split: &MvSplit) -> Result<MvSplitter, EngineError> {
        match split {
            MvSplit::Delimiter(delimiter) => Ok(MvSplitter::Delimiter(delimiter.clone())),
            MvSplit::Tokenizer(pattern) => {
                let invalid = |message| EngineError::Invalid { message, span: Some(pattern.span) };
                Ok(MvSplitter::Tokenizer(Regex::new(&pattern.text).map_err(invalid)?))
            }
        }
    }

    fn split<'t>(&self, text: &'t str) -> Vec<&'t str> {
        match self {
            MvSplitter::Delimiter(delimiter) if delimiter.is_empty() => vec![text],
            MvSplitter::Delimiter(delimiter) => text.split(delimiter.as_str()).collect(),
            MvSplitter::Tokenizer(regex) => {
                let mut captures = regex.new_captures();
                let group = usize::from(regex.group_count() > 1);
                let mut values = Vec::new();
                let mut from = 0;
                while regex.captures_at(text, from, &mut captures) {
                    let Some((start, end)) = captures.get(0) else { break };
                    values.extend(captures.text(text, group));
                    from = if end > start { end } else { next_character(text, end) };
                }
                values
            }
        }
    }
}

impl RowCommand for MakeMv {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let values = rows::column_or_null(&rows, &self.field);
        let by_value = self.memo.run(&values, Numbers::ByValue, |values| Ok(Some(vec![self.split(values)])))?;
        let split = by_value.and_then(|mut columns| columns.pop()).unwrap_or_else(|| self.split(&values));
        rows::with_column(&rows, &self.field, split)
    }
}

impl MakeMv {
    fn split(&self, values: &ArrayRef) -> ArrayRef {
        let reader = ColumnReader::new(values);
        let mut column = ColumnBuilder::new(values.len());
        let mut scratch = String::new();
        for row in 0..values.len() {
            let Some(text) = reader.text(row, &mut scratch) else {
                column.push_null();
                continue;
            };
            let values = self.split.split(text).into_iter().filter(|value| self.allow_empty || !value.is_empty());
            column.push_multi(values);
        }
        column.finish()
    }
}

/// `mvexpand`.
pub(crate) struct MvExpand {
    /// Field expanded.
    pub field: String,
    /// Values per row; 0 is all.
    pub limit: usize,
    /// Where a reached limit is reported.
    pub messages: Arc<Messages>,
    /// Told that rows are missing.
    pub stop: Arc<Stop>,
}

impl RowCommand for MvExpand {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        if rows::column(&rows, &self.field).is_none() {
            return Ok(rows);
        }
        let reader = rows::reader(&rows, &self.field);
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        let (mut places, mut column) = (Vec::new(), ColumnBuilder::new(rows.num_rows()));
        for row in 0..rows.num_rows() {
            if places.len() >= EXPANDED_ROWS_MAX {
                self.stop.mark_partial();
                self.messages
                    .push(format!("mvexpand made {EXPANDED_ROWS_MAX} rows of one batch; the others are dropped"));
                break;
            }
            let start = places.len();
            for value in reader.values(row).take(limit.min(EXPANDED_ROWS_MAX)) {
                places.push(row as u32);
                column.push_text(&value);
            }
            if places.len() == start {
                places.push(row as u32);
                column.push_null();
            }
        }
        // The lists themselves are not repeated for each of their values.
        let others = rows::with_column(&rows, &self.field, rows::null_column(rows.num_rows()))?;
        let expanded = rows::take(&others, &UInt32Array::from(places))?;
        rows::with_column(&expanded, &self.field, column.finish())
    }
}
