//! Group lookup: the values of the BY fields, numbered per field and then combined.
//!
//! Each field has a table of its distinct values; fields are combined pairwise, left to right. For two dictionary
//! columns without nulls, a small table maps pairs of codes directly to groups. Texts are materialised only for groups
//! in the output.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use quarry_stdx::number::u32_of;

use super::integers::UNSET;
use super::pairs::PairTable;
use super::values::{IntegerForm, ValueTable};
use crate::messages::{GROUPS_PER_ROW_MAX, Loss, record_loss};
use crate::rows::{ColumnReader, DictionaryColumn};

/// Maximum number of code pairs of two dictionaries translated by one table; with more, each field is looked up on its
/// own.
const CODE_PAIRS_MAX: usize = 64 << 10;

/// Group membership of a batch's rows.
pub(crate) struct Members<'a> {
    /// Mapping of rows to groups.
    pub kind: MemberKind<'a>,
    /// Number of rows in the batch.
    pub rows: usize,
    /// Number of groups so far.
    pub groups: usize,
}

/// See [`Members`].
pub(crate) enum MemberKind<'a> {
    /// All rows are in group 0.
    One,
    /// One group per row; [`UNSET`] for rows without a group.
    Each {
        groups: &'a [u32],
        /// Whether every row has a group.
        complete: bool,
    },
    /// Pairs of row and group, in row order.
    Pairs(&'a [(u32, u32)]),
}

impl Members<'_> {
    /// Calls `found` with each row and its group, in order of rows.
    #[inline]
    pub(crate) fn for_each(&self, mut found: impl FnMut(usize, usize)) {
        match self.kind {
            MemberKind::One => (0..self.rows).for_each(|row| found(row, 0)),
            MemberKind::Each { groups, complete: true } => {
                groups.iter().enumerate().for_each(|(row, group)| found(row, *group as usize));
            }
            MemberKind::Each { groups, .. } => {
                for (row, group) in groups.iter().enumerate() {
                    if *group != UNSET {
                        found(row, *group as usize);
                    }
                }
            }
            MemberKind::Pairs(pairs) => pairs.iter().for_each(|(row, group)| found(*row as usize, *group as usize)),
        }
    }
}

/// Groups for pairs of codes of two dictionaries.
struct CodePairs {
    left: ArrayRef,
    right: ArrayRef,
    right_bits: u32,
    groups: Vec<u32>,
}

/// The groups so far.
#[derive(Default)]
pub(crate) struct GroupTable {
    fields: Vec<ValueTable>,
    /// For each field, the substitute for a missing value.
    texts_of_null: Vec<Option<&'static str>>,
    /// Table `at` combines the first `at + 2` fields: it maps the previous combination and the value of the last field
    /// to a number.
    pairs: Vec<PairTable>,
    codes: Option<CodePairs>,
    numbers: Vec<u32>,
    groups: Vec<u32>,
    members: Vec<(u32, u32)>,
}

impl GroupTable {
    /// Bytes of a group that [`GroupTable::append_integers`] creates.
    pub(super) const INTEGER_BYTES: usize = ValueTable::INTEGER_BYTES;

    /// Creates a table; `texts_of_null` has the substitute for a missing value of each BY field. A row with neither
    /// value nor substitute has no group.
    pub(crate) fn new(texts_of_null: Vec<Option<&'static str>>) -> GroupTable {
        GroupTable {
            fields: texts_of_null.iter().map(|_| ValueTable::default()).collect(),
            pairs: texts_of_null.iter().skip(1).map(|_| PairTable::default()).collect(),
            texts_of_null,
            ..GroupTable::default()
        }
    }

    /// Number of groups; always 1 without BY fields.
    pub(crate) fn len(&self) -> usize {
        match (self.pairs.last(), self.fields.last()) {
            (Some(pairs), _) => pairs.pairs().len(),
            (None, Some(values)) => values.len(),
            (None, None) => 1,
        }
    }

    /// The groups of rows. A row that lacks a BY field without a substitute has no group; a row with a multivalue
    /// is in several groups.
    pub(crate) fn members(&mut self, columns: &[ColumnReader], rows: usize) -> Members<'_> {
        assert_eq!(columns.len(), self.fields.len(), "a column per BY field");
        if columns.is_empty() {
            return Members { kind: MemberKind::One, rows, groups: 1 };
        }
        if columns.iter().any(|column| matches!(column, ColumnReader::Multi(..))) {
            self.members.clear();
            (0..rows).for_each(|row| self.combine(columns, row));
            return Members { kind: MemberKind::Pairs(&self.members), rows, groups: self.len() };
        }
        let complete = match columns {
            [ColumnReader::Dictionary(left), ColumnReader::Dictionary(right)]
                if left.is_complete() && right.is_complete() && code_bits(left, right).is_some() =>
            {
                self.groups_of_codes(left, right);
                true
            }
            _ => {
                self.groups_of_values(columns);
                columns.iter().all(|column| column.validity().is_none())
            }
        };
        assert_eq!(self.groups.len(), rows, "every row has a group, or none");
        debug_assert!(!complete || !self.groups.contains(&UNSET), "no row of complete columns is without a group");
        Members { kind: MemberKind::Each { groups: &self.groups, complete }, rows, groups: self.len() }
    }

    fn groups_of_values(&mut self, columns: &[ColumnReader]) {
        for (at, column) in columns.iter().enumerate() {
            let Some(before) = at.checked_sub(1) else {
                self.fields[at].numbers(column, &mut self.groups);
                fill(&mut self.groups, self.texts_of_null[at], &mut self.fields[at]);
                continue;
            };
            self.fields[at].numbers(column, &mut self.numbers);
            fill(&mut self.numbers, self.texts_of_null[at], &mut self.fields[at]);
            let (lefts, rights) = (self.lefts(before), self.fields[at].len());
            let pairs = &mut self.pairs[before];
            pairs.reserve(lefts, rights);
            for (group, number) in self.groups.iter_mut().zip(&self.numbers) {
                *group = if *group == UNSET || *number == UNSET { UNSET } else { pairs.number(*group, *number) };
            }
        }
    }

    fn groups_of_codes(&mut self, left: &DictionaryColumn, right: &DictionaryColumn) {
        let known =
            self.codes.take().filter(|codes| left.has_dictionary(&codes.left) && right.has_dictionary(&codes.right));
        let mut codes = known.unwrap_or_else(|| {
            let (left_bits, right_bits) = code_bits(left, right).unwrap_or_default();
            let groups = vec![UNSET; 1 << (left_bits + right_bits)];
            CodePairs { left: left.values.clone(), right: right.values.clone(), right_bits, groups }
        });
        let (bits, table) = (codes.right_bits, codes.groups.as_mut_slice());
        let mut groups = std::mem::take(&mut self.groups);
        groups.clear();
        groups.extend(left.codes.values().iter().zip(right.codes.values()).map(|(a, b)| {
            let slot = &mut table[(*a as usize) << bits | *b as usize];
            if *slot == UNSET {
                *slot = self.group_of([left.texts.value(*a as usize), right.texts.value(*b as usize)].into_iter());
            }
            *slot
        }));
        self.groups = groups;
        self.codes = Some(codes);
    }

    /// The groups of ascending integers, for a single field.
    pub(super) fn groups_of_integers(&mut self, form: IntegerForm, integers: &[i64]) -> &[u32] {
        self.groups.clear();
        if let ([values], [low, ..], [.., high]) = (self.fields.as_mut_slice(), integers, integers) {
            values.numbers_of_integers(form, integers, (*low, *high), &mut self.groups);
        }
        &self.groups
    }

    /// Prepares for [`GroupTable::append_integers`] of this many integers.
    pub(super) fn reserve_integers(&mut self, count: usize) {
        if let [values] = self.fields.as_mut_slice() {
            values.reserve(count);
        }
    }

    /// Creates groups for integers that have no group yet, for a single field. These groups cannot be looked up later.
    pub(super) fn append_integers(&mut self, form: IntegerForm, integers: &[i64]) -> &[u32] {
        self.groups.clear();
        if let [values] = self.fields.as_mut_slice() {
            let first = u32_of(values.len());
            values.append_integers(form, integers);
            self.groups.extend(first..u32_of(values.len()));
        }
        &self.groups
    }

    /// The group of a time and, with two fields, a text.
    pub(crate) fn group_of_time(&mut self, time: i64, text: Option<&str>) -> u32 {
        let [first, rest @ ..] = self.fields.as_mut_slice() else { return 0 };
        let number = first.number_of_time(time);
        let (Some(text), [second, ..], Some(pairs)) = (text, rest, self.pairs.first_mut()) else { return number };
        let right = second.number_of(text);
        pairs.reserve(first.len(), second.len());
        pairs.number(number, right)
    }

    /// The group of one text per field.
    pub(crate) fn group_of<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> u32 {
        let mut group = 0;
        for (at, text) in texts.enumerate() {
            let number = self.fields[at].number_of(text);
            group = match at.checked_sub(1) {
                None => number,
                Some(before) => {
                    let lefts = self.lefts(before);
                    self.pairs[before].reserve(lefts, self.fields[at].len());
                    self.pairs[before].number(group, number)
                }
            };
        }
        group
    }

    /// Upper bound of the first number of the pairs in table `at`.
    fn lefts(&self, at: usize) -> usize {
        match at.checked_sub(1) {
            Some(before) => self.pairs[before].pairs().len(),
            None => self.fields[0].len(),
        }
    }

    /// Adds a row to the group of each combination of its BY values (their cross product), up to
    /// [`GROUPS_PER_ROW_MAX`].
    fn combine(&mut self, columns: &[ColumnReader], row: usize) {
        let mut values: Vec<Vec<_>> = columns.iter().map(|column| column.values(row).collect()).collect();
        for (values, text) in values.iter_mut().zip(&self.texts_of_null) {
            if values.is_empty() {
                values.extend(text.map(std::borrow::Cow::Borrowed));
            }
        }
        if values.iter().any(Vec::is_empty) {
            return;
        }
        let mut chosen = vec![0; values.len()];
        for _ in 0..GROUPS_PER_ROW_MAX {
            let group = self.group_of(values.iter().zip(&chosen).map(|(values, at)| values[*at].as_ref()));
            self.members.push((u32_of(row), group));
            // The last field varies fastest.
            let Some(at) = (0..chosen.len()).rev().find(|at| chosen[*at] + 1 < values[*at].len()) else { return };
            chosen[at] += 1;
            chosen[at + 1..].fill(0);
        }
        record_loss(Loss::Groups);
    }

    /// Merges the groups of another table and returns, for each of them, its number in this table.
    pub(crate) fn absorb(&mut self, other: &GroupTable) -> Vec<u32> {
        assert_eq!(self.fields.len(), other.fields.len(), "tables that join have the same BY fields");
        let mut fields = self.fields.iter_mut().zip(&other.fields);
        let Some((first, other_first)) = fields.next() else { return vec![0] };
        let mut numbers = first.absorb(other_first);
        let mut lefts = first.len();
        for ((values, other_values), (pairs, other_pairs)) in fields.zip(self.pairs.iter_mut().zip(&other.pairs)) {
            let rights = values.absorb(other_values);
            pairs.reserve(lefts, values.len());
            let number = |(left, right): &(u32, u32)| pairs.number(numbers[*left as usize], rights[*right as usize]);
            numbers = other_pairs.pairs().iter().map(number).collect();
            lefts = pairs.pairs().len();
        }
        assert_eq!(numbers.len(), other.len(), "every group of the other table has a number here");
        numbers
    }

    /// The keys of all groups, or of the groups at `positions`, as one text column per field.
    pub(crate) fn key_columns(&self, positions: Option<&[u32]>) -> Vec<ArrayRef> {
        let mut numbers: Vec<u32> = positions.map_or_else(|| (0..u32_of(self.len())).collect(), <[u32]>::to_vec);
        let mut columns = Vec::with_capacity(self.fields.len());
        for (at, values) in self.fields.iter().enumerate().rev() {
            let pairs = at.checked_sub(1).map(|before| self.pairs[before].pairs());
            let (mut column, mut scratch) = (StringViewBuilder::with_capacity(numbers.len()), String::new());
            for number in &mut numbers {
                let value = pairs.map_or(*number, |pairs| pairs[*number as usize].1);
                values.append(value, &mut scratch, &mut column);
                *number = pairs.map_or(*number, |pairs| pairs[*number as usize].0);
            }
            columns.push(Arc::new(column.finish()) as ArrayRef);
        }
        columns.reverse();
        assert_eq!(columns.len(), self.fields.len(), "a key column per BY field");
        columns
    }

    /// The values of each BY field.
    pub(super) fn fields(&self) -> &[ValueTable] {
        &self.fields
    }

    /// For each BY field, the number of each group's value.
    pub(super) fn value_numbers(&self) -> Vec<Vec<u32>> {
        let mut combinations: Vec<u32> = (0..u32_of(self.len())).collect();
        let mut numbers = Vec::with_capacity(self.fields.len());
        for pairs in self.pairs.iter().rev().map(PairTable::pairs) {
            numbers.push(combinations.iter().map(|combination| pairs[*combination as usize].1).collect());
            combinations.iter_mut().for_each(|combination| *combination = pairs[*combination as usize].0);
        }
        numbers.extend((!self.fields.is_empty()).then_some(combinations));
        numbers.reverse();
        numbers
    }

    /// A table of the same fields without groups.
    pub(super) fn without_groups(&self) -> GroupTable {
        GroupTable::new(self.texts_of_null.clone())
    }

    /// The same groups, without auxiliary tables that only speed up adding rows.
    pub(crate) fn without_caches(&self) -> GroupTable {
        GroupTable {
            fields: self.fields.clone(),
            texts_of_null: self.texts_of_null.clone(),
            pairs: self.pairs.clone(),
            ..GroupTable::default()
        }
    }

    /// Approximate bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.iter().map(ValueTable::bytes).sum::<usize>()
            + self.pairs.iter().map(PairTable::bytes).sum::<usize>()
            + (self.numbers.capacity() + self.groups.capacity()) * size_of::<u32>()
    }
}

/// Replaces missing numbers with the number of `text`.
fn fill(numbers: &mut [u32], text: Option<&str>, values: &mut ValueTable) {
    if let Some(text) = text
        && numbers.contains(&UNSET)
    {
        let missing = values.number_of(text);
        numbers.iter_mut().filter(|number| **number == UNSET).for_each(|number| *number = missing);
    }
}

/// Bits of both codes, if one table can hold all pairs.
fn code_bits(left: &DictionaryColumn, right: &DictionaryColumn) -> Option<(u32, u32)> {
    let bits = |column: &DictionaryColumn| column.texts.len().max(1).next_power_of_two().trailing_zeros();
    let (left, right) = (bits(left), bits(right));
    (left + right <= CODE_PAIRS_MAX.trailing_zeros()).then_some((left, right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Messages, enter_scope};
    use crate::rows::ColumnBuilder;

    #[test]
    fn combinations_beyond_the_limit_are_reported() {
        let columns = |values: usize| -> Vec<ColumnReader> {
            let mut column = ColumnBuilder::new(1);
            column.push_multi((0..values).map(|value| value.to_string()));
            vec![ColumnReader::new(&column.finish()); 2]
        };
        let messages = Arc::new(Messages::default());
        let _scope = enter_scope(Some(Arc::clone(&messages)));
        assert_eq!(GroupTable::new(vec![None; 2]).members(&columns(100), 1).groups, GROUPS_PER_ROW_MAX);
        assert!(messages.list().is_empty());
        assert_eq!(GroupTable::new(vec![None; 2]).members(&columns(101), 1).groups, GROUPS_PER_ROW_MAX);
        assert!(messages.list()[0].contains(": 1 row has more than "), "{:?}", messages.list());
    }
}
