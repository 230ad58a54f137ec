//! `top` and `rare`: the most and the least frequent combinations of values.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray, UInt32Array};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::aggregate::folder::FinishedGroups;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::aggregate::{AggregateColumn, AggregatePlan, Argument, Folded, Folder, MergedFolders};
use quarry_eval::command::Reduce;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::rows::rank::ValueRanks;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, batch_of, of_batches, sort_cancellable, sort_first};
use quarry_event::value::{SortKey, sort_key};
use quarry_spl::ast::{StatsFunction, TopCommand};
use quarry_stdx::number::{f64_of, u32_of};

use super::Execute;
use super::stats::write_key;
use crate::lowering::{Lowering, Step, names};

/// Decimal places of a percentage; trailing zeros are shown.
const PERCENT_DIGITS: usize = 6;
/// Number of rows read between two checks for cancellation.
const CHECKED_ROWS: usize = 65_536;

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
        let (counted, total) = match self.plan.gather(folders, context)? {
            Folded::Groups(folder) if self.by.is_empty() && self.command.limit > 0 => {
                self.top_groups(folder.finish())?
            }
            Folded::Parts(parts) if self.by.is_empty() && self.command.limit > 0 => {
                self.top_groups_by_partition(*parts, context)?
            }
            folded => (self.plan.values(folded, context)?, None),
        };
        let counts = rows::as_number_array(&rows::column_or_null(&counted, COUNT));
        let counts: Vec<i64> = counts.values().iter().map(|count| *count as i64).collect();
        let groups = group_numbers(&counted, &self.by, &context.stop)?;
        let mut totals: HashMap<u32, i64, foldhash::fast::FixedState> = HashMap::default();
        groups.iter().zip(&counts).for_each(|(group, count)| *totals.entry(*group).or_default() += count);
        if let Some(total) = total {
            totals.insert(0, total);
        }
        let ranked = self.rank_rows(&counted, &groups, &counts, &context.stop)?;
        let limit = if self.command.limit == 0 { usize::MAX } else { self.command.limit };
        let mut kept: HashMap<u32, (usize, i64), foldhash::fast::FixedState> = HashMap::default();
        let places: Vec<u32> = (ranked.into_iter())
            .filter(|place| {
                let (rows, count) = kept.entry(groups[*place as usize]).or_default();
                *rows += 1;
                let keep = *rows <= limit;
                *count += if keep { counts[*place as usize] } else { 0 };
                keep
            })
            .collect();
        let others = |group: u32| totals[&group] - kept.get(&group).map_or(0, |(_, count)| *count);
        let lines = self.result_rows(&places, &groups, &counts, &others);
        Ok(of_batches(self.table(&counted, &lines, &totals)?))
    }
}

/// A row of the result: a counted combination, or the sum of all other combinations of a group (`useother`).
struct ResultRow {
    place: u32,
    group: u32,
    count: i64,
    is_other: bool,
}

impl Top {
    /// The groups whose counts may be among the first, and the total count.
    fn top_groups(&self, finished: FinishedGroups) -> Result<(RecordBatch, Option<i64>), EngineError> {
        let counts = finished.columns.first().map(|counts| counts.as_primitive::<Int64Type>().values().as_ref());
        let counts = counts.unwrap_or_default();
        let total = Some(counts.iter().sum());
        if counts.len() <= self.command.limit {
            return Ok((finished.rows(&self.plan, None)?, total));
        }
        let (limit, rare) = (self.command.limit, self.command.rarest);
        let bound = match rare {
            true => nth_smallest(counts.iter().copied(), limit),
            false => nth_smallest(counts.iter().map(|count| -count), limit).map(|bound| -bound),
        };
        let reaches = |count: i64| bound.is_some_and(|bound| if rare { count <= bound } else { count >= bound });
        let places: Vec<u32> =
            counts.iter().zip(0..).filter(|(count, _)| reaches(**count)).map(|(_, place)| place).collect();
        Ok((finished.rows(&self.plan, Some(&places))?, total))
    }

    /// Like [`Top::top_groups`], partition by partition.
    fn top_groups_by_partition(
        &self,
        parts: MergedFolders,
        context: &CommandContext,
    ) -> Result<(RecordBatch, Option<i64>), EngineError> {
        let mut account = context.dataflow.account("top");
        let (mut best, mut sum, mut bytes) = (Vec::new(), 0, 0);
        for folder in parts {
            let (rows, total) = self.top_groups(folder?.finish())?;
            let (rows, more) = rows::compact(&rows)?;
            bytes += more;
            account.set(bytes)?;
            best.push(rows);
            sum += total.unwrap_or(0);
        }
        Ok((rows::concat_rows(best)?, Some(sum)))
    }

    /// Rows ordered by group, then by count; equal counts by value. For a single group, only the requested number of
    /// rows.
    fn rank_rows(
        &self,
        counted: &RecordBatch,
        groups: &[u32],
        counts: &[i64],
        stop: &Stop,
    ) -> Result<Vec<u32>, EngineError> {
        let columns: Vec<StringViewArray> = (self.by.iter().chain(&self.fields))
            .map(|field| rows::as_text_array(&rows::column_or_null(counted, field)))
            .collect();
        let mut places: Vec<u32> = (0..u32_of(counts.len())).collect();
        let by_count = |a: u32, b: u32| {
            let order = counts[b as usize].cmp(&counts[a as usize]);
            if self.command.rarest { order.reverse() } else { order }
        };
        let by_texts = |a: u32, b: u32, columns: &[StringViewArray]| {
            let orders = columns.iter().map(|column| column.value(a as usize).cmp(column.value(b as usize)));
            orders.fold(Ordering::Equal, Ordering::then)
        };
        if self.by.is_empty() && (1..places.len()).contains(&self.command.limit) {
            // Few of many rows are selected. In a long tail most counts are equal, so each value's sort key is
            // computed only once.
            let keys = columns.iter().map(|column| sort_keys(column, stop)).collect::<Result<Vec<_>, _>>()?;
            let by_values = |a: u32, b: u32| {
                let orders = keys.iter().map(|keys| keys[a as usize].cmp(&keys[b as usize]));
                orders.fold(Ordering::Equal, Ordering::then)
            };
            let order = |a: &u32, b: &u32| {
                by_count(*a, *b).then_with(|| by_values(*a, *b)).then_with(|| by_texts(*a, *b, &columns))
            };
            sort_first(&mut places, self.command.limit, order, || stop.check_cancelled())?;
            return Ok(places);
        }
        let ranks = columns.iter().map(|column| ValueRanks::of(column, stop)).collect::<Result<Vec<_>, _>>()?;
        let by_ranks = |a: u32, b: u32, ranks: &[ValueRanks]| {
            let orders = ranks.iter().map(|ranks| ranks.ranks[a as usize].cmp(&ranks.ranks[b as usize]));
            orders.fold(Ordering::Equal, Ordering::then)
        };
        let by_value = |a: u32, b: u32, fields: Range<usize>| {
            by_ranks(a, b, &ranks[fields.clone()]).then_with(|| by_texts(a, b, &columns[fields]))
        };
        let (by, all) = (self.by.len(), columns.len());
        let order = |a: &u32, b: &u32| {
            let is_one_group = groups[*a as usize] == groups[*b as usize];
            let group = if is_one_group { Ordering::Equal } else { by_value(*a, *b, 0..by) };
            group.then_with(|| by_count(*a, *b)).then_with(|| by_value(*a, *b, by..all))
        };
        sort_cancellable(&mut places, order, || stop.check_cancelled())?;
        Ok(places)
    }

    fn result_rows(
        &self,
        places: &[u32],
        groups: &[u32],
        counts: &[i64],
        others: &dyn Fn(u32) -> i64,
    ) -> Vec<ResultRow> {
        let mut lines: Vec<ResultRow> = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let group = groups[*place as usize];
            lines.push(ResultRow { place: *place, group, count: counts[*place as usize], is_other: false });
            let ends = places.get(at + 1).is_none_or(|next| groups[*next as usize] != group);
            if ends && self.command.use_other && others(group) > 0 {
                lines.push(ResultRow { place: *place, group, count: others(group), is_other: true });
            }
        }
        lines
    }

    fn table(
        &self,
        counted: &RecordBatch,
        lines: &[ResultRow],
        totals: &HashMap<u32, i64, foldhash::fast::FixedState>,
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let places: UInt32Array = lines.iter().map(|line| line.place).collect();
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for name in &self.by {
            columns.push((name.clone(), arrow::compute::take(&rows::column_or_null(counted, name), &places, None)?));
        }
        for name in &self.fields {
            let reader = rows::reader(counted, name);
            let mut column = ColumnBuilder::new(lines.len());
            for line in lines {
                if line.is_other {
                    column.push_text(&self.command.other_name)
                } else {
                    column.push(reader.value(line.place as usize))
                }
            }
            columns.push((name.clone(), column.finish()));
        }
        if self.command.show_count {
            let counts = Int64Array::from_iter_values(lines.iter().map(|line| line.count));
            columns.push((self.command.count_field.clone(), Arc::new(counts)));
        }
        if self.command.show_percent {
            let percents = lines.iter().map(|line| {
                let percent = f64_of(line.count) * 100.0 / f64_of(totals[&line.group]);
                format!("{percent:.PERCENT_DIGITS$}")
            });
            columns.push((self.command.percent_field.clone(), Arc::new(StringViewArray::from_iter_values(percents))));
        }
        Ok(vec![batch_of(columns, lines.len())?])
    }
}

/// The number at position `nth`, counted from 1, in ascending order. Only a few numbers are held, because a copy of all
/// of them may be large.
fn nth_smallest(numbers: impl Iterator<Item = i64>, nth: usize) -> Option<i64> {
    let last = nth.checked_sub(1)?;
    let (mut smallest, mut bound) = (Vec::new(), None);
    for number in numbers {
        if bound.is_none_or(|bound| number < bound) {
            smallest.push(number);
        }
        if smallest.len() > nth.saturating_mul(2) {
            bound = Some(*smallest.select_nth_unstable(last).1);
            smallest.truncate(nth);
        }
    }
    if smallest.len() < nth { None } else { Some(*smallest.select_nth_unstable(last).1) }
}

/// The sort key of each value.
fn sort_keys<'v>(column: &'v StringViewArray, stop: &Stop) -> Result<Vec<SortKey<'v>>, EngineError> {
    let mut keys = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        if row.is_multiple_of(CHECKED_ROWS) {
            stop.check_cancelled()?;
        }
        keys.push(sort_key(column.value(row)));
    }
    Ok(keys)
}

/// A number for each combination of BY values.
fn group_numbers(rows: &RecordBatch, by: &[String], stop: &Stop) -> Result<Vec<u32>, EngineError> {
    if by.is_empty() {
        return Ok(vec![0; rows.num_rows()]);
    }
    let readers: Vec<_> = by.iter().map(|name| rows::reader(rows, name)).collect();
    let mut keys = KeyTable::default();
    let mut key = Vec::new();
    let mut numbers = Vec::with_capacity(rows.num_rows());
    for row in 0..rows.num_rows() {
        if row.is_multiple_of(CHECKED_ROWS) {
            stop.check_cancelled()?;
        }
        write_key(&readers, row, &mut key);
        numbers.push(keys.intern(&key));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::nth_smallest;

    #[test]
    fn the_nth_smallest_number_does_not_depend_on_the_order() {
        let shuffled = (0..1_000_i64).map(|at| (at * 389) % 1_000 / 3);
        let mut sorted: Vec<i64> = shuffled.clone().collect();
        sorted.sort_unstable();
        for nth in [1, 2, 3, 10, 499, 500, 999, 1_000] {
            assert_eq!(nth_smallest(shuffled.clone(), nth), sorted.get(nth - 1).copied(), "{nth}");
            assert_eq!(nth_smallest(sorted.iter().rev().copied(), nth), sorted.get(nth - 1).copied(), "{nth}");
        }
        assert_eq!((nth_smallest(shuffled.clone(), 0), nth_smallest(shuffled, 1_001)), (None, None));
    }
}
