//! Groups with their values, as rows.
//!
//! Rows are made in batches, when they are requested: there may be millions of groups, of which the reader often needs
//! only the first.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;

use super::group_order::{self, GroupRanks};
use super::groups::GroupTable;
use super::{AggregatePlan, keys};
use crate::EngineError;
use crate::context::Stop;
use crate::rows::{ColumnReader, RowIter, batch_of};

/// Number of rows of a batch.
const BATCH_ROWS: usize = 8_192;

/// Values of all groups; keys are not materialised yet.
pub struct FinishedGroups {
    groups: GroupTable,
    /// Values of the aggregates.
    columns: Vec<ArrayRef>,
}

impl FinishedGroups {
    pub(super) fn new(groups: GroupTable, columns: Vec<ArrayRef>) -> FinishedGroups {
        assert!(
            columns.iter().all(|values| values.len() == groups.len()),
            "every group has a value of every aggregate"
        );
        FinishedGroups { groups, columns }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values of the aggregates.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// Approximate bytes held.
    pub fn bytes(&self) -> usize {
        self.groups.bytes() + self.columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>()
    }

    /// The texts of each BY field of the groups at `positions`.
    pub fn keys(&self, positions: &[u32]) -> Vec<ArrayRef> {
        self.groups.key_columns(Some(positions))
    }

    /// The groups in ascending order of their BY fields.
    pub fn order(&self, stop: &Stop) -> Result<Vec<u32>, EngineError> {
        group_order::order_of(&self.groups, stop)
    }

    /// The ranks of the BY values, by which groups can be sorted.
    pub fn ranks(&self, stop: &Stop) -> Result<GroupRanks, EngineError> {
        GroupRanks::of(&self.groups, stop)
    }

    /// The first `count` of these groups in the order of their BY fields; if there are not more, all of them in their
    /// order.
    pub fn first(&self, positions: &[u32], count: usize, stop: &Stop) -> Result<Vec<u32>, EngineError> {
        group_order::first_of(&self.groups, positions, count, stop)
    }

    /// Only the groups at `positions`, in any order.
    pub fn select(&self, positions: &[u32]) -> Result<FinishedGroups, EngineError> {
        let keys: Vec<ColumnReader> = self.keys(positions).iter().map(ColumnReader::new).collect();
        let (mut groups, mut order) = (self.groups.without_groups(), vec![0; positions.len()]);
        // The table numbers texts after other values, so that its groups have an order of their own.
        groups.members(&keys, positions.len()).for_each(|row, group| order[group] = positions[row]);
        Ok(FinishedGroups::new(groups, self.columns_at(&order)?))
    }

    /// Adds the groups of another partition of the same plan, none of which this one has.
    pub fn append(&mut self, other: &FinishedGroups) -> Result<(), EngineError> {
        let first = self.len();
        let numbers = self.groups.absorb(&other.groups);
        assert_eq!(self.len() - first, numbers.len(), "partitions have no group in common");
        let mut order = vec![0; numbers.len()];
        numbers.iter().zip(0..).for_each(|(number, position)| order[*number as usize - first] = position);
        for (mine, others) in self.columns.iter_mut().zip(other.columns_at(&order)?) {
            *mine = arrow::compute::concat(&[mine.as_ref(), others.as_ref()])?;
        }
        Ok(())
    }

    fn columns_at(&self, positions: &[u32]) -> Result<Vec<ArrayRef>, EngineError> {
        let positions = UInt32Array::from(positions.to_vec());
        let columns = self.columns.iter().map(|values| arrow::compute::take(values, &positions, None));
        Ok(columns.collect::<Result<_, _>>()?)
    }

    /// The BY fields and aggregates of all groups.
    pub fn rows(&self, plan: &AggregatePlan) -> Result<RecordBatch, EngineError> {
        FinishedGroups::batch(plan, self.groups.key_columns(None), self.columns.clone(), self.len())
    }

    /// The BY fields and aggregates of the groups at `positions`.
    pub fn rows_at(&self, plan: &AggregatePlan, positions: &[u32]) -> Result<RecordBatch, EngineError> {
        FinishedGroups::batch(plan, self.keys(positions), self.columns_at(positions)?, positions.len())
    }

    fn batch(
        plan: &AggregatePlan,
        keys: Vec<ArrayRef>,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<RecordBatch, EngineError> {
        let keys = plan.by.iter().zip(keys).map(|(name, keys)| (name, keys::display_key(name, &keys)));
        let values = plan.columns.iter().map(|column| &column.name).zip(columns);
        batch_of(keys.chain(values), rows)
    }

    /// The rows of the groups at `positions`, in this order.
    pub fn into_rows(self, plan: &AggregatePlan, positions: Vec<u32>) -> RowIter {
        let (plan, mut next) = (plan.clone(), 0);
        Box::new(std::iter::from_fn(move || {
            let part = &positions[next..positions.len().min(next + BATCH_ROWS)];
            next += part.len();
            (!part.is_empty()).then(|| self.rows_at(&plan, part))
        }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    /// Groups with these texts and numbers.
    fn groups(rows: &[(String, i64)]) -> FinishedGroups {
        let mut groups = GroupTable::new(vec![None]);
        let numbered = rows.iter().zip(0..);
        numbered.for_each(|((text, _), at)| assert_eq!(groups.group_of(std::iter::once(text.as_str())), at));
        let numbers: Int64Array = rows.iter().map(|(_, number)| Some(*number)).collect();
        FinishedGroups::new(groups, vec![Arc::new(numbers)])
    }

    fn numbers(groups: &FinishedGroups) -> Vec<i64> {
        groups.columns()[0].as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn rows_are_made_in_batches_in_the_order_of_the_groups() {
        let texts: Vec<(String, i64)> =
            (0..20_000_i64).map(|at| at * 7_919 % 20_000).map(|n| (n.to_string(), n)).collect();
        let groups = groups(&texts);
        let order = groups.order(&Stop::default()).unwrap();
        let plan = AggregatePlan { columns: Vec::new(), by: vec!["n".to_owned()], series: None };
        let batches: Vec<RecordBatch> = groups.into_rows(&plan, order).map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [8_192, 8_192, 3_616]);
        let found = batches.iter().flat_map(|batch| batch.column(0).as_string_view().iter().flatten());
        assert!(found.eq((0..20_000).map(|n| n.to_string())));
    }

    #[test]
    fn groups_of_texts_and_numbers_keep_their_values() {
        let rows_of = |groups: &FinishedGroups| {
            let keys = groups.keys(&(0..u32::try_from(groups.len()).unwrap()).collect::<Vec<_>>());
            let texts = keys[0].as_string_view().iter().flatten().map(str::to_owned);
            let mut rows: Vec<(String, i64)> = texts.zip(numbers(groups)).collect();
            rows.sort();
            rows
        };
        let named = |texts: &[(&str, i64)]| {
            texts.iter().map(|(text, number)| ((*text).to_owned(), *number)).collect::<Vec<_>>()
        };
        let of = |texts: &[(&str, i64)]| groups(&named(texts));
        let mut best = of(&[("b", 5), ("a", 4), ("10", 3), ("c", 2), ("1.5", 1)]).select(&[0, 2, 3, 4]).unwrap();
        assert_eq!(rows_of(&best), named(&[("1.5", 1), ("10", 3), ("b", 5), ("c", 2)]));
        best.append(&of(&[("e", 7), ("10.0.0.1", 6), ("d", 8)])).unwrap();
        let expected = [("1.5", 1), ("10", 3), ("10.0.0.1", 6), ("b", 5), ("c", 2), ("d", 8), ("e", 7)];
        assert_eq!(rows_of(&best), named(&expected));
    }

    #[test]
    fn the_first_groups_of_partitions_are_the_first_of_all() {
        let rows =
            |texts: &[&str]| texts.iter().zip(0..).map(|(text, at)| ((*text).to_owned(), at)).collect::<Vec<_>>();
        let (one, other) = (groups(&rows(&["b", "10", "9", "c"])), groups(&rows(&["a", "1.0", "1", "d"])));
        let stop = Stop::default();
        let mut best = one.select(&one.first(&[0, 1, 2, 3], 2, &stop).unwrap()).unwrap();
        assert_eq!(numbers(&best), [2, 1]);
        best.append(&other.select(&other.first(&[1, 2, 3], 2, &stop).unwrap()).unwrap()).unwrap();
        // The texts 9, 10, 1 and 1.0.
        assert_eq!(numbers(&best), [2, 1, 2, 1]);
        let first = best.first(&[0, 1, 2, 3], 3, &stop).unwrap();
        let keys = best.keys(&first);
        assert_eq!(keys[0].as_string_view().iter().flatten().collect::<Vec<_>>(), ["1", "1.0", "9"]);
    }
}
