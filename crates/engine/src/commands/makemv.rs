//! `makemv`: splits a field into several values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::extract::rex::next_character;
use quarry_eval::pattern::Regex;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling};
use quarry_spl::ast::{MakeMvCommand, MvSplit};

use super::Execute;
use super::delimiter::{DELIMITER, Delimit};
use crate::lowering::{Lowering, Step, row};

impl Execute for MakeMvCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let (split, field, allow_empty) =
            (MvSplitter::new(&self.split, lowering)?, self.field.clone(), self.allow_empty);
        let make = MakeMv { field, split, allow_empty, memo: Arc::default() };
        let mut steps = vec![row(move || make.clone())];
        if self.set_sv {
            steps.push(single_value(self));
        }
        Ok(steps)
    }
}

/// With `setsv=true`, the single value of the field is its values joined by the delimiter at which they were split; a
/// tokenizer has none, so the default delimiter is used.
fn single_value(make: &MakeMvCommand) -> Step {
    let delimiter = match &make.split {
        MvSplit::Delimiter(text) => text.clone(),
        MvSplit::Tokenizer(_) => DELIMITER.to_owned(),
    };
    let fields = Some(vec![make.field.clone()]);
    row(move || Delimit { fields: fields.clone(), except: Vec::new(), delimiter: delimiter.clone() })
}

/// Splits the values of a field.
#[derive(Clone)]
struct MakeMv {
    field: String,
    split: MvSplitter,
    /// Whether empty values stay.
    allow_empty: bool,
    /// Memo of split values.
    memo: Arc<DistinctMemo>,
}

/// [`MvSplit`], compiled.
#[derive(Clone)]
enum MvSplitter {
    /// At each occurrence.
    Delimiter(String),
    /// Group 1 of each match, or the whole match.
    Tokenizer(Regex),
}

impl MvSplitter {
    /// Compiles a tokenizer.
    fn new(split: &MvSplit, lowering: &Lowering<'_>) -> Result<MvSplitter, EngineError> {
        match split {
            MvSplit::Delimiter(delimiter) => Ok(MvSplitter::Delimiter(delimiter.clone())),
            MvSplit::Tokenizer(pattern) => Ok(MvSplitter::Tokenizer(lowering.regex(pattern)?)),
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
        let by_value = self.memo.run(&values, NumberHandling::ByValue, |values| Ok(Some(vec![self.split(values)])))?;
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
