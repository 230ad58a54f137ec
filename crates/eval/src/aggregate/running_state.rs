//! The state of one function for one group, with its value after each row, for `streamstats` and ranking series.
//!
//! Not here: rows that leave a window again (the engine's `streamstats`).

use std::cmp::Ordering;

use quarry_event::TimeNs;
use quarry_event::value::{Number, format_number, parse_exact_number, parse_number};
use quarry_stdx::number::f64_of;

use super::functions::{DistinctResult, FunctionBody, PickResult, TimedNumber};
use super::keys::KeyTable;
use super::moments::Moments;
use super::numbers::NumberParts;
use super::ordered_numbers::OrderedNumbers;
use super::state_column::{LIST_VALUES_MAX, PickKey};
use super::total::Total;
use crate::rows::Value;

/// Approximate overhead of a stored text, in bytes.
const TEXT_OVERHEAD_BYTES: usize = size_of::<String>() + 16;

/// The state of one aggregate of one group.
pub enum RunningState {
    /// Number of values.
    Count(i64),
    /// Sum, sum of squares and count of numbers.
    Sums(Sums),
    /// Count, sum and sum of squares of numbers, for variances.
    Moments(Moments),
    /// Smallest and largest value.
    Extremes(Box<(Option<String>, Option<String>)>),
    /// Distinct values with their counts.
    Distinct(Box<(KeyTable, Vec<i64>)>),
    /// First values.
    List(Vec<String>),
    /// First and last row.
    Ends(Box<(Option<RowValues>, Option<RowValues>)>),
    /// All numbers, for percentiles.
    Numbers(Box<OrderedNumbers>),
    /// A function without a running value.
    Nothing,
}

/// Count, sum and sum of squares, as exact as in `stats`.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    count: i64,
    sum: Total,
    squares: Total,
    /// Largest number of decimal places of any number.
    scale: u8,
}

impl Sums {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        let figure = NumberParts::of(number);
        self.count += 1;
        self.sum.add(figure.value);
        self.sum.lost += figure.rest_as_double();
        self.squares.add_exact_square(figure.value, figure.rest_as_double());
        self.scale = self.scale.max(figure.scale);
    }

    /// The sums of `count` integers that add up to `sum`, which a double holds exactly. There is no sum of squares.
    pub fn of_integers(count: i64, sum: i64) -> Sums {
        Sums { count, sum: Total { sum: f64_of(sum), lost: 0.0 }, ..Sums::default() }
    }

    /// Mean of the numbers; `None` without numbers.
    pub fn mean(&self) -> Option<Number> {
        self.value(false, |sum, count| sum.divided_by(Number::Int(count)))
    }

    fn value(&self, squares: bool, value: fn(Number, i64) -> Option<Number>) -> Option<Number> {
        let (total, digits) =
            if squares { (self.squares, self.scale.saturating_mul(2)) } else { (self.sum, self.scale) };
        if self.count == 0 { None } else { value(total.round_to_scale(digits), self.count) }
    }

    /// Adds other numbers.
    pub fn merge(&mut self, other: Sums) {
        self.count += other.count;
        self.sum.merge(other.sum);
        self.squares.merge(other.squares);
        self.scale = self.scale.max(other.scale);
    }
}

/// Time and values of a row.
type RowValues = (Option<TimeNs>, Vec<String>);

impl RunningState {
    /// The state before the first row.
    pub fn new(body: FunctionBody) -> RunningState {
        match body {
            FunctionBody::Count => RunningState::Count(0),
            FunctionBody::Sum { .. } => RunningState::Sums(Sums::default()),
            FunctionBody::Moments(_) => RunningState::Moments(Moments::default()),
            FunctionBody::Extreme { .. } | FunctionBody::Bounds(_) => RunningState::Extremes(Box::default()),
            FunctionBody::Distinct(_) | FunctionBody::Mode => RunningState::Distinct(Box::default()),
            FunctionBody::List => RunningState::List(Vec::new()),
            FunctionBody::Percentile(_) => RunningState::Numbers(Box::default()),
            FunctionBody::Pick { .. } | FunctionBody::Change(_) => RunningState::Ends(Box::default()),
            FunctionBody::Constant(_) | FunctionBody::Sparkline { .. } => RunningState::Nothing,
        }
    }

    /// Adds the values of a row.
    pub fn add(&mut self, body: FunctionBody, values: &[String], time: Option<TimeNs>) {
        if values.is_empty() {
            return;
        }
        match self {
            RunningState::Count(count) => *count += values.len() as i64,
            RunningState::Sums(sums) => {
                values.iter().filter_map(|value| parse_exact_number(value)).for_each(|number| sums.add(number))
            }
            RunningState::Moments(moments) => moments.add_texts(values),
            RunningState::Numbers(numbers) => {
                values.iter().filter_map(|value| parse_exact_number(value)).for_each(|number| numbers.add(number))
            }
            RunningState::Extremes(ends) => {
                let only_numbers = body.reads_only_numbers();
                let fits = |value: &&String| !only_numbers || parse_number(value).is_some();
                values.iter().filter(fits).for_each(|value| add_extreme(ends, value));
            }
            RunningState::Distinct(distinct) => {
                let (keys, tally) = &mut **distinct;
                for value in values {
                    let at = keys.intern(value.as_bytes()) as usize;
                    if at >= tally.len() {
                        tally.push(0);
                    }
                    tally[at] += 1;
                }
            }
            RunningState::List(list) => {
                let room = LIST_VALUES_MAX.saturating_sub(list.len());
                list.extend(values.iter().take(room).cloned());
            }
            RunningState::Ends(ends) => add_ends(ends, body, values, time),
            RunningState::Nothing => {}
        }
    }

    /// Adds a number.
    pub fn add_number(&mut self, body: FunctionBody, number: f64) {
        match self {
            RunningState::Count(count) => *count += 1,
            RunningState::Sums(sums) => sums.add(Number::Float(number)),
            RunningState::Moments(moments) => moments.add(number),
            RunningState::Numbers(numbers) => numbers.add(Number::Float(number)),
            _ => self.add(body, &[format_number(number)], None),
        }
    }

    /// The current value of the function.
    pub fn value(&mut self, body: FunctionBody) -> Value<'static> {
        let number = |number: Option<Number>| number.map_or(Value::Null, Value::from_number);
        match (self, body) {
            (RunningState::Count(count), _) => Value::Int(*count),
            (RunningState::Sums(sums), FunctionBody::Sum { squares, value }) => number(sums.value(squares, value)),
            (RunningState::Moments(moments), FunctionBody::Moments(value)) => {
                value(moments).map_or(Value::Null, Value::from_f64)
            }
            (RunningState::Numbers(numbers), FunctionBody::Percentile(percentile)) => {
                number(percentile.of_numbers(numbers))
            }
            (RunningState::Extremes(ends), FunctionBody::Extreme { largest }) => {
                text(if largest { &ends.1 } else { &ends.0 }.clone())
            }
            (RunningState::Extremes(ends), FunctionBody::Bounds(value)) => {
                let bound = |text: &Option<String>| text.as_deref().and_then(parse_exact_number);
                number(bound(&ends.0).zip(bound(&ends.1)).map(|(low, high)| value(low, high)))
            }
            (RunningState::Distinct(distinct), body) => distinct_value(distinct, body),
            (RunningState::List(list), _) => multivalue(list.clone()),
            (RunningState::Ends(ends), body) => {
                let end = |end| Option::as_ref(end).map(|(time, values): &RowValues| (*time, values.as_slice()));
                value_of_ends(body, end(&ends.0), end(&ends.1))
            }
            (_, FunctionBody::Constant(constant)) => Value::Int(constant),
            (RunningState::Nothing, _) => Value::Null,
            _ => {
                debug_assert!(false, "a state is read by the function that it was created for, not by {body:?}");
                Value::Null
            }
        }
    }

    /// Approximate bytes besides the state itself.
    pub fn bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() + TEXT_OVERHEAD_BYTES).sum::<usize>();
        match self {
            RunningState::Count(_) | RunningState::Sums(..) | RunningState::Moments(_) | RunningState::Nothing => 0,
            RunningState::Extremes(ends) => {
                let ends = [&ends.0, &ends.1].into_iter().flatten();
                2 * TEXT_OVERHEAD_BYTES + ends.map(String::len).sum::<usize>()
            }
            RunningState::Distinct(distinct) => {
                size_of::<(KeyTable, Vec<i64>)>() + distinct.0.bytes() + distinct.1.capacity() * size_of::<i64>()
            }
            RunningState::List(list) => texts(list),
            RunningState::Ends(ends) => {
                let rows = [&ends.0, &ends.1].into_iter().flatten();
                size_of::<(Option<RowValues>, Option<RowValues>)>()
                    + rows.map(|(_, values)| texts(values)).sum::<usize>()
            }
            RunningState::Numbers(numbers) => size_of::<OrderedNumbers>() + numbers.bytes(),
        }
    }
}

fn add_extreme((low, high): &mut (Option<String>, Option<String>), value: &str) {
    if low.as_deref().is_none_or(|low| compare_extremes(value, low).is_lt()) {
        *low = Some(value.to_owned());
    }
    if high.as_deref().is_none_or(|high| compare_extremes(value, high).is_gt()) {
        *high = Some(value.to_owned());
    }
}

/// The order of `min` and `max`: numbers by value, then texts by bytes.
fn compare_extremes(a: &str, b: &str) -> Ordering {
    match (parse_exact_number(a), parse_exact_number(b)) {
        (Some(a), Some(b)) => a.total_cmp(b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

fn add_ends(
    (first, last): &mut (Option<RowValues>, Option<RowValues>),
    body: FunctionBody,
    values: &[String],
    time: Option<TimeNs>,
) {
    let by_time = !is_by_arrival(body);
    // As in `stats`, a row without a time is neither the earliest nor the latest.
    if by_time && time.is_none() {
        return;
    }
    // As in `stats`, the greatest values win among rows of the same time.
    let is_greater = |known: &RowValues| time == known.0 && values > known.1.as_slice();
    if first.as_ref().is_none_or(|known| by_time && (time < known.0 || is_greater(known))) {
        *first = Some((time, values.to_vec()));
    }
    if last.as_ref().is_none_or(|known| !by_time || time > known.0 || is_greater(known)) {
        *last = Some((time, values.to_vec()));
    }
}

/// Whether the function selects a row by the order of arrival.
pub fn is_by_arrival(body: FunctionBody) -> bool {
    matches!(body, FunctionBody::Pick { key: PickKey::First | PickKey::Last, .. })
}

fn distinct_value((keys, tally): &(KeyTable, Vec<i64>), body: FunctionBody) -> Value<'static> {
    let owned = |at: usize| String::from_utf8_lossy(keys.key(at)).into_owned();
    match body {
        FunctionBody::Distinct(DistinctResult::Values) => {
            let mut all: Vec<String> = (0..keys.len()).map(owned).collect();
            all.sort_unstable();
            multivalue(all)
        }
        FunctionBody::Mode => {
            // In case of a tie, the smallest text wins, as in `stats`.
            let best = tally.iter().enumerate().max_by(|a, b| a.1.cmp(b.1).then(keys.key(b.0).cmp(keys.key(a.0))));
            text(best.map(|(at, _)| owned(at)))
        }
        _ => Value::Int(keys.len() as i64),
    }
}

/// A row's time and values; `None` if there is no row.
pub type EndRow<'v> = Option<(Option<TimeNs>, &'v [String])>;

/// The value of a function that depends only on the first and the last row.
pub fn value_of_ends(body: FunctionBody, first: EndRow<'_>, last: EndRow<'_>) -> Value<'static> {
    match body {
        FunctionBody::Pick { key, shown } => {
            let end = if matches!(key, PickKey::First | PickKey::Earliest) { first } else { last };
            match shown {
                PickResult::Values => multivalue(end.map(|(_, values)| values.to_vec()).unwrap_or_default()),
                PickResult::Time => end.and_then(|(time, _)| time).map_or(Value::Null, Value::Time),
            }
        }
        FunctionBody::Change(value) => {
            let reading = |end: EndRow<'_>| -> Option<TimedNumber> {
                let (time, values) = end?;
                Some((time?, parse_exact_number(values.first()?)?))
            };
            let change = reading(first).zip(reading(last)).and_then(|(from, to)| value(from, to));
            change.map_or(Value::Null, Value::from_number)
        }
        _ => Value::Null,
    }
}

fn text(text: Option<String>) -> Value<'static> {
    text.map_or(Value::Null, Value::owned_text)
}

/// The multivalue of these values; null without values.
pub fn multivalue(values: Vec<String>) -> Value<'static> {
    Value::multi(values.into_iter().map(std::borrow::Cow::Owned).collect())
}

#[cfg(test)]
mod tests {
    use quarry_spl::ast::StatsFunction;

    use super::*;

    fn text_of(function: &StatsFunction, rows: &[(&str, Option<TimeNs>)]) -> Option<String> {
        let body = FunctionBody::of(function);
        let mut running = RunningState::new(body);
        rows.iter().for_each(|(value, time)| running.add(body, &[(*value).to_owned()], *time));
        running.value(body).text().map(|text| text.into_owned())
    }

    #[test]
    fn texts_are_greater_than_numbers_in_any_order() {
        let values = ["10", "-", "9", "1a", "-5"];
        for first in 0..values.len() {
            let rows: Vec<_> = (0..values.len()).map(|at| (values[(first + at) % values.len()], None)).collect();
            assert_eq!(text_of(&StatsFunction::Min, &rows).as_deref(), Some("-5"));
            assert_eq!(text_of(&StatsFunction::Max, &rows).as_deref(), Some("1a"));
        }
    }

    #[test]
    fn rows_without_time_are_not_the_earliest() {
        let rows = [("a", None), ("b", Some(20)), ("c", Some(10)), ("d", None)];
        assert_eq!(text_of(&StatsFunction::Earliest, &rows).as_deref(), Some("c"));
        assert_eq!(text_of(&StatsFunction::Latest, &rows).as_deref(), Some("b"));
        assert_eq!(text_of(&StatsFunction::Latest, &rows[..1]), None);
        assert_eq!(text_of(&StatsFunction::Last, &rows).as_deref(), Some("d"));
    }

    #[test]
    fn the_greatest_of_the_values_of_one_time_is_the_earliest_and_the_latest() {
        let rows = [("b", Some(20)), ("d", Some(20)), ("c", Some(20))];
        for function in [StatsFunction::Earliest, StatsFunction::Latest] {
            assert_eq!(text_of(&function, &rows).as_deref(), Some("d"));
        }
        assert_eq!(text_of(&StatsFunction::First, &rows).as_deref(), Some("b"));
        assert_eq!(text_of(&StatsFunction::Last, &rows).as_deref(), Some("c"));
    }
}
