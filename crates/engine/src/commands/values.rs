//! Commands that rewrite values row by row: filldown, strcat, replace, rangemap, nomv, setfields, addinfo.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use quarry_event::TimeNs;
use quarry_event::value::{parse_number, write_nanos};
use quarry_spl::ast::{FieldPattern, RangeMapCommand, ReplaceCommand, StrcatCommand, StrcatSource};

use crate::EngineError;
use crate::command::{CommandContext, RowCommand};
use crate::field_names::{fill_wildcards, names_of, wildcard_parts};
use crate::rows::{self, ColumnBuilder, ColumnReader, MULTI_SEPARATOR, Value, is_hidden};

/// Key under which a multivalue column keeps what joins its values where one text is wanted.
pub(crate) const DELIMITER_KEY: &str = "delimiter";

/// `filldown`: a missing value becomes the one before it.
pub(crate) struct FillDown {
    fields: Vec<FieldPattern>,
    last: Vec<(String, Value<'static>)>,
}

impl FillDown {
    /// The command on these fields, or on all of them.
    pub(crate) fn new(fields: Vec<FieldPattern>) -> FillDown {
        FillDown { fields, last: Vec::new() }
    }

    fn is_filled(&self, name: &str) -> bool {
        let fits = |field: &FieldPattern| wildcard_parts(&field.text, name).is_some();
        !is_hidden(name) && (self.fields.is_empty() || self.fields.iter().any(fits))
    }
}

impl RowCommand for FillDown {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut names = names_of(&rows);
        // A field that these rows lack altogether has a value from before.
        let earlier: Vec<String> = self.last.iter().map(|(name, _)| name.clone()).collect();
        names.extend(earlier.into_iter().filter(|name| rows::column(&rows, name).is_none()));
        for name in names.into_iter().filter(|name| self.is_filled(name)).collect::<Vec<_>>() {
            let reader = rows::reader(&rows, &name);
            let at = self.last.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                self.last.push((name.clone(), Value::Null));
                self.last.len() - 1
            });
            let last = &mut self.last[at].1;
            let mut column = ColumnBuilder::new(rows.num_rows());
            for row in 0..rows.num_rows() {
                if reader.is_null(row) {
                    column.push(last.clone());
                } else {
                    column.push(reader.value(row));
                    *last = reader.value(row).into_owned();
                }
            }
            rows = rows::with_column(&rows, &name, column.finish())?;
        }
        Ok(rows)
    }
}

/// `strcat`.
pub(crate) struct Strcat(pub Arc<StrcatCommand>);

impl RowCommand for Strcat {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let readers: Vec<Option<ColumnReader>> = (self.0.sources.iter())
            .map(|source| match source {
                StrcatSource::Field(field) => Some(rows::reader(&rows, field)),
                StrcatSource::Text(_) => None,
            })
            .collect();
        let old = rows::reader(&rows, &self.0.target);
        let mut column = ColumnBuilder::new(rows.num_rows());
        let (mut joined, mut scratch) = (String::new(), String::new());
        for row in 0..rows.num_rows() {
            joined.clear();
            let mut is_complete = true;
            for (source, reader) in self.0.sources.iter().zip(&readers) {
                match (source, reader) {
                    (StrcatSource::Text(text), _) => joined.push_str(text),
                    (_, Some(reader)) => match reader.text(row, &mut scratch) {
                        Some(text) => joined.push_str(text),
                        None => is_complete = false,
                    },
                    (_, None) => {}
                }
            }
            if is_complete || !self.0.all_required {
                column.push_text(&joined);
            } else {
                column.push(old.value(row));
            }
        }
        rows::with_column(&rows, &self.0.target, column.finish())
    }
}

/// `replace`: whole values by others.
pub(crate) struct Replace {
    /// Old value, its number of fixed characters, new value; the pair to take first comes first.
    pairs: Arc<Vec<(String, String)>>,
    fields: Vec<FieldPattern>,
}

impl Replace {
    /// The command; its pairs in the order in which they are tried.
    pub(crate) fn new(command: &ReplaceCommand) -> Replace {
        // A later pair without wildcards goes before an earlier one; one with wildcards after all without, and the more
        // it spells out the earlier.
        let mut pairs: Vec<(String, String)> = command.pairs.iter().rev().cloned().collect();
        let fixed = |text: &str| text.chars().filter(|character| *character != '*').count();
        pairs.sort_by_key(|(from, _)| match from.contains('*') {
            false => (false, 0),
            true => (true, usize::MAX - fixed(from)),
        });
        Replace { pairs: Arc::new(pairs), fields: command.fields.clone() }
    }

    fn is_named(&self, name: &str) -> bool {
        if self.fields.is_empty() {
            return !name.starts_with('_');
        }
        self.fields.iter().any(|field| wildcard_parts(&field.text, name).is_some())
    }

    fn replaced(&self, value: &str) -> Option<String> {
        self.pairs.iter().find_map(|(from, to)| {
            let parts = star_parts(from, value)?;
            Some(if to.contains('*') { fill_wildcards(to, &parts) } else { to.clone() })
        })
    }
}

/// What the stars of `pattern` stand for in `text`, each the least it can, the last one the rest.
fn star_parts<'t>(pattern: &str, text: &'t str) -> Option<Vec<&'t str>> {
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
                let found: Vec<Option<String>> = texts.iter().map(|text| self.replaced(text)).collect();
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

/// `rangemap`: names of the ranges a number lies in.
pub(crate) struct RangeMap(pub Arc<RangeMapCommand>);

/// Field that rangemap writes.
const RANGE_FIELD: &str = "range";

impl RowCommand for RangeMap {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let reader = rows::reader(&rows, &self.0.field);
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            let numbers: Vec<f64> = reader.values(row).filter_map(|value| parse_number(&value)).collect();
            let holds =
                |least: f64, greatest: f64| numbers.iter().any(|number| least <= *number && *number <= greatest);
            let mut names: Vec<&str> = Vec::new();
            for (name, least, greatest) in &self.0.ranges {
                if holds(*least, *greatest) && !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
            match names.as_slice() {
                [] => column.push_text(&self.0.default),
                [name] => column.push_text(name),
                names => column.push_multi(names),
            }
        }
        rows::with_column(&rows, RANGE_FIELD, column.finish())
    }
}

/// `nomv`: the values of a field as one text.
pub(crate) struct NoMv(pub String);

impl RowCommand for NoMv {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let Ok(field) = rows.schema_ref().field_with_name(&self.0) else { return Ok(rows) };
        let delimiter = field.metadata().get(DELIMITER_KEY).map_or(MULTI_SEPARATOR, String::as_str);
        let reader = rows::reader(&rows, &self.0);
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            match reader.value(row) {
                Value::Multi(values) => column.push_text(&values.join(delimiter)),
                value => column.push(value),
            }
        }
        rows::with_column(&rows, &self.0, column.finish())
    }
}

/// Notes what joins the values of fields where one text is wanted; all fields but some when none are named.
pub(crate) struct Delimit {
    /// Fields.
    pub fields: Option<Vec<String>>,
    /// Fields that are left out.
    pub except: Vec<String>,
    /// What joins their values.
    pub delimiter: String,
}

impl RowCommand for Delimit {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let is_meant = |name: &String| {
            self.fields.as_ref().is_none_or(|fields| fields.contains(name)) && !self.except.contains(name)
        };
        let noted = rows.schema_ref().fields().iter().map(|field| match is_meant(field.name()) {
            true => {
                let note = [(DELIMITER_KEY.to_owned(), self.delimiter.clone())];
                Arc::new(Field::clone(field).with_metadata(note.into_iter().collect()))
            }
            false => Arc::clone(field),
        });
        let schema = Arc::new(Schema::new(noted.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, rows.columns().to_vec(), &options)?)
    }
}

/// Fields that have the same text in every row: setfields, addinfo.
pub(crate) struct Constants(pub Arc<Vec<(String, String)>>);

impl RowCommand for Constants {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for (name, text) in self.0.iter() {
            let texts = std::iter::repeat_n(Some(text.as_str()), rows.num_rows());
            let column: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
            debug_assert_eq!(column.len(), rows.num_rows());
            rows = rows::with_column(&rows, name, column)?;
        }
        Ok(rows)
    }
}

/// What `addinfo` tells of the search.
pub(crate) fn search_facts(context: &CommandContext) -> Vec<(String, String)> {
    let bound = |time: Option<TimeNs>, open: &str| time.map_or_else(|| open.to_owned(), with_millis);
    [
        ("info_min_time", bound(context.range.earliest, "0.000")),
        ("info_max_time", bound(context.range.latest, "+Infinity")),
        ("info_sid", context.id.to_string()),
        ("info_search_time", with_millis(context.now)),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .to_vec()
}

/// Seconds with at least three digits behind the point.
fn with_millis(time: TimeNs) -> String {
    const MILLI_DIGITS: usize = 3;
    let mut text = String::new();
    write_nanos(time, &mut text);
    let digits = match text.split_once('.') {
        Some((_, digits)) => digits.len(),
        None => {
            text.push('.');
            0
        }
    };
    text.extend(std::iter::repeat_n('0', MILLI_DIGITS.saturating_sub(digits)));
    text
}
