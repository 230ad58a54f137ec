//! Interface between the index pipeline and the implementation of eval expressions.
//!
//! `INGEST_EVAL` and `STOP_PROCESSING_IF` contain eval expressions. The pipeline compiles and runs them through these
//! traits and knows nothing about the language; implementations know nothing about events.

use std::borrow::Cow;
use std::fmt::Debug;

use quarry_stdx::Fault;

use crate::time::TimeNs;

/// Input or result of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpressionValue<'a> {
    /// No value. An empty text is not null.
    Null,
    /// Result of a condition.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A time; acts as a number of seconds.
    Time(TimeNs),
    /// A text, which may be numeric.
    Text(Cow<'a, str>),
    /// Several texts.
    Multi(Vec<Cow<'a, str>>),
}

/// A compiled expression.
pub trait Expression: Debug + Send + Sync {
    /// Names that the expression reads, in the order in which [`Expression::evaluate`] expects their values.
    fn names(&self) -> &[String];

    /// The value of the expression. Values that cannot be computed are null; the error names an exceeded limit.
    fn evaluate(&self, values: &[ExpressionValue<'_>], now: TimeNs) -> Result<ExpressionValue<'static>, Fault>;
}

/// Compiles expressions.
pub trait ExpressionCompiler: Debug + Send + Sync {
    /// Compiles an expression; the error describes the problem.
    fn compile(&self, text: &str) -> Result<Box<dyn Expression>, Fault>;
}
