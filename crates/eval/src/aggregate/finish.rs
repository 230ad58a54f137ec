//! Final values of stats functions from merged states.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StringViewArray};
use arrow::datatypes::{Float64Type, Int64Type};
use quarry_event::value::{Number, parse_exact_number};

use super::digest::Digest;
use super::functions::{DistinctResult, FunctionBody, Percentile, PickResult, TimedNumber};
use super::moments::Moments;
use super::sparkline::{self, Sparkline};
use super::state::sequence_value;
use super::sums::{extreme_of, sum_of};
use crate::functions::time::seconds;
use crate::rows::{ColumnBuilder, Value};

/// The function's value per group; `states` are its state columns in order.
pub(crate) fn value_of(body: FunctionBody, states: &[ArrayRef], groups: usize) -> ArrayRef {
    assert_eq!(states.len(), body.states().len(), "a function is finished with all of its states");
    match body {
        FunctionBody::Count => Arc::clone(&states[0]),
        FunctionBody::Constant(number) => Arc::new(Int64Array::from_value(number, groups)),
        FunctionBody::Distinct(DistinctResult::Count) => {
            let lists = states[0].as_list::<i32>();
            Arc::new((0..groups).map(|group| i64::from(lists.value_length(group))).collect::<Int64Array>())
        }
        FunctionBody::Distinct(DistinctResult::Values) => each_list(states, groups, |mut texts| {
            texts.sort_unstable();
            multi(texts.into_iter())
        }),
        FunctionBody::Sum { value, .. } => sums(states, value),
        FunctionBody::Moments(value) => moments(states, value),
        FunctionBody::Extreme { largest } => extreme(states, largest),
        FunctionBody::Bounds(value) => bounds(&states[0], &states[1], value),
        FunctionBody::Percentile(percentile) => percentiles(states, percentile),
        FunctionBody::Mode => each_list(states, groups, |texts| mode(&texts)),
        FunctionBody::List => each_list(states, groups, |mut texts| {
            texts.sort_unstable();
            multi(texts.into_iter().map(sequence_value))
        }),
        FunctionBody::Pick { shown: PickResult::Values, .. } => {
            each_list(states, groups, |texts| multi(texts.into_iter().skip(1)))
        }
        FunctionBody::Pick { shown: PickResult::Time, .. } => each_list(states, groups, |texts| {
            let time = texts.first().and_then(|key| key.parse::<i64>().ok());
            time.map_or(Value::Null, seconds)
        }),
        FunctionBody::Change(value) => changes(states, groups, value),
        FunctionBody::Sparkline { point, .. } => {
            let lists = states[0].as_list::<i32>();
            let lines = (0..groups).map(|group| Sparkline::from_state(&number_list(lists, group))).collect();
            let mut column = ColumnBuilder::new(groups);
            sparkline::values_of(lines, point).into_iter().for_each(|line| column.push_multi(line));
            column.finish()
        }
    }
}

/// The result of `value` for the sum and count of the numbers; null without numbers.
fn sums(states: &[ArrayRef], value: fn(Number, i64) -> Option<Number>) -> ArrayRef {
    let counts = states[1].as_primitive::<Int64Type>();
    let mut values = ColumnBuilder::new(counts.len());
    each_state(&states[0], |group, state| {
        let count = if counts.is_valid(group) { counts.value(group) } else { 0 };
        let sum = sum_of(state).filter(|_| count > 0).and_then(|sum| value(sum, count));
        values.push(sum.map_or(Value::Null, Value::from_number));
    });
    values.finish()
}

/// Calls `found` with each group and its list of numbers.
fn each_state(states: &ArrayRef, mut found: impl FnMut(usize, &[f64])) {
    let lists = states.as_list::<i32>();
    let (parts, offsets) = (lists.values().as_primitive::<Float64Type>().values(), lists.value_offsets());
    for group in 0..lists.len() {
        found(group, &parts[offsets[group] as usize..offsets[group + 1] as usize]);
    }
}

/// The smallest or largest number of each group.
fn extreme_numbers(states: &ArrayRef) -> Vec<Option<Number>> {
    let mut numbers = Vec::with_capacity(states.len());
    each_state(states, |_, state| numbers.push(extreme_of(state)));
    numbers
}

/// The result of `value` for the smallest and the largest number.
fn bounds(low: &ArrayRef, high: &ArrayRef, value: fn(Number, Number) -> Number) -> ArrayRef {
    let bounds = extreme_numbers(low).into_iter().zip(extreme_numbers(high));
    let mut values = ColumnBuilder::new(low.len());
    for (low, high) in bounds {
        let value = low.zip(high).map(|(low, high)| value(low, high));
        values.push(value.map_or(Value::Null, Value::from_number));
    }
    values.finish()
}

/// The smallest or largest value; numbers come before texts.
fn extreme(states: &[ArrayRef], largest: bool) -> ArrayRef {
    let (numbers, texts) = (extreme_numbers(&states[0]), states[1].as_string_view());
    let mut values = ColumnBuilder::new(numbers.len());
    for (group, number) in numbers.into_iter().enumerate() {
        let text = texts.is_valid(group).then(|| texts.value(group));
        match (number, text) {
            (Some(number), None) => values.push(Value::from_number(number)),
            (Some(number), Some(_)) if !largest => values.push(Value::from_number(number)),
            (_, Some(text)) => values.push_text(text),
            (None, None) => values.push_null(),
        }
    }
    values.finish()
}

fn moments(states: &[ArrayRef], value: fn(&Moments) -> Option<f64>) -> ArrayRef {
    let lists = states[0].as_list::<i32>();
    let values = (0..lists.len()).map(|group| value(&Moments::from_state(&number_list(lists, group))));
    Arc::new(values.collect::<Float64Array>())
}

fn percentiles(states: &[ArrayRef], percentile: Percentile) -> ArrayRef {
    let mut values = ColumnBuilder::new(states[0].len());
    each_state(&states[0], |_, state| {
        let mut digest = Digest::new(percentile.is_exact());
        digest.merge_state(state);
        values.push(percentile.of(&mut digest).map_or(Value::Null, Value::from_number));
    });
    values.finish()
}

fn number_list(lists: &ListArray, group: usize) -> Vec<f64> {
    if lists.is_null(group) { Vec::new() } else { lists.value(group).as_primitive::<Float64Type>().values().to_vec() }
}

/// Calls `value` with each group's list of texts and collects the results.
fn each_list(states: &[ArrayRef], groups: usize, value: impl Fn(Vec<&str>) -> Value<'_>) -> ArrayRef {
    let lists = states[0].as_list::<i32>();
    let items: &StringViewArray = lists.values().as_string_view();
    let offsets = lists.value_offsets();
    let mut values = ColumnBuilder::new(groups);
    for group in 0..groups {
        let range = offsets[group] as usize..offsets[group + 1] as usize;
        let texts = range.filter(|at| items.is_valid(*at)).map(|at| items.value(at)).collect();
        values.push(value(texts));
    }
    values.finish()
}

fn multi<'a>(texts: impl Iterator<Item = &'a str>) -> Value<'a> {
    Value::multi(texts.map(std::borrow::Cow::Borrowed).collect())
}

/// The most frequent value; the smallest text in case of a tie.
fn mode<'a>(texts: &[&'a str]) -> Value<'a> {
    let counted = texts.chunks_exact(2).map(|pair| (pair[1].parse::<i64>().unwrap_or(0), pair[0]));
    let best = counted.max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1)));
    best.map_or(Value::Null, |(_, text)| Value::borrowed_text(text))
}

/// The result of `value` for the earliest and the latest row.
fn changes(states: &[ArrayRef], groups: usize, value: fn(TimedNumber, TimedNumber) -> Option<Number>) -> ArrayRef {
    let (first, last) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
    let reading = |lists: &ListArray, group: usize| -> Option<TimedNumber> {
        let list = lists.value(group);
        let texts = list.as_string_view();
        if texts.len() < 2 {
            return None;
        }
        Some((texts.value(0).parse().ok()?, parse_exact_number(texts.value(1))?))
    };
    let mut values = ColumnBuilder::new(groups);
    for group in 0..groups {
        let change = reading(first, group).zip(reading(last, group)).and_then(|(from, to)| value(from, to));
        values.push(change.map_or(Value::Null, Value::from_number));
    }
    values.finish()
}
