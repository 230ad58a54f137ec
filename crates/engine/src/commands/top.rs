//! `top` and `rare`: the most and the least frequent combinations of values.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray, StringViewBuilder};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::group_order::sort_by_ranks;
use quarry_eval::aggregate::{AggregateColumn, AggregatePlan, Argument, FinishedGroups, Folded, Folder, MergedFolders};
use quarry_eval::command::Reduce;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, batch_of};
use quarry_spl::ast::{StatsFunction, TopCommand};
use quarry_stdx::number::{f64_of, u32_of};

use super::Execute;
use super::selection::smallest;
use crate::lowering::{Lowering, Step, names};

/// Decimal places of a percentage; trailing zeros are shown.
const PERCENT_DIGITS: usize = 6;
/// Number of rows of a batch.
const BATCH_ROWS: usize = 8_192;

impl Execute for TopCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![Step::Reduce(Arc::new(Top::new(self)))])
    }
}

/// Counts the combinations.
pub(crate) struct Top {
    command: TopCommand,
    plan: AggregatePlan,
    by: Vec<String>,
    fields: Vec<String>,
}

impl Top {
    /// Initial state of the command.
    pub(crate) fn new(command: &TopCommand) -> Top {
        let (by, fields) = (names(&command.by), names(&command.fields));
        let count = AggregateColumn::new(StatsFunction::Count, Argument::Rows, COUNT.to_owned());
        let plan =
            AggregatePlan { columns: vec![count], by: by.iter().chain(&fields).cloned().collect(), series: None };
        Top { command: command.clone(), plan, by, fields }
    }
}

/// Column with the counts during the merge; no field has this name.
const COUNT: &str = "__count";

impl Reduce for Top {
    fn accepts_counts(&self) -> bool {
        self.plan.accepts_counts()
    }

    fn aggregates(&self) -> &AggregatePlan {
        &self.plan
    }

    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<RowIter, EngineError> {
        let has_first = self.by.is_empty() && self.command.limit > 0;
        let (counted, total) = match self.plan.gather(folders, context)? {
            Folded::Groups(folder) if has_first => self.first_groups(folder.finish(), &context.stop)?,
            Folded::Parts(parts) if has_first => self.first_groups_by_partition(*parts, context)?,
            folded => (self.plan.finished(folded, context)?, None),
        };
        let counts = counts_of(&counted);
        let ranks = counted.ranks(&context.stop)?;
        let (by, all) = (self.by.len(), self.plan.by.len());
        let mut places: Vec<u32> = (0..u32_of(counted.len())).collect();
        ranks.sort(&mut places, by..all, &context.stop)?;
        sort_by_ranks(&mut places, &count_ranks(counts, self.command.rarest), &context.stop)?;
        ranks.sort(&mut places, 0..by, &context.stop)?;
        let is_one_group = |a: &u32, b: &u32| ranks.have_same_values(*a, *b, 0..by);
        let groups = places.chunk_by(is_one_group).map(|group| self.result_rows(group, counts, total));
        let lines: Vec<ResultRow> = groups.flatten().collect();
        Ok(self.batches(counted, lines))
    }
}

/// A row of the result: a counted combination, or the sum of all other combinations of a group (`useother`).
struct ResultRow {
    place: u32,
    count: i64,
    /// Sum of all counts of the group.
    total: i64,
    is_other: bool,
}

impl Top {
    /// The groups whose counts are among the first, and the total count.
    fn first_groups(
        &self,
        finished: FinishedGroups,
        stop: &Stop,
    ) -> Result<(FinishedGroups, Option<i64>), EngineError> {
        let (limit, rare, counts) = (self.command.limit, self.command.rarest, counts_of(&finished));
        let total = Some(counts.iter().sum());
        if counts.len() <= limit {
            return Ok((finished, total));
        }
        let bound = match rare {
            true => smallest(counts.iter().copied(), limit, Ord::cmp),
            false => smallest(counts.iter().copied(), limit, |a, b| b.cmp(a)),
        };
        let bound = bound.last().copied();
        let reaches = |count: i64| bound.is_some_and(|bound| if rare { count < bound } else { count > bound });
        let groups = || counts.iter().copied().zip(0..);
        let mut first: Vec<u32> = groups().filter(|(count, _)| reaches(*count)).map(|(_, group)| group).collect();
        // In a long tail, most counts are equal, and only some of these groups are among the first.
        let equal: Vec<u32> = groups().filter(|(count, _)| Some(*count) == bound).map(|(_, group)| group).collect();
        first.extend(finished.first(&equal, limit - first.len(), stop)?);
        Ok((finished.select(&first)?, total))
    }

    /// Like [`Top::first_groups`], partition by partition.
    fn first_groups_by_partition(
        &self,
        parts: MergedFolders,
        context: &CommandContext,
    ) -> Result<(FinishedGroups, Option<i64>), EngineError> {
        let mut account = context.dataflow.account("top");
        let (mut best, mut sum) = (Folder::new(&self.plan, context).finish(), 0);
        for folder in parts {
            let (groups, total) = self.first_groups(folder?.finish(), &context.stop)?;
            best.append(&groups)?;
            account.set(best.bytes())?;
            sum += total.unwrap_or(0);
        }
        let (best, _) = self.first_groups(best, &context.stop)?;
        Ok((best, Some(sum)))
    }

    /// The result rows of a group, whose combinations are at `places`; `total` is the sum of its counts if some of them
    /// are missing.
    fn result_rows(&self, places: &[u32], counts: &[i64], total: Option<i64>) -> Vec<ResultRow> {
        let sum = |places: &[u32]| places.iter().map(|place| counts[*place as usize]).sum::<i64>();
        let total = total.unwrap_or_else(|| sum(places));
        let limit = if self.command.limit == 0 { usize::MAX } else { self.command.limit };
        let kept = &places[..places.len().min(limit)];
        let row = |place: &u32| ResultRow { place: *place, count: counts[*place as usize], total, is_other: false };
        let mut rows: Vec<ResultRow> = kept.iter().map(row).collect();
        let others = total - sum(kept);
        if let (Some(place), true) = (kept.last(), self.command.use_other && others > 0) {
            rows.push(ResultRow { place: *place, count: others, total, is_other: true });
        }
        rows
    }

    /// The rows of the result, in batches that are made when they are requested.
    fn batches(&self, counted: FinishedGroups, lines: Vec<ResultRow>) -> RowIter {
        let (top, mut next) = (Top::new(&self.command), 0);
        Box::new(std::iter::from_fn(move || {
            let part = &lines[next..lines.len().min(next + BATCH_ROWS)];
            next += part.len();
            (!part.is_empty()).then(|| top.batch(&counted, part))
        }))
    }

    fn batch(&self, counted: &FinishedGroups, lines: &[ResultRow]) -> Result<RecordBatch, EngineError> {
        let places: Vec<u32> = lines.iter().map(|line| line.place).collect();
        let rows = counted.rows_at(&self.plan, &places)?;
        let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
        for name in &self.by {
            columns.push((name, rows::column_or_null(&rows, name)));
        }
        for name in &self.fields {
            let mut column = rows::column_or_null(&rows, name);
            if lines.iter().any(|line| line.is_other) {
                column = self.with_others(&column, lines);
            }
            columns.push((name, column));
        }
        if self.command.show_count {
            let counts = Int64Array::from_iter_values(lines.iter().map(|line| line.count));
            columns.push((&self.command.count_field, Arc::new(counts)));
        }
        if self.command.show_percent {
            columns.push((&self.command.percent_field, Arc::new(percents(lines))));
        }
        batch_of(columns, lines.len())
    }

    /// The values of a field, with the name for all other combinations in their rows.
    fn with_others(&self, values: &ArrayRef, lines: &[ResultRow]) -> ArrayRef {
        let (reader, mut column) = (ColumnReader::new(values), ColumnBuilder::new(lines.len()));
        for (row, line) in lines.iter().enumerate() {
            match line.is_other {
                true => column.push_text(&self.command.other_name),
                false => column.push(reader.value(row)),
            }
        }
        column.finish()
    }
}

/// The counts of groups.
fn counts_of(counted: &FinishedGroups) -> &[i64] {
    counted.columns().first().map(|counts| counts.as_primitive::<Int64Type>().values().as_ref()).unwrap_or_default()
}

/// The rank of each group's count; a frequent value has a low rank, or a high one if `rarest`.
fn count_ranks(counts: &[i64], rarest: bool) -> Vec<u32> {
    // There are few distinct counts: the sum of many would exceed the number of events.
    let mut distinct = counts.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let smaller = |count: &i64| u32_of(distinct.partition_point(|other| other < count));
    let last = u32_of(distinct.len().saturating_sub(1));
    counts.iter().map(smaller).map(|rank| if rarest { rank } else { last - rank }).collect()
}

/// The share of each row's count in the total of its group.
fn percents(lines: &[ResultRow]) -> StringViewArray {
    let mut percents = StringViewBuilder::with_capacity(lines.len());
    let (mut known, mut text) = (None, String::new());
    for line in lines {
        // In a long tail, most rows have the same count as the row before.
        if known != Some((line.count, line.total)) {
            text = format!("{:.PERCENT_DIGITS$}", f64_of(line.count) * 100.0 / f64_of(line.total));
            known = Some((line.count, line.total));
        }
        percents.append_value(&text);
    }
    percents.finish()
}
