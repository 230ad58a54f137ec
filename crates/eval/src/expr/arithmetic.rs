//! `+ - * / %` on values and on columns.
//!
//! Numbers are computed as written ([`quarry_event::value::decimal`]): integers and decimals are exact unless the
//! result exceeds their range; times are exact to the nanosecond. A value that is not a number yields null, as does
//! division by zero; only the `+` of eval also concatenates texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Datum, Float64Array, Int64Array, Scalar};
use arrow::compute::kernels::numeric;
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::decimal::Decimal;
use quarry_event::value::{Number, parse_exact_number};

use crate::messages::TEXT_BYTES_MAX;
use crate::messages::{Loss, record_loss};
use crate::rows::{ColumnBuilder, ColumnReader, Value};

/// The operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
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
    Column(ColumnReader),
    /// A constant.
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
            Operand::Column(
                ColumnReader::Int(_) | ColumnReader::Float(_) | ColumnReader::Decimal(..) | ColumnReader::Mixed(_)
            ) | Operand::Constant(Value::Int(_) | Value::Float(_))
        )
    }

    /// The operand as integers; `None` if a text of a mixed column is a number, or if the operator is `+`, which
    /// concatenates texts. Other texts count as missing values.
    fn as_int(&self, op: Arithmetic) -> Option<Box<dyn Datum>> {
        match self {
            Operand::Column(ColumnReader::Mixed(mixed)) if op != Arithmetic::Add => match &mixed.numbers {
                ColumnReader::Int(array)
                    if mixed.text_rows().all(|row| parse_exact_number(mixed.texts.value(row)).is_none()) =>
                {
                    Some(Box::new(array.clone()))
                }
                _ => None,
            },
            Operand::Column(ColumnReader::Int(array)) => Some(Box::new(array.clone())),
            Operand::Constant(Value::Int(value)) => Some(Box::new(Scalar::new(Int64Array::from(vec![*value])))),
            _ => None,
        }
    }

    /// The row's value, if stored as a decimal.
    #[inline]
    fn decimal(&self, row: usize) -> Option<Decimal> {
        match self {
            Operand::Column(reader) => reader.decimal(row),
            Operand::Constant(value) => Decimal::of(value.exact_number()?),
        }
    }

    /// The row's float as the key of the result cache; this key suffices because the other side is constant.
    #[inline]
    fn double(&self, other: &Operand, row: usize) -> Option<f64> {
        match (self, other) {
            (Operand::Column(ColumnReader::Float(array)), Operand::Constant(_))
            | (Operand::Constant(_), Operand::Column(ColumnReader::Float(array))) => {
                array.is_valid(row).then(|| array.value(row))
            }
            _ => None,
        }
    }

    fn number(&self, row: usize) -> Option<Number> {
        match self {
            Operand::Column(reader) => reader.exact_number(row),
            Operand::Constant(value) => value.exact_number(),
        }
    }
}

/// Computes `a op b` for two values.
pub(crate) fn calculate(op: Arithmetic, a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    if let Some(time) = shift_time(op, a, b) {
        return time;
    }
    let result = a.exact_number().zip(b.exact_number()).and_then(|(a, b)| number_of(op, a, b));
    result.map_or(Value::Null, Value::from_number)
}

/// `a op b` for two numbers; `None` for division by zero.
fn number_of(op: Arithmetic, a: Number, b: Number) -> Option<Number> {
    match op {
        Arithmetic::Add => Some(a.plus(b)),
        Arithmetic::Sub => Some(a.minus(b)),
        Arithmetic::Mul => Some(a.times(b)),
        Arithmetic::Div => a.divided_by(b),
        Arithmetic::Rem => a.remainder(b),
    }
}

/// `a op b` for two decimals; `None` for division by zero or if the result is not a decimal.
fn decimal_of(op: Arithmetic, a: Decimal, b: Decimal) -> Option<Number> {
    match op {
        Arithmetic::Add => a.plus(b),
        Arithmetic::Sub => a.minus(b),
        Arithmetic::Mul => a.times(b),
        Arithmetic::Div => a.divided_by(b),
        Arithmetic::Rem => a.remainder(b),
    }
}

/// `+` of eval: the sum of two numbers, otherwise the concatenation of two texts.
pub(crate) fn add(a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    let sum = calculate(Arithmetic::Add, a, b);
    if !sum.is_null() {
        return sum;
    }
    let joinable =
        |value: &Value<'_>| matches!(value, Value::Text(_) | Value::Int(_) | Value::Float(_) | Value::Time(_));
    if joinable(a) && joinable(b) { concatenate(a, b) } else { Value::Null }
}

/// `.`: concatenation; null if either is null.
pub(crate) fn concatenate(a: &Value<'_>, b: &Value<'_>) -> Value<'static> {
    match (a.text(), b.text()) {
        (Some(a), Some(b)) if a.len() + b.len() <= TEXT_BYTES_MAX => {
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(&a);
            text.push_str(&b);
            Value::owned_text(text)
        }
        (Some(_), Some(_)) => {
            record_loss(Loss::Text);
            Value::Null
        }
        _ => Value::Null,
    }
}

/// Adds seconds to a time, or subtracts them; the result is a time, even if it is a whole number of seconds.
fn shift_time(op: Arithmetic, a: &Value<'_>, b: &Value<'_>) -> Option<Value<'static>> {
    let moved = match (op, a, b) {
        (Arithmetic::Add, Value::Time(time), Value::Int(seconds))
        | (Arithmetic::Add, Value::Int(seconds), Value::Time(time)) => {
            time.checked_add(seconds.checked_mul(NS_PER_SEC)?)?
        }
        (Arithmetic::Sub, Value::Time(time), Value::Int(seconds)) => {
            time.checked_sub(seconds.checked_mul(NS_PER_SEC)?)?
        }
        _ => return None,
    };
    Some(Value::Time(moved))
}

/// Cache of recent results: finding the decimal that a double represents is slow, and columns of aggregates contain
/// few distinct doubles.
#[derive(Default)]
struct ResultCache([Option<(u64, Option<Number>)>; ResultCache::CAPACITY]);

impl ResultCache {
    const CAPACITY: usize = 16;

    fn of(&mut self, double: f64, result: impl FnOnce() -> Option<Number>) -> Option<Number> {
        /// Multiplier of Fibonacci hashing, which distributes doubles that differ only a little.
        const HASH_MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
        let bits = double.to_bits();
        let slot = (bits.wrapping_mul(HASH_MULTIPLIER) >> (u64::BITS - Self::CAPACITY.trailing_zeros())) as usize;
        match self.0[slot] {
            Some((known, result)) if known == bits => result,
            _ => {
                let result = result();
                self.0[slot] = Some((bits, result));
                result
            }
        }
    }
}

/// Computes `a op b` for `rows` rows.
pub(super) fn calculate_column(op: Arithmetic, a: &Operand, b: &Operand, rows: usize) -> ArrayRef {
    if let Some(array) = int_column(op, a, b) {
        return array;
    }
    if let Some(array) = double_column(op, a, b, rows) {
        return array;
    }
    let mut builder = ColumnBuilder::new(rows);
    if a.is_numeric() && b.is_numeric() {
        let mut known = ResultCache::default();
        for row in 0..rows {
            let result = || result_of(op, a, b, row);
            let result = match a.double(b, row) {
                Some(double) => known.of(double, result),
                None => result(),
            };
            builder.push(match result {
                Some(number) => Value::from_number(number),
                // Without a result, one of the two values is a text of a mixed column, so `+` concatenates.
                None if op == Arithmetic::Add => add(&a.value(row), &b.value(row)),
                None => Value::Null,
            });
        }
        return builder.finish();
    }
    for row in 0..rows {
        let (a, b) = (a.value(row), b.value(row));
        builder.push(if op == Arithmetic::Add { add(&a, &b) } else { calculate(op, &a, &b) });
    }
    builder.finish()
}

/// `a op b` in a row whose operands are stored as numbers.
fn result_of(op: Arithmetic, a: &Operand, b: &Operand, row: usize) -> Option<Number> {
    let decimal = a.decimal(row).zip(b.decimal(row)).and_then(|(a, b)| decimal_of(op, a, b));
    decimal.or_else(|| a.number(row).zip(b.number(row)).and_then(|(a, b)| number_of(op, a, b)))
}

/// The column for doubles and a constant; `None` if not all results are finite doubles.
fn double_column(op: Arithmetic, a: &Operand, b: &Operand, rows: usize) -> Option<ArrayRef> {
    let array = match (a, b) {
        (Operand::Column(ColumnReader::Float(array)), Operand::Constant(Value::Int(_) | Value::Float(_)))
        | (Operand::Constant(Value::Int(_) | Value::Float(_)), Operand::Column(ColumnReader::Float(array))) => array,
        _ => return None,
    };
    let (mut known, mut results) = (ResultCache::default(), Vec::with_capacity(rows));
    for row in 0..rows {
        if array.is_null(row) {
            results.push(None);
            continue;
        }
        match Value::from_number(known.of(array.value(row), || result_of(op, a, b, row))?) {
            Value::Float(double) if double.is_finite() => results.push(Some(double)),
            _ => return None,
        }
    }
    (array.null_count() < rows).then(|| Arc::new(Float64Array::from(results)) as ArrayRef)
}

/// The column for integer operands; `None` on overflow or division by zero. A quotient need not be an integer.
fn int_column(op: Arithmetic, a: &Operand, b: &Operand) -> Option<ArrayRef> {
    let (a, b) = (a.as_int(op)?, b.as_int(op)?);
    match op {
        Arithmetic::Add => numeric::add(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Sub => numeric::sub(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Mul => numeric::mul(a.as_ref(), b.as_ref()).ok(),
        // An error means that a divisor is 0.
        Arithmetic::Rem => numeric::rem(a.as_ref(), b.as_ref()).ok(),
        Arithmetic::Div => None,
    }
}
