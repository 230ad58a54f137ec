//! `+ - * / %` on values and on columns.
//!
//! Integers stay exact as long as they fit, times keep their nanoseconds, everything else is a double. A value that
//! is no number gives null, and so does division by zero.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Datum, Float64Array, Int64Array, Scalar};
use arrow::compute::kernels::numeric;
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::Number;

use crate::losses::{Loss, note};
use crate::pattern::TEXT_BYTES_MAX;
use crate::rows::{ColumnBuilder, ColumnReader, Value};

/// The operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `*`.
    Mul,
    /// `/`.
    Div,
    /// `%`.
    Rem,
}

/// One side of a column operation.
pub(super) enum Operand {
    /// A column.
    Column(ColumnReader),
    /// The same value in every row.
    Constant(Value<'static>),
}

impl Operand {
    fn value(&self, row: usize) -> Value<'_> {
        match self {
            Operand::Column(reader) => reader.value(row),
            Operand::Constant(value) => value.clone(),
        }
    }

    fn is_numeric(&self) -> bool {
        matches!(
            self,
            Operand::Column(ColumnReader::Int(_) | ColumnReader::Float(_) | ColumnReader::Decimal(..))
                | Operand::Constant(Value::Int(_) | Value::Float(_))
        )
    }

    fn as_int(&self) -> Option<Box<dyn Datum>> {
        match self {
            Operand::Column(ColumnReader::Int(array)) => Some(Box::new(array.clone())),
            Operand::Constant(Value::Int(value)) => Some(Box::new(Scalar::new(Int64Array::from(vec![*value])))),
            _ => None,
        }
    }

    fn as_float(&self) -> Option<Box<dyn Datum>> {
        match self {
            Operand::Column(ColumnReader::Float(array)) => Some(Box::new(array.clone())),
            Operand::Column(ColumnReader::Int(array)) => {
                Some(Box::new(array.unary::<_, arrow::datatypes::Float64Type>(|value| value as f64)))
            }
            Operand::Column(reader @ ColumnReader::Decimal(..)) => {
                Some(Box::new((0..reader.len()).map(|row| reader.number(row)).collect::<Float64Array>()))
            }
            Operand::Constant(value) => Some(Box::new(Scalar::new(Float64Array::from(vec![value.number()?])))),
            Operand::Column(_) => None,
        }
    }
}

/// Computes `a op b` for two values.
pub(crate) fn calculate(op: Arithmetic, a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    if let Some(value) = calculate_time(op, a, b) {
        return value;
    }
    match (a.exact_number(), b.exact_number()) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => calculate_int(op, a, b),
        (Some(a), Some(b)) => calculate_float(op, a.as_f64(), b.as_f64()),
        _ => Value::Null,
    }
}

/// `+` as eval has it: the sum of two numbers, else two texts in a row.
pub(crate) fn add(a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    let sum = calculate(Arithmetic::Add, a, b);
    if !sum.is_null() {
        return sum;
    }
    let joinable =
        |value: &Value<'_>| matches!(value, Value::Text(_) | Value::Int(_) | Value::Float(_) | Value::Time(_));
    if joinable(a) && joinable(b) { concatenate(a, b) } else { Value::Null }
}

/// `.`: the texts of both; null if either is.
pub(crate) fn concatenate(a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    match (a.text(), b.text()) {
        (Some(a), Some(b)) if a.len() + b.len() <= TEXT_BYTES_MAX => {
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(&a);
            text.push_str(&b);
            Value::owned(text)
        }
        (Some(_), Some(_)) => {
            note(Loss::Text);
            Value::Null
        }
        _ => Value::Null,
    }
}

/// Sums and differences of times, exact to the nanosecond.
fn calculate_time(op: Arithmetic, a: &Value<'_>, b: &Value<'_>) -> Option<Value<'static>> {
    match (op, a, b) {
        (Arithmetic::Sub, Value::Time(a), Value::Time(b)) => {
            let difference = a.checked_sub(*b)?;
            let whole = difference % NS_PER_SEC == 0;
            let seconds = difference / NS_PER_SEC;
            Some(if whole { Value::Int(seconds) } else { Value::Float(difference as f64 / NS_PER_SEC as f64) })
        }
        (Arithmetic::Add, Value::Time(time), Value::Int(seconds))
        | (Arithmetic::Add, Value::Int(seconds), Value::Time(time)) => {
            Some(Value::Time(time.checked_add(seconds.checked_mul(NS_PER_SEC)?)?))
        }
        (Arithmetic::Sub, Value::Time(time), Value::Int(seconds)) => {
            Some(Value::Time(time.checked_sub(seconds.checked_mul(NS_PER_SEC)?)?))
        }
        _ => None,
    }
}

fn calculate_int(op: Arithmetic, a: i64, b: i64) -> Value<'static> {
    let exact = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Sub => a.checked_sub(b),
        Arithmetic::Mul => a.checked_mul(b),
        Arithmetic::Div | Arithmetic::Rem if b == 0 => return Value::Null,
        Arithmetic::Div if a.checked_rem(b) == Some(0) => a.checked_div(b),
        Arithmetic::Div => None,
        Arithmetic::Rem => a.checked_rem(b),
    };
    exact.map_or_else(|| calculate_float(op, a as f64, b as f64), Value::Int)
}

fn calculate_float(op: Arithmetic, a: f64, b: f64) -> Value<'static> {
    match float_result(op, a, b) {
        Some(value) => Value::number_of(value),
        None => Value::Null,
    }
}

fn float_result(op: Arithmetic, a: f64, b: f64) -> Option<f64> {
    match op {
        Arithmetic::Add => Some(a + b),
        Arithmetic::Sub => Some(a - b),
        Arithmetic::Mul => Some(a * b),
        Arithmetic::Div => (b != 0.0).then(|| a / b),
        Arithmetic::Rem => (b != 0.0).then(|| a % b),
    }
}

/// Computes `a op b` for `rows` rows.
pub(super) fn calculate_column(op: Arithmetic, a: &Operand, b: &Operand, rows: usize) -> ArrayRef {
    if a.is_numeric()
        && b.is_numeric()
        && let Some(array) = int_column(op, a, b).or_else(|| float_column(op, a, b))
    {
        return array;
    }
    let mut builder = ColumnBuilder::new(rows);
    for row in 0..rows {
        let (a, b) = (a.value(row), b.value(row));
        builder.push(if op == Arithmetic::Add { add(&a, &b) } else { calculate(op, &a, &b) });
    }
    builder.finish()
}

/// Integers that do not overflow; a quotient need not be one.
fn int_column(op: Arithmetic, a: &Operand, b: &Operand) -> Option<ArrayRef> {
    let (a, b) = (a.as_int()?, b.as_int()?);
    match op {
        Arithmetic::Add => numeric::add(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Sub => numeric::sub(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Mul => numeric::mul(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Div | Arithmetic::Rem => None,
    }
}

fn float_column(op: Arithmetic, a: &Operand, b: &Operand) -> Option<ArrayRef> {
    // Two integers that overflowed, or their quotient, go value by value: the result may be an exact integer.
    if a.as_int().is_some() && b.as_int().is_some() {
        return None;
    }
    let (a, b) = (a.as_float()?, b.as_float()?);
    match op {
        Arithmetic::Add => numeric::add(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Sub => numeric::sub(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Mul => numeric::mul(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Div | Arithmetic::Rem => divide_floats(op, a.as_ref(), b.as_ref()),
    }
}

fn divide_floats(op: Arithmetic, a: &dyn Datum, b: &dyn Datum) -> Option<ArrayRef> {
    let ((left, left_scalar), (right, right_scalar)) = (a.get(), b.get());
    let left: &Float64Array = left.as_any().downcast_ref()?;
    let right: &Float64Array = right.as_any().downcast_ref()?;
    let rows = if left_scalar { right.len() } else { left.len() };
    let at = |array: &Float64Array, scalar: bool, row: usize| {
        let row = if scalar { 0 } else { row };
        array.is_valid(row).then(|| array.value(row))
    };
    let quotient = |row| float_result(op, at(left, left_scalar, row)?, at(right, right_scalar, row)?);
    Some(Arc::new((0..rows).map(quotient).collect::<Float64Array>()))
}
