//! Running state of one `streamstats` aggregate: only what its function needs, since each group has one.

use quarry_eval::aggregate::LIST_VALUES_MAX;
use quarry_eval::aggregate::digest::Digest;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::aggregate::moments::Moments;
use quarry_eval::aggregate::numbers::Figure;
use quarry_eval::aggregate::total::Total;
use quarry_eval::rows::Value;
use quarry_event::TimeNs;
use quarry_event::value::{Number, compare, exact_number, parse_number};
use quarry_spl::ast::{PercentileKind, StatsFunction};

/// Approximate overhead of a stored text, in bytes.
const TEXT_BYTES: usize = size_of::<String>() + 16;

/// The state of one aggregate of one group.
pub(super) enum Running {
    /// Values.
    Count(i64),
    /// Sums of numbers.
    Sums(Sums),
    /// For variances.
    Moments(Moments),
    /// Smallest and largest value.
    Extremes(Box<(Option<String>, Option<String>)>),
    /// Distinct values with their counts.
    Distinct(Box<(KeyTable, Vec<i64>)>),
    /// First values.
    List(Vec<String>),
    /// First and last row.
    Ends(Box<(Option<RowValues>, Option<RowValues>)>),
    /// For percentiles.
    Digest(Box<Digest>),
    /// A function without a running value.
    Nothing,
}

/// Count, sum and sum of squares, as exact as in `stats`.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    count: i64,
    sum: Total,
    squares: Total,
    /// Largest number of decimal places of any number.
    scale: u8,
}

impl Sums {
    /// Adds a number.
    pub(super) fn add(&mut self, number: Number) {
        let figure = Figure::of(number);
        self.count += 1;
        self.sum.add(figure.value);
        self.sum.lost += figure.more();
        self.squares.add_square(figure.value);
        self.scale = self.scale.max(figure.scale);
    }

    fn value(&self, function: &StatsFunction) -> Option<Number> {
        let sum = self.sum.rounded(self.scale);
        match function {
            StatsFunction::SumSq => Some(self.squares.rounded(self.scale.saturating_mul(2))),
            StatsFunction::Avg => sum.divided_by(Number::Int(self.count)),
            _ => Some(sum),
        }
    }

    /// Adds other numbers.
    pub(super) fn merge(&mut self, other: Sums) {
        self.count += other.count;
        self.sum.merge(other.sum);
        self.squares.merge(other.squares);
        self.scale = self.scale.max(other.scale);
    }
}

/// Time and values of a row.
type RowValues = (Option<TimeNs>, Vec<String>);

impl Running {
    /// The state before the first row.
    pub(super) fn new(function: &StatsFunction) -> Running {
        match function {
            StatsFunction::Count => Running::Count(0),
            StatsFunction::Sum | StatsFunction::SumSq | StatsFunction::Avg | StatsFunction::Per(_) => {
                Running::Sums(Sums::default())
            }
            StatsFunction::Stdev | StatsFunction::StdevP | StatsFunction::Var | StatsFunction::VarP => {
                Running::Moments(Moments::default())
            }
            StatsFunction::Min | StatsFunction::Max | StatsFunction::Range => Running::Extremes(Box::default()),
            StatsFunction::Dc | StatsFunction::EstDc | StatsFunction::Values | StatsFunction::Mode => {
                Running::Distinct(Box::default())
            }
            StatsFunction::List => Running::List(Vec::new()),
            StatsFunction::Percentile { kind, .. } => {
                Running::Digest(Box::new(Digest::new(*kind == PercentileKind::Exact)))
            }
            StatsFunction::Sparkline { .. } => Running::Nothing,
            _ => Running::Ends(Box::default()),
        }
    }

    /// Adds the values of a row.
    pub(super) fn add(&mut self, function: &StatsFunction, values: &[String], time: Option<TimeNs>) {
        if values.is_empty() {
            return;
        }
        let numbers = values.iter().filter_map(|value| parse_number(value));
        match self {
            Running::Count(count) => *count += values.len() as i64,
            Running::Sums(sums) => {
                values.iter().filter_map(|value| exact_number(value)).for_each(|number| sums.add(number))
            }
            Running::Moments(moments) => numbers.for_each(|number| moments.add(number)),
            Running::Digest(digest) => {
                values.iter().filter_map(|value| exact_number(value)).for_each(|number| digest.add_number(number))
            }
            Running::Extremes(ends) => {
                let only_numbers = matches!(function, StatsFunction::Range);
                let fits = |value: &&String| !only_numbers || parse_number(value).is_some();
                values.iter().filter(fits).for_each(|value| add_extreme(ends, value));
            }
            Running::Distinct(distinct) => {
                let (keys, tally) = &mut **distinct;
                for value in values {
                    let at = keys.intern(value.as_bytes()) as usize;
                    if at >= tally.len() {
                        tally.push(0);
                    }
                    tally[at] += 1;
                }
            }
            Running::List(list) => {
                let room = LIST_VALUES_MAX.saturating_sub(list.len());
                list.extend(values.iter().take(room).cloned());
            }
            Running::Ends(ends) => add_ends(ends, function, values, time),
            Running::Nothing => {}
        }
    }

    /// The current value of the function.
    pub(super) fn value(&mut self, function: &StatsFunction) -> Value<'static> {
        match self {
            Running::Count(count) => Value::Int(*count),
            Running::Sums(sums) if sums.count == 0 => Value::Null,
            Running::Sums(sums) => sums.value(function).map_or(Value::Null, Value::of_number),
            Running::Moments(moments) => number(match function {
                StatsFunction::Stdev => moments.variance(true).map(f64::sqrt),
                StatsFunction::StdevP => moments.variance(false).map(f64::sqrt),
                StatsFunction::Var => moments.variance(true),
                _ => moments.variance(false),
            }),
            Running::Digest(digest) => {
                let found = match function {
                    StatsFunction::Percentile { percent, kind: PercentileKind::Upper, method } => {
                        digest.upper_percentile(*percent, *method)
                    }
                    StatsFunction::Percentile { percent, method, .. } => digest.percentile(*percent, *method),
                    _ => None,
                };
                found.map_or(Value::Null, Value::of_number)
            }
            Running::Extremes(ends) => match function {
                StatsFunction::Min => text(ends.0.clone()),
                StatsFunction::Max => text(ends.1.clone()),
                _ => {
                    let parsed = |text: &Option<String>| text.as_deref().and_then(exact_number);
                    let range = parsed(&ends.1).zip(parsed(&ends.0)).map(|(high, low)| high.minus(low));
                    range.map_or(Value::Null, Value::of_number)
                }
            },
            Running::Distinct(distinct) => distinct_value(distinct, function),
            Running::List(list) => many(list.clone()),
            Running::Ends(ends) => ends_value(ends, function),
            Running::Nothing => Value::Null,
        }
    }

    /// Approximate bytes besides the state itself.
    pub(super) fn bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() + TEXT_BYTES).sum::<usize>();
        match self {
            Running::Count(_) | Running::Sums(..) | Running::Moments(_) | Running::Nothing => 0,
            Running::Extremes(ends) => {
                let ends = [&ends.0, &ends.1].into_iter().flatten();
                2 * TEXT_BYTES + ends.map(String::len).sum::<usize>()
            }
            Running::Distinct(distinct) => {
                size_of::<(KeyTable, Vec<i64>)>() + distinct.0.bytes() + distinct.1.capacity() * size_of::<i64>()
            }
            Running::List(list) => texts(list),
            Running::Ends(ends) => {
                let rows = [&ends.0, &ends.1].into_iter().flatten();
                size_of::<(Option<RowValues>, Option<RowValues>)>()
                    + rows.map(|(_, values)| texts(values)).sum::<usize>()
            }
            Running::Digest(digest) => digest.bytes(),
        }
    }
}

fn add_extreme((low, high): &mut (Option<String>, Option<String>), value: &str) {
    if low.as_deref().is_none_or(|low| compare(value, low).is_lt()) {
        *low = Some(value.to_owned());
    }
    if high.as_deref().is_none_or(|high| compare(value, high).is_gt()) {
        *high = Some(value.to_owned());
    }
}

fn add_ends(
    (first, last): &mut (Option<RowValues>, Option<RowValues>),
    function: &StatsFunction,
    values: &[String],
    time: Option<TimeNs>,
) {
    let by_time = !matches!(function, StatsFunction::First | StatsFunction::Last);
    if first.as_ref().is_none_or(|(known, _)| by_time && time < *known) {
        *first = Some((time, values.to_vec()));
    }
    if last.as_ref().is_none_or(|(known, _)| !by_time || time > *known) {
        *last = Some((time, values.to_vec()));
    }
}

fn distinct_value((keys, tally): &(KeyTable, Vec<i64>), function: &StatsFunction) -> Value<'static> {
    let owned = |at: usize| String::from_utf8_lossy(keys.key(at)).into_owned();
    match function {
        StatsFunction::Values => {
            let mut all: Vec<String> = (0..keys.len()).map(owned).collect();
            all.sort_unstable();
            many(all)
        }
        StatsFunction::Mode => {
            let best = tally.iter().enumerate().max_by_key(|(at, count)| (**count, std::cmp::Reverse(*at)));
            text(best.map(|(at, _)| owned(at)))
        }
        _ => Value::Int(keys.len() as i64),
    }
}

fn ends_value((first, last): &(Option<RowValues>, Option<RowValues>), function: &StatsFunction) -> Value<'static> {
    let values = |end: &Option<RowValues>| many(end.clone().map(|(_, values)| values).unwrap_or_default());
    let time = |end: &Option<RowValues>| end.as_ref().and_then(|(time, _)| *time).map_or(Value::Null, Value::Time);
    match function {
        StatsFunction::First | StatsFunction::Earliest => values(first),
        StatsFunction::Last | StatsFunction::Latest => values(last),
        StatsFunction::EarliestTime => time(first),
        StatsFunction::LatestTime => time(last),
        _ => {
            let end = |end| Option::as_ref(end).map(|(time, values): &RowValues| (*time, values.as_slice()));
            number(rate(end(first), end(last)))
        }
    }
}

/// Increase per second between two rows.
pub(super) fn rate(
    first: Option<(Option<TimeNs>, &[String])>,
    last: Option<(Option<TimeNs>, &[String])>,
) -> Option<f64> {
    let point = |end: Option<(Option<TimeNs>, &[String])>| {
        let (time, values) = end?;
        Some((time? as f64 / 1e9, parse_number(values.first()?)?))
    };
    let ((from, low), (to, high)) = point(first).zip(point(last))?;
    (to > from).then(|| (high - low) / (to - from))
}

/// A number, or null.
pub(super) fn number(value: Option<f64>) -> Value<'static> {
    value.map_or(Value::Null, Value::number_of)
}

fn text(text: Option<String>) -> Value<'static> {
    text.map_or(Value::Null, Value::owned)
}

/// Several values.
pub(super) fn many(values: Vec<String>) -> Value<'static> {
    Value::multi(values.into_iter().map(std::borrow::Cow::Owned).collect())
}
