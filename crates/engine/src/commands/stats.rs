//! `stats`: aggregates rows by group.

mod all_num;

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::aggregate::{AggregatePlan, Folded, Folder, expand_wildcards, has_wildcards};
use quarry_eval::command::Reduce;
use quarry_eval::context::CommandContext;
use quarry_eval::expr::ExprContext;
use quarry_eval::rows::{RowBuffer, RowIter};
use quarry_spl::ast::{Aggregate, EvalCommand, FieldPattern, NodeBuilder, StatsCommand};
use quarry_stdx::number::u32_of;

use super::empty_columns::DropEmptyColumns;
use super::sort::{add_value_ranks, sort_by_ranks};
use super::{Execute, delimiter};
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking, names};

impl Execute for StatsCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let mut steps = Vec::new();
        if self.all_num && !has_wildcards(&self.aggregates) {
            steps.extend(all_num::steps(self, lowering)?);
            steps.extend(delimiter::step_for_results(self));
            return Ok(steps);
        }
        if self.dedup_split_values && !self.by.is_empty() {
            steps.extend(dedup_values_steps(&self.by, lowering)?);
        }
        lowering.warn_ignored_options(&[(self.all_num, "allnum=")]);
        let (by, expressions) = (names(&self.by), lowering.expressions());
        steps.push(match has_wildcards(&self.aggregates) {
            true => blocking(WildcardStats { command: self.clone(), by, expressions }),
            false => Step::Reduce(Arc::new(Stats(AggregatePlan::new(&self.aggregates, by, &expressions)?))),
        });
        steps.extend(delimiter::step_for_results(self));
        Ok(steps)
    }
}

/// Removes duplicate values of these fields within a row (`dedup_splitvals`).
fn dedup_values_steps(fields: &[FieldPattern], lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
    let assignments = fields.iter().map(|field| {
        let make = NodeBuilder::at(field.span);
        make.assignment(&field.text, make.call("mvdedup", [make.field(&field.text)]))
    });
    EvalCommand { assignments: assignments.collect() }.steps(lowering)
}

/// `stats` with columns that are known in advance.
pub(crate) struct Stats(pub AggregatePlan);

impl Reduce for Stats {
    fn accepts_extremes(&self) -> bool {
        self.0.accepts_extremes()
    }

    fn accepts_counts(&self) -> bool {
        self.0.accepts_counts()
    }

    fn aggregates(&self) -> &AggregatePlan {
        &self.0
    }

    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        sorted_values(&self.0, self.0.gather(folders, context)?, context)
    }

    fn finish_unordered(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        let plan = &self.0;
        match plan.gather(folders, context)? {
            // Spilled groups may not fit into memory at once; the sort spills them, too.
            folded @ Folded::Parts(_) => sorted_values(plan, folded, context),
            folded => {
                let groups = plan.finished(folded, context)?;
                let all = (0..u32_of(groups.len())).collect();
                Ok(groups.into_rows(plan, all))
            }
        }
    }
}

/// The groups sorted by their BY fields; spills if they do not fit into memory.
fn sorted_values(plan: &AggregatePlan, folded: Folded, context: &CommandContext) -> Result<RowIter, EngineError> {
    match folded {
        Folded::Parts(parts) if !plan.depends_on_all_groups() => {
            let mut kept = RowBuffer::new("stats", &context.dataflow);
            for folder in parts {
                let groups = folder?.finish().rows(plan)?;
                for start in (0..groups.num_rows()).step_by(SORTED_ROWS) {
                    let part = groups.slice(start, SORTED_ROWS.min(groups.num_rows() - start));
                    kept.push(&add_value_ranks(&part, &plan.by)?)?;
                }
            }
            sort_by_ranks(kept, context)
        }
        folded => {
            let groups = plan.finished(folded, context)?;
            let order = groups.order(&context.stop)?;
            Ok(groups.into_rows(plan, order))
        }
    }
}

/// Rows per batch passed to the sort.
const SORTED_ROWS: usize = 4_096;

/// `stats` with wildcards in its arguments; its columns are known only after all rows have arrived.
pub(crate) struct WildcardStats {
    /// Aggregates as written.
    pub command: StatsCommand,
    /// Names of the BY fields.
    pub by: Vec<String>,
    pub expressions: ExprContext,
}

impl Blocking for WildcardStats {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let rows = RowBuffer::collect("stats", rows, &context.dataflow)?;
        let plan = plan_for(&self.command.aggregates, &self.by, &rows, &self.expressions)?;
        let folded = plan.fold(rows.into_rows(), context)?;
        // A field for which the function yields no value, such as `avg(*)` of texts, gets no column.
        DropEmptyColumns.run(sorted_values(&plan, folded, context)?, context)
    }
}

/// Replaces wildcards in the aggregates with the fields of these rows.
pub(super) fn plan_for(
    aggregates: &[Aggregate],
    by: &[String],
    rows: &RowBuffer,
    expressions: &ExprContext,
) -> Result<AggregatePlan, EngineError> {
    AggregatePlan::new(&expand_wildcards(aggregates, by, &rows.valued_names()), by.to_vec(), expressions)
}
