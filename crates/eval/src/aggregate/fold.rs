//! Folds: one state per group for one [`StateColumn`]; the states of two workers can be merged.
//!
//! A fold keeps its states in plain vectors, processes whole batches, and knows nothing about keys. Numbers of a column
//! are read once per batch for all folds of its field ([`super::numbers`]), and once per code for dictionaries.
//!
//! Sums and extremes are in [`super::sums`], distinct values in [`super::distinct_values`], values of chosen rows in
//! [`super::first_last`].

use std::any::Any;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Builder, Int64Array, ListBuilder, StringViewBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Float64Type, Int64Type};
use foldhash::fast::FixedState;
use quarry_event::value::{parse_exact_number, parse_number};

use super::digest::Digest;
use super::distinct_values::{DistinctFold, TallyFold, UngroupedDistinct};
use super::first_last::{PickFold, SequenceFold};
use super::functions::FunctionBody;
use super::groups::{MemberKind, Members};
use super::moments::Moments;
use super::numbers::{NumberColumn, NumberParts};
use super::sparkline::Sparkline;
use super::state::number_item;
use super::state_column::{SparklineInput, StateColumn};
use super::sums::{ExtremeFold, SumFold};
use crate::rows::{ColumnBuilder, ColumnReader, Value, multi_item};

/// A fold's view of a batch.
pub(crate) struct Input<'a> {
    /// Values of the argument; `None` if rows are counted.
    pub values: Option<&'a ColumnReader>,
    /// Numbers among the values; `None` for multivalues, or if no fold needs them.
    pub numbers: Option<&'a NumberColumn>,
    /// Marks the rows with a value.
    pub present: Option<&'a NullBuffer>,
    /// `_time`.
    pub times: Option<&'a ColumnReader>,
    /// Number of events represented by each row; 1 per row if absent.
    pub events: Option<&'a [i64]>,
    /// Position of the batch's first row in the whole search.
    pub row_base: u64,
}

/// Accumulates one state column of an aggregate.
pub(crate) trait Fold: AnyFold + Send + Sync {
    /// Adds the values of a batch.
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>);
    /// Merges the states of another fold of the same kind; `groups` maps the group numbers of `other` to numbers
    /// of this fold, all below `total`.
    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize);
    /// Merges states from a column made by [`Fold::state`]; `groups` has the group of each state, all below `total`.
    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize);
    /// The states of groups `0..groups`.
    fn state(self: Box<Self>, groups: usize) -> ArrayRef;
    /// The function's value of each group, if the fold can compute it without its serialised states.
    fn values(&mut self, _body: FunctionBody, _groups: usize) -> Option<ArrayRef> {
        None
    }
    /// Adds a number of rows to each of these groups; for folds that count rows.
    fn add_counts(&mut self, _groups: &[u32], _rows: &[i64]) {}
    /// Prepares for [`Fold::add_counts`] of this many new groups.
    fn reserve(&mut self, _groups: usize) {}
    /// Approximate bytes held.
    fn bytes(&self) -> usize;
}

/// Operations of cloneable folds, implemented by one blanket implementation.
pub(crate) trait AnyFold {
    /// A copy with the same states.
    fn clone_fold(&self) -> Box<dyn Fold>;
    /// The fold itself, for downcasting.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Fold + Clone + 'static> AnyFold for T {
    fn clone_fold(&self) -> Box<dyn Fold> {
        Box::new(self.clone())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A fold for `part`; `single` if there is only one group.
pub(crate) fn of(part: StateColumn, single: bool) -> Box<dyn Fold> {
    match part {
        StateColumn::Values | StateColumn::Numbers => {
            Box::new(CountFold { part, counts: Vec::new(), lanes: Vec::new() })
        }
        StateColumn::Sum => Box::new(SumFold::new(false)),
        StateColumn::SumOfSquares => Box::new(SumFold::new(true)),
        StateColumn::MinNumber => Box::new(ExtremeFold::<false>::new()),
        StateColumn::MaxNumber => Box::new(ExtremeFold::<true>::new()),
        StateColumn::MinText => Box::new(TextFold { texts: Vec::new(), largest: false }),
        StateColumn::MaxText => Box::new(TextFold { texts: Vec::new(), largest: true }),
        StateColumn::Moments => Box::new(MomentsFold(Vec::new())),
        StateColumn::Distinct if single => Box::<UngroupedDistinct>::default(),
        StateColumn::Distinct => Box::<DistinctFold>::default(),
        StateColumn::Tally => Box::<TallyFold>::default(),
        StateColumn::Sequence => Box::<SequenceFold>::default(),
        StateColumn::Digest { exact } => Box::new(DigestFold { digests: Vec::new(), exact }),
        StateColumn::Pick(key) => Box::new(PickFold { key, picks: Vec::new(), new_rows: Vec::new(), bytes: 0 }),
        StateColumn::Sparkline { width, reads } => Box::new(SparklineFold { lines: Vec::new(), width, reads }),
    }
}

/// Whether folds of `part` read [`Input::numbers`].
pub(crate) fn reads_numbers(part: StateColumn) -> bool {
    !matches!(
        part,
        StateColumn::Values | StateColumn::Distinct | StateColumn::Tally | StateColumn::Sequence | StateColumn::Pick(_)
    )
}

/// Whether folds of `part` read the number of decimal places.
pub(crate) fn reads_scales(part: StateColumn) -> bool {
    matches!(part, StateColumn::Sum | StateColumn::SumOfSquares)
}

/// Downcasts the other fold to the same type.
pub(super) fn downcast<T: 'static>(other: Box<dyn Fold>) -> Option<T> {
    other.into_any().downcast().ok().map(|fold| *fold)
}

/// Extends the states to this many groups.
pub(super) fn grow<T: Clone>(states: &mut Vec<T>, groups: usize, empty: T) {
    if states.len() < groups {
        states.resize(groups, empty);
    }
}

impl Input<'_> {
    /// Calls `found` with the row, group and value of each number.
    #[inline]
    pub(super) fn for_each_number(&self, members: &Members<'_>, mut found: impl FnMut(usize, usize, f64)) {
        match (self.numbers.map(|numbers| &numbers.values), self.values) {
            (Some(numbers), _) if numbers.null_count() == 0 => {
                let numbers: &[f64] = numbers.values();
                members.for_each(|row, group| found(row, group, numbers[row]));
            }
            (Some(numbers), _) => members.for_each(|row, group| {
                if numbers.is_valid(row) {
                    found(row, group, numbers.value(row));
                }
            }),
            (None, Some(values)) => members.for_each(|row, group| {
                let numbers = values.values(row).filter_map(|text| parse_number(&text));
                numbers.for_each(|number| found(row, group, number));
            }),
            (None, None) => {}
        }
    }

    /// Calls `found` with the group and the parts of each number.
    pub(super) fn for_each_number_parts(&self, members: &Members<'_>, mut found: impl FnMut(usize, NumberParts)) {
        match (self.numbers, self.values) {
            (Some(numbers), _) => members.for_each(|row, group| {
                if numbers.values.is_valid(row) {
                    found(group, numbers.parts(row));
                }
            }),
            (None, Some(values)) => members.for_each(|row, group| {
                let numbers = values.values(row).filter_map(|text| parse_exact_number(&text));
                numbers.for_each(|number| found(group, NumberParts::of(number)));
            }),
            (None, None) => {}
        }
    }
}

#[derive(Clone)]
struct CountFold {
    part: StateColumn,
    counts: Vec<i64>,
    /// Counts of a batch.
    lanes: Vec<[u32; LANES]>,
}

/// Number of lanes. Neighbouring rows are counted in different lanes; otherwise, in a run of rows of one group, each
/// addition would wait for the previous one.
pub(super) const LANES: usize = 4;
/// Minimum number of rows per group for which rows are counted in lanes.
const LANE_ROWS_PER_GROUP: usize = 8;

/// Counts occurrences of each number; neighbouring numbers of a chunk are counted in different lanes.
pub(super) fn add_in_lanes(lanes: &mut [[u32; LANES]], numbers: &[u32]) {
    let chunks = numbers.chunks_exact(LANES);
    chunks.remainder().iter().for_each(|number| lanes[*number as usize][0] += 1);
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[chunk[lane] as usize][lane] += 1;
        }
    }
}

impl CountFold {
    fn count_rows(&mut self, members: &Members<'_>) {
        match members.kind {
            MemberKind::One => self.counts[0] += members.rows as i64,
            MemberKind::Each { groups, complete: true } if members.rows / LANE_ROWS_PER_GROUP >= members.groups => {
                self.count_in_lanes(groups, members.groups);
            }
            _ => {
                let counts = self.counts.as_mut_slice();
                members.for_each(|_, group| counts[group] += 1);
            }
        }
    }

    fn count_in_lanes(&mut self, groups: &[u32], total: usize) {
        self.lanes.clear();
        self.lanes.resize(total, [0; LANES]);
        add_in_lanes(&mut self.lanes, groups);
        let counts = self.counts.iter_mut().zip(&self.lanes);
        counts.for_each(|(count, lanes)| *count += lanes.iter().map(|lane| i64::from(*lane)).sum::<i64>());
    }

    fn count_present(&mut self, present: Option<&NullBuffer>, members: &Members<'_>) {
        match (present, &members.kind) {
            (None, _) => self.count_rows(members),
            (Some(present), MemberKind::One) => {
                self.counts[0] += (present.len() - present.null_count()) as i64;
            }
            (Some(present), _) => {
                let counts = self.counts.as_mut_slice();
                members.for_each(|row, group| counts[group] += i64::from(present.is_valid(row)));
            }
        }
    }
}

impl Fold for CountFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        grow(&mut self.counts, members.groups, 0);
        match (input.values, self.part) {
            (None, _) => match input.events {
                None => self.count_rows(members),
                Some(events) => members.for_each(|row, group| self.counts[group] += events[row]),
            },
            (Some(_), StateColumn::Numbers) => match input.numbers {
                Some(numbers) => self.count_present(numbers.values.nulls(), members),
                None => input.for_each_number(members, |_, group, _| self.counts[group] += 1),
            },
            (Some(values @ ColumnReader::Multi(..)), _) => {
                members.for_each(|row, group| self.counts[group] += values.values(row).count() as i64);
            }
            (Some(_), _) => self.count_present(input.present, members),
        }
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        grow(&mut self.counts, total, 0);
        let Some(other) = downcast::<CountFold>(other) else { return };
        groups.iter().zip(other.counts).for_each(|(group, count)| self.counts[*group as usize] += count);
    }

    fn reserve(&mut self, groups: usize) {
        self.counts.reserve_exact(groups);
    }

    fn add_counts(&mut self, groups: &[u32], rows: &[i64]) {
        for (group, rows) in groups.iter().zip(rows) {
            grow(&mut self.counts, *group as usize + 1, 0);
            self.counts[*group as usize] += rows;
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        grow(&mut self.counts, total, 0);
        let states = states.as_primitive::<Int64Type>();
        groups.iter().zip(states.values()).for_each(|(group, count)| self.counts[*group as usize] += count);
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.counts.resize(groups, 0);
        Arc::new(Int64Array::from(self.counts))
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}

/// The smallest or largest text that is not a number.
#[derive(Clone)]
struct TextFold {
    texts: Vec<Option<Box<str>>>,
    largest: bool,
}

impl TextFold {
    fn add(&mut self, group: usize, value: &str) {
        let known = &mut self.texts[group];
        if known.as_deref().is_none_or(|known| (value > known) == self.largest && value != known) {
            *known = Some(value.into());
        }
    }
}

impl Fold for TextFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        grow(&mut self.texts, members.groups, None);
        let Some(values) = input.values else { return };
        let Some(numbers) = input.numbers.map(|numbers| &numbers.values) else {
            members.for_each(|row, group| {
                let texts = values.values(row).filter(|text| parse_number(text).is_none());
                texts.for_each(|text| self.add(group, &text));
            });
            return;
        };
        // If every value is a number, there is no text to examine.
        let absent = input.present.map_or(0, NullBuffer::null_count);
        if matches!(values, ColumnReader::Int(_) | ColumnReader::Float(_) | ColumnReader::Time(_))
            || numbers.null_count() <= absent
        {
            return;
        }
        let mut scratch = String::new();
        members.for_each(|row, group| {
            if numbers.is_null(row)
                && let Some(text) = values.text(row, &mut scratch)
            {
                self.add(group, text);
            }
        });
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        grow(&mut self.texts, total, None);
        let Some(other) = downcast::<TextFold>(other) else { return };
        for (group, text) in groups.iter().zip(other.texts) {
            if let Some(text) = text {
                self.add(*group as usize, &text);
            }
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        grow(&mut self.texts, total, None);
        for (group, text) in groups.iter().zip(states.as_string_view()) {
            if let Some(text) = text {
                self.add(*group as usize, text);
            }
        }
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.texts.resize(groups, None);
        let mut builder = StringViewBuilder::with_capacity(groups);
        self.texts.iter().for_each(|text| builder.append_option(text.as_deref()));
        Arc::new(builder.finish())
    }

    fn bytes(&self) -> usize {
        /// Approximate bytes of a text.
        const TEXT_BYTES: usize = 32;
        self.texts.capacity() * (size_of::<Box<str>>() + TEXT_BYTES)
    }
}

/// A column of number lists.
pub(super) fn number_lists(lists: impl Iterator<Item = Vec<f64>>, groups: usize) -> ArrayRef {
    let mut builder = ListBuilder::with_capacity(Float64Builder::new(), groups).with_field(number_item());
    for list in lists {
        builder.values().append_slice(&list);
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// Calls `found` with each group and its list of numbers.
pub(super) fn each_number_list(states: &ArrayRef, groups: &[u32], mut found: impl FnMut(usize, &[f64])) {
    let lists = states.as_list::<i32>();
    let (numbers, offsets) = (lists.values().as_primitive::<Float64Type>().values(), lists.value_offsets());
    for (row, group) in groups.iter().enumerate() {
        found(*group as usize, &numbers[offsets[row] as usize..offsets[row + 1] as usize]);
    }
}

/// Calls `found` with each group and its list of texts.
pub(super) fn each_text_list(
    states: &ArrayRef,
    groups: &[u32],
    mut found: impl FnMut(usize, &mut dyn Iterator<Item = &str>),
) {
    let lists = states.as_list::<i32>();
    let (texts, offsets) = (lists.values().as_string_view(), lists.value_offsets());
    for (row, group) in groups.iter().enumerate() {
        found(*group as usize, &mut (offsets[row] as usize..offsets[row + 1] as usize).map(|at| texts.value(at)));
    }
}

pub(super) fn text_lists(groups: usize) -> ListBuilder<StringViewBuilder> {
    ListBuilder::with_capacity(StringViewBuilder::new(), groups).with_field(multi_item())
}

#[derive(Clone)]
struct MomentsFold(Vec<Moments>);

impl Fold for MomentsFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        grow(&mut self.0, members.groups, Moments::default());
        let moments = self.0.as_mut_slice();
        match input.numbers.is_some_and(|numbers| !numbers.has_rests()) {
            true => input.for_each_number(members, |_, group, number| moments[group].add(number)),
            false => input.for_each_number_parts(members, |group, figure| moments[group].add_number_parts(figure)),
        }
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        grow(&mut self.0, total, Moments::default());
        let Some(other) = downcast::<MomentsFold>(other) else { return };
        groups.iter().zip(other.0).for_each(|(group, moments)| self.0[*group as usize].merge(&moments));
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        grow(&mut self.0, total, Moments::default());
        each_number_list(states, groups, |group, list| self.0[group].merge(&Moments::from_state(list)));
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.0.resize(groups, Moments::default());
        number_lists(self.0.into_iter().map(|moments| moments.to_state().to_vec()), groups)
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Moments>()
    }
}

#[derive(Clone)]
struct DigestFold {
    digests: Vec<Digest>,
    exact: bool,
}

impl Fold for DigestFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        grow(&mut self.digests, members.groups, Digest::new(self.exact));
        let digests = self.digests.as_mut_slice();
        if input.numbers.is_some_and(|numbers| !numbers.has_rests()) {
            input.for_each_number(members, |_, group, number| digests[group].add(number));
        } else {
            input.for_each_number_parts(members, |group, figure| digests[group].add_number_parts(figure));
        }
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        grow(&mut self.digests, total, Digest::new(self.exact));
        let Some(other) = downcast::<DigestFold>(other) else { return };
        for (group, digest) in groups.iter().zip(other.digests) {
            self.digests[*group as usize].merge(digest);
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        grow(&mut self.digests, total, Digest::new(self.exact));
        each_number_list(states, groups, |group, list| self.digests[group].merge_state(list));
    }

    fn values(&mut self, body: FunctionBody, groups: usize) -> Option<ArrayRef> {
        let FunctionBody::Percentile(percentile) = body else { return None };
        grow(&mut self.digests, groups, Digest::new(self.exact));
        let mut values = ColumnBuilder::new(groups);
        let numbers = self.digests.iter_mut().map(|digest| percentile.of(digest));
        numbers.for_each(|number| values.push(number.map_or(Value::Null, Value::from_number)));
        Some(values.finish())
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.digests.resize(groups, Digest::new(self.exact));
        number_lists(self.digests.into_iter().map(Digest::into_state), groups)
    }

    fn bytes(&self) -> usize {
        self.digests.iter().map(Digest::bytes).sum()
    }
}

#[derive(Clone)]
struct SparklineFold {
    lines: Vec<Sparkline>,
    width: Option<i64>,
    reads: SparklineInput,
}

impl Fold for SparklineFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        grow(&mut self.lines, members.groups, Sparkline::new(self.width));
        let Some(times) = input.times else { return };
        let lines = self.lines.as_mut_slice();
        let time_of = |row| crate::spans::time_ns(times, row);
        let Some(values) = input.values else {
            members.for_each(|row, group| {
                if let Some(time) = time_of(row) {
                    lines[group].add(time, 1.0);
                }
            });
            return;
        };
        if self.reads != SparklineInput::Numbers {
            members.for_each(|row, group| {
                let Some(time) = time_of(row) else { return };
                values.values(row).for_each(|text| match self.reads {
                    SparklineInput::Distinct => {
                        lines[group].add_value(time, FixedState::default().hash_one(text.as_bytes()))
                    }
                    _ => lines[group].add(time, 1.0),
                });
            });
            return;
        }
        input.for_each_number(members, |row, group, number| {
            if let Some(time) = time_of(row) {
                lines[group].add(time, number);
            }
        });
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        grow(&mut self.lines, total, Sparkline::new(self.width));
        let Some(other) = downcast::<SparklineFold>(other) else { return };
        groups.iter().zip(other.lines).for_each(|(group, line)| self.lines[*group as usize].merge(line));
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        grow(&mut self.lines, total, Sparkline::new(self.width));
        each_number_list(states, groups, |group, list| self.lines[group].merge(Sparkline::from_state(list)));
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.lines.resize(groups, Sparkline::new(self.width));
        number_lists(self.lines.iter().map(Sparkline::to_state), groups)
    }

    fn bytes(&self) -> usize {
        self.lines.iter().map(Sparkline::bytes).sum()
    }
}
