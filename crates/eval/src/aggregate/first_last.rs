//! Folds that keep the values of selected rows: the first values in order, or the values of the row with the best key.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use quarry_stdx::number::u32_of;

use super::fold::{Fold, Input, downcast, each_text_list, grow, text_lists};
use super::functions::{FunctionBody, PickResult};
use super::groups::Members;
use super::integers::UNSET;
use super::state::sequence_entry;
use super::state_column::{LIST_VALUES_MAX, PickKey};
use crate::functions::time::{instant, seconds};
use crate::rows::{ColumnBuilder, ColumnReader};

/// Approximate allocator overhead of a stored text, in bytes.
const TEXT_OVERHEAD_BYTES: usize = 16;
/// Initial capacity of a list of texts.
const INITIAL_TEXTS: usize = 4;

/// Bytes of a list of texts.
fn bytes_of(texts: &[String]) -> usize {
    let room = if texts.is_empty() { 0 } else { texts.len().next_power_of_two().max(INITIAL_TEXTS) };
    room * size_of::<String>() + texts.iter().map(|text| text.len() + TEXT_OVERHEAD_BYTES).sum::<usize>()
}

/// The first values of each group, with their positions.
#[derive(Clone, Default)]
pub(crate) struct SequenceFold {
    lists: Vec<Vec<String>>,
    /// Bytes of all lists.
    bytes: usize,
}

impl Fold for SequenceFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        grow(&mut self.lists, members.groups, Vec::new());
        let Some(values) = input.values else { return };
        members.for_each(|row, group| {
            let list = &mut self.lists[group];
            if list.len() >= LIST_VALUES_MAX {
                return;
            }
            for value in values.values(row) {
                if list.len() < LIST_VALUES_MAX {
                    let room = if list.len() == list.capacity() { list.capacity().max(INITIAL_TEXTS) } else { 0 };
                    let entry = sequence_entry(input.row_base + row as u64, list.len(), &value);
                    self.bytes += room * size_of::<String>() + entry.len() + TEXT_OVERHEAD_BYTES;
                    list.push(entry);
                }
            }
        });
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        grow(&mut self.lists, total, Vec::new());
        let Some(other) = downcast::<SequenceFold>(other) else { return };
        for (group, entries) in groups.iter().zip(other.lists) {
            let known = &mut self.lists[*group as usize];
            let before = bytes_of(known);
            known.extend(entries);
            known.sort_unstable();
            known.truncate(LIST_VALUES_MAX);
            self.bytes = (self.bytes + bytes_of(known)).saturating_sub(before);
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        grow(&mut self.lists, total, Vec::new());
        each_text_list(states, groups, |group, texts| {
            let list = &mut self.lists[group];
            let before = bytes_of(list);
            list.extend(texts.map(str::to_owned));
            list.sort_unstable();
            list.truncate(LIST_VALUES_MAX);
            self.bytes = (self.bytes + bytes_of(list)).saturating_sub(before);
        });
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.lists.resize(groups, Vec::new());
        let mut builder = text_lists(groups);
        for list in self.lists {
            list.iter().for_each(|entry| builder.values().append_value(entry));
            builder.append(true);
        }
        Arc::new(builder.finish())
    }

    fn bytes(&self) -> usize {
        self.lists.capacity() * size_of::<Vec<String>>() + self.bytes
    }
}

/// The values of a row, and the row's key.
#[derive(Clone)]
pub(crate) struct Pick {
    key: i64,
    values: RowTexts,
}

/// The texts of a row, in as few allocations as possible: there may be a million rows, nearly all with one text.
#[derive(Clone)]
enum RowTexts {
    One(Box<str>),
    Several(Box<[Box<str>]>),
}

impl RowTexts {
    fn of<T: AsRef<str>>(mut texts: impl Iterator<Item = T>) -> RowTexts {
        match (texts.next(), texts.next()) {
            (Some(text), None) => RowTexts::One(text.as_ref().into()),
            (first, second) => {
                let texts = first.into_iter().chain(second).chain(texts);
                RowTexts::Several(texts.map(|text| text.as_ref().into()).collect())
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let texts: &[Box<str>] = match self {
            RowTexts::One(text) => std::slice::from_ref(text),
            RowTexts::Several(texts) => texts,
        };
        texts.iter().map(|text| &**text)
    }

    /// Bytes held, besides the value itself.
    fn bytes(&self) -> usize {
        let texts = self.iter().map(|text| text.len() + TEXT_OVERHEAD_BYTES).sum::<usize>();
        match self {
            RowTexts::One(_) => texts,
            RowTexts::Several(several) => texts + size_of_val(several.as_ref()),
        }
    }
}

/// The values of the best row of each group.
#[derive(Clone)]
pub(crate) struct PickFold {
    /// The criterion for the best row.
    pub key: PickKey,
    /// The best row so far of each group.
    pub picks: Vec<Option<Pick>>,
    /// While a batch is added: its best row of each group, [`UNSET`] if an earlier batch has a better row. The values of
    /// a row are read only if no later row of the batch is better.
    pub new_rows: Vec<u32>,
    /// Bytes of the values in `picks`.
    pub bytes: usize,
}

impl Fold for PickFold {
    fn update(&mut self, input: &Input<'_>, members: &Members<'_>) {
        grow(&mut self.picks, members.groups, None);
        let Some(values) = input.values else { return };
        grow(&mut self.new_rows, members.groups, UNSET);
        let mut changed = Vec::new();
        members.for_each(|row, group| {
            let Some(key) = self.key_of(input, row) else { return };
            let known = &mut self.picks[group];
            // Among rows with equal keys, the greatest values win, as in `merge_pick`: the order in which pages are read
            // depends on the plan and on how the events are stored.
            let is_better = match known {
                Some(known) if key == known.key => match self.new_rows[group] {
                    UNSET => values.values(row).gt(known.values.iter().map(Cow::Borrowed)),
                    best => values.values(row).gt(values.values(best as usize)),
                },
                Some(known) => self.key.prefers(key, known.key),
                None => true,
            };
            if is_better && !values.is_null(row) {
                let none = || Pick { key, values: RowTexts::Several(Box::default()) };
                known.get_or_insert_with(none).key = key;
                if std::mem::replace(&mut self.new_rows[group], u32_of(row)) == UNSET {
                    changed.push(group);
                }
            }
        });
        for group in changed {
            let row = std::mem::replace(&mut self.new_rows[group], UNSET) as usize;
            let Some(pick) = &mut self.picks[group] else { continue };
            let values = RowTexts::of(values.values(row));
            self.bytes = (self.bytes + values.bytes()).saturating_sub(pick.values.bytes());
            pick.values = values;
        }
    }

    fn absorb(&mut self, other: Box<dyn Fold>, groups: &[u32], total: usize) {
        grow(&mut self.picks, total, None);
        let Some(other) = downcast::<PickFold>(other) else { return };
        for (group, pick) in groups.iter().zip(other.picks) {
            if let Some(pick) = pick {
                self.merge_pick(*group as usize, pick);
            }
        }
    }

    fn add_states(&mut self, states: &ArrayRef, groups: &[u32], total: usize) {
        grow(&mut self.picks, total, None);
        each_text_list(states, groups, |group, texts| {
            let Some(key) = texts.next().and_then(|text| text.parse::<i64>().ok()) else { return };
            self.merge_pick(group, Pick { key, values: RowTexts::of(texts) });
        });
    }

    fn values(&mut self, body: FunctionBody, groups: usize) -> Option<ArrayRef> {
        let FunctionBody::Pick { shown, .. } = body else { return None };
        grow(&mut self.picks, groups, None);
        let mut values = ColumnBuilder::new(groups);
        for pick in &self.picks {
            match (pick, shown) {
                (None, _) => values.push_null(),
                (Some(pick), PickResult::Values) => values.push_multi(pick.values.iter()),
                (Some(pick), PickResult::Time) => values.push(seconds(pick.key)),
            }
        }
        Some(values.finish())
    }

    fn state(mut self: Box<Self>, groups: usize) -> ArrayRef {
        self.picks.resize(groups, None);
        let mut builder = text_lists(groups);
        for pick in self.picks {
            if let Some(Pick { key, values }) = pick {
                builder.values().append_value(key.to_string());
                values.iter().for_each(|value| builder.values().append_value(value));
            }
            builder.append(true);
        }
        Arc::new(builder.finish())
    }

    fn bytes(&self) -> usize {
        self.picks.capacity() * size_of::<Option<Pick>>() + self.new_rows.capacity() * size_of::<u32>() + self.bytes
    }
}

impl PickFold {
    /// Merges a pick from another fold.
    fn merge_pick(&mut self, group: usize, pick: Pick) {
        let known = &mut self.picks[group];
        let better = known.as_ref().is_none_or(|known| {
            self.key.prefers(pick.key, known.key)
                || (pick.key == known.key && pick.values.iter().gt(known.values.iter()))
        });
        if better {
            self.bytes += pick.values.bytes();
            self.bytes = self.bytes.saturating_sub(known.as_ref().map_or(0, |known| known.values.bytes()));
            *known = Some(pick);
        }
    }

    fn key_of(&self, input: &Input<'_>, row: usize) -> Option<i64> {
        match self.key {
            PickKey::First | PickKey::Last => Some((input.row_base + row as u64).cast_signed()),
            PickKey::Earliest | PickKey::Latest => match input.times? {
                ColumnReader::Time(times) => times.is_valid(row).then(|| times.value(row)),
                other => instant(&other.value(row)),
            },
        }
    }
}

impl PickKey {
    /// Whether a row with key `new` replaces a row with key `known`.
    pub fn prefers(self, new: i64, known: i64) -> bool {
        match self {
            PickKey::First | PickKey::Earliest => new < known,
            PickKey::Last | PickKey::Latest => new > known,
        }
    }
}
