//! `stats allnum=true`: numeric functions yield a value only if all values of their field are numbers.
//!
//! For each such field, values and numeric values are counted along with the aggregates; if the counts differ, the
//! result is removed. The results of `min` and `max`, which also compare texts, are kept.

use quarry_eval::EngineError;
use quarry_eval::aggregate::FunctionBody;
use quarry_spl::ast::{
    Aggregate, AggregateArg, CompareOp, EvalCommand, FieldsCommand, NodeBuilder, StatsCommand, StatsFunction,
};

use super::Execute;
use crate::lowering::{Lowering, Step};

/// `stats` with `allnum=true`, without wildcards in field names.
pub(super) fn steps(stats: &StatsCommand, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
    let (mut counts, mut checks, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
    for (at, aggregate) in stats.aggregates.iter().enumerate() {
        let AggregateArg::Field(field) = &aggregate.arg else { continue };
        if !FunctionBody::of(&aggregate.function).reads_only_numbers() {
            continue;
        }
        let (values, numbers, make) =
            (format!("__values{at}"), format!("__numbers{at}"), NodeBuilder::at(aggregate.span));
        let value = || make.field(&field.text);
        let number = make.when(make.call("isnum", [value()]), value());
        let number = AggregateArg::Eval(make.call("mvmap", [value(), number]));
        counts.push(make.aggregate(StatsFunction::Count, &field.text, &values));
        counts.push(Aggregate { arg: number, ..make.count(&numbers) });
        let are_equal = make.compare(CompareOp::Eq, make.field(&values), make.field(&numbers));
        checks.push(make.assignment(&aggregate.name, make.when(are_equal, make.field(&aggregate.name))));
        hidden.extend([values, numbers].map(|name| make.pattern(&name)));
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
