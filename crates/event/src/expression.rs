//! The seam between the index pipeline and the language of eval expressions.
//!
//! `INGEST_EVAL` and `STOP_PROCESSING_IF` hold expressions of the search language. The pipeline compiles and runs them
//! through these traits and knows nothing of the language; who implements them knows nothing of events.

use std::borrow::Cow;
use std::fmt::Debug;

use quarry_stdx::Fault;

use crate::time::TimeNs;

/// A value that an expression reads or gives.
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
    /// An instant; acts as the number of seconds.
    Time(TimeNs),
    /// A text, which may read as a number.
    Text(Cow<'a, str>),
    /// Several texts.
    Multi(Vec<Cow<'a, str>>),
}

/// An expression ready to run.
pub trait Expression: Debug + Send + Sync {
    /// Names it reads, in the order in which [`Expression::evaluate`] wants their values.
    fn names(&self) -> &[String];

    /// Its value. What cannot be computed is null; the error says which limit was met.
    fn evaluate(&self, values: &[ExpressionValue<'_>], now: TimeNs) -> Result<ExpressionValue<'static>, Fault>;
}

/// Compiles expressions.
pub trait ExpressionCompiler: Debug + Send + Sync {
    /// The expression of a text; the error says what is wrong with it.
    fn compile(&self, text: &str) -> Result<Box<dyn Expression>, Fault>;
}
