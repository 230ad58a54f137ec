//! The fields that an expression or a search condition reads.

use std::collections::BTreeSet;

use crate::ast::{Expr, ExprKind, SearchExpr};
use crate::parse::parse_condition;

/// Name of the event text.
pub(crate) const RAW: &str = "_raw";
/// Name of the event time.
pub(crate) const TIME: &str = "_time";

/// Whether an expression calls a function that may read fields besides those of [`expr_fields`].
pub(super) fn reads_event(expr: &Expr) -> bool {
    let is_open = match &expr.kind {
        ExprKind::Call(name, args) if name == "searchmatch" => match args.as_slice() {
            [Expr { kind: ExprKind::Text(text), .. }] => parse_condition(text).map_or(true, |condition| {
                !condition.subsearches().is_empty() || search_fields(&condition).iter().any(|name| name.contains('*'))
            }),
            _ => true,
        },
        _ => false,
    };
    is_open || expr.parts().into_iter().any(reads_event)
}

/// Fields that an expression reads.
pub fn expr_fields(expr: &Expr) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    collect_expr(expr, &mut fields);
    fields
}

fn collect_expr(expr: &Expr, fields: &mut BTreeSet<String>) {
    match &expr.kind {
        ExprKind::Field(name) => drop(fields.insert(name.clone())),
        // The fields in the condition of `searchmatch` count too, because computed default fields exist only if a
        // search names them.
        ExprKind::Call(name, args) => {
            if let ("searchmatch", [Expr { kind: ExprKind::Text(text), .. }]) = (name.as_str(), args.as_slice())
                && let Ok(condition) = parse_condition(text)
            {
                collect_search(&condition, fields);
            }
        }
        _ => {}
    }
    expr.parts().into_iter().for_each(|part| collect_expr(part, fields));
}

/// Fields of an expression that may be missing without a warning: the expression tests for them or gives a default.
pub(crate) fn possibly_missing_fields(expr: &Expr) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    collect_possibly_missing(expr, &mut fields);
    fields
}

fn collect_possibly_missing(expr: &Expr, fields: &mut BTreeSet<String>) {
    match &expr.kind {
        ExprKind::Call(name, args)
            if matches!(name.as_str(), "coalesce" | "isnull" | "isnotnull" | "typeof" | "mvappend") =>
        {
            args.iter().for_each(|arg| collect_expr(arg, fields));
        }
        _ => expr.parts().into_iter().for_each(|part| collect_possibly_missing(part, fields)),
    }
}

/// Fields that a search condition reads; keywords read `_raw`.
pub fn search_fields(expr: &SearchExpr) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    collect_search(expr, &mut fields);
    fields
}

fn collect_search(expr: &SearchExpr, fields: &mut BTreeSet<String>) {
    match expr {
        SearchExpr::All | SearchExpr::Subsearch(_) => {}
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().for_each(|part| collect_search(part, fields)),
        SearchExpr::Not(part) => collect_search(part, fields),
        SearchExpr::Keyword(_) | SearchExpr::Term(_) | SearchExpr::Case(_) => {
            fields.insert(RAW.to_owned());
        }
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } | SearchExpr::Indexed { field, .. } => {
            fields.insert(field.text.clone());
        }
    }
}
