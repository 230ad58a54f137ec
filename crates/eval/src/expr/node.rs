//! Nodes of a compiled expression, and their evaluation for one row.

use std::borrow::Cow;

use arrow::array::Array;
use quarry_spl::ast::CompareOp;

use super::arithmetic::{self, Arithmetic};
use super::compare::{Literal, compare_values};
use super::context::ExprContext;
use super::single_column::SingleColumnPart;
use crate::functions::CallState;
use crate::functions::{Call, Function, Prepared};
use crate::rows::{ColumnReader, Value};

/// A compiled expression node.
#[derive(Debug)]
pub enum ExprNode {
    /// A constant.
    Constant(Value<'static>),
    /// A column of the batch.
    Slot(usize),
    /// `-x`.
    Negate(Box<ExprNode>),
    /// `NOT x`.
    Not(Box<ExprNode>),
    /// `a + b` etc.
    Arithmetic(Arithmetic, Box<ExprNode>, Box<ExprNode>),
    /// `a . b`.
    Concat(Box<ExprNode>, Box<ExprNode>),
    /// `a < b` etc.
    Compare(CompareOp, Box<ExprNode>, Box<ExprNode>),
    /// A comparison with a constant on the right.
    CompareLiteral(CompareOp, Box<ExprNode>, Literal),
    /// `a AND b`.
    And(Box<ExprNode>, Box<ExprNode>),
    /// `a OR b`.
    Or(Box<ExprNode>, Box<ExprNode>),
    /// `a XOR b`.
    Xor(Box<ExprNode>, Box<ExprNode>),
    /// `x IN (...)`.
    In(Box<ExprNode>, Vec<ExprNode>),
    /// `x IN (...)` with constants only.
    InLiterals(Box<ExprNode>, Vec<Literal>),
    /// `isnull(x)`.
    IsNull(Box<ExprNode>),
    /// `isnotnull(x)`.
    IsNotNull(Box<ExprNode>),
    /// `if(a, b, c)` and `case(a, b, ...)`: the value after the first true condition.
    Case(Vec<(ExprNode, ExprNode)>),
    /// `validate(a, b, ...)`: the value after the first false condition.
    Validate(Vec<(ExprNode, ExprNode)>),
    /// `coalesce(...)`.
    Coalesce(Vec<ExprNode>),
    /// `mvfilter(predicate)`: the values of the slot that satisfy the predicate.
    MvFilter(usize, Box<ExprNode>),
    /// `mvmap(values, each)`: evaluates `each` with the slot bound to each value in turn.
    MvMap(Box<ExprNode>, usize, Box<ExprNode>),
    /// Any other function.
    Call(Function, Vec<ExprNode>, Prepared),
    /// A part that reads a single column, so that its results can be shared.
    Single(Box<SingleColumnPart>),
}

/// One row, and the values bound by enclosing `mvmap` and `mvfilter` calls.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Columns by slot.
    pub(super) columns: &'a [ColumnReader],
    /// Results of the single-column parts that are already computed.
    pub(super) singles: &'a [Option<ColumnReader>],
    /// Index of the row in the columns.
    pub(super) row: usize,
    /// Innermost bound value.
    pub(super) binding: Option<&'a Binding<'a>>,
    /// Context of the search.
    pub(super) context: &'a ExprContext,
    /// State shared by the calls of the expression.
    pub(super) state: &'a CallState,
}

/// A value bound in place of a column.
pub(crate) struct Binding<'a> {
    slot: usize,
    text: &'a str,
    outer: Option<&'a Binding<'a>>,
}

impl<'a> Row<'a> {
    /// A row outside any batch, for folding constants.
    pub(super) fn detached(context: &'a ExprContext, state: &'a CallState) -> Row<'a> {
        Row { columns: &[], singles: &[], row: 0, binding: None, context, state }
    }

    #[inline]
    fn slot(&self, slot: usize) -> Value<'a> {
        let mut binding = self.binding;
        while let Some(bound) = binding {
            if bound.slot == slot {
                return Value::borrowed_text(bound.text);
            }
            binding = bound.outer;
        }
        self.columns.get(slot).map_or(Value::Null, |column| column.value(self.row))
    }

    fn is_null(&self, slot: usize) -> bool {
        if self.binding.is_some() {
            return self.slot(slot).is_null();
        }
        self.columns.get(slot).is_none_or(|column| column.is_null(self.row))
    }
}

impl ExprNode {
    /// Whether the result is a truth value or null in every row.
    pub fn is_condition(&self) -> bool {
        match self {
            ExprNode::Constant(value) => matches!(value, Value::Bool(_)),
            ExprNode::Not(_)
            | ExprNode::Compare(..)
            | ExprNode::CompareLiteral(..)
            | ExprNode::In(..)
            | ExprNode::InLiterals(..) => true,
            ExprNode::And(..) | ExprNode::Or(..) | ExprNode::Xor(..) | ExprNode::IsNull(_) | ExprNode::IsNotNull(_) => {
                true
            }
            ExprNode::Case(arms) | ExprNode::Validate(arms) => arms.iter().all(|(_, value)| value.is_condition()),
            ExprNode::Coalesce(values) => values.iter().all(ExprNode::is_condition),
            ExprNode::Call(function, ..) => function.is_condition(),
            ExprNode::Single(single) => single.inner.is_condition(),
            _ => false,
        }
    }

    /// The node's value for a row.
    pub fn value<'a>(&'a self, row: &Row<'a>) -> Value<'a> {
        match self {
            ExprNode::Constant(value) => borrow_value(value),
            ExprNode::Slot(slot) => row.slot(*slot),
            ExprNode::Negate(inner) => arithmetic::calculate(Arithmetic::Sub, &Value::Int(0), &inner.value(row)),
            ExprNode::Arithmetic(Arithmetic::Add, a, b) => arithmetic::add(&a.value(row), &b.value(row)),
            ExprNode::Arithmetic(op, a, b) => arithmetic::calculate(*op, &a.value(row), &b.value(row)),
            ExprNode::Concat(a, b) => arithmetic::concatenate(&a.value(row), &b.value(row)),
            ExprNode::Case(arms) => first_arm(arms, true, row),
            ExprNode::Validate(arms) => first_arm(arms, false, row),
            ExprNode::Coalesce(values) => {
                values.iter().map(|node| node.value(row)).find(|value| !value.is_null()).unwrap_or(Value::Null)
            }
            ExprNode::MvFilter(slot, predicate) => filter_values(*slot, predicate, row),
            ExprNode::MvMap(values, slot, each) => map_values(values, *slot, each, row),
            ExprNode::Call(function, args, prepared) => call(function, args, prepared, row),
            ExprNode::Single(single) => match single.computed_column(row) {
                Some(column) => column.value(row.row),
                None => single.inner.value(row),
            },
            condition => condition.truth(row).map_or(Value::Null, Value::Bool),
        }
    }

    /// The node's truth for a row; `None` for null and non-conditions.
    pub fn truth<'a>(&'a self, row: &Row<'a>) -> Option<bool> {
        match self {
            ExprNode::Not(inner) => inner.truth(row).map(|truth| !truth),
            ExprNode::Compare(op, a, b) => compare_values(*op, &a.value(row), &b.value(row)),
            ExprNode::CompareLiteral(op, a, literal) => literal.compare(*op, &a.value(row)),
            ExprNode::And(a, b) => match a.truth(row) {
                Some(false) => Some(false),
                Some(true) => b.truth(row),
                None => b.truth(row).filter(|truth| !truth),
            },
            ExprNode::Or(a, b) => match a.truth(row) {
                Some(true) => Some(true),
                Some(false) => b.truth(row),
                None => b.truth(row).filter(|truth| *truth),
            },
            ExprNode::Xor(a, b) => Some(a.truth(row)? != b.truth(row)?),
            ExprNode::InLiterals(needle, literals) => is_literal(&needle.value(row), literals),
            ExprNode::In(needle, values) => is_in(&needle.value(row), values, row),
            ExprNode::IsNull(inner) => Some(inner.is_null(row)),
            ExprNode::IsNotNull(inner) => Some(!inner.is_null(row)),
            ExprNode::Single(single) => match single.computed_column(row) {
                Some(ColumnReader::Bool(values)) => values.is_valid(row.row).then(|| values.value(row.row)),
                _ => single.inner.truth(row),
            },
            other => match other.value(row) {
                Value::Bool(truth) => Some(truth),
                _ => None,
            },
        }
    }

    fn is_null<'a>(&'a self, row: &Row<'a>) -> bool {
        match self {
            ExprNode::Slot(slot) => row.is_null(*slot),
            other => other.value(row).is_null(),
        }
    }
}

/// A copy that borrows its texts.
pub(super) fn borrow_value<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Text(text) => Value::borrowed_text(text),
        Value::Multi(values) => Value::Multi(values.iter().map(|text| Cow::Borrowed(text.as_ref())).collect()),
        other => other.clone(),
    }
}

fn first_arm<'a>(arms: &'a [(ExprNode, ExprNode)], wanted: bool, row: &Row<'a>) -> Value<'a> {
    let arm = arms.iter().find(|(condition, _)| condition.truth(row) == Some(wanted));
    arm.map_or(Value::Null, |(_, value)| value.value(row))
}

/// True if any value is equal; null if none is equal but one is null.
fn is_in<'a>(needle: &Value<'a>, values: &'a [ExprNode], row: &Row<'a>) -> Option<bool> {
    let mut result = Some(false);
    for value in values {
        match compare_values(CompareOp::Eq, needle, &value.value(row)) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => result = None,
        }
    }
    result
}

/// Whether a value equals one of the constants; null if the value is null.
pub(super) fn is_literal(needle: &Value<'_>, literals: &[Literal]) -> Option<bool> {
    if needle.is_null() {
        return None;
    }
    Some(literals.iter().any(|literal| literal.compare(CompareOp::Eq, needle) == Some(true)))
}

fn filter_values<'a>(slot: usize, predicate: &'a ExprNode, row: &Row<'a>) -> Value<'a> {
    let mut kept = row.slot(slot).into_values();
    kept.retain(|text| {
        let binding = Binding { slot, text, outer: row.binding };
        predicate.truth(&Row { binding: Some(&binding), ..*row }) == Some(true)
    });
    Value::multi(kept)
}

fn map_values<'a>(values: &'a ExprNode, slot: usize, each: &'a ExprNode, row: &Row<'a>) -> Value<'a> {
    let mut mapped: Vec<Cow<'a, str>> = Vec::new();
    let mut bytes = 0;
    for text in values.value(row).into_values() {
        let binding = Binding { slot, text: &text, outer: row.binding };
        let value = each.value(&Row { binding: Some(&binding), ..*row }).into_owned();
        let start = mapped.len();
        mapped.extend(value.into_values());
        bytes += mapped[start..].iter().map(|text| text.len()).sum::<usize>();
        // Each value may repeat a text of any length, such as another field.
        if !row.state.allows(mapped.len(), bytes) {
            break;
        }
    }
    Value::multi(mapped)
}

fn call<'a>(function: &Function, args: &'a [ExprNode], prepared: &'a Prepared, row: &Row<'a>) -> Value<'a> {
    /// Maximum number of arguments of a call that needs no allocation.
    const INLINE: usize = 4;
    let call = Call { now: row.context.now, zone: &row.context.zone, state: row.state, prepared };
    if args.len() <= INLINE {
        let mut values: [Value<'a>; INLINE] = std::array::from_fn(|_| Value::Null);
        for (value, node) in values.iter_mut().zip(args) {
            *value = node.value(row);
        }
        return check_type(function, (function.run)(&mut values[..args.len()], &call));
    }
    let mut values: Vec<Value<'a>> = args.iter().map(|node| node.value(row)).collect();
    check_type(function, (function.run)(&mut values, &call))
}

/// Checks that a value has the type stated in the function table, on which the typing of expressions relies.
fn check_type<'a>(function: &Function, value: Value<'a>) -> Value<'a> {
    debug_assert!(function.may_return(&value), "{} returned {value:?}", function.row.help.name);
    value
}
