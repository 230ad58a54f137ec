//! Whether an expression, a condition or a span has the same result in every search, at any time.

use crate::ast::{Aggregate, AggregateArg, BinOptions, Expr, ExprKind, SearchExpr, SplitField};
use crate::functions::{Volatility, eval_function};

/// Whether aggregates depend only on their rows.
pub(crate) fn are_repeatable(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().all(|aggregate| match &aggregate.arg {
        AggregateArg::Eval(expr) => is_constant(expr),
        AggregateArg::Rows | AggregateArg::Field(_) => true,
    })
}

/// Whether the spans of a split field are aligned independently of the search's time range.
pub(crate) fn is_split_aligned(split: &Option<SplitField>) -> bool {
    split.as_ref().is_none_or(|split| is_aligned(&split.bin))
}

/// Whether spans are known to be aligned independently of the search's time range.
pub(crate) fn is_aligned(options: &BinOptions) -> bool {
    options.align_time.is_none()
}

/// Whether a condition depends only on the event.
pub fn depends_only_on_event(condition: &SearchExpr) -> bool {
    match condition {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().all(depends_only_on_event),
        SearchExpr::Not(part) => depends_only_on_event(part),
        // A subsearch in the middle of a search runs while the search is prepared; its result is not in the tree.
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

/// Whether a time format is known to include an epoch, or year and day, so that the parsed time does not depend on
/// today's date (if only the month is missing, the time is null).
fn names_whole_day(format: Option<&Expr>) -> bool {
    let Some(Expr { kind: ExprKind::Text(format), .. }) = format else { return false };
    let names = |directives: &[&str]| directives.iter().any(|directive| format.contains(directive));
    names(&["%s", "%F", "%D", "%x", "%c", "%+"]) || (names(&["%Y", "%y"]) && names(&["%d", "%e", "%j"]))
}

/// Whether an expression always has the same value for the same row.
pub fn is_constant(expr: &Expr) -> bool {
    let is_immutable_here = !matches!(&expr.kind, ExprKind::Call(name, arguments) if !is_immutable(name, arguments));
    is_immutable_here && expr.parts().into_iter().all(is_constant)
}

/// Whether a function always has the same value for the same arguments; unknown functions do not.
fn is_immutable(name: &str, arguments: &[Expr]) -> bool {
    match eval_function(name).map(|function| function.volatility) {
        Some(Volatility::Immutable) => true,
        Some(Volatility::Stable) => name == "strptime" && names_whole_day(arguments.get(1)),
        Some(Volatility::Volatile) | None => false,
    }
}
