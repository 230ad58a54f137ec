//! Expressions of the index pipeline, implementing [`quarry_event::expression`].
//!
//! Expressions are written in the language of `eval`. They process the values of one event at a time, without rows.
//! `now()` is supplied by the pipeline and unknown when an expression is compiled, so it is read like a field.
//!
//! Not here: names of keys and fields, assignments (pipeline); `searchmatch()`, which may read any field and is
//! refused.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::tz::TimeZone;
use quarry_eval::expr::{CompiledExpr, ExprContext};
use quarry_eval::rows::{ColumnBuilder, Value};
use quarry_event::{Expression, ExpressionCompiler, ExpressionValue, TimeNs};
use quarry_spl::ast::{Expr, ExprKind};
use quarry_stdx::Fault;

use crate::threads::with_stack;

/// Field name under which an expression reads the current time; no real field has this name.
const NOW_FIELD: &str = "\u{0}now";
/// Depth of an expression that can be evaluated on any stack; an unoptimised build needs about 4 KB per level.
const SMALL_STACK_DEPTH_MAX: usize = 64;
/// Distance between the random seeds of two expressions.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Compiles expressions of the index pipeline.
#[derive(Debug)]
pub struct IngestExpressions {
    zone: TimeZone,
    /// Random seed of the next expression.
    seed: AtomicU64,
}

impl IngestExpressions {
    /// `zone` is used to format times; `seed` initialises random numbers.
    pub fn new(zone: TimeZone, seed: u64) -> IngestExpressions {
        IngestExpressions { zone, seed: AtomicU64::new(seed) }
    }
}

impl ExpressionCompiler for IngestExpressions {
    fn compile(&self, text: &str) -> Result<Box<dyn Expression>, Fault> {
        with_stack(|| self.compile_expression(text))
    }
}

impl IngestExpressions {
    fn compile_expression(&self, text: &str) -> Result<Box<dyn Expression>, Fault> {
        let parsed = quarry_spl::parse_expression(text);
        let mut expr = parsed.map_err(|remarks| {
            Fault::invalid(remarks.first().map_or("it cannot be read", |remark| remark.message.as_str()))
        })?;
        replace_now_calls(&mut expr);
        let seed = self.seed.fetch_add(SEED_STEP, Ordering::Relaxed);
        let context = ExprContext::new(seed.cast_signed(), self.zone.clone());
        let compiled = CompiledExpr::new(&expr, &context)?;
        let not_here = || Fault::invalid("searchmatch() cannot be used when events are indexed");
        let names = compiled.field_names().ok_or_else(not_here)?;
        let is_deep = depth(&expr) > SMALL_STACK_DEPTH_MAX;
        Ok(Box::new(IngestExpression { compiled, names, is_deep }))
    }
}

/// Depth of an expression's tree.
fn depth(expr: &Expr) -> usize {
    1 + expr.parts().into_iter().map(depth).max().unwrap_or(0)
}

/// Replaces calls of `now()` and `time()`.
fn replace_now_calls(expr: &mut Expr) {
    match &expr.kind {
        ExprKind::Call(name, args) if args.is_empty() && (name == "now" || name == "time") => {
            expr.kind = ExprKind::Field(NOW_FIELD.to_owned());
        }
        _ => expr.parts_mut().into_iter().for_each(replace_now_calls),
    }
}

#[derive(Debug)]
struct IngestExpression {
    compiled: CompiledExpr,
    names: Vec<String>,
    /// Whether a pipeline thread may have too little stack to evaluate the expression.
    is_deep: bool,
}

impl Expression for IngestExpression {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn evaluate(&self, values: &[ExpressionValue<'_>], now: TimeNs) -> Result<ExpressionValue<'static>, Fault> {
        let column = |(name, value): (&String, &ExpressionValue<'_>)| {
            let mut column = ColumnBuilder::new(1);
            match value {
                // `now()` has whole seconds here, as in a search.
                _ if name == NOW_FIELD => column.push(Value::Int(now.div_euclid(quarry_event::time::NS_PER_SEC))),
                value => column.push(value_of(value)),
            }
            column.finish()
        };
        let columns = self.names.iter().zip(values).map(column).collect();
        let compute = || self.compiled.evaluate_one(columns);
        let value = if self.is_deep { with_stack(compute) } else { compute() }?;
        Ok(to_expression_value(value))
    }
}

fn value_of<'a>(value: &'a ExpressionValue<'_>) -> Value<'a> {
    match value {
        ExpressionValue::Null => Value::Null,
        ExpressionValue::Bool(value) => Value::Bool(*value),
        ExpressionValue::Integer(value) => Value::Int(*value),
        ExpressionValue::Number(value) => Value::Float(*value),
        ExpressionValue::Time(time) => Value::Time(*time),
        ExpressionValue::Text(text) => Value::borrowed_text(text),
        ExpressionValue::Multi(values) => Value::multi(values.iter().map(|value| Cow::Borrowed(&**value)).collect()),
    }
}

fn to_expression_value(value: Value<'static>) -> ExpressionValue<'static> {
    match value {
        Value::Null => ExpressionValue::Null,
        Value::Bool(value) => ExpressionValue::Bool(value),
        Value::Int(value) => ExpressionValue::Integer(value),
        Value::Float(value) => ExpressionValue::Number(value),
        Value::Time(time) => ExpressionValue::Time(time),
        Value::Text(text) => ExpressionValue::Text(text),
        Value::Multi(values) => ExpressionValue::Multi(values),
    }
}
