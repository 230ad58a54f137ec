//! `sigfig`: rounds the result of a calculation to its significant figures.
//!
//! A product or quotient has as many significant figures as the operand with the fewest, a sum or difference as many
//! decimal places: `1.00*1111` is 1111 with three significant figures, that is 1110. Significant figures depend on how
//! numbers are written, so the calculation is traced back to its fields and literals.

use quarry_event::value::Number;
use quarry_spl::ast::{BinaryOp, Expr, ExprKind, UnaryOp};

use crate::rows::Value;

/// Distance of a digit from the decimal point, in either direction, beyond which nothing is rounded.
const DECIMAL_PLACES_MAX: u32 = 18;

/// A calculation with significant figures.
#[derive(Clone, Debug)]
pub enum Figures {
    /// A number as written in the search.
    Written(String),
    /// The argument with this index.
    Argument(usize),
    /// `a op b`.
    Combined(BinaryOp, Box<Figures>, Box<Figures>),
    /// `-a`.
    Negated(Box<Figures>),
}

/// A number and the position of its last significant digit: 2 for hundredths, -1 for tens.
#[derive(Clone, Copy)]
struct SignificantNumber {
    number: Number,
    place: i32,
}

impl Figures {
    /// Converts an expression to a calculation; subexpressions that are not calculations are appended to `parts`, and
    /// their values become arguments.
    pub fn of<'e>(expr: &'e Expr, parts: &mut Vec<&'e Expr>) -> Figures {
        match &expr.kind {
            ExprKind::Number(_, written) => Figures::Written(written.clone()),
            ExprKind::Unary(UnaryOp::Plus, inner) => Figures::of(inner, parts),
            ExprKind::Unary(UnaryOp::Neg, inner) => Figures::Negated(Box::new(Figures::of(inner, parts))),
            ExprKind::Binary(
                op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem),
                a,
                b,
            ) => Figures::Combined(*op, Box::new(Figures::of(a, parts)), Box::new(Figures::of(b, parts))),
            _ => {
                parts.push(expr);
                Figures::Argument(parts.len() - 1)
            }
        }
    }

    /// The result, rounded to its last significant digit; null if an operand is not a number.
    pub fn evaluate_rounded<'a>(&self, args: &[Value<'a>]) -> Value<'a> {
        self.evaluate(args).map_or(Value::Null, |known| Value::from_number(round_at(known.number, known.place)))
    }

    fn evaluate(&self, args: &[Value<'_>]) -> Option<SignificantNumber> {
        match self {
            Figures::Written(text) => parse_significant(text),
            Figures::Argument(at) => parse_significant(&args.get(*at)?.text()?),
            Figures::Negated(inner) => {
                inner.evaluate(args).map(|known| SignificantNumber { number: known.number.negated(), ..known })
            }
            Figures::Combined(op, a, b) => {
                let (a, b) = (a.evaluate(args)?, b.evaluate(args)?);
                let number = match op {
                    BinaryOp::Add => a.number.plus(b.number),
                    BinaryOp::Sub => a.number.minus(b.number),
                    BinaryOp::Mul => a.number.times(b.number),
                    BinaryOp::Div => a.number.divided_by(b.number)?,
                    _ => a.number.remainder(b.number)?,
                };
                let place = match op {
                    BinaryOp::Mul | BinaryOp::Div => {
                        (a.figures().min(b.figures()) - 1).saturating_sub(magnitude(number))
                    }
                    _ => a.place.min(b.place),
                };
                Some(SignificantNumber { number, place })
            }
        }
    }
}

impl SignificantNumber {
    fn figures(self) -> i32 {
        self.place.saturating_add(magnitude(self.number) + 1).max(1)
    }
}

/// Exponent of the first digit.
fn magnitude(number: Number) -> i32 {
    let value = number.as_f64().abs();
    if value == 0.0 {
        0
    } else {
        format!("{value:e}").split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
    }
}

/// A number as written; all its decimal places are significant.
fn parse_significant(text: &str) -> Option<SignificantNumber> {
    let number = quarry_event::value::parse_exact_number(text)?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let decimals =
        mantissa.split_once('.').map_or(0, |(_, fraction)| i32::try_from(fraction.len()).unwrap_or(i32::MAX));
    Some(SignificantNumber { number, place: decimals.checked_sub(exponent.parse::<i32>().ok()?)? })
}

/// Rounds half away from zero.
fn round_at(number: Number, place: i32) -> Number {
    if place.unsigned_abs() > DECIMAL_PLACES_MAX {
        return number;
    }
    let unit = Number::Int(10i64.pow(place.unsigned_abs()));
    let scaled = if place >= 0 { Some(number.times(unit)) } else { number.divided_by(unit) };
    let Some(Number::Float(scaled)) = scaled else { return number };
    let whole = Number::of_float(scaled.round());
    let back = if place >= 0 { whole.divided_by(unit) } else { Some(whole.times(unit)) };
    back.unwrap_or(number)
}
