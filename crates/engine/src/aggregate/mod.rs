//! Aggregation that can be split: rows of a slice fold into states, states of all slices merge, merged states finish.
//!
//! Every stats function is a short list of *parts* ([`Part`]), each a column of states with a way to fold values in
//! ([`fold`]) and a way to merge two states ([`merge`], on DataFusion). `avg` is a sum and a count, `range` a minimum
//! and a maximum. [`finish`] turns merged parts into the function's value. Group keys are texts ([`keys`]).
//!
//! Not here: which rows, the shape of the result (chart, timechart, top are in [`crate::commands`]).

pub(crate) mod digest;
mod finish;
mod fold;
pub(crate) mod keys;
mod merge;
pub(crate) mod moments;
mod sparkline;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::{Aggregate, AggregateArg, PercentileKind, StatsFunction};

use self::fold::{Fold, Input, Membership};
use self::keys::{KeyTable, add_key_part, key_columns};
use crate::EngineError;
use crate::command::CommandContext;
use crate::expr::{CompiledExpr, ExprContext};
use crate::rows::{self, ColumnReader, batch_of};

/// Most groups a multivalue BY may put one row into (cross product of its values).
const GROUPS_PER_ROW_MAX: usize = 10_000;
/// Values `list` keeps (limits.conf `[stats] list_maxsize`).
pub(crate) const LIST_VALUES_MAX: usize = 100;

/// One state column of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// Values of the field.
    Values,
    /// Values that are numbers.
    Numbers,
    /// Sum of the numbers.
    Sum,
    /// Sum of their squares.
    SumOfSquares,
    /// Smallest number.
    MinNumber,
    /// Largest number.
    MaxNumber,
    /// Smallest text that is no number.
    MinText,
    /// Largest text that is no number.
    MaxText,
    /// Count, mean and sum of squared distances from it.
    Moments,
    /// Distinct values.
    Distinct,
    /// First values in order, at most [`LIST_VALUES_MAX`].
    Sequence,
    /// Distinct values with their counts.
    Tally,
    /// Sketch of the distribution of the numbers.
    Digest {
        /// Whether it must never round.
        exact: bool,
    },
    /// The values of one row with its key.
    Pick(PickKey),
    /// Numbers per span of time; seconds of a span when given.
    Sparkline {
        /// Seconds.
        width: Option<i64>,
    },
}

/// Which row a [`Part::Pick`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PickKey {
    /// First in order of arrival at the command.
    First,
    /// Last in that order.
    Last,
    /// Smallest `_time`.
    Earliest,
    /// Largest `_time`.
    Latest,
}

/// An aggregate ready to run.
#[derive(Clone)]
pub(crate) struct AggregateColumn {
    /// Function.
    pub function: StatsFunction,
    /// Where its values come from.
    pub argument: Argument,
    /// Output name.
    pub name: String,
}

/// Where the values of an aggregate come from.
#[derive(Clone)]
pub(crate) enum Argument {
    /// None: rows are counted.
    Rows,
    /// A field.
    Field(String),
    /// An expression.
    Expr(Arc<CompiledExpr>),
}

/// A set of aggregates over groups.
#[derive(Clone)]
pub(crate) struct AggregatePlan {
    /// Aggregates in order of output.
    pub columns: Vec<AggregateColumn>,
    /// Names of the grouping fields.
    pub by: Vec<String>,
}

impl AggregatePlan {
    /// Compiles the aggregates of a command. Wildcard arguments must be expanded before ([`has_wildcards`]).
    pub(crate) fn new(
        aggregates: &[Aggregate],
        by: Vec<String>,
        context: &ExprContext,
    ) -> Result<AggregatePlan, EngineError> {
        let columns = aggregates.iter().map(|aggregate| {
            let argument = match &aggregate.arg {
                AggregateArg::Rows => Argument::Rows,
                AggregateArg::Field(field) => Argument::Field(field.text.clone()),
                AggregateArg::Eval(expr) => Argument::Expr(Arc::new(CompiledExpr::new(expr, context)?)),
            };
            if let StatsFunction::Sparkline { inner, .. } = &aggregate.function
                && !sparkline::takes(inner)
            {
                let message = "sparkline takes count, sum, avg, min or max".to_owned();
                return Err(EngineError::Invalid { message, span: Some(aggregate.span) });
            }
            Ok(AggregateColumn { function: aggregate.function.clone(), argument, name: aggregate.name.clone() })
        });
        Ok(AggregatePlan { columns: columns.collect::<Result<_, EngineError>>()?, by })
    }

    /// Whether some aggregate depends on the order of rows.
    pub(crate) fn needs_order(&self) -> bool {
        self.columns
            .iter()
            .any(|column| matches!(column.function, StatsFunction::First | StatsFunction::Last | StatsFunction::List))
    }

    /// Folds rows into one state per group. The schema depends on the plan only.
    pub(crate) fn fold(&self, batches: &[RecordBatch], slice: u64) -> Result<RecordBatch, EngineError> {
        let mut keys = KeyTable::default();
        if self.by.is_empty() {
            keys.intern(b"");
        }
        let parts: Vec<Vec<Part>> = self.columns.iter().map(|column| parts_of(&column.function)).collect();
        let mut folds: Vec<Vec<Box<dyn Fold>>> =
            parts.iter().map(|parts| parts.iter().map(|part| fold::of(*part)).collect()).collect();
        let mut row_base = slice << ROW_BITS;
        for rows in batches {
            let members = self.membership(rows, &mut keys)?;
            let times = rows::column(rows, "_time").map(ColumnReader::new);
            for (column, folds) in self.columns.iter().zip(&mut folds) {
                let values = argument_values(&column.argument, rows)?;
                let input = Input { values: values.as_ref(), times: times.as_ref(), row_base };
                folds.iter_mut().for_each(|fold| fold.update(&input, &members));
            }
            row_base += rows.num_rows() as u64;
        }
        let groups = keys.len();
        let mut arrays: Vec<ArrayRef> = key_columns(&keys, self.by.len());
        let states = folds.into_iter().flatten().map(|fold| fold.state(groups));
        arrays.extend(states);
        let options = RecordBatchOptions::new().with_row_count(Some(groups));
        Ok(RecordBatch::try_new_with_options(Arc::new(self.state_schema(&parts)), arrays, &options)?)
    }

    /// Merges states of slices into one state per group.
    pub(crate) fn merge(
        &self,
        mut states: Vec<RecordBatch>,
        context: &CommandContext,
    ) -> Result<RecordBatch, EngineError> {
        if states.is_empty() {
            states.push(self.fold(&[], 0)?);
        }
        let schema = states[0].schema();
        if states.len() > 1 {
            let merges = self.parts().enumerate().map(|(at, part)| dataflow_merge(at, part)).collect::<Vec<_>>();
            if merges.is_empty() && self.by.is_empty() {
                states.truncate(1);
            } else {
                states = context.dataflow.merge_groups(states, self.by.len(), &merges)?;
            }
        }
        let merged = states.iter().map(|batch| rows::conform(batch, &schema)).collect::<Result<Vec<_>, _>>()?;
        if schema.fields().is_empty() {
            return Ok(merged.into_iter().next().unwrap_or_else(|| RecordBatch::new_empty(schema)));
        }
        Ok(arrow::compute::concat_batches(&schema, &merged)?)
    }

    /// Values of merged states: the BY fields, then the aggregates.
    pub(crate) fn finish(&self, merged: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let groups = merged.num_rows();
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (at, name) in self.by.iter().enumerate() {
            columns.push((name.clone(), keys::shown_key(name, merged.column(at))));
        }
        let mut at = self.by.len();
        for column in &self.columns {
            let count = parts_of(&column.function).len();
            let states = &merged.columns()[at..at + count];
            columns.push((column.name.clone(), finish::value_of(&column.function, states, groups)));
            at += count;
        }
        batch_of(columns, groups)
    }

    fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        self.columns.iter().flat_map(|column| parts_of(&column.function))
    }

    fn state_schema(&self, parts: &[Vec<Part>]) -> Schema {
        let keys = (0..self.by.len()).map(|at| Field::new(format!("k{at}"), DataType::Utf8View, true));
        let states = parts.iter().flatten().enumerate();
        let states = states.map(|(at, part)| Field::new(format!("s{at}"), merge::state_type(*part), true));
        Schema::new(keys.chain(states).collect::<Vec<_>>())
    }

    /// Which rows belong to which groups. A row without a BY field belongs to none, one with several values to several.
    fn membership(&self, rows: &RecordBatch, keys: &mut KeyTable) -> Result<Membership, EngineError> {
        let count = rows.num_rows();
        if self.by.is_empty() {
            return Ok(Membership::all_in_one(count));
        }
        let readers: Vec<ColumnReader> = self.by.iter().map(|name| rows::reader(rows, name)).collect();
        let mut members = Membership::with_capacity(count);
        let (mut key, mut scratch) = (Vec::new(), String::new());
        for row in 0..count {
            if let [reader] = readers.as_slice()
                && !matches!(reader, ColumnReader::Multi(..))
            {
                if let Some(text) = reader.text(row, &mut scratch) {
                    members.push(row, keys.intern(text.as_bytes()));
                }
                continue;
            }
            key.clear();
            add_combinations(&readers, row, &mut key, &mut |key| members.push(row, keys.intern(key)));
        }
        members.groups_total = keys.len();
        Ok(members)
    }
}

/// Rows of one slice are told apart by so many bits of their position.
const ROW_BITS: u32 = 32;

/// Calls `found` for each combination of one value per BY field.
fn add_combinations(readers: &[ColumnReader], row: usize, key: &mut Vec<u8>, found: &mut dyn FnMut(&[u8])) {
    let mut left = GROUPS_PER_ROW_MAX;
    combine(readers, readers.len(), row, key, &mut left, found);
}

fn combine(
    readers: &[ColumnReader],
    parts: usize,
    row: usize,
    key: &mut Vec<u8>,
    left: &mut usize,
    found: &mut dyn FnMut(&[u8]),
) {
    let Some((reader, rest)) = readers.split_first() else {
        if *left > 0 {
            *left -= 1;
            found(key);
        }
        return;
    };
    let start = key.len();
    for value in reader.values(row) {
        key.truncate(start);
        add_key_part(key, &value, parts);
        combine(rest, parts, row, key, left, found);
    }
    key.truncate(start);
}

/// The values an aggregate reads; `None` counts rows. False conditions are no values.
fn argument_values(argument: &Argument, rows: &RecordBatch) -> Result<Option<ColumnReader>, EngineError> {
    let array = match argument {
        Argument::Rows => return Ok(None),
        Argument::Field(name) => rows::column_or_null(rows, name),
        Argument::Expr(expr) => only_true(expr.evaluate(rows)?),
    };
    Ok(Some(ColumnReader::new(&array)))
}

fn only_true(array: ArrayRef) -> ArrayRef {
    let Some(conditions) = array.as_boolean_opt() else { return array };
    let conditions = conditions.iter().map(|value| value.filter(|value| *value));
    Arc::new(conditions.collect::<BooleanArray>())
}

/// The state columns of a function.
pub(crate) fn parts_of(function: &StatsFunction) -> Vec<Part> {
    match function {
        StatsFunction::Count => vec![Part::Values],
        StatsFunction::Dc | StatsFunction::EstDc | StatsFunction::Values => vec![Part::Distinct],
        StatsFunction::Sum | StatsFunction::Per(_) => vec![Part::Sum, Part::Numbers],
        StatsFunction::SumSq => vec![Part::SumOfSquares, Part::Numbers],
        StatsFunction::Avg => vec![Part::Sum, Part::Numbers],
        StatsFunction::Min => vec![Part::MinNumber, Part::MinText],
        StatsFunction::Max => vec![Part::MaxNumber, Part::MaxText],
        StatsFunction::Range => vec![Part::MinNumber, Part::MaxNumber],
        StatsFunction::Stdev | StatsFunction::StdevP | StatsFunction::Var | StatsFunction::VarP => vec![Part::Moments],
        StatsFunction::Percentile { kind, .. } => vec![Part::Digest { exact: *kind == PercentileKind::Exact }],
        StatsFunction::Mode => vec![Part::Tally],
        StatsFunction::List => vec![Part::Sequence],
        StatsFunction::First => vec![Part::Pick(PickKey::First)],
        StatsFunction::Last => vec![Part::Pick(PickKey::Last)],
        StatsFunction::Earliest | StatsFunction::EarliestTime => vec![Part::Pick(PickKey::Earliest)],
        StatsFunction::Latest | StatsFunction::LatestTime => vec![Part::Pick(PickKey::Latest)],
        StatsFunction::Rate => vec![Part::Pick(PickKey::Earliest), Part::Pick(PickKey::Latest)],
        StatsFunction::Sparkline { span, .. } => {
            let width = span.as_ref().map(|span| crate::commands::spans::length_of(span) / NS_PER_SEC);
            vec![Part::Sparkline { width }]
        }
    }
}

fn dataflow_merge(at: usize, part: Part) -> crate::dataflow::MergeColumn {
    crate::dataflow::MergeColumn { name: format!("s{at}"), function: merge::function_of(part) }
}

/// Whether an argument names several fields, so that the columns depend on the rows.
pub(crate) fn has_wildcards(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().any(|aggregate| matches!(&aggregate.arg, AggregateArg::Field(field) if field.is_wildcard()))
}

/// Replaces wildcard arguments by one aggregate per field of `names` that fits and is not grouped by.
pub(crate) fn expand_wildcards(aggregates: &[Aggregate], by: &[String], names: &[String]) -> Vec<Aggregate> {
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
