//! Column-wise evaluation of an expression.
//!
//! Nodes that support column-wise evaluation take their operands as columns; all other nodes are evaluated row by row.
//! If the right side of AND or OR is evaluated row by row, it is computed only for rows in which the left side does not
//! determine the result.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, BooleanBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::boolean;
use arrow::datatypes::DataType;
use quarry_event::value::parse_number;

use super::arithmetic::{Arithmetic, Operand, calculate_column};
use super::batch::Batch;
use super::compare::{compare_column, compare_columns};
use super::node::{ExprNode, is_literal};
use crate::EngineError;
use crate::functions::Prepared;
use crate::rows::{ColumnBuilder, ColumnReader, Value, null_column};

/// The value of every row.
pub(super) fn evaluate(node: &ExprNode, batch: &Batch<'_>) -> Result<ArrayRef, EngineError> {
    Ok(match node {
        ExprNode::Slot(slot) => batch.array(*slot).cloned().unwrap_or_else(|| null_column(batch.len())),
        ExprNode::Constant(value) => constant(value, batch.len()),
        ExprNode::Single(single) => match batch.single(single) {
            Some(values) => Arc::clone(values),
            None => evaluate(&single.inner, batch)?,
        },
        ExprNode::Arithmetic(op, a, b) => {
            let (a, b) = (operand(a, batch)?, operand(b, batch)?);
            calculate_column(*op, &a, &b, batch.len())
        }
        ExprNode::Coalesce(values) => coalesce(values, batch)?,
        ExprNode::Case(arms) if arms.iter().all(|(condition, _)| is_columnar(condition, batch)) => case(arms, batch)?,
        node if node.is_condition() => Arc::new(condition(node, batch)?),
        node => evaluate_by_row(node, batch),
    })
}

/// The truth of every row; non-conditions are null.
pub(super) fn condition(node: &ExprNode, batch: &Batch<'_>) -> Result<BooleanArray, EngineError> {
    Ok(match node {
        ExprNode::Single(single) => match batch.single(single).and_then(|values| values.as_boolean_opt()) {
            Some(truth) => truth.clone(),
            None => condition(&single.inner, batch)?,
        },
        ExprNode::Not(inner) => boolean::not(&condition(inner, batch)?)?,
        ExprNode::CompareLiteral(op, a, literal) if is_columnar(a, batch) => {
            compare_column(&ColumnReader::new(&evaluate(a, batch)?), *op, literal)
        }
        ExprNode::Compare(op, a, b) if is_columnar(a, batch) && is_columnar(b, batch) => {
            compare_columns(*op, &evaluate(a, batch)?, &evaluate(b, batch)?)
        }
        ExprNode::And(a, b) if is_columnar(b, batch) => {
            boolean::and_kleene(&condition(a, batch)?, &condition(b, batch)?)?
        }
        ExprNode::Or(a, b) if is_columnar(b, batch) => {
            boolean::or_kleene(&condition(a, batch)?, &condition(b, batch)?)?
        }
        ExprNode::And(a, b) => combine_undecided(&condition(a, batch)?, false, b, batch),
        ExprNode::Or(a, b) => combine_undecided(&condition(a, batch)?, true, b, batch),
        ExprNode::IsNull(inner) if is_columnar(inner, batch) => null_mask(&evaluate(inner, batch)?, true),
        ExprNode::IsNotNull(inner) if is_columnar(inner, batch) => null_mask(&evaluate(inner, batch)?, false),
        ExprNode::Slot(_) => {
            let array = evaluate(node, batch)?;
            match array.data_type() {
                DataType::Boolean => array.as_boolean().clone(),
                _ => BooleanArray::new_null(batch.len()),
            }
        }
        ExprNode::InLiterals(needle, literals) if is_columnar(needle, batch) => {
            let reader = ColumnReader::new(&evaluate(needle, batch)?);
            (0..batch.len()).map(|row| is_literal(&reader.value(row), literals)).collect()
        }
        ExprNode::Call(function, args, prepared) if matches!(function.row.help.name, "match" | "like") => {
            match args.first() {
                Some(subject) if is_columnar(subject, batch) => {
                    match (ColumnReader::new(&evaluate(subject, batch)?), prepared) {
                        (ColumnReader::Text(texts), Prepared::Regex(regex)) => {
                            BooleanArray::from_unary(&texts, |text| regex.is_match(text))
                        }
                        (ColumnReader::Text(texts), Prepared::Like(pattern)) => {
                            BooleanArray::from_unary(&texts, |text| pattern.is_match(text))
                        }
                        _ => truth_by_row(node, batch),
                    }
                }
                _ => truth_by_row(node, batch),
            }
        }
        ExprNode::Call(function, args, _) if function.row.help.name == "isnum" => match args.as_slice() {
            [subject] if is_columnar(subject, batch) => are_numbers(&ColumnReader::new(&evaluate(subject, batch)?)),
            _ => truth_by_row(node, batch),
        },
        ExprNode::Constant(Value::Bool(true)) => BooleanArray::from(vec![true; batch.len()]),
        ExprNode::Constant(Value::Bool(false)) => BooleanArray::from(vec![false; batch.len()]),
        ExprNode::Constant(_) => BooleanArray::new_null(batch.len()),
        node => truth_by_row(node, batch),
    })
}

/// `isnum` of every row; false where there is no value.
fn are_numbers(reader: &ColumnReader) -> BooleanArray {
    BooleanArray::from(number_rows(reader))
}

fn number_rows(reader: &ColumnReader) -> BooleanBuffer {
    match reader {
        ColumnReader::Int(_) | ColumnReader::Float(_) | ColumnReader::Time(_) => match reader.validity() {
            Some(valid) => valid.inner().clone(),
            None => BooleanBuffer::new_set(reader.len()),
        },
        ColumnReader::Mixed(mixed) => {
            let mut rows = BooleanBufferBuilder::new(reader.len());
            rows.append_buffer(&number_rows(&mixed.numbers));
            let is_number = |row: &usize| parse_number(mixed.texts.value(*row)).is_some();
            mixed.text_rows().filter(is_number).for_each(|row| rows.set_bit(row, true));
            rows.finish()
        }
        reader => BooleanBuffer::collect_bool(reader.len(), |row| reader.number(row).is_some()),
    }
}

/// Whether the node is evaluated column-wise down to the fields.
pub(super) fn is_columnar(node: &ExprNode, batch: &Batch<'_>) -> bool {
    match node {
        ExprNode::Slot(_) | ExprNode::Constant(_) => true,
        ExprNode::Not(a) | ExprNode::IsNull(a) | ExprNode::IsNotNull(a) | ExprNode::CompareLiteral(_, a, _) => {
            is_columnar(a, batch)
        }
        ExprNode::InLiterals(a, _) => is_columnar(a, batch),
        ExprNode::Arithmetic(_, a, b) | ExprNode::Compare(_, a, b) => is_columnar(a, batch) && is_columnar(b, batch),
        ExprNode::And(a, b) | ExprNode::Or(a, b) => is_columnar(a, batch) && is_columnar(b, batch),
        ExprNode::Coalesce(values) => values.iter().all(|value| is_columnar(value, batch)),
        ExprNode::Single(single) => batch.single(single).is_some() || is_columnar(&single.inner, batch),
        _ => false,
    }
}

fn evaluate_by_row(node: &ExprNode, batch: &Batch<'_>) -> ArrayRef {
    let mut builder = ColumnBuilder::new(batch.len());
    for row in 0..batch.len() {
        builder.push(node.value(&batch.row(row)));
    }
    builder.finish()
}

fn truth_by_row(node: &ExprNode, batch: &Batch<'_>) -> BooleanArray {
    let mut builder = BooleanBuilder::with_capacity(batch.len());
    for row in 0..batch.len() {
        builder.append_option(node.truth(&batch.row(row)));
    }
    builder.finish()
}

/// `left OR right` if `decides` is true, otherwise `left AND right`: rows in which the left side equals `decides` do
/// not need the right side.
fn combine_undecided(left: &BooleanArray, decides: bool, right: &ExprNode, batch: &Batch<'_>) -> BooleanArray {
    let mut builder = BooleanBuilder::with_capacity(batch.len());
    for row in 0..batch.len() {
        let known = left.is_valid(row).then(|| left.value(row));
        builder.append_option(match known {
            Some(truth) if truth == decides => known,
            Some(_) => right.truth(&batch.row(row)),
            None => right.truth(&batch.row(row)).filter(|truth| *truth == decides),
        });
    }
    builder.finish()
}

fn null_mask(array: &ArrayRef, wanted: bool) -> BooleanArray {
    let reader = ColumnReader::new(array);
    if let ColumnReader::Null(rows) = reader {
        return BooleanArray::from(vec![wanted; rows]);
    }
    // An empty list is also null, which only the reader can tell.
    (0..array.len()).map(|row| Some(reader.is_null(row) == wanted)).collect()
}

fn operand(node: &ExprNode, batch: &Batch<'_>) -> Result<Operand, EngineError> {
    Ok(match node {
        ExprNode::Constant(value) => Operand::Constant(value.clone()),
        node => Operand::Column(ColumnReader::new(&evaluate(node, batch)?)),
    })
}

fn constant(value: &Value<'static>, rows: usize) -> ArrayRef {
    let mut builder = ColumnBuilder::new(rows);
    for _ in 0..rows {
        builder.push(value.clone());
    }
    builder.finish()
}

/// For each row, the first operand with a value; operands after a column without nulls are not evaluated.
fn coalesce(values: &[ExprNode], batch: &Batch<'_>) -> Result<ArrayRef, EngineError> {
    let mut columns: Vec<ColumnReader> = Vec::new();
    for (at, value) in values.iter().enumerate() {
        if !is_columnar(value, batch) {
            break;
        }
        let array = evaluate(value, batch)?;
        let complete = !matches!(array.data_type(), DataType::Null | DataType::List(_)) && array.null_count() == 0;
        if complete && (at == 0 || columns.iter().all(|column| matches!(column, ColumnReader::Null(_)))) {
            return Ok(array);
        }
        columns.push(ColumnReader::new(&array));
        if complete {
            break;
        }
    }
    let rest = &values[columns.len()..];
    let mut builder = ColumnBuilder::new(batch.len());
    for row in 0..batch.len() {
        match columns.iter().find(|column| !column.is_null(row)) {
            Some(column) => builder.push(column.value(row)),
            None => {
                let row = batch.row(row);
                let value = rest.iter().map(|node| node.value(&row)).find(|value| !value.is_null());
                builder.push(value.unwrap_or(Value::Null));
            }
        }
    }
    Ok(builder.finish())
}

/// Evaluates conditions column-wise, and values row by row and only where their condition selects them.
fn case(arms: &[(ExprNode, ExprNode)], batch: &Batch<'_>) -> Result<ArrayRef, EngineError> {
    let masks = arms.iter().map(|(test, _)| condition(test, batch)).collect::<Result<Vec<_>, _>>()?;
    let mut builder = ColumnBuilder::new(batch.len());
    for row in 0..batch.len() {
        match masks.iter().position(|mask| mask.is_valid(row) && mask.value(row)) {
            Some(arm) => builder.push(arms[arm].1.value(&batch.row(row))),
            None => builder.push_null(),
        }
    }
    Ok(builder.finish())
}

/// Whether the node is fast over integer columns, so that evaluating it once per distinct value would not pay. Division
/// has no integer kernel.
pub(super) fn is_numeric_by_column(node: &ExprNode) -> bool {
    match node {
        ExprNode::Slot(_) | ExprNode::Constant(_) => true,
        ExprNode::Not(a) | ExprNode::IsNull(a) | ExprNode::IsNotNull(a) | ExprNode::CompareLiteral(_, a, _) => {
            is_numeric_by_column(a)
        }
        ExprNode::Arithmetic(op, a, b) => *op != Arithmetic::Div && is_numeric_by_column(a) && is_numeric_by_column(b),
        ExprNode::Compare(_, a, b) | ExprNode::And(a, b) | ExprNode::Or(a, b) => {
            is_numeric_by_column(a) && is_numeric_by_column(b)
        }
        _ => false,
    }
}
