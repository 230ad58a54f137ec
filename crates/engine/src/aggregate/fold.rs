//! Folding the values of a slice into one state per group.
//!
//! A fold is an array indexed by group number that grows on demand. Values are read through the column's reader, so
//! numbers in text and typed numbers count alike.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Float64Builder, Int64Array, ListBuilder, StringViewBuilder};

use super::digest::Digest;
use super::keys::KeyTable;
use super::merge::{number_item, sequence_entry};
use super::moments::Moments;
use super::sparkline::Sparkline;
use super::{LIST_VALUES_MAX, Part, PickKey};
use crate::rows::{ColumnReader, multi_item};

/// What a fold reads of a batch.
pub(crate) struct Input<'a> {
    /// Values of the argument; `None` where rows are counted.
    pub values: Option<&'a ColumnReader>,
    /// `_time`.
    pub times: Option<&'a ColumnReader>,
    /// Position of the batch's first row in the whole search.
    pub row_base: u64,
}

/// Pairs of a row and a group it belongs to, in order of rows.
pub(crate) struct Membership {
    rows: Vec<u32>,
    groups: Vec<u32>,
    /// Groups there are so far.
    pub groups_total: usize,
}

impl Membership {
    /// Nothing yet.
    pub(crate) fn with_capacity(rows: usize) -> Membership {
        Membership { rows: Vec::with_capacity(rows), groups: Vec::with_capacity(rows), groups_total: 0 }
    }

    /// Every row in group 0.
    pub(crate) fn all_in_one(rows: usize) -> Membership {
        Membership { rows: (0..rows as u32).collect(), groups: vec![0; rows], groups_total: 1 }
    }

    /// Puts a row into a group.
    #[inline]
    pub(crate) fn push(&mut self, row: usize, group: u32) {
        self.rows.push(row as u32);
        self.groups.push(group);
    }

    #[inline]
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.rows.iter().zip(&self.groups).map(|(row, group)| (*row as usize, *group as usize))
    }
}

/// Collects one part of an aggregate.
pub(crate) trait Fold {
    /// Takes a batch.
    fn update(&mut self, input: &Input<'_>, members: &Membership);
    /// The states of groups `0..groups`.
    fn state(self: Box<Self>, groups: usize) -> ArrayRef;
}

/// A fold for `part`.
pub(crate) fn of(part: Part) -> Box<dyn Fold> {
    match part {
        Part::Values | Part::Numbers => Box::new(CountFold { part, counts: Vec::new() }),
        Part::Sum => Box::new(NumberFold::new(0.0, |sum, value| sum + value)),
        Part::SumOfSquares => Box::new(NumberFold::new(0.0, |sum, value| sum + value * value)),
        Part::MinNumber => Box::new(NumberFold::new(f64::NAN, f64::min)),
        Part::MaxNumber => Box::new(NumberFold::new(f64::NAN, f64::max)),
        Part::MinText => Box::new(TextFold { texts: Vec::new(), largest: false }),
        Part::MaxText => Box::new(TextFold { texts: Vec::new(), largest: true }),
        Part::Moments => Box::new(MomentsFold(Vec::new())),
        Part::Distinct => Box::new(DistinctFold { keys: KeyTable::default(), counts: None }),
        Part::Tally => Box::new(DistinctFold { keys: KeyTable::default(), counts: Some(Vec::new()) }),
        Part::Sequence => Box::new(SequenceFold(Vec::new())),
        Part::Digest { exact } => Box::new(DigestFold { digests: Vec::new(), exact }),
        Part::Pick(key) => Box::new(PickFold { key, picks: Vec::new() }),
        Part::Sparkline { width } => Box::new(SparklineFold { lines: Vec::new(), width }),
    }
}

/// Makes room for every group seen so far.
fn grow<T: Clone>(states: &mut Vec<T>, members: &Membership, empty: T) {
    if states.len() < members.groups_total {
        states.resize(members.groups_total, empty);
    }
}

struct CountFold {
    part: Part,
    counts: Vec<i64>,
}

impl Fold for CountFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.counts, members, 0);
        let Some(values) = input.values else {
            members.pairs().for_each(|(_, group)| self.counts[group] += 1);
            return;
        };
        for (row, group) in members.pairs() {
            self.counts[group] += match self.part {
                Part::Numbers => numbers_in(values, row) as i64,
                _ if values.is_null(row) => 0,
                _ if matches!(values, ColumnReader::Multi(..)) => values.values(row).count() as i64,
                _ => 1,
            };
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.counts.resize(groups, 0);
        Arc::new(Int64Array::from(self.counts))
    }
}

fn numbers_in(values: &ColumnReader, row: usize) -> usize {
    if !matches!(values, ColumnReader::Multi(..)) {
        return usize::from(values.number(row).is_some());
    }
    values.values(row).filter(|text| quarry_event::value::parse_number(text).is_some()).count()
}

/// Calls `found` for each number of a row.
#[inline]
fn for_each_number(values: &ColumnReader, row: usize, mut found: impl FnMut(f64)) {
    if !matches!(values, ColumnReader::Multi(..)) {
        if let Some(number) = values.number(row) {
            found(number);
        }
        return;
    }
    values.values(row).filter_map(|text| quarry_event::value::parse_number(&text)).for_each(found);
}

struct NumberFold {
    empty: f64,
    join: fn(f64, f64) -> f64,
    numbers: Vec<f64>,
}

impl NumberFold {
    fn new(empty: f64, join: fn(f64, f64) -> f64) -> NumberFold {
        NumberFold { empty, join, numbers: Vec::new() }
    }
}

impl Fold for NumberFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.numbers, members, self.empty);
        let Some(values) = input.values else { return };
        for (row, group) in members.pairs() {
            for_each_number(values, row, |number| self.numbers[group] = (self.join)(self.numbers[group], number));
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.numbers.resize(groups, self.empty);
        // An extreme of no numbers is NaN here and must not take part in a merge.
        let nulls_are_nan = self.empty.is_nan();
        let numbers = self.numbers.into_iter().map(|number| (!(nulls_are_nan && number.is_nan())).then_some(number));
        Arc::new(numbers.collect::<Float64Array>())
    }
}

struct TextFold {
    texts: Vec<Option<Box<str>>>,
    largest: bool,
}

impl Fold for TextFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.texts, members, None);
        let Some(values) = input.values else { return };
        if matches!(values, ColumnReader::Int(_) | ColumnReader::Float(_) | ColumnReader::Time(_)) {
            return;
        }
        for (row, group) in members.pairs() {
            for value in values.values(row) {
                if quarry_event::value::parse_number(&value).is_some() {
                    continue;
                }
                let known = &mut self.texts[group];
                let better =
                    known.as_deref().is_none_or(|known| (value.as_ref() > known) == self.largest && value != known);
                if better {
                    *known = Some(value.into_owned().into_boxed_str());
                }
            }
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.texts.resize(groups, None);
        let mut builder = StringViewBuilder::with_capacity(groups);
        self.texts.iter().for_each(|text| builder.append_option(text.as_deref()));
        Arc::new(builder.finish())
    }
}

/// A column of number lists.
fn number_lists(lists: impl Iterator<Item = Vec<f64>>, groups: usize) -> ArrayRef {
    let mut builder = ListBuilder::with_capacity(Float64Builder::new(), groups).with_field(number_item());
    for list in lists {
        builder.values().append_slice(&list);
        builder.append(true);
    }
    Arc::new(builder.finish())
}

struct MomentsFold(Vec<Moments>);

impl Fold for MomentsFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.0, members, Moments::default());
        let Some(values) = input.values else { return };
        for (row, group) in members.pairs() {
            for_each_number(values, row, |number| self.0[group].add(number));
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.0.resize(groups, Moments::default());
        number_lists(self.0.into_iter().map(|moments| moments.to_state().to_vec()), groups)
    }
}

struct DigestFold {
    digests: Vec<Digest>,
    exact: bool,
}

impl Fold for DigestFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.digests, members, Digest::new(self.exact));
        let Some(values) = input.values else { return };
        for (row, group) in members.pairs() {
            for_each_number(values, row, |number| self.digests[group].add(number));
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.digests.resize(groups, Digest::new(self.exact));
        number_lists(self.digests.into_iter().map(Digest::into_state), groups)
    }
}

struct SparklineFold {
    lines: Vec<Sparkline>,
    width: Option<i64>,
}

impl Fold for SparklineFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.lines, members, Sparkline::new(self.width));
        let Some(times) = input.times else { return };
        for (row, group) in members.pairs() {
            let Some(time) = crate::commands::spans::time_ns(times, row) else { continue };
            let line = &mut self.lines[group];
            match input.values {
                None => line.add(time, 1.0),
                Some(values) => for_each_number(values, row, |number| line.add(time, number)),
            }
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.lines.resize(groups, Sparkline::new(self.width));
        number_lists(self.lines.iter().map(Sparkline::to_state), groups)
    }
}

/// Distinct values per group, with their counts when wanted. A key is the group's number and the value.
struct DistinctFold {
    keys: KeyTable,
    counts: Option<Vec<i64>>,
}

/// Bytes of the group's number in front of a value.
const GROUP_BYTES: usize = 4;

impl Fold for DistinctFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        let Some(values) = input.values else { return };
        let (mut key, mut scratch) = (Vec::new(), String::new());
        for (row, group) in members.pairs() {
            if matches!(values, ColumnReader::Multi(..)) {
                values.values(row).for_each(|value| self.add(group, value.as_bytes(), &mut key));
            } else if let Some(text) = values.text(row, &mut scratch) {
                self.add(group, text.as_bytes(), &mut key);
            }
        }
    }

    fn state(self: Box<Self>, groups: usize) -> ArrayRef {
        let mut of_group: Vec<Vec<u32>> = vec![Vec::new(); groups];
        for at in 0..self.keys.len() {
            if let Some((group, _)) = self.keys.key(at).split_first_chunk::<GROUP_BYTES>() {
                of_group[u32::from_le_bytes(*group) as usize].push(at as u32);
            }
        }
        let mut builder = text_lists(groups);
        for members in of_group {
            for at in members {
                let text = &self.keys.key(at as usize)[GROUP_BYTES..];
                builder.values().append_value(std::str::from_utf8(text).unwrap_or_default());
                if let Some(counts) = &self.counts {
                    builder.values().append_value(counts[at as usize].to_string());
                }
            }
            builder.append(true);
        }
        Arc::new(builder.finish())
    }
}

impl DistinctFold {
    #[inline]
    fn add(&mut self, group: usize, value: &[u8], key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&(group as u32).to_le_bytes());
        key.extend_from_slice(value);
        let at = self.keys.intern(key) as usize;
        if let Some(counts) = &mut self.counts {
            if at >= counts.len() {
                counts.resize(at + 1, 0);
            }
            counts[at] += 1;
        }
    }
}

fn text_lists(groups: usize) -> ListBuilder<StringViewBuilder> {
    ListBuilder::with_capacity(StringViewBuilder::new(), groups).with_field(multi_item())
}

struct SequenceFold(Vec<Vec<String>>);

impl Fold for SequenceFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.0, members, Vec::new());
        let Some(values) = input.values else { return };
        for (row, group) in members.pairs() {
            for value in values.values(row) {
                let list = &mut self.0[group];
                if list.len() < LIST_VALUES_MAX {
                    list.push(sequence_entry(input.row_base + row as u64, list.len(), &value));
                }
            }
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.0.resize(groups, Vec::new());
        let mut builder = text_lists(groups);
        for list in self.0 {
            list.iter().for_each(|entry| builder.values().append_value(entry));
            builder.append(true);
        }
        Arc::new(builder.finish())
    }
}

struct PickFold {
    key: PickKey,
    picks: Vec<Option<(i64, Vec<String>)>>,
}

impl Fold for PickFold {
    fn update(&mut self, input: &Input<'_>, members: &Membership) {
        grow(&mut self.picks, members, None);
        let Some(values) = input.values else { return };
        for (row, group) in members.pairs() {
            if values.is_null(row) {
                continue;
            }
            let Some(key) = self.key_of(input, row) else { continue };
            let known = &mut self.picks[group];
            if known.as_ref().is_none_or(|(best, _)| self.key.prefers(key, *best)) {
                *known = Some((key, values.values(row).map(|value| value.into_owned()).collect()));
            }
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.picks.resize(groups, None);
        let mut builder = text_lists(groups);
        for pick in self.picks {
            if let Some((key, values)) = pick {
                builder.values().append_value(key.to_string());
                values.iter().for_each(|value| builder.values().append_value(value));
            }
            builder.append(true);
        }
        Arc::new(builder.finish())
    }
}

impl PickFold {
    fn key_of(&self, input: &Input<'_>, row: usize) -> Option<i64> {
        match self.key {
            PickKey::First | PickKey::Last => Some((input.row_base + row as u64) as i64),
            PickKey::Earliest | PickKey::Latest => match input.times? {
                ColumnReader::Time(times) => (!input.times?.is_null(row)).then(|| times.value(row)),
                other => other.number(row).map(|seconds| (seconds * quarry_event::time::NS_PER_SEC as f64) as i64),
            },
        }
    }
}

impl PickKey {
    /// Whether a row with key `new` takes the place of one with key `known`.
    pub(crate) fn prefers(self, new: i64, known: i64) -> bool {
        match self {
            PickKey::First | PickKey::Earliest => new < known,
            PickKey::Last | PickKey::Latest => new > known,
        }
    }
}
