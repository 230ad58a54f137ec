//! Windows of counts and of sums and averages of integers, computed without a [`RowValues`] per row and aggregate.
//!
//! As long as every number is a small integer, a window stores the group and the integers of each row, and a group
//! stores the count and the sum of each aggregate. From the first batch with another number or a multivalue on, all
//! rows, including those in the windows, are processed by [`super::window`], whose results are the same.

use std::collections::VecDeque;

use arrow::array::Array;
use quarry_eval::aggregate::row_groups::NO_GROUP;
use quarry_eval::aggregate::{AggregateColumn, FunctionBody};
use quarry_eval::rows::{ColumnBuilder, ColumnReader, Value};
use quarry_event::value::Number;

use super::row_values::RowValues;
use super::window::EXACT_INTEGER_MAX;

/// The values of an aggregate in a batch: for each row the integer to add, if any.
pub(super) type Integers = Vec<Option<i64>>;

/// The windows and states of all groups.
pub(super) struct IntegerWindows {
    size: usize,
    /// Whether a row's result includes the row.
    current: bool,
    results: Vec<WindowResult>,
    windows: Vec<IntegerWindow>,
    /// Number of rows in all windows.
    rows: usize,
    /// The totals of all groups: for each group, one total per aggregate.
    totals: Vec<WindowTotal>,
}

/// The rows of a window in order of arrival.
#[derive(Default)]
struct IntegerWindow {
    groups: VecDeque<u32>,
    /// For each row, one value per aggregate.
    values: VecDeque<Option<i64>>,
}

/// Number and sum of the integers of a group within a window.
#[derive(Clone, Copy, Default)]
struct WindowTotal {
    count: i64,
    sum: i64,
}

/// The way to compute an aggregate from a total.
#[derive(Clone, Copy)]
enum WindowResult {
    Count,
    /// The result for the sum and the count; null without integers.
    Sum(fn(Number, i64) -> Option<Number>),
}

impl WindowResult {
    fn of(self, total: WindowTotal) -> Value<'static> {
        match self {
            WindowResult::Count => Value::Int(total.count),
            WindowResult::Sum(_) if total.count == 0 => Value::Null,
            WindowResult::Sum(value) => {
                value(Number::Int(total.sum), total.count).map_or(Value::Null, Value::from_number)
            }
        }
    }
}

impl IntegerWindows {
    /// Empty windows of `size` rows; `None` if an aggregate needs more than counts and sums.
    pub(super) fn new(columns: &[AggregateColumn], size: usize, current: bool) -> Option<IntegerWindows> {
        let result = |column: &AggregateColumn| match column.body {
            FunctionBody::Count => Some(WindowResult::Count),
            FunctionBody::Sum { squares: false, value } => Some(WindowResult::Sum(value)),
            _ => None,
        };
        let results = columns.iter().map(result).collect::<Option<Vec<WindowResult>>>()?;
        Some(IntegerWindows { size, current, results, windows: Vec::new(), rows: 0, totals: Vec::new() })
    }

    /// The integers of an argument (`Some(None)` without an argument: rows are counted); `None` if a value may be a
    /// number other than a small integer, or part of a multivalue.
    pub(super) fn read(body: FunctionBody, argument: Option<&ColumnReader>) -> Option<Option<Integers>> {
        let Some(reader) = argument else {
            return matches!(body, FunctionBody::Count).then_some(None);
        };
        let counted = |is_counted: bool| is_counted.then_some(1);
        let rows = 0..reader.len();
        match (body, reader) {
            (_, ColumnReader::Multi(..)) => None,
            // A false condition does not count as a value.
            (FunctionBody::Count, ColumnReader::Bool(truth)) => {
                Some(Some(rows.map(|row| counted(truth.is_valid(row) && truth.value(row))).collect()))
            }
            (FunctionBody::Count, reader) => Some(Some(rows.map(|row| counted(!reader.is_null(row))).collect())),
            (
                _,
                ColumnReader::Int(_)
                | ColumnReader::Text(_)
                | ColumnReader::Dictionary(_)
                | ColumnReader::Decimal(..)
                | ColumnReader::Mixed(_),
            ) => rows.map(|row| small_integer(reader.exact_number(row))).collect::<Option<Integers>>().map(Some),
            _ => None,
        }
    }

    /// Adds rows with these groups and integers; returns the results of each aggregate. Rows without a group have no
    /// results. `is_global` says whether one window counts the rows of all groups.
    pub(super) fn add(
        &mut self,
        groups: &[u32],
        group_count: usize,
        integers: &[Option<Integers>],
        is_global: bool,
    ) -> Vec<ColumnBuilder> {
        assert_eq!(integers.len(), self.results.len(), "each aggregate has its integers");
        let count = self.results.len();
        self.totals.resize((group_count * count).max(self.totals.len()), WindowTotal::default());
        let windows = if is_global { 1 } else { group_count };
        self.windows.resize_with(windows.max(self.windows.len()), IntegerWindow::default);
        let mut columns: Vec<ColumnBuilder> = self.results.iter().map(|_| ColumnBuilder::new(groups.len())).collect();
        for (row, group) in groups.iter().enumerate() {
            if *group == NO_GROUP {
                columns.iter_mut().for_each(ColumnBuilder::push_null);
                continue;
            }
            let at = if is_global { 0 } else { *group as usize };
            let values = integers.iter().map(|integers| integers.as_ref().map_or(Some(1), |integers| integers[row]));
            if self.current {
                self.push(at, *group, values);
                self.evict(at);
                self.append_results(*group, &mut columns);
            } else {
                self.evict(at);
                self.append_results(*group, &mut columns);
                self.push(at, *group, values);
            }
        }
        columns
    }

    fn push(&mut self, at: usize, group: u32, values: impl Iterator<Item = Option<i64>>) {
        let totals = self.totals[group as usize * self.results.len()..].iter_mut();
        let window = &mut self.windows[at];
        window.groups.push_back(group);
        for (total, value) in totals.zip(values) {
            total.count += i64::from(value.is_some());
            total.sum += value.unwrap_or(0);
            window.values.push_back(value);
        }
        self.rows += 1;
    }

    /// Drops the rows that exceed the size of a window.
    fn evict(&mut self, at: usize) {
        let (window, count) = (&mut self.windows[at], self.results.len());
        while window.groups.len() > self.size
            && let Some(group) = window.groups.pop_front()
        {
            for (total, value) in self.totals[group as usize * count..].iter_mut().zip(window.values.drain(..count)) {
                total.count -= i64::from(value.is_some());
                total.sum -= value.unwrap_or(0);
            }
            self.rows -= 1;
        }
    }

    fn append_results(&self, group: u32, columns: &mut [ColumnBuilder]) {
        let totals = &self.totals[group as usize * self.results.len()..];
        for ((result, total), column) in self.results.iter().zip(totals).zip(columns) {
            column.push(result.of(*total));
        }
    }

    /// Calls `found` with the number of each window, and the group and values of each of its rows in order of arrival.
    pub(super) fn into_rows(self, mut found: impl FnMut(usize, u32, Vec<RowValues>)) {
        for (at, mut window) in self.windows.into_iter().enumerate() {
            for group in window.groups {
                let values = self.results.iter().zip(window.values.drain(..self.results.len()));
                let values = values.map(|(result, value)| match result {
                    WindowResult::Count => RowValues::Count(usize::from(value.is_some())),
                    WindowResult::Sum(_) => RowValues::Number(value.map(Number::Int)),
                });
                found(at, group, values.collect());
            }
        }
    }

    /// Approximate bytes of the rows in windows.
    pub(super) fn row_bytes(&self) -> usize {
        self.rows * (size_of::<u32>() + self.results.len() * size_of::<Option<i64>>())
    }

    /// Approximate bytes held besides the rows.
    pub(super) fn state_bytes(&self) -> usize {
        self.windows.capacity() * size_of::<IntegerWindow>() + self.totals.capacity() * size_of::<WindowTotal>()
    }
}

/// The integer to add for a value, which need not be a number; `None` if a sum of such numbers may be inexact.
fn small_integer(number: Option<Number>) -> Option<Option<i64>> {
    match number {
        None => Some(None),
        Some(Number::Int(integer)) if integer.unsigned_abs() <= EXACT_INTEGER_MAX => Some(Some(integer)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ArrayRef;
    use quarry_eval::aggregate::Argument;
    use quarry_spl::ast::StatsFunction;

    use super::super::window::{Sliding, Window, WindowRow};
    use super::*;

    /// Windows of any values, to compare with.
    struct AnyWindows {
        bodies: Vec<FunctionBody>,
        size: usize,
        current: bool,
        is_global: bool,
        windows: Vec<Window>,
        sliding: Vec<Vec<Sliding>>,
    }

    impl AnyWindows {
        fn new(bodies: &[FunctionBody], size: usize, current: bool, is_global: bool) -> AnyWindows {
            let windows = (0..GROUPS).map(|_| Window::new(bodies.len())).collect();
            let sliding = (0..GROUPS).map(|_| bodies.iter().map(|body| Sliding::new(*body)).collect()).collect();
            AnyWindows { bodies: bodies.to_vec(), size, current, is_global, windows, sliding }
        }

        fn push(&mut self, at: usize, group: u32, values: Vec<RowValues>) {
            let number = self.windows[at].push(WindowRow { time: None, group }, values.into_iter());
            for (column, (sliding, body)) in self.sliding[group as usize].iter_mut().zip(&self.bodies).enumerate() {
                sliding.push(*body, &self.windows[at], number, column);
            }
        }

        fn evict(&mut self, at: usize) {
            let mut left = Vec::new();
            while self.windows[at].len() > self.size {
                let (number, row) = self.windows[at].pop(&mut left).unwrap();
                let states = self.sliding[row.group as usize].iter_mut().zip(&self.bodies);
                states.zip(&left).for_each(|((sliding, body), values)| sliding.pop(*body, number, values));
            }
        }

        fn results(&mut self, group: u32, values: Vec<RowValues>) -> Vec<Value<'static>> {
            let at = if self.is_global { 0 } else { group as usize };
            let mut values = Some(values);
            if self.current {
                self.push(at, group, values.take().unwrap());
            }
            self.evict(at);
            let states = self.sliding[group as usize].iter().zip(&self.bodies).enumerate();
            let value = |(column, (sliding, body)): (usize, (&Sliding, &FunctionBody))| {
                sliding.value(*body, &self.windows[at], column)
            };
            let results = states.map(value).collect();
            values.into_iter().for_each(|values| self.push(at, group, values));
            results
        }
    }

    const GROUPS: usize = 3;
    const BATCH_ROWS: usize = 37;

    fn aggregates() -> Vec<AggregateColumn> {
        let functions = [StatsFunction::Count, StatsFunction::Count, StatsFunction::Sum, StatsFunction::Avg];
        let argument = |at: usize| if at == 0 { Argument::Rows } else { Argument::Field("v".to_owned()) };
        let column = |(at, function)| AggregateColumn::new(function, argument(at), format!("c{at}"));
        functions.into_iter().enumerate().map(column).collect()
    }

    /// A batch of texts, most of which are small integers; the group of each row.
    fn batch(number: usize) -> (ColumnReader, Vec<u32>) {
        let rows = number * BATCH_ROWS..(number + 1) * BATCH_ROWS;
        let mut column = ColumnBuilder::new(BATCH_ROWS);
        for row in rows.clone() {
            match row * 7_919 % 13 {
                0 => column.push_null(),
                1 => column.push_text("-"),
                2 => column.push_text("4294967296"),
                3 => column.push_text("007"),
                small => column.push_text(&((small * row) as i64 - 900).to_string()),
            }
        }
        let column: ArrayRef = column.finish();
        let group = |row: usize| if row.is_multiple_of(11) { NO_GROUP } else { (row * row % GROUPS) as u32 };
        (ColumnReader::new(&column), rows.map(group).collect())
    }

    #[test]
    fn windows_of_integers_equal_those_of_any_values() {
        let aggregates = aggregates();
        let bodies: Vec<FunctionBody> = aggregates.iter().map(|column| column.body).collect();
        let arguments = |column: &ColumnReader| {
            let argument = |at: usize| (at > 0).then(|| column.clone());
            (0..bodies.len()).map(argument).collect::<Vec<Option<ColumnReader>>>()
        };
        for (size, current, is_global) in [
            (1, true, true),
            (1, false, true),
            (5, true, false),
            (5, false, false),
            (40, false, true),
            (300, true, true),
        ] {
            let mut windows = IntegerWindows::new(&aggregates, size, current).unwrap();
            let mut expected = AnyWindows::new(&bodies, size, current, is_global);
            for number in 0..8 {
                let (column, groups) = batch(number);
                let arguments = arguments(&column);
                let integers = bodies.iter().zip(&arguments);
                let integers: Vec<_> =
                    integers.map(|(body, argument)| IntegerWindows::read(*body, argument.as_ref()).unwrap()).collect();
                let found = windows.add(&groups, GROUPS, &integers, is_global);
                let found: Vec<ArrayRef> = found.into_iter().map(ColumnBuilder::finish).collect();
                let found: Vec<ColumnReader> = found.iter().map(ColumnReader::new).collect();
                for (row, group) in groups.iter().enumerate() {
                    let results = match *group == NO_GROUP {
                        true => vec![Value::Null; bodies.len()],
                        false => {
                            let read = |(body, argument): (&FunctionBody, &Option<ColumnReader>)| {
                                RowValues::read(*body, argument.as_ref(), row)
                            };
                            expected.results(*group, bodies.iter().zip(&arguments).map(read).collect())
                        }
                    };
                    let texts = |value: &Value<'_>| value.text().map(std::borrow::Cow::into_owned);
                    let found: Vec<_> = found.iter().map(|column| texts(&column.value(row))).collect();
                    let results: Vec<_> = results.iter().map(texts).collect();
                    assert_eq!(found, results, "row {row} of batch {number}, windows of {size}");
                }
            }
            // After the rows are handed over, the results are the same.
            let mut moved = AnyWindows::new(&bodies, size, current, is_global);
            assert!(windows.row_bytes() > 0 && windows.state_bytes() > 0);
            windows.into_rows(|at, group, values| moved.push(at, group, values));
            for row in 0..20u32 {
                let values = |number| {
                    vec![RowValues::Count(1), RowValues::Count(1), RowValues::Number(number), RowValues::Number(number)]
                };
                let number = Some(Number::Float(f64::from(row) + 0.1));
                let group = row % GROUPS as u32;
                assert_eq!(moved.results(group, values(number)), expected.results(group, values(number)));
            }
        }
    }

    #[test]
    fn other_numbers_are_refused() {
        let sum = FunctionBody::of(&StatsFunction::Sum);
        for text in ["0.5", "4294967297", "-9223372036854775808", "1e3"] {
            let mut column = ColumnBuilder::new(1);
            column.push_text(text);
            let column = column.finish();
            assert!(IntegerWindows::read(sum, Some(&ColumnReader::new(&column))).is_none(), "{text}");
        }
        assert!(IntegerWindows::read(sum, None).is_none());
        let largest = AggregateColumn::new(StatsFunction::Max, Argument::Rows, "m".to_owned());
        assert!(IntegerWindows::new(&[largest], 3, true).is_none());
    }
}
