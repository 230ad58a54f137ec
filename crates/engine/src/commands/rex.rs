//! `rex`: fields from the named groups of a regular expression, or values rewritten by sed commands.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::pattern::{Captures, Regex, Replacement};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, Numbers};
use quarry_spl::ast::{RexCommand, RexExtraction, SedEdit, SedMatches};

use super::Execute;
use crate::lower::{Lowering, Step, row};

impl Execute for RexCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![match self {
            RexCommand::Extract(rex) => {
                let rex = Rex::new(Arc::new(rex.clone()), lowering.regex(&rex.pattern)?);
                row(move || rex.clone())
            }
            RexCommand::Sed(sed) => {
                let edits = sed.edits.iter().map(Edit::new).collect::<Result<Vec<_>, _>>()?;
                let sed = RexSed { field: sed.field.clone(), edits: Arc::new(edits), memo: Arc::default() };
                row(move || sed.clone())
            }
        }])
    }
}

/// Extracts the named groups of a regular expression.
#[derive(Clone)]
pub(crate) struct Rex {
    command: Arc<RexExtraction>,
    regex: Regex,
    /// Number and name of each named group.
    groups: Vec<(usize, String)>,
    /// What was found in values.
    memo: Arc<DistinctMemo>,
}

impl Rex {
    /// The command with its pattern compiled.
    pub(crate) fn new(command: Arc<RexExtraction>, regex: Regex) -> Rex {
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

/// Where the character behind `at` begins.
pub(crate) fn next_character(text: &str, at: usize) -> usize {
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

/// Rewrites the values of a field.
#[derive(Clone)]
struct RexSed {
    field: String,
    edits: Arc<Vec<Edit>>,
    memo: Arc<DistinctMemo>,
}

/// One sed command, compiled.
enum Edit {
    /// `s`.
    Substitute(Regex, Replacement, SedMatches),
    /// `y`.
    Transliterate(HashMap<char, char, foldhash::fast::FixedState>),
}

impl Edit {
    /// Compiles one sed command.
    fn new(edit: &SedEdit) -> Result<Edit, EngineError> {
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
