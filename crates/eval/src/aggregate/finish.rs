//! Final values of stats functions from merged states.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StringViewArray};
use arrow::datatypes::{Float64Type, Int64Type};
use quarry_event::value::{Number, exact_number};
use quarry_spl::ast::{PercentileKind, StatsFunction};

use super::digest::Digest;
use super::moments::Moments;
use super::sparkline::{self, Sparkline};
use super::state::sequence_value;
use super::sums::{extreme_of, sum_of};
use crate::functions::time::seconds;
use crate::rows::{ColumnBuilder, Value};

/// The function's value per group; `states` are its state columns in order.
pub(crate) fn value_of(function: &StatsFunction, states: &[ArrayRef], groups: usize) -> ArrayRef {
    match function {
        StatsFunction::Count => Arc::clone(&states[0]),
        StatsFunction::Dc | StatsFunction::EstDc => {
            let lists = states[0].as_list::<i32>();
            Arc::new((0..groups).map(|group| i64::from(lists.value_length(group))).collect::<Int64Array>())
        }
        // Distinct values are counted exactly.
        StatsFunction::EstDcError => Arc::new(Int64Array::from_value(0, groups)),
        StatsFunction::Sum | StatsFunction::SumSq | StatsFunction::Per(_) => sums(states, |sum, _| Some(sum)),
        StatsFunction::Avg => sums(states, |sum, count| sum.divided_by(Number::Int(count))),
        StatsFunction::Min => extreme(states, false),
        StatsFunction::Max => extreme(states, true),
        StatsFunction::Range => ranges(&states[0], &states[1]),
        StatsFunction::Stdev => moments(states, |moments| moments.variance(true).map(f64::sqrt)),
        StatsFunction::StdevP => moments(states, |moments| moments.variance(false).map(f64::sqrt)),
        StatsFunction::Var => moments(states, |moments| moments.variance(true)),
        StatsFunction::VarP => moments(states, |moments| moments.variance(false)),
        StatsFunction::Percentile { percent, kind, method } => {
            let digest = || Digest::new(*kind == PercentileKind::Exact);
            percentiles(states, digest, |digest| match kind {
                PercentileKind::Upper => digest.upper_percentile(*percent, *method),
                PercentileKind::Default | PercentileKind::Exact => digest.percentile(*percent, *method),
            })
        }
        StatsFunction::Mode => each_list(states, groups, |texts| mode(&texts)),
        StatsFunction::Values => each_list(states, groups, |mut texts| {
            texts.sort_unstable();
            multi(texts.into_iter())
        }),
        StatsFunction::List => each_list(states, groups, |mut texts| {
            texts.sort_unstable();
            multi(texts.into_iter().map(sequence_value))
        }),
        StatsFunction::First | StatsFunction::Last | StatsFunction::Earliest | StatsFunction::Latest => {
            each_list(states, groups, |texts| multi(texts.into_iter().skip(1)))
        }
        StatsFunction::EarliestTime | StatsFunction::LatestTime => each_list(states, groups, |texts| {
            let time = texts.first().and_then(|key| key.parse::<i64>().ok());
            time.map_or(Value::Null, seconds)
        }),
        StatsFunction::Rate | StatsFunction::SeriesRate { .. } => rates(states, groups),
        StatsFunction::Sparkline { inner, .. } => {
            let lists = states[0].as_list::<i32>();
            let lines = (0..groups).map(|group| Sparkline::from_state(&number_list(lists, group))).collect();
            let mut column = ColumnBuilder::new(groups);
            sparkline::values_of(lines, inner).into_iter().for_each(|line| column.push_multi(line));
            column.finish()
        }
    }
}

/// A value from the sum and count of numbers; null without numbers.
fn sums(states: &[ArrayRef], value: fn(Number, i64) -> Option<Number>) -> ArrayRef {
    let counts = states[1].as_primitive::<Int64Type>();
    let mut values = ColumnBuilder::new(counts.len());
    each_state(&states[0], |group, state| {
        let count = if counts.is_valid(group) { counts.value(group) } else { 0 };
        let sum = sum_of(state).filter(|_| count > 0).and_then(|sum| value(sum, count));
        values.push(sum.map_or(Value::Null, Value::of_number));
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

/// Largest minus smallest number.
fn ranges(low: &ArrayRef, high: &ArrayRef) -> ArrayRef {
    let bounds = extreme_numbers(low).into_iter().zip(extreme_numbers(high));
    let mut values = ColumnBuilder::new(low.len());
    for (low, high) in bounds {
        let range = low.zip(high).map(|(low, high)| high.minus(low));
        values.push(range.map_or(Value::Null, Value::of_number));
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
            (Some(number), None) => values.push(Value::of_number(number)),
            (Some(number), Some(_)) if !largest => values.push(Value::of_number(number)),
            (_, Some(text)) => values.push_text(text),
            (None, None) => values.push_null(),
        }
    }
    values.finish()
}

fn moments(states: &[ArrayRef], value: impl Fn(&Moments) -> Option<f64>) -> ArrayRef {
    let lists = states[0].as_list::<i32>();
    let values = (0..lists.len()).map(|group| value(&Moments::from_state(&number_list(lists, group))));
    Arc::new(values.collect::<Float64Array>())
}

fn percentiles(
    states: &[ArrayRef],
    empty: impl Fn() -> Digest,
    value: impl Fn(&mut Digest) -> Option<Number>,
) -> ArrayRef {
    let mut values = ColumnBuilder::new(states[0].len());
    each_state(&states[0], |_, state| {
        let mut digest = empty();
        digest.merge_state(state);
        values.push(value(&mut digest).map_or(Value::Null, Value::of_number));
    });
    values.finish()
}

fn number_list(lists: &ListArray, group: usize) -> Vec<f64> {
    if lists.is_null(group) { Vec::new() } else { lists.value(group).as_primitive::<Float64Type>().values().to_vec() }
}

/// Builds a value per group from its list of texts.
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
    best.map_or(Value::Null, |(_, text)| Value::text_of(text))
}

/// Change per second between the earliest and the latest value.
fn rates(states: &[ArrayRef], groups: usize) -> ArrayRef {
    let (first, last) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
    let point = |lists: &ListArray, group: usize| -> Option<(i64, Number)> {
        let list = lists.value(group);
        let texts = list.as_string_view();
        if texts.len() < 2 {
            return None;
        }
        Some((texts.value(0).parse().ok()?, exact_number(texts.value(1))?))
    };
    let mut values = ColumnBuilder::new(groups);
    for group in 0..groups {
        let rate = point(first, group).zip(point(last, group)).and_then(|((from, low), (to, high))| {
            let seconds = Number::Nanos(to.checked_sub(from).filter(|time| *time > 0)?);
            high.minus(low).divided_by(seconds)
        });
        values.push(rate.map_or(Value::Null, Value::of_number));
    }
    values.finish()
}
