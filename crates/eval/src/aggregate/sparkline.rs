//! `sparkline`: one number per time span, as a single value.
//!
//! The span starts at the requested length or, by default, at one second. It doubles whenever a group exceeds
//! [`REQUESTED_POINTS_MAX`] or, by default, [`POINTS_MAX`] points, so that no range has to be known in advance. At the
//! end, one span applies to all groups: the longest of their spans, doubled until the whole range has no more points
//! than this maximum.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::format_number;
use quarry_spl::ast::StatsFunction;
use quarry_stdx::number::{f64_of, integer_part};

use super::total::Total;

/// Maximum number of points of a sparkline without a requested span; beyond that, the span doubles.
const POINTS_MAX: usize = 128;
/// Maximum number of points with a requested span; beyond that, the span doubles.
const REQUESTED_POINTS_MAX: usize = 5_000;
/// First value of a sparkline, by which clients recognise sparklines.
const SPARKLINE_MARK: &str = "##__SPARKLINE__##";

/// Number of bits kept of a value's hash, so that a double in the serialized state represents it exactly.
const HASH_BITS: u32 = 53;

/// State of one time span.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    count: f64,
    sum: Total,
    low: f64,
    high: f64,
    /// Sum of squared deviations from the mean.
    spread: f64,
    /// Hashes of the values, for distinct counts.
    distinct: BTreeSet<u64>,
}

impl Point {
    fn of(number: f64) -> Point {
        let sum = Total { sum: number, lost: 0.0 };
        Point { count: 1.0, sum, low: number, high: number, spread: 0.0, distinct: BTreeSet::new() }
    }

    fn merge(&mut self, other: Point) {
        let distance = other.sum.value() / other.count - self.sum.value() / self.count;
        self.spread += other.spread + distance * distance * self.count * other.count / (self.count + other.count);
        self.count += other.count;
        self.sum.merge(other.sum);
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.distinct.extend(other.distinct);
    }

    fn mean(&self) -> f64 {
        self.sum.value() / self.count
    }

    fn sample_variance(&self) -> f64 {
        if self.count > 1.0 { self.spread / (self.count - 1.0) } else { 0.0 }
    }
}

/// Computes the value of a span from the state of the span.
pub(crate) type PointValue = fn(&Point) -> f64;

/// The function that computes the value of a span for `inner`; `None` if sparklines do not support it.
pub(crate) fn value_of_point(inner: &StatsFunction) -> Option<PointValue> {
    Some(match inner {
        StatsFunction::Count => |point| point.count,
        StatsFunction::Dc => |point| f64_of(point.distinct.len()),
        StatsFunction::Sum => |point| point.sum.value(),
        StatsFunction::SumSq => |point| point.spread + point.mean() * point.mean() * point.count,
        StatsFunction::Avg => Point::mean,
        StatsFunction::Min => |point| point.low,
        StatsFunction::Max => |point| point.high,
        StatsFunction::Range => |point| point.high - point.low,
        StatsFunction::Stdev => |point| point.sample_variance().sqrt(),
        StatsFunction::StdevP => |point| (point.spread / point.count).sqrt(),
        StatsFunction::Var => Point::sample_variance,
        StatsFunction::VarP => |point| point.spread / point.count,
        _ => return None,
    })
}

/// The spans of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sparkline {
    /// Span in seconds; 0 if the sparkline was read from an empty state.
    width: i64,
    given: bool,
    points: BTreeMap<i64, Point>,
}

impl Sparkline {
    /// An empty sparkline with a span of `width` seconds, or an automatic span if absent.
    pub(crate) fn new(width: Option<i64>) -> Sparkline {
        Sparkline { width: width.unwrap_or(1).max(1), given: width.is_some(), points: BTreeMap::new() }
    }

    /// Adds a number, or a row if rows are counted.
    pub(crate) fn add(&mut self, time: TimeNs, number: f64) {
        self.add_point(time, Point::of(number));
    }

    /// Adds a value for a distinct count.
    pub(crate) fn add_value(&mut self, time: TimeNs, hash: u64) {
        let distinct = BTreeSet::from([hash >> (u64::BITS - HASH_BITS)]);
        self.add_point(time, Point { distinct, ..Point::of(0.0) });
    }

    fn add_point(&mut self, time: TimeNs, point: Point) {
        let seconds = time.div_euclid(NS_PER_SEC);
        merge_point(&mut self.points, seconds - seconds.rem_euclid(self.width), point);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.points.len() > points_max(self.given) {
            self.widen(self.width * 2);
        }
    }

    /// Merges points into spans of `width` seconds.
    fn widen(&mut self, width: i64) {
        let mut points = BTreeMap::new();
        for (start, point) in std::mem::take(&mut self.points) {
            merge_point(&mut points, start - start.rem_euclid(width), point);
        }
        self.points = points;
        self.width = width;
    }

    /// Approximate bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let hashes: usize = self.points.values().map(|point| point.distinct.len()).sum();
        size_of::<Sparkline>()
            + self.points.len() * (size_of::<i64>() + size_of::<Point>())
            + hashes * 2 * size_of::<u64>()
    }

    /// The serialized state: width, whether it was requested, then for each point its start, count, sum with its
    /// error, minimum, maximum, spread, number of hashes and the hashes.
    pub(crate) fn to_state(&self) -> Vec<f64> {
        let mut state = vec![f64_of(self.width), if self.given { 1.0 } else { 0.0 }];
        for (start, point) in &self.points {
            let Point { count, sum, low, high, spread, distinct } = point;
            state.extend([f64_of(*start), *count, sum.sum, sum.lost, *low, *high, *spread, f64_of(distinct.len())]);
            state.extend(distinct.iter().map(|hash| f64_of(*hash)));
        }
        state
    }

    pub(crate) fn from_state(state: &[f64]) -> Sparkline {
        let [width, given, rest @ ..] = state else { return Sparkline::default() };
        let mut rest = rest;
        let mut points = BTreeMap::new();
        while let [start, count, sum, lost, low, high, spread, hashes, after @ ..] = rest {
            let (hashes, after) = after.split_at(integer_part::<usize>(*hashes).min(after.len()));
            let distinct = hashes.iter().map(|hash| integer_part(*hash)).collect();
            let sum = Total { sum: *sum, lost: *lost };
            let point = Point { count: *count, sum, low: *low, high: *high, spread: *spread, distinct };
            points.insert(integer_part(*start), point);
            rest = after;
        }
        Sparkline { width: integer_part(*width), given: *given != 0.0, points }
    }

    /// Merges the points of another sparkline.
    pub(crate) fn merge(&mut self, mut other: Sparkline) {
        let width = self.width.max(other.width);
        self.given |= other.given;
        for sparkline in [&mut *self, &mut other] {
            if sparkline.width != width {
                sparkline.widen(width);
            }
        }
        other.points.into_iter().for_each(|(start, point)| merge_point(&mut self.points, start, point));
        self.shrink();
    }
}

fn merge_point(points: &mut BTreeMap<i64, Point>, start: i64, new: Point) {
    match points.entry(start) {
        Entry::Occupied(mut place) => place.get_mut().merge(new),
        Entry::Vacant(place) => {
            place.insert(new);
        }
    }
}

/// Maximum number of points of a sparkline; `given`: whether a span was requested.
fn points_max(given: bool) -> usize {
    if given { REQUESTED_POINTS_MAX } else { POINTS_MAX }
}

/// The values of all groups, over the same spans.
pub(crate) fn values_of(mut groups: Vec<Sparkline>, value_of: Option<PointValue>) -> Vec<Vec<String>> {
    let starts = || groups.iter().flat_map(|group| group.points.keys().copied());
    let (Some(first), Some(last)) = (starts().min(), starts().max()) else {
        return groups.iter().map(|_| vec![SPARKLINE_MARK.to_owned()]).collect();
    };
    let mut width = groups.iter().map(|group| group.width).max().unwrap_or(1).max(1);
    let span_of = |start: i64, width: i64| start.div_euclid(width);
    // Even a few points may span a longer range than a sparkline may have.
    let most = points_max(groups.iter().any(|group| group.given)) as i64;
    while span_of(last, width) - span_of(first, width) >= most {
        width *= 2;
    }
    groups.iter_mut().filter(|group| group.width != width).for_each(|group| group.widen(width));
    let value = |group: &Sparkline, start: i64| {
        let number = group.points.get(&start).zip(value_of).map_or(0.0, |(point, value_of)| value_of(point));
        format_number(number)
    };
    let line = |group: &Sparkline| {
        let points = (span_of(first, width)..=span_of(last, width)).map(|span| value(group, span * width));
        std::iter::once(SPARKLINE_MARK.to_owned()).chain(points).collect()
    };
    groups.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_double_until_few_enough_and_are_shared_by_all_groups() {
        let mut long = Sparkline::new(None);
        (0..1_000).for_each(|second| long.add(second * NS_PER_SEC, 1.0));
        let mut short = Sparkline::new(None);
        short.add(500 * NS_PER_SEC, 7.0);
        let lines = values_of(vec![long.clone(), short], value_of_point(&StatsFunction::Count));
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[0].len() <= POINTS_MAX + 1, "{}", lines[0].len());
        let total: f64 = lines[0][1..].iter().map(|text| text.parse::<f64>().unwrap()).sum();
        assert_eq!(total, 1_000.0);
        assert_eq!(Sparkline::from_state(&long.to_state()), long);
    }

    #[test]
    fn points_far_apart_are_all_shown() {
        for (span, most) in [(None, POINTS_MAX), (Some(60), REQUESTED_POINTS_MAX)] {
            let (mut line, mut other) = (Sparkline::new(span), Sparkline::new(span));
            [0, 31_536_000].into_iter().for_each(|second| line.add(second * NS_PER_SEC, 1.0));
            other.add(-1_000_000 * NS_PER_SEC, 1.0);
            for (line, expected) in
                values_of(vec![line, other], value_of_point(&StatsFunction::Count)).iter().zip([2.0, 1.0])
            {
                assert!(line.len() <= most + 1, "{}", line.len());
                assert_eq!(line[1..].iter().map(|text| text.parse::<f64>().unwrap()).sum::<f64>(), expected);
            }
        }
    }

    #[test]
    fn requested_spans_are_kept_and_gaps_are_zero() {
        let mut line = Sparkline::new(Some(60));
        line.add(0, 2.0);
        let mut later = Sparkline::new(Some(60));
        later.add(130 * NS_PER_SEC, 4.0);
        later.add(140 * NS_PER_SEC, 6.0);
        line.merge(later);
        assert_eq!(
            values_of(vec![line.clone()], value_of_point(&StatsFunction::Avg)),
            [[SPARKLINE_MARK, "2", "0", "5"]]
        );
        assert_eq!(values_of(vec![line], value_of_point(&StatsFunction::Max)), [[SPARKLINE_MARK, "2", "0", "6"]]);
    }
}
