//! The order of groups by the values of their BY fields: numbers before addresses before texts, equal numbers by their
//! text.
//!
//! Each distinct value of a field is examined once and gets a rank; groups are then sorted by integers, field by field.
//!
//! Not here: groups that do not fit into memory, which are sorted as rows.

use std::cmp::Ordering;
use std::ops::Range;

use quarry_event::value::SortKey;
use quarry_stdx::number::u32_of;

use super::groups::GroupTable;
use super::values::ValueTable;
use crate::EngineError;
use crate::context::Stop;
use crate::rows::rank::{KeyPrefixes, sorted_positions_of};
use crate::rows::sort_first;

/// Number of groups that are sorted between two checks for cancellation.
const CHECKED_GROUPS: usize = 65_536;

/// All groups in ascending order of their BY fields. A search that was finalised sorts them to the end: commands after
/// it, such as a sort by count, need all groups.
pub(super) fn order_of(groups: &GroupTable, stop: &Stop) -> Result<Vec<u32>, EngineError> {
    if let [values] = groups.fields() {
        let order = sort_values(values, &sort_keys(values, stop)?, stop)?;
        return Ok(order.into_iter().map(|(_, group)| group).collect());
    }
    let mut order = (0..u32_of(groups.len())).collect();
    GroupRanks::of(groups, stop)?.sort(&mut order, 0..groups.fields().len(), stop)?;
    Ok(order)
}

/// The first `count` of these groups in ascending order of their BY fields; if there are not more, all of them in their
/// order.
pub(super) fn first_of(
    groups: &GroupTable,
    positions: &[u32],
    count: usize,
    stop: &Stop,
) -> Result<Vec<u32>, EngineError> {
    if positions.len() <= count {
        return Ok(positions.to_vec());
    }
    let fields = groups.fields().iter().zip(groups.value_numbers());
    let fields = fields.map(|(values, numbers)| Ok(KeyedField { values, keys: sort_keys(values, stop)?, numbers }));
    let fields = fields.collect::<Result<Vec<_>, EngineError>>()?;
    // Most comparisons need only the prefix of the first field's key.
    let prefixes = fields.first().map(|field| (KeyPrefixes::of(&field.keys), field));
    let prefix_of = |group: u32| prefixes.as_ref().map_or(0, |(prefixes, field)| prefixes.prefix(field.key(group)));
    let mut order: Vec<(u64, u32)> = positions.iter().map(|group| (prefix_of(*group), *group)).collect();
    let compare = |(one, a): &(u64, u32), (other, b): &(u64, u32)| {
        let by_values = || first_difference(fields.iter().map(|field| field.compare_keys(*a, *b)));
        let by_texts = || first_difference(fields.iter().map(|field| field.compare_texts(*a, *b)));
        one.cmp(other).then_with(by_values).then_with(by_texts)
    };
    sort_first(&mut order, count, compare, || stop.check_cancelled())?;
    Ok(order.into_iter().map(|(_, group)| group).collect())
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The sort keys of a field's values.
struct KeyedField<'g> {
    values: &'g ValueTable,
    keys: Vec<SortKey<'g>>,
    /// Number of each group's value.
    numbers: Vec<u32>,
}

impl KeyedField<'_> {
    fn key(&self, group: u32) -> &SortKey<'_> {
        &self.keys[self.numbers[group as usize] as usize]
    }

    fn compare_keys(&self, a: u32, b: u32) -> Ordering {
        self.key(a).cmp(self.key(b))
    }

    fn compare_texts(&self, a: u32, b: u32) -> Ordering {
        compare_texts(self.values, self.numbers[a as usize], self.numbers[b as usize])
    }
}

/// The numbers of a field's values in ascending order of these keys, each with the prefix of its key.
fn sort_values(values: &ValueTable, keys: &[SortKey<'_>], stop: &Stop) -> Result<Vec<(u64, u32)>, EngineError> {
    sorted_positions_of(keys, |a, b| compare_texts(values, a, b), stop)
}

/// The sort keys of a field's values.
fn sort_keys<'v>(values: &'v ValueTable, stop: &Stop) -> Result<Vec<SortKey<'v>>, EngineError> {
    let mut keys = Vec::with_capacity(values.len());
    let mut scratch = String::new();
    for number in 0..u32_of(values.len()) {
        if (number as usize).is_multiple_of(CHECKED_GROUPS) {
            stop.check_cancelled()?;
        }
        keys.push(values.sort_key(number, &mut scratch));
    }
    Ok(keys)
}

/// Order of two values by their texts.
fn compare_texts(values: &ValueTable, a: u32, b: u32) -> Ordering {
    let [one, other] = [a, b].map(|number| {
        let mut text = String::new();
        values.write(number, &mut text);
        text
    });
    one.cmp(&other)
}

/// The ranks of the groups' values, field by field.
pub struct GroupRanks(Vec<FieldRanks>);

/// The rank of each group's value among the values of a field.
#[derive(Default)]
struct FieldRanks {
    /// Values that the order does not distinguish, such as `1` and `1.0`, have the same rank.
    ranks: Vec<u32>,
    /// Ranks that also distinguish such values, by their text; empty if there are none.
    text_ranks: Vec<u32>,
}

impl FieldRanks {
    /// The ranks of a field's values.
    fn of(values: &ValueTable, stop: &Stop) -> Result<FieldRanks, EngineError> {
        let keys = sort_keys(values, stop)?;
        let order = sort_values(values, &keys, stop)?;
        assert_eq!(order.len(), values.len(), "every value has a rank");
        let (mut ranks, mut rank, mut has_ties) = (vec![0; order.len()], 0, false);
        for pair in order.windows(2) {
            let [(one, before), (other, after)] = [pair[0], pair[1]];
            // Keys with different prefixes differ. To compare the keys would read memory in random order.
            let is_same = one == other && keys[before as usize] == keys[after as usize];
            has_ties |= is_same;
            rank += u32::from(!is_same);
            ranks[after as usize] = rank;
        }
        let mut text_ranks = Vec::new();
        if has_ties {
            text_ranks = vec![0; order.len()];
            order.iter().zip(0..).for_each(|((_, number), at)| text_ranks[*number as usize] = at);
        }
        Ok(FieldRanks { ranks, text_ranks })
    }

    /// The ranks of the values with these numbers.
    fn select(&self, numbers: &[u32]) -> FieldRanks {
        let select = |ranks: &[u32]| match ranks {
            [] => Vec::new(),
            _ => numbers.iter().map(|number| ranks[*number as usize]).collect(),
        };
        FieldRanks { ranks: select(&self.ranks), text_ranks: select(&self.text_ranks) }
    }

    fn is_same(&self, a: usize, b: usize) -> bool {
        self.ranks[a] == self.ranks[b] && self.text_ranks.get(a) == self.text_ranks.get(b)
    }
}

impl GroupRanks {
    pub(super) fn of(groups: &GroupTable, stop: &Stop) -> Result<GroupRanks, EngineError> {
        let fields = groups.fields().iter().zip(groups.value_numbers());
        let ranks = fields.map(|(values, numbers)| Ok(FieldRanks::of(values, stop)?.select(&numbers)));
        Ok(GroupRanks(ranks.collect::<Result<_, EngineError>>()?))
    }

    /// Sorts groups by these fields, first by value, then by text. Groups with equal values keep their order.
    pub fn sort(&self, groups: &mut Vec<u32>, fields: Range<usize>, stop: &Stop) -> Result<(), EngineError> {
        let fields = || self.0[fields.clone()].iter().rev();
        // The last field comes first, because each sort keeps the order of the ones before it.
        let texts = fields().map(|field| &field.text_ranks).filter(|ranks| !ranks.is_empty());
        texts.chain(fields().map(|field| &field.ranks)).try_for_each(|ranks| sort_by_ranks(groups, ranks, stop))
    }

    /// Whether two groups have the same values of these fields.
    pub fn have_same_values(&self, a: u32, b: u32, fields: Range<usize>) -> bool {
        self.0[fields].iter().all(|field| field.is_same(a as usize, b as usize))
    }
}

/// Sorts groups by rank; groups of equal rank keep their order. `ranks` has small numbers, one for each group.
pub fn sort_by_ranks(groups: &mut Vec<u32>, ranks: &[u32], stop: &Stop) -> Result<(), EngineError> {
    let count = ranks.iter().max().map_or(0, |last| *last as usize + 1);
    // Number of groups up to each rank; then the place of the next group of the rank.
    let mut places = vec![0; count + 1];
    groups.iter().for_each(|group| places[ranks[*group as usize] as usize + 1] += 1);
    let mut before = 0;
    for place in &mut places {
        before += *place;
        *place = before;
    }
    let mut sorted = vec![0; groups.len()];
    for some in groups.chunks(CHECKED_GROUPS) {
        stop.check_cancelled()?;
        for group in some {
            let place: &mut u32 = &mut places[ranks[*group as usize] as usize];
            sorted[*place as usize] = *group;
            *place += 1;
        }
    }
    *groups = sorted;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Groups with these values of two fields.
    fn groups(rows: &[[&str; 2]]) -> GroupTable {
        let mut groups = GroupTable::new(vec![None, None]);
        rows.iter().zip(0..).for_each(|(row, at)| assert_eq!(groups.group_of(row.iter().copied()), at));
        groups
    }

    #[test]
    fn groups_are_ordered_by_all_values_before_any_text() {
        let rows = [["b", "1"], ["1.0", "5"], ["1", "6"], ["10.0.0.1", "x"], ["1", "5"], ["10", ""], ["-2.50", "7"]];
        let groups = groups(&rows);
        let order = order_of(&groups, &Stop::default()).unwrap();
        let found: Vec<[&str; 2]> = order.into_iter().map(|group| rows[group as usize]).collect();
        // `1` and `1.0` are equal numbers, so the second field decides first.
        let expected =
            [["-2.50", "7"], ["1", "5"], ["1.0", "5"], ["1", "6"], ["10", ""], ["10.0.0.1", "x"], ["b", "1"]];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_sort_by_some_fields_keeps_the_order_of_equal_groups() {
        let groups = groups(&[["b", "1"], ["a", "3"], ["b", "2"], ["a", "1"]]);
        let stop = Stop::default();
        let ranks = GroupRanks::of(&groups, &stop).unwrap();
        let mut order = vec![3, 2, 1, 0];
        ranks.sort(&mut order, 0..1, &stop).unwrap();
        assert_eq!(order, [3, 1, 2, 0]);
        assert!(ranks.have_same_values(0, 2, 0..1) && !ranks.have_same_values(0, 2, 0..2));
        stop.cancel();
        assert!(ranks.sort(&mut order, 0..1, &stop).is_err());
    }
}
