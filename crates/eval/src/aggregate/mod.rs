//! Splittable aggregation: each worker folds the rows that it reads into groups ([`Folder`]), the groups of all workers
//! are merged, and the values of the merged groups are computed.
//!
//! Every stats function is a row of [`functions`]: a short list of *state columns* ([`StateColumn`]). Each column
//! holds one state per group, folds in values and merges the states of two workers ([`fold`]), and has a serialized
//! form ([`StateLayout`]), in which states are spilled when memory is short, merged partition by partition
//! ([`spill`]), and sent to other nodes. `avg` is a sum and a count, `range` a minimum and a maximum. [`finish`] turns
//! merged states into the function's value, [`running_state`] computes the value after each row. [`groups`] finds the
//! group of a row, [`row_groups`] the single group that other commands need, [`values`] defines which values are equal,
//! [`group_order`] sorts groups.
//!
//! Not here: selection of rows, layout of the result (chart, timechart and top are in the engine).

mod code_counts;
pub mod digest;
mod distinct_values;
mod finish;
mod finished_groups;
mod first_last;
mod fold;
pub mod folder;
mod functions;
pub mod group_order;
mod groups;
mod integers;
pub mod keys;
pub mod moments;
pub mod numbers;
pub mod ordered_numbers;
mod pairs;
pub mod row_groups;
pub mod running_state;
mod sparkline;
mod spill;
mod state;
mod state_column;
mod sums;
#[cfg(test)]
mod tests;
pub mod total;
mod values;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{Aggregate, AggregateArg, StatsFunction};
use quarry_spl::functions::ResultType;

pub use self::finished_groups::FinishedGroups;
pub use self::folder::{Folded, FoldedPart, Folder};
pub use self::functions::{DistinctResult, FunctionBody, PickResult, TimedNumber};
pub use self::spill::MergedFolders;
pub(crate) use self::state::number_item;
pub use self::state::{LayoutColumn, StateContent, StateLayout};
pub use self::state_column::{LIST_VALUES_MAX, PickKey, SparklineInput, StateColumn};
use crate::EngineError;
use crate::context::CommandContext;
use crate::expr::{CompiledExpr, ExprContext};
use crate::field_names::METADATA_FIELDS;
use crate::rows::{ColumnReader, batch_of};

/// A compiled aggregate.
#[derive(Clone)]
pub struct AggregateColumn {
    /// Function that is computed.
    pub function: StatsFunction,
    /// Implementation of the function.
    pub body: FunctionBody,
    /// Source of the aggregate's values.
    pub argument: Argument,
    /// Output name.
    pub name: String,
}

impl AggregateColumn {
    /// An aggregate of this function and argument.
    pub fn new(function: StatsFunction, argument: Argument, name: String) -> AggregateColumn {
        AggregateColumn { body: FunctionBody::of(&function), function, argument, name }
    }

    /// Whether these results have the type that the function table states.
    fn may_have_type_of(&self, values: &ArrayRef) -> bool {
        let values = ColumnReader::new(values);
        let is_number = |row| values.is_null(row) || values.number(row).is_some();
        self.function.result() != ResultType::Number || (0..values.len()).all(is_number)
    }
}

/// A function call as text, with `eval(...)` for an expression.
fn call_of(function: &StatsFunction, argument: &Argument) -> String {
    if let StatsFunction::Sparkline { inner, .. } = function {
        return format!("{}({})", function.name(), call_of(inner, argument));
    }
    match argument {
        Argument::Rows => function.name(),
        Argument::Field(field) => format!("{}({field})", function.name()),
        Argument::Expr(_) => format!("{}(eval(...))", function.name()),
    }
}

/// Source of an aggregate's values.
#[derive(Clone)]
pub enum Argument {
    /// No argument: rows are counted.
    Rows,
    /// A field.
    Field(String),
    /// An expression.
    Expr(Arc<CompiledExpr>),
}

/// A set of aggregates by group.
#[derive(Clone)]
pub struct AggregatePlan {
    /// Aggregates in order of output.
    pub columns: Vec<AggregateColumn>,
    /// Names of the BY fields.
    pub by: Vec<String>,
    /// Source of the last BY field if that field splits the result into series.
    pub series: Option<Series>,
}

/// A field that splits a table into series.
#[derive(Clone)]
pub struct Series {
    /// Name of the field whose values name the series.
    pub field: String,
    /// Substitute for a missing value.
    pub null: &'static str,
}

impl Argument {
    /// Whether both arguments read the same values. Expressions are not compared.
    fn reads_same_values(&self, other: &Argument) -> bool {
        match (self, other) {
            (Argument::Rows, Argument::Rows) => true,
            (Argument::Field(a), Argument::Field(b)) => a == b,
            _ => false,
        }
    }
}

impl AggregatePlan {
    /// Compiles the aggregates of a command. Wildcard arguments must be expanded before ([`has_wildcards`]).
    pub fn new(aggregates: &[Aggregate], by: Vec<String>, context: &ExprContext) -> Result<AggregatePlan, EngineError> {
        let columns = aggregates.iter().map(|aggregate| {
            let argument = match &aggregate.arg {
                AggregateArg::Rows => Argument::Rows,
                AggregateArg::Field(field) => Argument::Field(field.text.clone()),
                AggregateArg::Eval(expr) => Argument::Expr(Arc::new(CompiledExpr::new(expr, context)?)),
            };
            let mut function = aggregate.function.clone();
            if let StatsFunction::Percentile { method, .. } = &mut function {
                *method = context.percentiles;
            }
            let column = AggregateColumn::new(function, argument, aggregate.name.clone());
            if matches!(column.body, FunctionBody::Sparkline { point: None, .. }) {
                let message = "sparkline takes count, dc, sum, sumsq, avg, min, max, range, stdev, stdevp, var or varp"
                    .to_owned();
                return Err(EngineError::Invalid { message, span: Some(aggregate.span) });
            }
            Ok(column)
        });
        Ok(AggregatePlan { columns: columns.collect::<Result<_, EngineError>>()?, by, series: None })
    }

    /// Whether, among events that differ only in `_time`, the first and the last suffice.
    pub fn accepts_extremes(&self) -> bool {
        let is_alike = |name: &str| METADATA_FIELDS.contains(&name);
        let takes = |column: &AggregateColumn| match (column.body, &column.argument) {
            (FunctionBody::Count, Argument::Rows) => true,
            (FunctionBody::Distinct(_), Argument::Field(name)) => is_alike(name),
            (FunctionBody::Pick { key: PickKey::Earliest | PickKey::Latest, .. }, Argument::Field(name)) => {
                name == "_time" || is_alike(name)
            }
            (body, Argument::Field(name)) => body.is_idempotent() && (name == "_time" || is_alike(name)),
            _ => false,
        };
        self.series.is_none() && self.by.iter().all(|name| is_alike(name)) && self.columns.iter().all(takes)
    }

    /// Whether one row with a count can represent all events with equal values.
    pub fn accepts_counts(&self) -> bool {
        let takes = |column: &AggregateColumn| match (column.body, &column.argument) {
            (FunctionBody::Count, Argument::Rows) => true,
            (body, Argument::Field(_)) => body.is_idempotent(),
            _ => false,
        };
        self.series.is_none() && self.columns.iter().all(takes)
    }

    /// Whether the value of a group depends on other groups: the sparklines of all groups cover the same spans.
    pub fn depends_on_all_groups(&self) -> bool {
        self.columns.iter().any(|column| matches!(column.body, FunctionBody::Sparkline { .. }))
    }

    /// The columns from which keys are read.
    fn key_fields(&self) -> impl Iterator<Item = &str> {
        let series = self.series.as_ref().map(|series| series.field.as_str());
        let last = self.by.len().wrapping_sub(1);
        (self.by.iter().enumerate()).map(move |(at, name)| series.filter(|_| at == last).unwrap_or(name))
    }

    /// For each key, the substitute for a missing value; `None` if a row without a value has no group.
    fn null_key_texts(&self) -> Vec<Option<&'static str>> {
        let last = self.by.len().wrapping_sub(1);
        let series = self.series.as_ref().map(|series| series.null);
        (0..self.by.len()).map(|at| series.filter(|_| at == last)).collect()
    }

    /// Merges states, several of which may belong to one group, into one state per group.
    pub fn merge(&self, states: &RecordBatch, context: &CommandContext) -> Result<RecordBatch, EngineError> {
        let mut folder = Folder::with_limit(self, usize::MAX, context);
        folder.add_states(states)?;
        folder.take_state()
    }

    /// Values of merged states: the BY fields, then the aggregates.
    pub fn finish(&self, merged: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let groups = merged.num_rows();
        assert!(self.layout().accepts(merged), "merged states are of this plan");
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (at, name) in self.by.iter().enumerate() {
            columns.push((name.clone(), keys::display_key(name, merged.column(at))));
        }
        let mut at = self.by.len();
        for column in &self.columns {
            let count = column.body.states().len();
            let states = &merged.columns()[at..at + count];
            columns.push((column.name.clone(), finish::value_of(column.body, states, groups)));
            at += count;
        }
        batch_of(columns, groups)
    }

    /// The columns in which the plan's partial states are spilled and sent to other nodes.
    pub fn layout(&self) -> StateLayout {
        StateLayout::of(self)
    }
}

/// Whether an argument has a wildcard, so that the columns depend on the rows.
pub fn has_wildcards(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().any(|aggregate| matches!(&aggregate.arg, AggregateArg::Field(field) if field.is_wildcard()))
}

/// Replaces wildcard arguments with one aggregate for each matching field of `names` that is neither a BY field nor
/// internal.
pub fn expand_wildcards(aggregates: &[Aggregate], by: &[String], names: &[String]) -> Vec<Aggregate> {
    let mut expanded = Vec::new();
    for aggregate in aggregates {
        let AggregateArg::Field(pattern) = &aggregate.arg else {
            expanded.push(aggregate.clone());
            continue;
        };
        if !pattern.is_wildcard() {
            expanded.push(aggregate.clone());
            continue;
        }
        let shown = |name: &&String| !name.starts_with('_') && !by.contains(name);
        for name in names.iter().filter(shown) {
            let Some(parts) = crate::field_names::wildcard_parts(&pattern.text, name) else { continue };
            let mut one = aggregate.clone();
            one.arg = AggregateArg::Field(quarry_spl::ast::FieldPattern { text: name.clone(), span: pattern.span });
            one.name = if aggregate.renamed {
                crate::field_names::fill_wildcards(&aggregate.name, &parts)
            } else {
                aggregate.name.replace(&pattern.text, name)
            };
            expanded.push(one);
        }
    }
    expanded
}
