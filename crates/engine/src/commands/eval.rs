//! `eval`: computes fields by expressions, from left to right.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader};
use quarry_spl::ast::{AssignTarget, EvalCommand, NamePart};

use super::Execute;
use crate::lowering::{Lowering, Step, row};
use crate::new_columns::NewColumns;

/// Maximum number of columns with dynamic names that an assignment makes for a batch of rows.
const DYNAMIC_COLUMNS_MAX: usize = 1_000;

impl Execute for EvalCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let compiled = self.assignments.iter().map(|assignment| {
            let expr = CompiledExpr::new(&assignment.expr, &lowering.expressions())?;
            if expr.is_condition() {
                let name = match &assignment.target {
                    AssignTarget::Field(name) => name.as_str(),
                    AssignTarget::Dynamic(_) => "a field",
                };
                let message = format!("{name} cannot hold a condition; use if(…, \"true\", \"false\") or tostring(…)");
                return Err(EngineError::Invalid { message, span: Some(assignment.expr.span) });
            }
            Ok((assignment.target.clone(), expr.field_names(), expr))
        });
        let compiled = Arc::new(compiled.collect::<Result<Vec<_>, _>>()?);
        Ok(vec![row(move || Eval(Arc::clone(&compiled)))])
    }
}

/// Target, fields of the expression (`None` if the expression may read all fields) and expression of an assignment.
type CompiledAssignment = (AssignTarget, Option<Vec<String>>, CompiledExpr);

/// Makes the assignments.
struct Eval(Arc<Vec<CompiledAssignment>>);

impl RowCommand for Eval {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut rows = NewColumns::of(rows);
        for (target, fields, expr) in self.0.iter() {
            let values = match fields {
                Some(fields) => expr.evaluate(&rows.select(fields)?)?,
                None => expr.evaluate(rows.all()?)?,
            };
            match target {
                AssignTarget::Field(name) => rows.set(name, values),
                AssignTarget::Dynamic(parts) => {
                    let assigned = assign_dynamic(rows.all()?, parts, &values)?;
                    rows = NewColumns::of(assigned);
                }
            }
        }
        rows.finish()
    }
}

/// Writes each row's value to the column named by that row.
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
                let what = "eval takes too many different field names from values".to_owned();
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

/// The name formed by a row; `None` if one of its fields is missing.
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
