//! Commands that compute columns: eval, fillnull.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{AssignTarget, NamePart};

use crate::EngineError;
use crate::command::{Blocking, CommandContext, RowCommand, RowIter};
use crate::expr::CompiledExpr;
use crate::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, KeptRows, Numbers, is_hidden};

/// Columns one eval may make from dynamic names.
const DYNAMIC_COLUMNS_MAX: usize = 1_000;

/// `eval`: assignments from left to right.
pub(crate) struct Eval(pub Arc<Vec<(AssignTarget, CompiledExpr)>>);

impl RowCommand for Eval {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for (target, expr) in self.0.iter() {
            let values = expr.evaluate(&rows)?;
            rows = match target {
                AssignTarget::Field(name) => assign(&rows, name, values)?,
                AssignTarget::Dynamic(parts) => assign_dynamic(&rows, parts, &values)?,
            };
        }
        Ok(rows)
    }
}

fn assign(rows: &RecordBatch, name: &str, values: ArrayRef) -> Result<RecordBatch, EngineError> {
    rows::with_column(rows, name, values)
}

/// Puts each row's value into the column that the row itself names.
fn assign_dynamic(rows: &RecordBatch, parts: &[NamePart], values: &ArrayRef) -> Result<RecordBatch, EngineError> {
    let readers: Vec<Option<ColumnReader>> = (parts.iter())
        .map(|part| match part {
            NamePart::Text(_) => None,
            NamePart::Field(field) => Some(rows::reader(rows, field)),
        })
        .collect();
    let mut targets: Vec<(String, Vec<usize>)> = Vec::new();
    for row in 0..rows.num_rows() {
        let Some(name) = dynamic_name(parts, &readers, row) else { continue };
        match targets.iter().position(|(known, _)| *known == name) {
            Some(at) => targets[at].1.push(row),
            None if targets.len() < DYNAMIC_COLUMNS_MAX => targets.push((name, vec![row])),
            None => {
                let what = "eval with field names from values".to_owned();
                let value = DYNAMIC_COLUMNS_MAX as u64;
                return Err(EngineError::Limit { what, limit: "dynamic columns", value });
            }
        }
    }
    let values = ColumnReader::new(values);
    let mut result = rows.clone();
    for (name, places) in targets {
        let old = rows::reader(rows, &name);
        let mut column = ColumnBuilder::new(rows.num_rows());
        let mut places = places.into_iter().peekable();
        for row in 0..rows.num_rows() {
            let assigned = places.next_if(|place| *place == row).is_some();
            column.push(if assigned { values.value(row) } else { old.value(row) });
        }
        result = rows::with_column(&result, &name, column.finish())?;
    }
    Ok(result)
}

/// The name a row gives; `None` when a field of it is missing.
fn dynamic_name(parts: &[NamePart], readers: &[Option<ColumnReader>], row: usize) -> Option<String> {
    let (mut name, mut scratch) = (String::new(), String::new());
    for (part, reader) in parts.iter().zip(readers) {
        match (part, reader) {
            (NamePart::Text(text), _) => name.push_str(text),
            (NamePart::Field(_), Some(reader)) => name.push_str(reader.text(row, &mut scratch)?),
            (NamePart::Field(_), None) => return None,
        }
    }
    Some(name)
}

/// The column with `value` where it is null.
fn fill(column: &ArrayRef, value: &str) -> ArrayRef {
    let reader = ColumnReader::new(column);
    let has_gaps = (0..column.len()).any(|row| reader.is_null(row));
    if !has_gaps {
        return Arc::clone(column);
    }
    let mut filled = ColumnBuilder::new(column.len());
    let number = match (&reader, quarry_event::value::canonical_number(value)) {
        (ColumnReader::Int(_), Some(quarry_event::value::Number::Int(number))) => Some(rows::Value::Int(number)),
        (ColumnReader::Float(_), Some(number)) => Some(rows::Value::Float(number.as_f64())),
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

/// `fillnull` with a list of fields; a missing field is made.
#[derive(Clone)]
pub(crate) struct FillFields {
    /// What is put in.
    pub value: String,
    /// Fields filled.
    pub fields: Vec<String>,
    /// For each field what is made of its values.
    pub memos: Arc<Vec<DistinctMemo>>,
}

impl FillFields {
    /// The command on these fields.
    pub(crate) fn new(value: String, fields: Vec<String>) -> FillFields {
        let memos = Arc::new(fields.iter().map(|_| DistinctMemo::default()).collect());
        FillFields { value, fields, memos }
    }
}

impl RowCommand for FillFields {
    fn apply(&mut self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for (field, memo) in self.fields.iter().zip(self.memos.iter()) {
            let column = rows::column_or_null(&rows, field);
            let by_value = match column.null_count() {
                0 => None,
                _ => memo.run(&column, Numbers::AsTheyAre, |values| Ok(Some(vec![fill(values, &self.value)])))?,
            };
            let filled = by_value.and_then(|mut columns| columns.pop());
            rows = rows::with_column(&rows, field, filled.unwrap_or_else(|| fill(&column, &self.value)))?;
        }
        Ok(rows)
    }
}

/// `fillnull` of every field: which there are is known at the end only.
pub(crate) struct FillAll {
    /// What is put in.
    pub value: String,
}

impl Blocking for FillAll {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = KeptRows::collect("fillnull", rows, &context.dataflow)?;
        let value = self.value.clone();
        let filled = kept.into_unified_rows().map(move |batch| {
            let mut batch = batch?;
            for name in crate::field_names::names_of(&batch) {
                if !is_hidden(&name) {
                    let column = rows::column_or_null(&batch, &name);
                    batch = rows::with_column(&batch, &name, fill(&column, &value))?;
                }
            }
            Ok(batch)
        });
        Ok(Box::new(filled))
    }
}
