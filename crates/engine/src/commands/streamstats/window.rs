//! Windows of `streamstats`: rows enter at one end and leave at the other, and aggregates are updated.
//!
//! States refer to rows by number; the rows themselves are stored once, in the window. A count or a sum of small
//! integers is reduced when a row leaves. Other sums are kept as two stacks, so that nothing is subtracted from them.
//! For percentiles, the numbers are kept in order. For a minimum or maximum, only rows that may still become the extreme
//! are kept. Functions that none of these methods computes exactly are folded again over the group's rows.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::aggregate::moments::Moments;
use quarry_eval::aggregate::ordered_numbers::OrderedNumbers;
use quarry_eval::aggregate::running_state::{RunningState, Sums, is_by_arrival, multivalue, value_of_ends};
use quarry_eval::aggregate::{DistinctResult, FunctionBody, LIST_VALUES_MAX};
use quarry_eval::rows::Value;
use quarry_event::TimeNs;
use quarry_event::value::{Number, compare, parse_number};

use super::row_values::RowValues;
use super::stacks::Stacks;

/// Approximate bytes of a value's count, besides its text.
const VALUE_COUNT_BYTES: usize = size_of::<(Box<str>, usize)>() + 16;

/// Stored part of a row, besides its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowRow {
    pub(super) time: Option<TimeNs>,
    pub(super) group: u32,
}

impl WindowRow {
    /// Approximate bytes held for a row with these values.
    pub(super) fn bytes(values: &[RowValues]) -> usize {
        size_of::<WindowRow>() + values.iter().map(RowValues::bytes).sum::<usize>()
    }
}

/// Rows in order of arrival, each with a permanent number.
pub(super) struct Window {
    rows: VecDeque<WindowRow>,
    /// The values of these rows for each aggregate.
    values: Vec<VecDeque<RowValues>>,
    /// Number of the first row.
    first: u64,
}

impl Window {
    /// An empty window for this many aggregates.
    pub(super) fn new(aggregates: usize) -> Window {
        Window { rows: VecDeque::new(), values: vec![VecDeque::new(); aggregates], first: 0 }
    }

    /// Adds a row with its values, one per aggregate; returns its number.
    pub(super) fn push(&mut self, row: WindowRow, values: impl Iterator<Item = RowValues>) -> u64 {
        self.rows.push_back(row);
        self.values.iter_mut().zip(values).for_each(|(column, values)| column.push_back(values));
        assert!(self.values.iter().all(|column| column.len() == self.rows.len()), "each aggregate has its values");
        self.first + self.rows.len() as u64 - 1
    }

    /// Removes the first row; returns it with its number, and moves its values to `values`.
    pub(super) fn pop(&mut self, values: &mut Vec<RowValues>) -> Option<(u64, WindowRow)> {
        let row = self.rows.pop_front()?;
        values.clear();
        values.extend(self.values.iter_mut().filter_map(VecDeque::pop_front));
        self.first += 1;
        Some((self.first - 1, row))
    }

    /// The first row.
    pub(super) fn front(&self) -> Option<&WindowRow> {
        self.rows.front()
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, number: u64) -> &WindowRow {
        &self.rows[(number - self.first) as usize]
    }

    fn values(&self, number: u64, column: usize) -> &RowValues {
        &self.values[column][(number - self.first) as usize]
    }
}

/// One aggregate of one group over the rows in its window.
pub(super) enum Sliding {
    /// Number of values.
    Count(i64),
    /// Sums of numbers.
    Sums(Box<WindowSums>),
    /// For variances.
    Moments(Stacks<Moments>),
    /// Smallest and largest value, separately for texts and numbers, which have orders of their own.
    Extremes(Box<[Kind; 2]>),
    /// Number of times that each value occurs, and the approximate bytes of this table.
    Distinct(HashMap<Box<str>, usize, FixedState>, usize),
    /// The numbers, for percentiles.
    Numbers(Box<OrderedNumbers>),
    /// The rows with the smallest and the largest time.
    Times(Box<(Candidates, Candidates)>),
    /// The rows with values.
    Rows(VecDeque<u64>),
}

/// An extreme, then the values that become the extreme once the rows before them have left: row number, and index of
/// the value in the row.
pub(super) type Candidates = VecDeque<(u64, usize)>;

/// Values of one kind.
#[derive(Default)]
pub(super) struct Kind {
    count: usize,
    low: Candidates,
    high: Candidates,
}

impl Sliding {
    /// The state of an empty window.
    pub(super) fn new(body: FunctionBody) -> Sliding {
        match RunningState::new(body) {
            RunningState::Count(_) => Sliding::Count(0),
            RunningState::Sums(_) => Sliding::Sums(Box::new(WindowSums::new(body))),
            RunningState::Moments(_) => Sliding::Moments(Stacks::default()),
            RunningState::Extremes(_) => Sliding::Extremes(Box::default()),
            RunningState::Distinct(_) if matches!(body, FunctionBody::Distinct(_)) => {
                Sliding::Distinct(HashMap::default(), 0)
            }
            RunningState::Numbers(_) => Sliding::Numbers(Box::default()),
            RunningState::Ends(_) if !is_by_arrival(body) => Sliding::Times(Box::default()),
            _ => Sliding::Rows(VecDeque::new()),
        }
    }

    /// Adds the window's newest row; `column` is the aggregate's index.
    pub(super) fn push(&mut self, body: FunctionBody, window: &Window, at: u64, column: usize) {
        let row = window.row(at);
        let values = window.values(at, column);
        if values.is_empty() {
            return;
        }
        match self {
            Sliding::Count(count) => *count += values.len() as i64,
            Sliding::Sums(sums) => sums.push(values),
            Sliding::Moments(stacks) => stacks.push(values),
            Sliding::Extremes(kinds) => {
                let text = |(row, value): &(u64, usize)| window.values(*row, column).texts()[*value].as_str();
                for (place, value) in values.texts().iter().enumerate() {
                    let is_number = parse_number(value).is_some();
                    if !is_number && body.reads_only_numbers() {
                        continue;
                    }
                    let kind = &mut kinds[usize::from(is_number)];
                    kind.count += 1;
                    // The first of equal values is kept.
                    push_candidate(&mut kind.low, (at, place), |known| compare(value, text(known)).is_lt());
                    push_candidate(&mut kind.high, (at, place), |known| compare(value, text(known)).is_gt());
                }
            }
            Sliding::Distinct(tally, bytes) => values.texts().iter().for_each(|value| {
                if let Some(count) = tally.get_mut(value.as_str()) {
                    *count += 1;
                    return;
                }
                *bytes += value.len() + VALUE_COUNT_BYTES;
                tally.insert(value.as_str().into(), 1);
            }),
            Sliding::Numbers(numbers) => values.numbers().for_each(|number| numbers.add(number)),
            // A row without a time is neither the earliest nor the latest.
            Sliding::Times(_) if row.time.is_none() => {}
            Sliding::Times(ends) => {
                // Among rows of the same time, the greatest values win.
                let order = |known: &(u64, usize)| row.time.cmp(&window.row(known.0).time);
                let is_greater = |known: &(u64, usize)| values.texts() > window.values(known.0, column).texts();
                push_candidate(&mut ends.0, (at, 0), |known| {
                    order(known).is_lt() || order(known).is_eq() && is_greater(known)
                });
                push_candidate(&mut ends.1, (at, 0), |known| {
                    order(known).is_gt() || order(known).is_eq() && is_greater(known)
                });
            }
            Sliding::Rows(rows) => rows.push_back(at),
        }
    }

    /// Removes the oldest row known to this state, which has left the window.
    pub(super) fn pop(&mut self, body: FunctionBody, at: u64, values: &RowValues) {
        if values.is_empty() {
            return;
        }
        match self {
            Sliding::Count(count) => *count -= values.len() as i64,
            Sliding::Sums(sums) => sums.pop(values),
            Sliding::Moments(stacks) => stacks.pop(),
            Sliding::Extremes(kinds) => {
                for value in values.texts() {
                    let is_number = parse_number(value).is_some();
                    if is_number || !body.reads_only_numbers() {
                        kinds[usize::from(is_number)].count -= 1;
                    }
                }
                kinds.iter_mut().for_each(|kind| {
                    remove_row(&mut kind.low, at);
                    remove_row(&mut kind.high, at);
                });
            }
            Sliding::Distinct(tally, bytes) => values.texts().iter().for_each(|value| {
                let Some(count) = tally.get_mut(value.as_str()) else { return };
                *count -= 1;
                if *count == 0 {
                    tally.remove(value.as_str());
                    *bytes = bytes.saturating_sub(value.len() + VALUE_COUNT_BYTES);
                }
            }),
            Sliding::Numbers(numbers) => values.numbers().for_each(|number| numbers.remove(number)),
            Sliding::Times(ends) => {
                remove_row(&mut ends.0, at);
                remove_row(&mut ends.1, at);
            }
            Sliding::Rows(rows) => {
                rows.pop_front();
            }
        }
    }

    /// The function's value over the rows of this state.
    pub(super) fn value(&self, body: FunctionBody, window: &Window, column: usize) -> Value<'static> {
        let values = |row: u64| window.values(row, column).texts();
        match self {
            Sliding::Count(count) => Value::Int(*count),
            Sliding::Sums(sums) => RunningState::Sums(sums.total()).value(body),
            Sliding::Moments(stacks) => RunningState::Moments(stacks.total()).value(body),
            Sliding::Extremes(kinds) => {
                // Texts are greater than numbers.
                let [texts, numbers] = &**kinds;
                let low = if numbers.count > 0 { &numbers.low } else { &texts.low };
                let high = if texts.count > 0 { &texts.high } else { &numbers.high };
                let text = |end: &Candidates| end.front().map(|(row, value)| values(*row)[*value].clone());
                RunningState::Extremes(Box::new((text(low), text(high)))).value(body)
            }
            Sliding::Distinct(tally, _) if matches!(body, FunctionBody::Distinct(DistinctResult::Values)) => {
                let mut all: Vec<String> = tally.keys().map(|value| value.to_string()).collect();
                all.sort_unstable();
                multivalue(all)
            }
            Sliding::Distinct(tally, _) => Value::Int(tally.len() as i64),
            Sliding::Numbers(numbers) => match body {
                FunctionBody::Percentile(percentile) => {
                    percentile.of_numbers(numbers).map_or(Value::Null, Value::from_number)
                }
                _ => Value::Null,
            },
            Sliding::Times(ends) => {
                let end = |end: &Candidates| end.front().map(|(row, _)| (window.row(*row).time, values(*row)));
                value_of_ends(body, end(&ends.0), end(&ends.1))
            }
            Sliding::Rows(rows) => match body {
                FunctionBody::Pick { .. } => {
                    let end = |row: Option<&u64>| row.map(|row| (window.row(*row).time, values(*row)));
                    value_of_ends(body, end(rows.front()), end(rows.back()))
                }
                FunctionBody::List => {
                    let all = rows.iter().flat_map(|row| values(*row));
                    multivalue(all.take(LIST_VALUES_MAX).cloned().collect())
                }
                _ => fold_rows(body, rows.iter().map(|row| (values(*row), window.row(*row).time))),
            },
        }
    }

    /// Approximate bytes besides the state itself.
    pub(super) fn bytes(&self) -> usize {
        let candidates = |some: &Candidates| some.capacity() * size_of::<(u64, usize)>();
        match self {
            Sliding::Count(_) => 0,
            Sliding::Sums(sums) => sums.bytes(),
            Sliding::Moments(stacks) => stacks.bytes(),
            Sliding::Extremes(kinds) => {
                let held = kinds.iter().map(|kind| candidates(&kind.low) + candidates(&kind.high));
                size_of::<[Kind; 2]>() + held.sum::<usize>()
            }
            Sliding::Distinct(_, bytes) => *bytes,
            Sliding::Numbers(numbers) => size_of::<OrderedNumbers>() + numbers.bytes(),
            Sliding::Times(ends) => candidates(&ends.0) + candidates(&ends.1),
            Sliding::Rows(rows) => rows.capacity() * size_of::<u64>(),
        }
    }
}

/// Adds a candidate and removes those that can no longer become the extreme.
fn push_candidate(candidates: &mut Candidates, candidate: (u64, usize), beats: impl Fn(&(u64, usize)) -> bool) {
    while candidates.back().is_some_and(&beats) {
        candidates.pop_back();
    }
    candidates.push_back(candidate);
}

/// Removes the candidates of a row.
fn remove_row(candidates: &mut Candidates, row: u64) {
    while candidates.front().is_some_and(|(of, _)| *of == row) {
        candidates.pop_front();
    }
}

/// Evaluates the function over these rows.
fn fold_rows<'v>(body: FunctionBody, rows: impl Iterator<Item = (&'v [String], Option<TimeNs>)>) -> Value<'static> {
    let mut running = RunningState::new(body);
    rows.for_each(|(values, time)| running.add(body, values, time));
    running.value(body)
}

/// The sums of a window. As long as all its numbers are small integers, they are added and subtracted exactly.
pub(super) struct WindowSums {
    sum: i64,
    /// The summed integers, from which the stacks are filled when the first other number enters the window.
    integers: VecDeque<i64>,
    /// Sums of any numbers; if set, they replace the sum of integers.
    stacks: Option<Stacks<Sums>>,
}

/// Largest integer that is summed exactly: a full window of such integers adds up to an exact double.
pub(super) const EXACT_INTEGER_MAX: u64 = 1 << 32;
const _: () = assert!(EXACT_INTEGER_MAX * (super::WINDOW_MAX as u64 + 1) < 1 << 53, "the sum is an exact double");

impl WindowSums {
    /// The sums of an empty window; the squares of integers are too large for exact sums.
    fn new(body: FunctionBody) -> WindowSums {
        let is_square = matches!(body, FunctionBody::Sum { squares: true, .. });
        WindowSums { sum: 0, integers: VecDeque::new(), stacks: is_square.then(Stacks::default) }
    }

    /// Adds the values of the window's newest row.
    fn push(&mut self, values: &RowValues) {
        match (&mut self.stacks, small_integer(values)) {
            (Some(stacks), _) => stacks.push(values),
            (None, Some(integer)) => {
                self.integers.push_back(integer);
                self.sum += integer;
            }
            (None, None) => {
                let stacks = self.stacks.insert(Stacks::default());
                for integer in std::mem::take(&mut self.integers) {
                    stacks.push(&RowValues::Number(Some(Number::Int(integer))));
                }
                stacks.push(values);
            }
        }
    }

    /// Removes the oldest row with values.
    fn pop(&mut self, values: &RowValues) {
        match (&mut self.stacks, small_integer(values)) {
            (Some(stacks), _) => stacks.pop(),
            (None, Some(integer)) => {
                self.integers.pop_front();
                self.sum -= integer;
            }
            (None, None) => debug_assert!(false, "a row that was added as an integer is one"),
        }
    }

    fn total(&self) -> Sums {
        let count = self.integers.len() as i64;
        self.stacks.as_ref().map_or_else(|| Sums::of_integers(count, self.sum), Stacks::total)
    }

    /// Approximate bytes held.
    fn bytes(&self) -> usize {
        size_of::<WindowSums>()
            + self.integers.capacity() * size_of::<i64>()
            + self.stacks.as_ref().map_or(0, Stacks::bytes)
    }
}

fn small_integer(values: &RowValues) -> Option<i64> {
    match values {
        RowValues::Number(Some(Number::Int(integer))) if integer.unsigned_abs() <= EXACT_INTEGER_MAX => Some(*integer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use quarry_spl::ast::StatsFunction;

    use super::*;

    /// Integers, decimals, texts, equal numbers in different notations, several values and none, in random order of
    /// time.
    fn rows(count: u64, mixed: bool) -> Vec<(WindowRow, RowValues)> {
        let values = |at: u64| match at * 7_919 % 11 {
            0 => vec![],
            1 => vec!["5".to_owned(), "5.0".to_owned()],
            2 if mixed => vec!["some text".to_owned()],
            3 if mixed => vec!["1a".to_owned(), "9".to_owned()],
            4 => vec!["1e20".to_owned()],
            _ => vec![format!("{}.{}", at * 31 % 17, at % 10)],
        };
        let seen = |at| {
            let time = (at % 13 != 0).then_some((at * 37 % 29) as i64);
            (WindowRow { time, group: 0 }, RowValues::Texts(values(at)))
        };
        (0..count).map(seen).collect()
    }

    #[test]
    fn sliding_aggregates_equal_recomputed_ones() {
        let functions = [
            StatsFunction::Count,
            StatsFunction::Sum,
            StatsFunction::Avg,
            StatsFunction::SumSq,
            StatsFunction::Stdev,
            StatsFunction::VarP,
            StatsFunction::Min,
            StatsFunction::Max,
            StatsFunction::Range,
            StatsFunction::Dc,
            StatsFunction::Values,
            StatsFunction::Mode,
            StatsFunction::List,
            StatsFunction::First,
            StatsFunction::Last,
            StatsFunction::Earliest,
            StatsFunction::Latest,
            StatsFunction::EarliestTime,
            StatsFunction::LatestTime,
            StatsFunction::Rate,
            StatsFunction::EstDcError,
            StatsFunction::SeriesRate { sum: true },
        ];
        for function in &functions {
            let body = FunctionBody::of(function);
            for (size, mixed) in [(1, true), (3, true), (40, true), (40, false), (500, false)] {
                let (mut window, mut sliding) = (Window::new(1), Sliding::new(body));
                for (seen, values) in rows(300, mixed) {
                    let at = window.push(seen, std::iter::once(values));
                    sliding.push(body, &window, at, 0);
                    if window.len() > size {
                        let mut values = Vec::new();
                        let (left, _) = window.pop(&mut values).unwrap();
                        sliding.pop(body, left, &values[0]);
                    }
                    let anew = fold_rows(
                        body,
                        window.rows.iter().zip(&window.values[0]).map(|(row, values)| (values.texts(), row.time)),
                    );
                    assert_eq!(sliding.value(body, &window, 0), anew, "{function:?} over {size} at {at}");
                }
            }
        }
    }
    #[test]
    fn sums_of_integers_equal_those_of_any_numbers() {
        let numbers = |at: u64| match at % 97 {
            96 => None,
            95 if at > 150 => Some(Number::Float(0.1)),
            94 if at > 250 => Some(Number::Int(i64::MAX)),
            small => Some(Number::Int(small as i64 * 1_000_003 - 40_000_000)),
        };
        for function in [StatsFunction::Sum, StatsFunction::Avg, StatsFunction::SumSq] {
            let body = FunctionBody::of(&function);
            let (mut window, mut values) = (Window::new(1), Vec::new());
            let mut groups = [Sliding::new(body), Sliding::new(body)];
            for at in 0..400 {
                let group = u32::from(at % 3 == 0);
                let row = WindowRow { time: None, group };
                let number = window.push(row, std::iter::once(RowValues::Number(numbers(at))));
                groups[group as usize].push(body, &window, number, 0);
                if window.len() > 20 {
                    let (left, row) = window.pop(&mut values).unwrap();
                    groups[row.group as usize].pop(body, left, &values[0]);
                }
                for (group, sliding) in (0..).zip(&groups) {
                    let mut anew = RunningState::new(body);
                    let rows = window.rows.iter().zip(&window.values[0]).filter(|(row, _)| row.group == group);
                    rows.for_each(|(_, values)| values.add_to(&mut anew, body, None));
                    assert_eq!(sliding.value(body, &window, 0), anew.value(body), "{function:?} at {at}");
                }
            }
        }
    }
}
