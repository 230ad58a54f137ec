//! Fields from the named groups of a regular expression.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::RexExtraction;

use crate::EngineError;
use crate::command::RowCommand;
use crate::pattern::{Captures, Regex};
use crate::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling};

/// Extracts the named groups of a regular expression.
#[derive(Clone)]
pub struct Rex {
    command: Arc<RexExtraction>,
    regex: Regex,
    /// Number and name of each named group.
    groups: Vec<(usize, String)>,
    /// Memo of results by value.
    memo: Arc<DistinctMemo>,
}

impl Rex {
    /// The command with a compiled pattern.
    pub fn new(command: Arc<RexExtraction>, regex: Regex) -> Rex {
        let names = regex.group_names().iter().enumerate();
        let groups = names.filter_map(|(at, name)| Some((at, name.clone()?))).collect();
        Rex { command, regex, groups, memo: Arc::default() }
    }

    /// Appends the texts that each group captured in the matches of one text, and writes their positions to `offsets`.
    /// Returns whether there is a match.
    fn matches<'t>(
        &self,
        text: &'t str,
        captures: &mut Captures,
        found: &mut [Vec<&'t str>],
        offsets: Option<&mut String>,
    ) -> bool {
        let limit = if self.command.max_match == 0 { usize::MAX } else { self.command.max_match };
        let (mut from, mut count, mut positions) = (0, 0, Vec::new());
        while count < limit && self.regex.captures_at(text, from, captures) {
            let Some((start, end)) = captures.get(0) else { break };
            for (values, (group, name)) in found.iter_mut().zip(&self.groups) {
                if let Some(value) = captures.text(text, *group) {
                    values.push(value);
                    if offsets.is_some()
                        && let Some((start, end)) = captures.get(*group)
                    {
                        positions.push(format!("{name}={start}-{}", end.saturating_sub(1)));
                    }
                }
            }
            count += 1;
            from = if end > start { end } else { next_character(text, end) };
        }
        if let Some(offsets) = offsets {
            *offsets = positions.join("&");
        }
        count > 0
    }
}

/// Start of the character after `at`.
pub fn next_character(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

impl Rex {
    /// The text of each group in each value, and the positions of the groups if requested.
    fn find(&self, values: &ArrayRef) -> Vec<ArrayRef> {
        let (source, count) = (ColumnReader::new(values), values.len());
        let mut columns: Vec<ColumnBuilder> = self.groups.iter().map(|_| ColumnBuilder::new(count)).collect();
        let mut offsets = self.command.offset_field.as_ref().map(|_| ColumnBuilder::new(0));
        let (mut scratch, mut captures) = (String::new(), self.regex.new_captures());
        for row in 0..count {
            let mut positions = offsets.as_ref().map(|_| String::new());
            let text = source.text(row, &mut scratch);
            let mut found: Vec<Vec<&str>> = vec![Vec::new(); self.groups.len()];
            let matched = text.is_some_and(|text| self.matches(text, &mut captures, &mut found, positions.as_mut()));
            columns.iter_mut().zip(found).for_each(|(column, values)| column.push_multi(values));
            if let (Some(offsets), Some(positions)) = (&mut offsets, positions) {
                if matched { offsets.push_text(&positions) } else { offsets.push_null() }
            }
        }
        columns.into_iter().chain(offsets).map(ColumnBuilder::finish).collect()
    }
}

impl RowCommand for Rex {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let source = rows::column_or_null(&rows, &self.command.field);
        let by_value = self.memo.run(&source, NumberHandling::ByValue, |values| Ok(Some(self.find(values))))?;
        let mut found = by_value.unwrap_or_else(|| self.find(&source)).into_iter();
        let mut result = rows.clone();
        for ((_, name), column) in self.groups.iter().zip(&mut found) {
            let column = rows::column(&rows, name).map_or(Arc::clone(&column), |old| rows::coalesce(&column, old));
            result = rows::with_column(&result, name, column)?;
        }
        match (&self.command.offset_field, found.next()) {
            (Some(field), Some(offsets)) => rows::with_column(&result, field, offsets),
            _ => Ok(result),
        }
    }
}
