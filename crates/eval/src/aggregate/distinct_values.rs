//! Folds over distinct values: for a single group, a set; for several groups, pairs of group and value.

use std::sync::Arc;

use arrow::array::ArrayRef;
use quarry_stdx::number::u32_of;

use super::fold::{Fold, Input, downcast, each_text_list, text_lists};
use super::groups::Members;
use super::integers::UNSET;
use super::pairs::{PairSet, PairTable};
use super::values::{ValueSet, ValueTable};
use crate::rows::ColumnReader;

/// Distinct values of all rows.
#[derive(Clone, Default)]
pub(crate) struct UngroupedDistinct(ValueSet);

impl Fold for UngroupedDistinct {
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
        if let Some(other) = downcast::<UngroupedDistinct>(other) {
            self.0.absorb(&other.0);
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], _: usize) {
        each_text_list(states, groups, |_, texts| texts.for_each(|text| self.0.insert(text)));
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
}

/// Numbered values of all groups.
#[derive(Clone, Default)]
struct NumberedValues {
    values: ValueTable,
    numbers: Vec<u32>,
}

impl NumberedValues {
    /// Calls `reserve` with the number of groups and the number of values, then `found` for each value of each row,
    /// with the row's group and the number of the value.
    fn update<T>(
        &mut self,
        pairs: &mut T,
        input: &Input<'_>,
        members: &Members<'_>,
        reserve: impl Fn(&mut T, usize, usize),
        mut found: impl FnMut(&mut T, u32, u32),
    ) {
        let NumberedValues { values, numbers } = self;
        match input.values {
            None => {}
            Some(column @ ColumnReader::Multi(..)) => members.for_each(|row, group| {
                for text in column.values(row) {
                    let number = values.number_of(&text);
                    reserve(pairs, members.groups, values.len());
                    found(pairs, u32_of(group), number);
                }
            }),
            Some(column) => {
                values.numbers(column, numbers);
                reserve(pairs, members.groups, values.len());
                members.for_each(|row, group| {
                    if numbers[row] != UNSET {
                        found(pairs, u32_of(group), numbers[row]);
                    }
                });
            }
        }
    }

    /// A list column: for each group the values selected by `pairs`, each followed by the text that `after` returns.
    fn lists(&self, pairs: &[(u32, u32)], groups: usize, after: impl Fn(usize) -> Option<String>) -> ArrayRef {
        // Positions of the pairs, sorted by group.
        let mut ends = vec![0u32; groups + 1];
        pairs.iter().for_each(|(group, _)| ends[*group as usize + 1] += 1);
        (0..groups).for_each(|group| ends[group + 1] += ends[group]);
        assert_eq!(ends[groups] as usize, pairs.len(), "every pair belongs to a group");
        let (mut next, mut sorted) = (ends.clone(), vec![0u32; pairs.len()]);
        for (at, (group, _)) in (0u32..).zip(pairs) {
            sorted[next[*group as usize] as usize] = at;
            next[*group as usize] += 1;
        }
        drop(next);
        let (mut builder, mut scratch) = (text_lists(groups), String::new());
        for group in 0..groups {
            for at in &sorted[ends[group] as usize..ends[group + 1] as usize] {
                let at = *at as usize;
                self.values.append(pairs[at].1, &mut scratch, builder.values());
                if let Some(text) = after(at) {
                    builder.values().append_value(text);
                }
            }
            builder.append(true);
        }
        Arc::new(builder.finish())
    }
}

/// Distinct values per group.
#[derive(Clone, Default)]
pub(crate) struct DistinctFold {
    numbered: NumberedValues,
    pairs: PairSet,
}

impl Fold for DistinctFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        self.numbered.update(&mut self.pairs, input, members, PairSet::reserve, PairSet::insert);
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        let Some(other) = downcast::<DistinctFold>(other) else { return };
        let numbers = self.numbered.values.absorb(&other.numbered.values);
        self.pairs.reserve(total, self.numbered.values.len());
        other.pairs.for_each(|group, value| self.pairs.insert(groups[group as usize], numbers[value as usize]));
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        let DistinctFold { numbered, pairs } = self;
        each_text_list(states, groups, |group, texts| {
            for text in texts {
                let number = numbered.values.number_of(text);
                pairs.reserve(total, numbered.values.len());
                pairs.insert(u32_of(group), number);
            }
        });
    }

    fn state(self: Box<Self>, groups: usize) -> ArrayRef {
        let mut pairs = Vec::new();
        self.pairs.for_each(|group, value| pairs.push((group, value)));
        self.numbered.lists(&pairs, groups, |_| None)
    }

    fn lengths(&self, groups: usize) -> Option<Vec<i64>> {
        let mut lengths = vec![0; groups];
        self.pairs.for_each(|group, _| lengths[group as usize] += 1);
        Some(lengths)
    }

    fn bytes(&self) -> usize {
        self.numbered.values.bytes() + self.pairs.bytes()
    }
}

/// Distinct values per group with their counts.
#[derive(Clone, Default)]
pub(crate) struct TallyFold {
    numbered: NumberedValues,
    pairs: PairTable,
    /// Count of each pair.
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
        let TallyFold { numbered, pairs, counts } = self;
        numbered.update(pairs, input, members, PairTable::reserve, |pairs, group, value| {
            count(counts, pairs.number(group, value), 1);
        });
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        let Some(other) = downcast::<TallyFold>(other) else { return };
        let numbers = self.numbered.values.absorb(&other.numbered.values);
        self.pairs.reserve(total, self.numbered.values.len());
        for ((group, value), more) in other.pairs.pairs().iter().zip(other.counts) {
            let at = self.pairs.number(groups[*group as usize], numbers[*value as usize]);
            count(&mut self.counts, at, more);
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        let TallyFold { numbered, pairs, counts } = self;
        each_text_list(states, groups, |group, texts| {
            while let (Some(text), Some(more)) = (texts.next(), texts.next()) {
                let number = numbered.values.number_of(text);
                pairs.reserve(total, numbered.values.len());
                count(counts, pairs.number(u32_of(group), number), more.parse().unwrap_or(0));
            }
        });
    }

    fn state(self: Box<Self>, groups: usize) -> ArrayRef {
        self.numbered.lists(self.pairs.pairs(), groups, |at| Some(self.counts[at].to_string()))
    }

    fn bytes(&self) -> usize {
        self.numbered.values.bytes() + self.pairs.bytes() + self.counts.capacity() * size_of::<i64>()
    }
}
