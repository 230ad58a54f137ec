//! Whether an expression, a condition or a span means the same in every search, at any time.

use crate::ast::{Aggregate, AggregateArg, BinOptions, Expr, ExprKind, SearchExpr, SplitField};
use crate::functions::{Volatility, eval_function};

/// Whether aggregates read nothing but their rows.
pub(crate) fn aggregates(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().all(|aggregate| match &aggregate.arg {
        AggregateArg::Eval(expr) => is_constant(expr),
        AggregateArg::Rows | AggregateArg::Field(_) => true,
    })
}

/// Whether the spans of a split field start where the span itself says.
pub(crate) fn split(split: &Option<SplitField>) -> bool {
    split.as_ref().is_none_or(|split| is_aligned(&split.bin))
}

/// Whether spans start where the span itself says, and not at a bound of the search.
pub(crate) fn is_aligned(options: &BinOptions) -> bool {
    options.align_time.is_none()
}

/// Whether a condition needs nothing but the event.
pub fn is_settled(condition: &SearchExpr) -> bool {
    match condition {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().all(is_settled),
        SearchExpr::Not(part) => is_settled(part),
        // One in the middle of a search is run where the search is made ready; what it found is not in the tree.
        SearchExpr::Subsearch(_) => false,
        SearchExpr::All
        | SearchExpr::Keyword(_)
        | SearchExpr::Term(_)
        | SearchExpr::Case(_)
        | SearchExpr::Compare { .. }
        | SearchExpr::In { .. }
        | SearchExpr::Indexed { .. } => true,
    }
}

/// Whether a time format is known to name the day and its year, so that no time read by it depends on today.
fn names_whole_day(format: Option<&Expr>) -> bool {
    let Some(Expr { kind: ExprKind::Text(format), .. }) = format else { return false };
    let names = |directives: &[&str]| directives.iter().any(|directive| format.contains(directive));
    names(&["%s", "%F", "%D", "%x", "%c", "%+"]) || (names(&["%Y", "%y"]) && names(&["%d", "%e", "%j"]))
}

/// Whether an expression gives the same for the same row at any time.
pub fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Text(_) | ExprKind::Number(..) | ExprKind::Bool(_) | ExprKind::Field(_) => true,
        ExprKind::Unary(_, value) => is_constant(value),
        ExprKind::Binary(_, left, right) => is_constant(left) && is_constant(right),
        ExprKind::In(value, list) => is_constant(value) && list.iter().all(is_constant),
        ExprKind::Call(name, arguments) => is_immutable(name, arguments) && arguments.iter().all(is_constant),
    }
}

/// Whether a function gives the same for the same arguments at any time; one that is not known does not.
fn is_immutable(name: &str, arguments: &[Expr]) -> bool {
    match eval_function(name).map(|function| function.volatility) {
        Some(Volatility::Immutable) => true,
        Some(Volatility::Stable) => name == "strptime" && names_whole_day(arguments.get(1)),
        Some(Volatility::Volatile) | None => false,
    }
}
