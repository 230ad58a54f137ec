//! Statistics over the arguments of one call: median, mode, spread. Non-numeric values are ignored, except by `mode`.

use quarry_event::value::Number;
use quarry_stdx::number::f64_of;

use super::call::{Call, FunctionImpl};
use super::math::{for_each_number, number_or_null};
use crate::rows::Value;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("median", median),
    ("mode", mode),
    ("range", range),
    ("stdev", |args, _| compute_on_numbers(args, |numbers| variance(numbers, 1).map(f64::sqrt))),
    ("stdevp", |args, _| compute_on_numbers(args, |numbers| variance(numbers, 0).map(f64::sqrt))),
    ("sumsq", sumsq),
    ("var", |args, _| compute_on_numbers(args, |numbers| variance(numbers, 1))),
    ("varp", |args, _| compute_on_numbers(args, |numbers| variance(numbers, 0))),
];

fn compute_on_numbers<'a>(args: &[Value<'a>], compute: impl Fn(&[f64]) -> Option<f64>) -> Value<'a> {
    let mut numbers = Vec::new();
    for_each_number(args, |number| numbers.push(number.as_f64()));
    if numbers.is_empty() { Value::Null } else { compute(&numbers).map_or(Value::Null, number_or_null) }
}

fn range<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let mut bounds: Option<(Number, Number)> = None;
    for_each_number(args, |number| {
        let (low, high) = bounds.unwrap_or((number, number));
        let lower = if number.total_cmp(low).is_lt() { number } else { low };
        bounds = Some((lower, if number.total_cmp(high).is_gt() { number } else { high }));
    });
    bounds.map_or(Value::Null, |(low, high)| Value::from_number(high.minus(low)))
}

/// Sum of squared deviations divided by the count minus `less`; 0 for a single number, `None` without numbers.
fn variance(numbers: &[f64], less: usize) -> Option<f64> {
    let count = numbers.len();
    if count <= less {
        return (count == 1).then_some(0.0);
    }
    let mean = numbers.iter().sum::<f64>() / f64_of(count);
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    Some(squares / f64_of(count - less))
}

fn sumsq<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let mut sum: Option<Number> = None;
    for_each_number(args, |number| {
        let square = number.times(number);
        sum = Some(sum.map_or(square, |sum| sum.plus(square)));
    });
    sum.map_or(Value::Null, Value::from_number)
}

/// The middle value; for an even count, the mean of the two middle values.
fn median<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let mut sorted = Vec::new();
    for_each_number(args, |number| sorted.push(number));
    sorted.sort_by(|a, b| a.total_cmp(*b));
    let middle = sorted.len() / 2;
    let found = match (middle.checked_sub(1).and_then(|below| sorted.get(below)), sorted.get(middle)) {
        (Some(low), Some(high)) if sorted.len().is_multiple_of(2) => low.plus(*high).divided_by(Number::Int(2)),
        (_, high) => high.copied(),
    };
    found.map_or(Value::Null, Value::from_number)
}

/// The most frequent text; the first one in case of a tie.
fn mode<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for text in args.iter().flat_map(Value::values) {
        match counts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counts.push((text.into_owned(), 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max();
    let found = counts.into_iter().find(|(_, count)| Some(*count) == most);
    found.map_or(Value::Null, |(text, _)| Value::owned_text(text))
}
