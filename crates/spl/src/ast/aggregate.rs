//! Aggregates of the stats family. Their functions are in [`crate::functions`].

use serde::{Deserialize, Serialize};

use super::{Expr, FieldPattern, Span};
use crate::functions::StatsFunction;

/// One aggregate of the stats family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// Function that is computed, resolved from its name or alias.
    pub function: StatsFunction,
    /// Argument; [`AggregateArg::Rows`] for a bare `count`.
    pub arg: AggregateArg,
    /// Output name: the `AS` name, or the text as written, e.g. `sum(bytes)`, `count`, `count(eval(x>1))`.
    pub name: String,
    /// Whether `AS` was given.
    pub renamed: bool,
    /// Position in the text.
    pub span: Span,
}

impl Aggregate {
    /// Whether the argument is a pattern, which stands for one aggregate per matching field.
    pub fn has_wildcard(&self) -> bool {
        matches!(&self.arg, AggregateArg::Field(field) if field.is_wildcard())
    }
}

/// Prefix of the internal names of aggregates inside an `eval(...)`.
pub const PART_PREFIX: &str = "__part";

/// `eval(EXPR)` of chart and timechart: an expression over aggregates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComputedAggregate {
    /// Index of the first aggregate of the expression.
    pub at: usize,
    /// Number of aggregates in the expression.
    pub parts: usize,
    /// The expression, in which fields with internal names replace the aggregates.
    pub expr: Expr,
    /// Output name: the `AS` name, or the text as written.
    pub name: String,
    /// Position in the text.
    pub span: Span,
}

/// Argument of an aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AggregateArg {
    /// No argument: `count`.
    Rows,
    /// A field or wildcard pattern.
    Field(FieldPattern),
    /// `eval(EXPR)`.
    Eval(Expr),
}
