//! `stats allnum=true`: numeric functions yield a value only if all values of their field are numbers.
//!
//! The values of each such field, and the numbers among them, are counted along with the aggregates; if the counts
//! differ, the value is removed. `min` and `max` also compare texts and are kept.

use quarry_eval::EngineError;
use quarry_eval::aggregate::Body;
use quarry_spl::ast::{
    Aggregate, AggregateArg, AssignTarget, Assignment, BinaryOp, CompareOp, EvalCommand, Expr, ExprKind, FieldPattern,
    FieldsCommand, Span, StatsCommand, StatsFunction,
};

use super::Execute;
use crate::lowering::{Lowering, Step};

/// `stats` with `allnum=true`, without wildcards in field names.
pub(super) fn steps(stats: &StatsCommand, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
    let (mut counts, mut checks, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
    for (at, aggregate) in stats.aggregates.iter().enumerate() {
        let AggregateArg::Field(field) = &aggregate.arg else { continue };
        if !Body::of(&aggregate.function).is_of_numbers() {
            continue;
        }
        let (values, numbers, span) = (format!("__values{at}"), format!("__numbers{at}"), aggregate.span);
        counts.push(count(AggregateArg::Field(field.clone()), &values, span));
        counts.push(count(AggregateArg::Eval(numbers_of(&field.text, span)), &numbers, span));
        checks.push(where_equal(&aggregate.name, &values, &numbers, span));
        hidden.extend([values, numbers].map(|text| FieldPattern { text, span }));
    }
    let mut command = StatsCommand { all_num: false, ..stats.clone() };
    command.aggregates.extend(counts);
    let mut steps = command.steps(lowering)?;
    if !checks.is_empty() {
        steps.extend(EvalCommand { assignments: checks }.steps(lowering)?);
        steps.extend(FieldsCommand { removes: true, fields: hidden }.steps(lowering)?);
    }
    Ok(steps)
}

fn count(arg: AggregateArg, name: &str, span: Span) -> Aggregate {
    Aggregate { function: StatsFunction::Count, arg, name: name.to_owned(), renamed: true, span }
}

fn field(name: &str, span: Span) -> Expr {
    Expr { kind: ExprKind::Field(name.to_owned()), span }
}

fn call(name: &str, arguments: Vec<Expr>, span: Span) -> Expr {
    Expr { kind: ExprKind::Call(name.to_owned(), arguments), span }
}

/// `mvmap(FIELD, if(isnum(FIELD), FIELD, null()))`
fn numbers_of(name: &str, span: Span) -> Expr {
    let is_number = call("isnum", vec![field(name, span)], span);
    let number = call("if", vec![is_number, field(name, span), call("null", Vec::new(), span)], span);
    call("mvmap", vec![field(name, span), number], span)
}

/// `NAME = if(VALUES == NUMBERS, NAME, null())`
fn where_equal(name: &str, values: &str, numbers: &str, span: Span) -> Assignment {
    let (left, right) = (Box::new(field(values, span)), Box::new(field(numbers, span)));
    let are_equal = Expr { kind: ExprKind::Binary(BinaryOp::Compare(CompareOp::Eq), left, right), span };
    let expr = call("if", vec![are_equal, field(name, span), call("null", Vec::new(), span)], span);
    Assignment { target: AssignTarget::Field(name.to_owned()), expr }
}
