//! `fillnull`: fills missing values with a default.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{
    ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling, RowBuffer, RowIter, Value, is_hidden,
};
use quarry_event::value::{MAX_EXACT_INTEGER, Number, parse_canonical_number};
use quarry_spl::ast::FillNullCommand;
use quarry_stdx::number::{f64_of, integer_part};

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking, names, row};
use crate::new_columns::NewColumns;

impl Execute for FillNullCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let value = self.value.clone();
        if self.fields.is_empty() {
            return Ok(vec![blocking(FillAll { value })]);
        }
        let memos = Arc::new(self.fields.iter().map(|_| DistinctMemo::default()).collect());
        let fill = FillFields { value, fields: names(&self.fields), memos };
        Ok(vec![row(move || fill.clone())])
    }
}

/// The column with `value` where it is null.
fn fill(column: &ArrayRef, value: &str) -> ArrayRef {
    let reader = ColumnReader::new(column);
    let has_gaps = (0..column.len()).any(|row| reader.is_null(row));
    if !has_gaps {
        return Arc::clone(column);
    }
    let mut filled = ColumnBuilder::new(column.len());
    let number = match (&reader, parse_canonical_number(value)) {
        (ColumnReader::Int(_), Some(Number::Int(number))) => Some(Value::Int(number)),
        // Only a number that a double represents exactly keeps its text.
        (ColumnReader::Float(_), Some(Number::Float(number))) => Some(Value::Float(number)),
        (ColumnReader::Float(_), Some(Number::Int(number)))
            if number.unsigned_abs() <= integer_part::<u64>(MAX_EXACT_INTEGER) =>
        {
            Some(Value::Float(f64_of(number)))
        }
        _ => None,
    };
    for row in 0..column.len() {
        match (&number, reader.is_null(row)) {
            (_, false) => filled.push(reader.value(row)),
            (Some(number), true) => filled.push(number.clone()),
            (None, true) => filled.push_text(value),
        }
    }
    filled.finish()
}

/// Fills the fields of a list; missing fields are created.
#[derive(Clone)]
struct FillFields {
    value: String,
    fields: Vec<String>,
    /// For each field, a memo of filled values.
    memos: Arc<Vec<DistinctMemo>>,
}

impl RowCommand for FillFields {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut rows = NewColumns::of(rows);
        for (field, memo) in self.fields.iter().zip(self.memos.iter()) {
            let column = rows.column(field);
            let by_value = match column.null_count() {
                0 => None,
                _ => memo.run(&column, NumberHandling::ByRow, |values| Ok(Some(vec![fill(values, &self.value)])))?,
            };
            let filled = by_value.and_then(|mut columns| columns.pop());
            rows.set(field, filled.unwrap_or_else(|| fill(&column, &self.value)));
        }
        rows.finish()
    }
}

/// Fills every field that some row has; the set of fields is known only at the end.
struct FillAll {
    value: String,
}

impl Blocking for FillAll {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = RowBuffer::collect("fillnull", rows, &context.dataflow)?;
        let value = self.value.clone();
        let names = kept.valued_names();
        let filled = kept.into_unified_rows().map(move |batch| {
            let mut filled = NewColumns::of(batch?);
            for name in names.iter().filter(|name| !is_hidden(name)) {
                let column = filled.column(name);
                filled.set(name, fill(&column, &value));
            }
            filled.finish()
        });
        Ok(Box::new(filled))
    }
}
