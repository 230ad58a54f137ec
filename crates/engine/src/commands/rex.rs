//! `rex`: extracts the named groups of a regular expression, or rewrites values with sed commands.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::extract::rex::Rex;
use quarry_eval::pattern::{Regex, Replacement};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling};
use quarry_spl::ast::{RexCommand, SedEdit, SedMatches};

use super::Execute;
use crate::lowering::{Lowering, Step, row};

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
                let regex = Regex::new(&pattern.text).map_err(|fault| EngineError::at(fault, pattern.span))?;
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

/// Replaces the match with this number, from 1.
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
        let by_value =
            self.memo.run(&values, NumberHandling::ByValue, |values| Ok(Some(vec![self.edit_column(values)])))?;
        let edited = by_value.and_then(|mut columns| columns.pop()).unwrap_or_else(|| self.edit_column(&values));
        rows::with_column(&rows, &self.field, edited)
    }
}

impl RexSed {
    fn edit_column(&self, values: &ArrayRef) -> ArrayRef {
        let reader = ColumnReader::new(values);
        let mut column = ColumnBuilder::new(values.len());
        for row in 0..values.len() {
            let edited = reader.values(row).map(|value| self.edits.iter().fold(value, |text, edit| edit.apply(text)));
            column.push_multi(edited);
        }
        column.finish()
    }
}
