//! Folds of distinct values: as a set where there is one group, else as pairs of group and value.

use std::any::Any;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::fold::{Fold, Input, same, text_lists};
use super::groups::Members;
use super::integers::NONE;
use super::pairs::PairTable;
use super::values::{ValueSet, ValueTable};
use crate::rows::ColumnReader;

/// Distinct values of all rows.
#[derive(Default)]
pub(crate) struct DistinctOfAll(ValueSet);

impl Fold for DistinctOfAll {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        match input.values {
            None => {}
            Some(values @ ColumnReader::Multi(..)) => {
                members.for_each(|row, _| values.values(row).for_each(|text| self.0.insert(&text)));
            }
            Some(values) => self.0.insert_all(values),
        }
    }

    fn absorb(&mut self, other: Box<dyn Fold>, _: &[u32], _: usize) {
        if let Some(other) = same::<DistinctOfAll>(other) {
            self.0.absorb(&other.0);
        }
    }

    fn state(self: Box<Self>, groups: usize) -> ArrayRef {
        let mut builder = text_lists(groups);
        self.0.for_each(|text| builder.values().append_value(text));
        (0..groups).for_each(|_| builder.append(true));
        Arc::new(builder.finish())
    }

    fn lengths(&self, groups: usize) -> Option<Vec<i64>> {
        Some(vec![self.0.len() as i64; groups])
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Pairs of a group and one of its values.
#[derive(Default)]
struct GroupValues {
    values: ValueTable,
    pairs: PairTable,
    numbers: Vec<u32>,
}

impl GroupValues {
    /// Calls `found` with the number of the pair of each value and group.
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>, mut found: impl FnMut(u32)) {
        let GroupValues { values, pairs, numbers } = self;
        match input.values {
            None => {}
            Some(column @ ColumnReader::Multi(..)) => members.for_each(|row, group| {
                for text in column.values(row) {
                    let number = values.number_of(&text);
                    pairs.reserve(members.groups, values.len());
                    found(pairs.number(group as u32, number));
                }
            }),
            Some(column) => {
                values.numbers(column, numbers);
                pairs.reserve(members.groups, values.len());
                members.for_each(|row, group| {
                    if numbers[row] != NONE {
                        found(pairs.number(group as u32, numbers[row]));
                    }
                });
            }
        }
    }

    /// Takes the pairs of another and calls `found` with the number each of its pairs, in order, has here.
    fn absorb(&mut self, other: &GroupValues, groups: &[u32], total: usize, mut found: impl FnMut(u32)) {
        let numbers = self.values.absorb(&other.values);
        self.pairs.reserve(total, self.values.len());
        for (group, value) in other.pairs.pairs() {
            found(self.pairs.number(groups[*group as usize], numbers[*value as usize]));
        }
    }

    /// Lists of each group's values, each followed by its count if there are counts.
    fn lists(&self, groups: usize, counts: Option<&[i64]>) -> ArrayRef {
        let mut of_group: Vec<Vec<u32>> = vec![Vec::new(); groups];
        self.pairs.pairs().iter().zip(0..).for_each(|((group, _), at)| of_group[*group as usize].push(at));
        let (mut builder, mut scratch) = (text_lists(groups), String::new());
        for pairs in of_group {
            for at in pairs {
                let (_, value) = self.pairs.pairs()[at as usize];
                self.values.append(value, &mut scratch, builder.values());
                if let Some(counts) = counts {
                    builder.values().append_value(counts[at as usize].to_string());
                }
            }
            builder.append(true);
        }
        Arc::new(builder.finish())
    }

    fn bytes(&self) -> usize {
        self.values.bytes() + self.pairs.bytes()
    }
}

/// Distinct values per group.
#[derive(Default)]
pub(crate) struct DistinctFold(GroupValues);

impl Fold for DistinctFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        self.0.update(input, members, |_| {});
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        if let Some(other) = same::<DistinctFold>(other) {
            self.0.absorb(&other.0, groups, total, |_| {});
        }
    }

    fn state(self: Box<Self>, groups: usize) -> ArrayRef {
        self.0.lists(groups, None)
    }

    fn lengths(&self, groups: usize) -> Option<Vec<i64>> {
        let mut lengths = vec![0; groups];
        self.0.pairs.pairs().iter().for_each(|(group, _)| lengths[*group as usize] += 1);
        Some(lengths)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Distinct values per group with their counts.
#[derive(Default)]
pub(crate) struct TallyFold {
    values: GroupValues,
    counts: Vec<i64>,
}

fn count(counts: &mut Vec<i64>, at: u32, more: i64) {
    let at = at as usize;
    if at >= counts.len() {
        counts.resize(at + 1, 0);
    }
    counts[at] += more;
}

impl Fold for TallyFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        let TallyFold { values, counts } = self;
        values.update(input, members, |at| count(counts, at, 1));
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        let Some(other) = same::<TallyFold>(other) else { return };
        let mut more = other.counts.iter();
        let TallyFold { values, counts } = self;
        values.absorb(&other.values, groups, total, |at| count(counts, at, more.next().copied().unwrap_or(0)));
    }

    fn state(self: Box<Self>, groups: usize) -> ArrayRef {
        self.values.lists(groups, Some(&self.counts))
    }

    fn bytes(&self) -> usize {
        self.values.bytes() + self.counts.capacity() * size_of::<i64>()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
