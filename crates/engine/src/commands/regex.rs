//! `regex`: keeps the rows whose field matches a regular expression.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::pattern::Regex;
use quarry_eval::rows::{self, ColumnReader, DistinctMemo, NumberHandling};
use quarry_spl::ast::RegexCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for RegexCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let (regex, field, negated) = (lowering.regex(&self.pattern)?, self.field.clone(), self.negated);
        let filter = RegexFilter { field, regex, negated, memo: Arc::default() };
        Ok(vec![row(move || filter.clone())])
    }
}

/// Keeps matching rows. A missing field matches nothing, so `!=` keeps the row.
#[derive(Clone)]
struct RegexFilter {
    field: String,
    regex: Regex,
    negated: bool,
    /// Results by value.
    memo: Arc<DistinctMemo>,
}

impl RowCommand for RegexFilter {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let column = rows::column_or_null(&rows, &self.field);
        let by_value = self
            .memo
            .run(&column, NumberHandling::ByValue, |values| Ok(Some(vec![Arc::new(self.row_mask(values))])))?;
        let kept = by_value.and_then(|kept| Some(kept.first()?.as_boolean_opt()?.clone()));
        rows::filter(&rows, &kept.unwrap_or_else(|| self.row_mask(&column)))
    }
}

impl RegexFilter {
    /// Mask of the rows that pass the filter: one of their values matches or, with `!=`, none matches.
    fn row_mask(&self, column: &ArrayRef) -> BooleanArray {
        let reader = ColumnReader::new(column);
        let matches = |row| reader.values(row).any(|value| self.regex.is_match(&value));
        (0..column.len()).map(|row| Some(matches(row) != self.negated)).collect()
    }
}
