//! `eventstats`: adds the aggregates of a row's group to the row. In a row without one of the BY fields, the aggregates
//! are null.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::row_groups::{MultivaluePart, RowGroups};
use quarry_eval::aggregate::{AggregatePlan, Folded, has_wildcards};
use quarry_eval::context::CommandContext;
use quarry_eval::expr::ExprContext;
use quarry_eval::rows::{self, ColumnReader, RowBuffer, RowIter};
use quarry_spl::ast::{EventStatsCommand, StatsCommand};

use super::stats::plan_for;
use super::{Execute, delimiter};
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking, names};
use crate::new_columns::NewColumns;

impl Execute for EventStatsCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let stats = &self.0;
        lowering.warn_ignored_options(&[(stats.all_num, "allnum="), (stats.dedup_split_values, "dedup_splitvals=")]);
        let (command, by, expressions) = (stats.clone(), names(&stats.by), lowering.expressions());
        let mut steps = vec![blocking(EventStats { command, by, expressions })];
        steps.extend(delimiter::step_for_results(stats));
        Ok(steps)
    }
}

/// Maximum number of values that the rows of a batch get, unless the batch has a single row.
const VALUES_PER_BATCH_MAX: usize = 1 << 18;
const _: () = assert!(VALUES_PER_BATCH_MAX < rows::REPEATED_VALUES_MAX, "a batch of several rows is never refused");

/// Computes the aggregates over all rows, then adds them.
struct EventStats {
    /// Aggregates as written.
    command: StatsCommand,
    /// Names of the BY fields.
    by: Vec<String>,
    expressions: ExprContext,
}

impl EventStats {
    /// Folds rows and keeps them.
    fn fold(
        &self,
        rows: RowIter,
        kept: &mut RowBuffer,
        context: &CommandContext,
    ) -> Result<(AggregatePlan, Folded), EngineError> {
        let aggregates = &self.command.aggregates;
        if has_wildcards(aggregates) {
            for batch in rows {
                kept.push(&batch?)?;
            }
            let plan = plan_for(aggregates, &self.by, kept, &self.expressions)?;
            let folded = plan.fold(Box::new(kept.iter()), context)?;
            return Ok((plan, folded));
        }
        // Rows are folded as they arrive: a second pass would prolong a search that was finalised.
        let plan = AggregatePlan::new(aggregates, self.by.clone(), &self.expressions)?;
        let passed = rows.map(|batch| batch.and_then(|batch| kept.push(&batch).map(|()| batch)));
        let folded = plan.fold(Box::new(passed), context)?;
        Ok((plan, folded))
    }
}

impl Blocking for EventStats {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut kept = RowBuffer::new("eventstats", &context.dataflow);
        let (plan, folded) = self.fold(rows, &mut kept, context)?;
        // Every row needs its group, so all groups must fit into memory.
        let groups = plan.values(folded, context)?;
        let mut account = context.dataflow.account("groups of eventstats");
        let (groups, bytes) = rows::compact(&groups)?;
        let mut keys = RowGroups::new(self.by.len(), MultivaluePart::First);
        let group_rows = keys.places(&readers_of(&groups, &self.by), groups.num_rows());
        account.set(bytes + keys.bytes() + group_rows.get_array_memory_size())?;
        let by = self.by.clone();
        let columns = plan.columns.iter().map(|column| rows::column_or_null(&groups, &column.name));
        let added: Arc<Vec<ArrayRef>> = Arc::new(columns.collect());
        let names: Arc<Vec<String>> = Arc::new(plan.columns.into_iter().map(|column| column.name).collect());
        let joined = kept.into_unified_rows().flat_map(move |batch| -> RowIter {
            let _held = &account;
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Box::new(std::iter::once(Err(error))),
            };
            let places = groups_of_rows(&batch, &mut keys, &group_rows, &by);
            let (added, names) = (Arc::clone(&added), Arc::clone(&names));
            let parts = parts_of(&added, &places).into_iter();
            Box::new(parts.map(move |Range { start, end }| {
                let places = places.slice(start, end - start);
                let mut result = NewColumns::of(batch.slice(start, end - start));
                for (name, values) in names.iter().zip(&*added) {
                    result.set(name, rows::take_column(values, &places)?);
                }
                result.finish()
            }))
        });
        Ok(Box::new(joined))
    }
}

/// Divides the rows into ranges to which at most [`VALUES_PER_BATCH_MAX`] values are added, or that have a single row.
/// The limit is needed because `values()` may have a million values, and all of them are added to every row of the
/// group.
fn parts_of(added: &[ArrayRef], places: &UInt32Array) -> Vec<Range<usize>> {
    let count = |place: u32| added.iter().map(|column| rows::count_values(column, place as usize)).sum::<usize>();
    let (mut parts, mut start, mut values) = (Vec::new(), 0, 0);
    for (row, place) in places.iter().enumerate() {
        let more = place.map_or(0, count);
        if values + more > VALUES_PER_BATCH_MAX && row > start {
            parts.push(start..row);
            (start, values) = (row, 0);
        }
        values += more;
    }
    parts.push(start..places.len());
    parts
}

fn readers_of(rows: &RecordBatch, by: &[String]) -> Vec<ColumnReader> {
    by.iter().map(|name| rows::reader(rows, name)).collect()
}

/// For each row, the position of its group; null for a row without a group. `group_rows` has the position of each group
/// number of `keys`.
fn groups_of_rows(rows: &RecordBatch, keys: &mut RowGroups, group_rows: &UInt32Array, by: &[String]) -> UInt32Array {
    let numbers = keys.numbers(&readers_of(rows, by), rows.num_rows());
    // A row without a group has a number greater than all group numbers.
    let row_of = |number: &u32| (*number as usize) < group_rows.len() && group_rows.is_valid(*number as usize);
    numbers.iter().map(|number| row_of(number).then(|| group_rows.value(*number as usize))).collect()
}
