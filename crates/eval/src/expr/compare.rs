//! Comparison of values: as numbers if both are numeric, otherwise by the bytes of their texts.
//!
//! Comparison with null yields null. A multivalue passes if any of its values does. Comparing a column with a literal,
//! the most common condition, is specialised by column type.

use std::cmp::Ordering;

use arrow::array::TimestampNanosecondArray;
use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, Float64Array, Int64Array, StringViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::kernels::cmp;
use arrow::datatypes::Float64Type;
use quarry_event::value::{MAX_EXACT_INTEGER, Number, parse_exact_number};
use quarry_spl::ast::CompareOp;
use quarry_stdx::number::{f64_of, integer_part};

use crate::rows::{ColumnReader, MixedColumn, Value};

/// Whether `op` holds for two values in this order.
#[inline]
pub fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Eq => order == Ordering::Equal,
        CompareOp::Ne => order != Ordering::Equal,
        CompareOp::Lt => order == Ordering::Less,
        CompareOp::Le => order != Ordering::Greater,
        CompareOp::Gt => order == Ordering::Greater,
        CompareOp::Ge => order != Ordering::Less,
    }
}

/// The operator with its sides exchanged.
pub(super) fn flip(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq | CompareOp::Ne => op,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
    }
}

/// `a op b`; `None` is null.
pub fn compare_values(op: CompareOp, a: &Value<'_>, b: &Value<'_>) -> Option<bool> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Multi(many), other) => {
            Some(many.iter().any(|one| compare_values(op, &Value::borrowed_text(one), other) == Some(true)))
        }
        (other, Value::Multi(many)) => {
            Some(many.iter().any(|one| compare_values(op, other, &Value::borrowed_text(one)) == Some(true)))
        }
        _ => Some(holds(op, order_values(a, b)?)),
    }
}

/// Order of two single values; `None` if either is null.
pub fn order_values(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    if let (Value::Text(a), Value::Text(b)) = (a, b) {
        return Some(match (parse_exact_number(a), parse_exact_number(b)) {
            (Some(a), Some(b)) => a.total_cmp(b),
            _ => a.as_bytes().cmp(b.as_bytes()),
        });
    }
    if let (Some(a), Some(b)) = (a.exact_number(), b.exact_number()) {
        return Some(a.total_cmp(b));
    }
    match (a, b) {
        (Value::Text(text), number) if let Some(order) = order_by_first_byte(text, number) => Some(order),
        (number, Value::Text(text)) if let Some(order) = order_by_first_byte(text, number) => Some(order.reverse()),
        _ => Some(a.text()?.as_bytes().cmp(b.text()?.as_bytes())),
    }
}

/// Order of the bytes of a text and of a number's text, if the first byte decides: `None` if the number may be negative
/// or the text begins with a digit. The text of the number is not written.
fn order_by_first_byte(text: &str, number: &Value<'_>) -> Option<Ordering> {
    let begins_with_digit = match number {
        Value::Int(value) => *value >= 0,
        Value::Float(value) => value.is_finite() && value.is_sign_positive(),
        _ => false,
    };
    match text.as_bytes().first() {
        _ if !begins_with_digit => None,
        None => Some(Ordering::Less),
        Some(b'0'..=b'9') => None,
        Some(byte) => Some(byte.cmp(&b'0')),
    }
}

/// A comparison constant, parsed once.
#[derive(Clone, Debug)]
pub struct Literal {
    number: Option<Number>,
    text: String,
}

impl Literal {
    /// A literal with this text, which may be numeric.
    pub fn new(text: &str) -> Literal {
        Literal { number: parse_exact_number(text), text: text.to_owned() }
    }

    /// A literal for a single value; `None` for null and multivalues.
    pub fn of(value: &Value<'_>) -> Option<Literal> {
        match value {
            Value::Null | Value::Multi(_) => None,
            value => Some(Literal { number: value.exact_number(), text: value.text()?.into_owned() }),
        }
    }

    /// The literal as a text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The literal as a number, if it is numeric.
    pub fn number(&self) -> Option<Number> {
        self.number
    }

    /// Whether the literal is numeric.
    pub fn is_number(&self) -> bool {
        self.number.is_some()
    }

    /// Order of a text relative to the literal.
    #[inline]
    pub fn order_text(&self, text: &str) -> Ordering {
        if let Some(number) = self.number
            && let Some(other) = parse_exact_number(text)
        {
            return other.total_cmp(number);
        }
        text.as_bytes().cmp(self.text.as_bytes())
    }

    /// `value op literal`; `None` is null.
    #[inline]
    pub fn compare(&self, op: CompareOp, value: &Value<'_>) -> Option<bool> {
        match value {
            Value::Null => None,
            Value::Text(text) => Some(holds(op, self.order_text(text))),
            Value::Multi(many) => Some(many.iter().any(|one| holds(op, self.order_text(one)))),
            single => match (self.number, single.exact_number()) {
                (Some(number), Some(value)) => Some(holds(op, value.total_cmp(number))),
                _ => Some(holds(op, single.text()?.as_bytes().cmp(self.text.as_bytes()))),
            },
        }
    }
}

/// `column op literal` for every row; null where the column is null.
pub fn compare_column(reader: &ColumnReader, op: CompareOp, literal: &Literal) -> BooleanArray {
    let fast = match (reader, literal.number) {
        (ColumnReader::Int(array), Some(Number::Int(value))) => {
            compare_with_kernel(op, array, &Int64Array::new_scalar(value))
        }
        (ColumnReader::Int(array), Some(Number::Float(value))) if are_exact(array) => {
            let numbers = array.unary::<_, Float64Type>(f64_of);
            // The kernel distinguishes 0 from -0.
            compare_with_kernel(op, &numbers, &Float64Array::new_scalar(value + 0.0))
        }
        (ColumnReader::Float(array), Some(number)) if is_exact(number) => {
            compare_with_kernel(op, array, &Float64Array::new_scalar(number.as_f64() + 0.0))
        }
        (ColumnReader::Time(array), Some(number)) => {
            number.to_nanos().and_then(|ns| compare_with_kernel(op, array, &TimestampNanosecondArray::new_scalar(ns)))
        }
        (ColumnReader::Decimal(..), Some(number)) => Some(compare_decimals(reader, op, number)),
        (ColumnReader::Text(array), None) => {
            compare_with_kernel(op, array, &StringViewArray::new_scalar(literal.text.as_str()))
        }
        (ColumnReader::Text(array), Some(_)) => Some(compare_texts(array, op, literal)),
        (ColumnReader::Mixed(mixed), _) => Some(compare_mixed(mixed, op, literal)),
        (ColumnReader::Null(rows), _) => Some(BooleanArray::new_null(*rows)),
        _ => None,
    };
    fast.unwrap_or_else(|| (0..reader.len()).map(|row| literal.compare(op, &reader.value(row))).collect())
}

fn are_exact(array: &Int64Array) -> bool {
    array.values().iter().all(|value| is_exact(Number::Int(*value)))
}

/// Whether a double represents the number exactly.
fn is_exact(number: Number) -> bool {
    match number {
        Number::Int(value) => value.unsigned_abs() <= integer_part::<u64>(MAX_EXACT_INTEGER),
        Number::Float(_) => true,
        Number::Nanos(_) => false,
    }
}

fn compare_with_kernel(
    op: CompareOp,
    a: &dyn arrow::array::Datum,
    b: &dyn arrow::array::Datum,
) -> Option<BooleanArray> {
    match op {
        CompareOp::Eq => cmp::eq(a, b).ok(),
        CompareOp::Ne => cmp::neq(a, b).ok(),
        CompareOp::Lt => cmp::lt(a, b).ok(),
        CompareOp::Le => cmp::lt_eq(a, b).ok(),
        CompareOp::Gt => cmp::gt(a, b).ok(),
        CompareOp::Ge => cmp::gt_eq(a, b).ok(),
    }
}

/// Compares texts with a number: each text is parsed, unless it equals the literal's own text.
fn compare_texts(array: &StringViewArray, op: CompareOp, literal: &Literal) -> BooleanArray {
    let same = holds(op, Ordering::Equal);
    BooleanArray::from_unary(
        array,
        |text| {
            if text == literal.text { same } else { holds(op, literal.order_text(text)) }
        },
    )
}

/// Compares the numbers and the texts of a column, each in its own way.
fn compare_mixed(mixed: &MixedColumn, op: CompareOp, literal: &Literal) -> BooleanArray {
    let numbers = compare_column(&mixed.numbers, op, literal);
    if mixed.texts.null_count() == mixed.texts.len() {
        return numbers;
    }
    let same = holds(op, Ordering::Equal);
    let text_holds = |row: &usize| match mixed.texts.value(*row) {
        text if text == literal.text => same,
        text => holds(op, literal.order_text(text)),
    };
    let mut passes = BooleanBufferBuilder::new(numbers.len());
    passes.append_buffer(&true_rows(&numbers));
    mixed.text_rows().filter(text_holds).for_each(|row| passes.set_bit(row, true));
    let nulls = numbers.nulls().zip(mixed.texts.nulls());
    BooleanArray::new(passes.finish(), nulls.map(|(one, other)| NullBuffer::new(one.inner() | other.inner())))
}

/// The rows that are true and not null.
fn true_rows(truth: &BooleanArray) -> BooleanBuffer {
    truth.nulls().map_or_else(|| truth.values().clone(), |nulls| truth.values() & nulls.inner())
}

/// Compares decimals with a number. A decimal is written with a point, so its text, too, would be read as a double.
fn compare_decimals(reader: &ColumnReader, op: CompareOp, literal: Number) -> BooleanArray {
    let order = |row| reader.number(row).map(|number| holds(op, Number::Float(number).total_cmp(literal)));
    (0..reader.len()).map(order).collect()
}

/// `a op b` for two columns.
pub(super) fn compare_columns(op: CompareOp, a: &ArrayRef, b: &ArrayRef) -> BooleanArray {
    let (left, right) = (ColumnReader::new(a), ColumnReader::new(b));
    let fast = match (&left, &right) {
        (ColumnReader::Int(a), ColumnReader::Int(b)) => compare_with_kernel(op, a, b),
        (ColumnReader::Float(a), ColumnReader::Float(b)) => compare_with_kernel(op, a, b),
        (ColumnReader::Time(a), ColumnReader::Time(b)) => compare_with_kernel(op, a, b),
        (ColumnReader::Mixed(mixed), ColumnReader::Float(doubles)) => match &mixed.numbers {
            ColumnReader::Int(integers) => {
                Some(compare_integers_with_doubles(op, integers, doubles, |row| compare_rows(op, &left, &right, row)))
            }
            ColumnReader::Float(numbers) if mixed.text_rows().next().is_none() => {
                compare_with_kernel(op, numbers, doubles)
            }
            _ => None,
        },
        _ => None,
    };
    fast.unwrap_or_else(|| (0..a.len()).map(|row| compare_rows(op, &left, &right, row)).collect())
}

/// `a op b` for integers and doubles; `other` has the result for rows without one of them.
fn compare_integers_with_doubles(
    op: CompareOp,
    a: &Int64Array,
    b: &Float64Array,
    other: impl Fn(usize) -> Option<bool>,
) -> BooleanArray {
    let compare = |row: usize| match a.is_valid(row) && b.is_valid(row) {
        true => Some(holds(op, Number::Int(a.value(row)).total_cmp(Number::Float(b.value(row))))),
        false => other(row),
    };
    (0..a.len()).map(compare).collect()
}

/// `left op right` in a row; numbers are compared without creating values.
#[inline]
fn compare_rows(op: CompareOp, left: &ColumnReader, right: &ColumnReader, row: usize) -> Option<bool> {
    match (plain_number(left, row), plain_number(right, row)) {
        (Some(a), Some(b)) => Some(holds(op, a.total_cmp(b))),
        _ => compare_values(op, &left.value(row), &right.value(row)),
    }
}

/// The number of a row that is stored as an integer or a double.
#[inline]
fn plain_number(reader: &ColumnReader, row: usize) -> Option<Number> {
    match reader {
        ColumnReader::Int(array) => array.is_valid(row).then(|| Number::Int(array.value(row))),
        ColumnReader::Float(array) => array.is_valid(row).then(|| Number::Float(array.value(row))),
        ColumnReader::Mixed(mixed) if !mixed.is_text(row) => match &mixed.numbers {
            ColumnReader::Int(array) => array.is_valid(row).then(|| Number::Int(array.value(row))),
            ColumnReader::Float(array) => array.is_valid(row).then(|| Number::Float(array.value(row))),
            _ => None,
        },
        _ => None,
    }
}
