//! Commands that cut values out of values: rex, rex mode=sed, spath, makemv, mvexpand.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_pipeline::extract::{json_fields, json_get};
use quarry_spl::ast::{MvSplit, RexCommand, SedEdit, SedMatches, SpathCommand};

use crate::EngineError;
use crate::command::{Messages, RowCommand, Stop};
use crate::functions::xml::{is_xml, xml_fields, xml_get};
use crate::pattern::{Captures, Regex, Replacement};
use crate::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, Numbers, Value};

/// Characters that `spath` without a path reads of a value (limits.conf `[spath] extraction_cutoff`).
const SPATH_BYTES_MAX: usize = 5_000;
/// Fields that `spath` without a path makes at most.
const SPATH_FIELDS_MAX: usize = 2_000;
/// Rows one batch may grow to by `mvexpand`.
const EXPANDED_ROWS_MAX: usize = 10_000_000;

/// `rex`.
#[derive(Clone)]
pub(crate) struct Rex {
    command: Arc<RexCommand>,
    regex: Regex,
    /// Number and name of each named group.
    groups: Vec<(usize, String)>,
    /// What was found in values.
    memo: Arc<DistinctMemo>,
}

impl Rex {
    /// The command with its pattern compiled.
    pub(crate) fn new(command: Arc<RexCommand>, regex: Regex) -> Rex {
        let names = regex.group_names().iter().enumerate();
        let groups = names.filter_map(|(at, name)| Some((at, name.clone()?))).collect();
        Rex { command, regex, groups, memo: Arc::default() }
    }

    /// Every match of one text, up to the limit, as texts per group, and the places of the first.
    fn matches<'t>(
        &self,
        text: &'t str,
        captures: &mut Captures,
        found: &mut [Vec<&'t str>],
        offsets: Option<&mut String>,
    ) -> bool {
        let limit = if self.command.max_match == 0 { usize::MAX } else { self.command.max_match };
        let (mut from, mut count, mut places) = (0, 0, Vec::new());
        while count < limit && self.regex.captures_at(text, from, captures) {
            let Some((start, end)) = captures.get(0) else { break };
            for (values, (group, name)) in found.iter_mut().zip(&self.groups) {
                if let Some(value) = captures.text(text, *group) {
                    values.push(value);
                    if offsets.is_some()
                        && let Some((start, end)) = captures.get(*group)
                    {
                        places.push(format!("{name}={start}-{}", end.saturating_sub(1)));
                    }
                }
            }
            count += 1;
            from = if end > start { end } else { next_character(text, end) };
        }
        if let Some(offsets) = offsets {
            *offsets = places.join("&");
        }
        count > 0
    }
}

fn next_character(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

impl Rex {
    /// What each group found in each value, and where, if that is wanted.
    fn find(&self, values: &ArrayRef) -> Vec<ArrayRef> {
        let (source, count) = (ColumnReader::new(values), values.len());
        let mut columns: Vec<ColumnBuilder> = self.groups.iter().map(|_| ColumnBuilder::new(count)).collect();
        let mut offsets = self.command.offset_field.as_ref().map(|_| ColumnBuilder::new(0));
        let (mut scratch, mut captures) = (String::new(), self.regex.new_captures());
        for row in 0..count {
            let mut places = offsets.as_ref().map(|_| String::new());
            let text = source.text(row, &mut scratch);
            let mut found: Vec<Vec<&str>> = vec![Vec::new(); self.groups.len()];
            let matched = text.is_some_and(|text| self.matches(text, &mut captures, &mut found, places.as_mut()));
            columns.iter_mut().zip(found).for_each(|(column, values)| column.push_multi(values));
            if let (Some(offsets), Some(places)) = (&mut offsets, places) {
                if matched { offsets.push_text(&places) } else { offsets.push_null() }
            }
        }
        columns.into_iter().chain(offsets).map(ColumnBuilder::finish).collect()
    }
}

impl RowCommand for Rex {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let source = rows::column_or_null(&rows, &self.command.field);
        let by_value = self.memo.run(&source, Numbers::ByValue, |values| Ok(Some(self.find(values))))?;
        let mut found = by_value.unwrap_or_else(|| self.find(&source)).into_iter();
        let mut result = rows.clone();
        for ((_, name), column) in self.groups.iter().zip(&mut found) {
            let column = rows::column(&rows, name).map_or(Arc::clone(&column), |old| rows::first_of(&column, old));
            result = rows::with_column(&result, name, column)?;
        }
        match (&self.command.offset_field, found.next()) {
            (Some(field), Some(offsets)) => rows::with_column(&result, field, offsets),
            _ => Ok(result),
        }
    }
}

/// `rex mode=sed`.
#[derive(Clone)]
pub(crate) struct RexSed {
    field: String,
    edits: Arc<Vec<Edit>>,
    memo: Arc<DistinctMemo>,
}

/// One sed command, compiled.
pub(crate) enum Edit {
    /// `s`.
    Substitute(Regex, Replacement, SedMatches),
    /// `y`.
    Transliterate(HashMap<char, char, foldhash::fast::FixedState>),
}

impl RexSed {
    /// The command on `field`.
    pub(crate) fn new(field: String, edits: Arc<Vec<Edit>>) -> RexSed {
        RexSed { field, edits, memo: Arc::default() }
    }
}

impl Edit {
    /// Compiles one sed command.
    pub(crate) fn new(edit: &SedEdit) -> Result<Edit, EngineError> {
        match edit {
            SedEdit::Substitute { pattern, replacement, which } => {
                let invalid = |message| EngineError::Invalid { message, span: Some(pattern.span) };
                let regex = Regex::new(&pattern.text).map_err(invalid)?;
                let replacement = Replacement::new(replacement, &regex);
                Ok(Edit::Substitute(regex, replacement, *which))
            }
            SedEdit::Transliterate { from, to } => {
                Ok(Edit::Transliterate(from.iter().copied().zip(to.iter().copied()).collect()))
            }
        }
    }

    fn apply<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let changed = match self {
            Edit::Substitute(regex, replacement, SedMatches::First) => regex.replace(&text, replacement, 1),
            Edit::Substitute(regex, replacement, SedMatches::All) => regex.replace_all(&text, replacement),
            Edit::Substitute(regex, replacement, SedMatches::Nth(number)) => {
                replace_nth(regex, replacement, &text, *number)
            }
            Edit::Transliterate(map) => {
                Some(text.chars().map(|character| *map.get(&character).unwrap_or(&character)).collect())
            }
        };
        changed.map_or(text, Cow::Owned)
    }
}

/// Replaces the match of this number, from 1.
fn replace_nth(regex: &Regex, replacement: &Replacement, text: &str, number: usize) -> Option<String> {
    let (start, _) = regex.find_iter(text).nth(number.saturating_sub(1))?;
    let mut captures = regex.new_captures();
    if !regex.captures_at(text, start, &mut captures) {
        return None;
    }
    let (start, end) = captures.get(0)?;
    let mut out = text.get(..start)?.to_owned();
    replacement.expand(text, &captures, &mut out);
    out.push_str(text.get(end..)?);
    Some(out)
}

impl RowCommand for RexSed {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let values = rows::column_or_null(&rows, &self.field);
        let by_value = self.memo.run(&values, Numbers::ByValue, |values| Ok(Some(vec![self.edited(values)])))?;
        let edited = by_value.and_then(|mut columns| columns.pop()).unwrap_or_else(|| self.edited(&values));
        rows::with_column(&rows, &self.field, edited)
    }
}

impl RexSed {
    fn edited(&self, values: &ArrayRef) -> ArrayRef {
        let reader = ColumnReader::new(values);
        let mut column = ColumnBuilder::new(values.len());
        for row in 0..values.len() {
            let edited = reader.values(row).map(|value| self.edits.iter().fold(value, |text, edit| edit.apply(text)));
            column.push_multi(edited);
        }
        column.finish()
    }
}

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
