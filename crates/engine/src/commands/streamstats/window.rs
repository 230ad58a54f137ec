//! Windows of `streamstats`: rows enter at one end and leave at the other, and aggregates are updated.
//!
//! States refer to rows by number; the rows themselves are stored once, in the window. A count is reduced when a row
//! leaves. Sums are kept as two stacks, so that nothing is ever subtracted. For a minimum or maximum, only rows that
//! may still become the extreme are kept. Functions that none of these methods computes exactly are folded again over
//! the group's rows.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::aggregate::moments::Moments;
use quarry_eval::aggregate::running_state::{Running, Sums, is_by_arrival, multivalue, value_of_ends};
use quarry_eval::aggregate::{DistinctResult, FunctionBody, LIST_VALUES_MAX};
use quarry_eval::rows::Value;
use quarry_event::TimeNs;
use quarry_event::value::{compare, parse_exact_number, parse_number};

use super::row_values::RowValues;

/// Approximate bytes of a value's count, besides its text.
const VALUE_COUNT_BYTES: usize = size_of::<(Box<str>, usize)>() + 16;

/// Stored part of a row: its time and the values for each aggregate.
#[derive(Clone, Debug)]
pub(super) struct WindowRow {
    pub(super) time: Option<TimeNs>,
    pub(super) values: Vec<RowValues>,
    pub(super) group: u32,
}

impl WindowRow {
    /// Approximate bytes held.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &String| size_of::<String>() + text.len();
        let values = |values: &RowValues| size_of::<RowValues>() + values.texts().iter().map(text).sum::<usize>();
        size_of::<WindowRow>() + self.values.iter().map(values).sum::<usize>()
    }
}

/// Rows in order of arrival, each with a permanent number.
#[derive(Default)]
pub(super) struct Window {
    rows: VecDeque<WindowRow>,
    /// Number of the first row.
    first: u64,
}

impl Window {
    /// Adds a row; returns its number.
    pub(super) fn push(&mut self, seen: WindowRow) -> u64 {
        self.rows.push_back(seen);
        self.first + self.rows.len() as u64 - 1
    }

    /// Removes the first row; returns it with its number.
    pub(super) fn pop(&mut self) -> Option<(u64, WindowRow)> {
        let seen = self.rows.pop_front()?;
        self.first += 1;
        Some((self.first - 1, seen))
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
}

/// One aggregate of one group over the rows in its window.
pub(super) enum Sliding {
    /// Number of values.
    Count(i64),
    /// Sums of numbers.
    Sums(Stacks<Sums>),
    /// For variances.
    Moments(Stacks<Moments>),
    /// Smallest and largest value, separately for numbers and other texts, as only values of one kind are ordered.
    Extremes(Box<[Kind; 2]>),
    /// Number of rows with each value.
    Distinct(HashMap<Box<str>, usize, FixedState>, usize),
    /// The rows with the smallest and the largest time.
    Times(Box<(Candidates, Candidates)>),
    /// The rows with values.
    Rows(VecDeque<u64>),
}

/// Candidates for an extreme once earlier rows have left: row number, and index of the value in the row.
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
        match Running::new(body) {
            Running::Count(_) => Sliding::Count(0),
            Running::Sums(_) => Sliding::Sums(Stacks::default()),
            Running::Moments(_) => Sliding::Moments(Stacks::default()),
            Running::Extremes(_) => Sliding::Extremes(Box::default()),
            Running::Distinct(_) if matches!(body, FunctionBody::Distinct(_)) => {
                Sliding::Distinct(HashMap::default(), 0)
            }
            Running::Ends(_) if !is_by_arrival(body) => Sliding::Times(Box::default()),
            _ => Sliding::Rows(VecDeque::new()),
        }
    }

    /// Adds the window's newest row; `column` is the aggregate's index.
    pub(super) fn push(&mut self, body: FunctionBody, window: &Window, at: u64, column: usize) {
        let row = window.row(at);
        let values = &row.values[column];
        if values.is_empty() {
            return;
        }
        match self {
            Sliding::Count(count) => *count += values.len() as i64,
            Sliding::Sums(stacks) => stacks.push(values),
            Sliding::Moments(stacks) => stacks.push(values),
            Sliding::Extremes(kinds) => {
                let text = |(row, value): &(u64, usize)| window.row(*row).values[column].texts()[*value].as_str();
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
            Sliding::Times(ends) => {
                push_candidate(&mut ends.0, (at, 0), |known| row.time < window.row(known.0).time);
                push_candidate(&mut ends.1, (at, 0), |known| row.time > window.row(known.0).time);
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
            Sliding::Sums(stacks) => stacks.pop(),
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
            Sliding::Times(ends) => {
                remove_row(&mut ends.0, at);
                remove_row(&mut ends.1, at);
            }
            Sliding::Rows(rows) => {
                rows.pop_front();
            }
        }
    }

    /// The function's value over the group's rows in the window.
    pub(super) fn value(&self, body: FunctionBody, window: &Window, column: usize, group: u32) -> Value<'static> {
        let values = |row: u64| window.row(row).values[column].texts();
        match self {
            Sliding::Count(count) => Value::Int(*count),
            Sliding::Sums(stacks) => Running::Sums(stacks.total()).value(body),
            Sliding::Moments(stacks) => Running::Moments(stacks.total()).value(body),
            Sliding::Extremes(kinds) if kinds.iter().all(|kind| kind.count > 0) => {
                // Numbers and texts mixed have no total order, so the result depends on the order of rows.
                let rows = window.rows.iter().filter(|row| row.group == group);
                fold_rows(body, rows.map(|row| (row.values[column].texts(), row.time)))
            }
            Sliding::Extremes(kinds) => {
                let kind = if kinds[0].count > 0 { &kinds[0] } else { &kinds[1] };
                let text = |end: &Candidates| end.front().map(|(row, value)| values(*row)[*value].clone());
                Running::Extremes(Box::new((text(&kind.low), text(&kind.high)))).value(body)
            }
            Sliding::Distinct(tally, _) if matches!(body, FunctionBody::Distinct(DistinctResult::Values)) => {
                let mut all: Vec<String> = tally.keys().map(|value| value.to_string()).collect();
                all.sort_unstable();
                multivalue(all)
            }
            Sliding::Distinct(tally, _) => Value::Int(tally.len() as i64),
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
            Sliding::Sums(stacks) => stacks.bytes(),
            Sliding::Moments(stacks) => stacks.bytes(),
            Sliding::Extremes(kinds) => {
                let held = kinds.iter().map(|kind| candidates(&kind.low) + candidates(&kind.high));
                size_of::<[Kind; 2]>() + held.sum::<usize>()
            }
            Sliding::Distinct(_, bytes) => *bytes,
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
    let mut running = Running::new(body);
    rows.for_each(|(values, time)| running.add(body, values, time));
    running.value(body)
}

/// A value that can be aggregated with two stacks.
pub(super) trait Foldable: Copy + Default {
    /// The value for one row.
    fn from_values(values: &RowValues) -> Self;
    /// Combines this value with the one after it.
    fn combine(self, other: Self) -> Self;
}

impl Foldable for Sums {
    fn from_values(values: &RowValues) -> Sums {
        let mut sums = Sums::default();
        if let RowValues::Number(Some(number)) = values {
            sums.add(*number);
        }
        values.texts().iter().filter_map(|value| parse_exact_number(value)).for_each(|number| sums.add(number));
        sums
    }

    fn combine(mut self, other: Sums) -> Sums {
        self.merge(other);
        self
    }
}

impl Foldable for Moments {
    fn from_values(values: &RowValues) -> Moments {
        let mut moments = Moments::default();
        moments.add_texts(values.texts());
        moments
    }

    fn combine(mut self, other: Moments) -> Moments {
        self.merge(&other);
        self
    }
}

/// A queue that maintains the total of its elements: older ones as suffix totals, newer ones with a running total.
#[derive(Default)]
pub(super) struct Stacks<T> {
    /// Suffix totals: for each older element, the total from it to the newest older element. The oldest element is at
    /// the end.
    older: Vec<T>,
    newer: Vec<T>,
    /// Total of the newer elements.
    newest: T,
}

impl<T: Foldable> Stacks<T> {
    fn push(&mut self, values: &RowValues) {
        let part = T::from_values(values);
        self.newest = self.newest.combine(part);
        self.newer.push(part);
    }

    fn pop(&mut self) {
        if self.older.is_empty() {
            let mut total = T::default();
            self.older.reserve_exact(self.newer.len());
            while let Some(part) = self.newer.pop() {
                total = part.combine(total);
                self.older.push(total);
            }
            self.newest = T::default();
        }
        self.older.pop();
    }

    fn total(&self) -> T {
        self.older.last().map_or(self.newest, |older| older.combine(self.newest))
    }

    fn bytes(&self) -> usize {
        (self.older.capacity() + self.newer.capacity()) * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use quarry_spl::ast::StatsFunction;

    use super::*;

    /// Integers, decimals, texts, equal numbers in different notations, several values and none, in random order of
    /// time.
    fn rows(count: u64, mixed: bool) -> Vec<WindowRow> {
        let values = |at: u64| match at * 7_919 % 11 {
            0 => vec![],
            1 => vec!["5".to_owned(), "5.0".to_owned()],
            2 if mixed => vec!["some text".to_owned()],
            3 if mixed => vec!["1a".to_owned(), "9".to_owned()],
            4 => vec!["1e20".to_owned()],
            _ => vec![format!("{}.{}", at * 31 % 17, at % 10)],
        };
        let seen = |at| WindowRow {
            time: (at % 13 != 0).then_some((at * 37 % 29) as i64),
            values: vec![RowValues::Texts(values(at))],
            group: 0,
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
                let (mut window, mut sliding) = (Window::default(), Sliding::new(body));
                for seen in rows(300, mixed) {
                    let at = window.push(seen);
                    sliding.push(body, &window, at, 0);
                    if window.len() > size {
                        let (left, seen) = window.pop().unwrap();
                        sliding.pop(body, left, &seen.values[0]);
                    }
                    let anew = fold_rows(body, window.rows.iter().map(|row| (row.values[0].texts(), row.time)));
                    assert_eq!(sliding.value(body, &window, 0, 0), anew, "{function:?} over {size} at {at}");
                }
            }
        }
    }
}
