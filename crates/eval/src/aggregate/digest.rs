//! Percentile sketch: exact for few distinct values, a t-digest beyond that.
//!
//! The exact phase stores each distinct value with its count, including values with more digits than a double. Beyond
//! [`EXACT_VALUES_MAX`] values, neighbours are merged into centroids, which are small at the ends, so that extreme
//! percentiles stay accurate. Source: Dunning and Ertl, "Computing extremely accurate quantiles using t-digests"
//! (2019), scale function k1.

use std::cmp::Ordering;

use quarry_event::value::Number;
use quarry_spl::ast::PercentileMethod;

use super::numbers::NumberParts;

/// Maximum number of distinct values kept exactly; with more, neighbours are merged.
const EXACT_VALUES_MAX: usize = 10_000;
/// Number of values that are buffered before they are merged.
const BUFFER_MAX: usize = 4_096;
/// Size of the sketch: approximate number of centroids.
const COMPRESSION: f64 = 400.0;

/// Numbers per value in a serialized state: the value as a double, the excess of the exact value over the double, and
/// the weight.
const STATE_POINT: usize = 3;

/// A number that no double represents: the nearest double, and the difference in billionths.
type LongNumber = (f64, i64);

/// The sketch.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// Sorted values or centroids with their weights.
    points: Vec<(f64, f64)>,
    /// Like `points`, for values with more digits than a double; those after `longs_sorted` are unsorted. Empty after
    /// points were merged.
    longs: Vec<(LongNumber, f64)>,
    /// Length of the sorted part of `longs`.
    longs_sorted: usize,
    /// Values not yet merged into `points`.
    buffer: Vec<f64>,
    /// Whether points were merged.
    rounded: bool,
    /// Whether points must never be merged.
    exact: bool,
}

impl Digest {
    /// An empty sketch; `exact` keeps every value.
    pub fn new(exact: bool) -> Digest {
        Digest { exact, ..Digest::default() }
    }

    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.buffer.push(value);
        if self.buffer.len() >= BUFFER_MAX {
            self.flush_buffer();
        }
    }

    /// Adds a number with all its digits.
    pub fn add_number(&mut self, number: Number) {
        self.add_number_parts(NumberParts::without_scale(number));
    }

    /// Like [`Digest::add_number`], for a number in parts.
    pub(super) fn add_number_parts(&mut self, figure: NumberParts) {
        if figure.rest == 0 {
            return self.add(figure.value);
        }
        self.longs.push(((figure.value, figure.rest), 1.0));
        if self.longs.len() - self.longs_sorted >= BUFFER_MAX {
            self.flush_buffer();
        }
    }

    /// Adds another sketch, given as its serialized state.
    pub fn merge_state(&mut self, state: &[f64]) {
        self.flush_buffer();
        let Some((rounded, points)) = state.split_first() else { return };
        assert!(points.len().is_multiple_of(STATE_POINT), "a state has STATE_POINT numbers for each point");
        self.rounded |= *rounded != 0.0;
        for point in points.chunks_exact(STATE_POINT) {
            match (point[0], point[1], point[2]) {
                (value, 0.0, weight) => self.points.push((value, weight)),
                (value, rest, weight) => self.longs.push(((value, rest as i64), weight)),
            }
        }
        self.merge_points();
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of::<Digest>()
            + self.points.capacity() * size_of::<(f64, f64)>()
            + self.longs.capacity() * size_of::<(LongNumber, f64)>()
            + self.buffer.capacity() * size_of::<f64>()
    }

    /// The serialized state: whether the sketch is rounded, then `STATE_POINT` numbers per value.
    pub fn into_state(mut self) -> Vec<f64> {
        self.flush_buffer();
        assert!(
            self.buffer.is_empty() && !(self.exact && self.rounded),
            "a complete state of exact values is not rounded"
        );
        assert!(!self.rounded || self.longs.is_empty(), "centroids are doubles");
        let head = if self.rounded { 1.0 } else { 0.0 };
        let points = self.points.iter().flat_map(|(value, weight)| [*value, 0.0, *weight]);
        let longs = self.longs.iter().flat_map(|((value, rest), weight)| [*value, *rest as f64, *weight]);
        std::iter::once(head).chain(points).chain(longs).collect()
    }

    /// The value below which `percent` of the numbers lie; `None` without numbers. A rounded sketch interpolates
    /// linearly.
    pub fn percentile(&mut self, percent: f64, method: PercentileMethod) -> Option<Number> {
        self.flush_buffer();
        let weights = self.points.iter().map(|(_, weight)| weight).chain(self.longs.iter().map(|(_, weight)| weight));
        let total: f64 = weights.sum();
        // The division comes last: 29 % of 100 is exactly 29, but 0.29 times 100 is less.
        let of = |numbers: f64| percent.clamp(0.0, 100.0) * numbers / 100.0;
        match method {
            _ if self.rounded => self.interpolate(of(total)).map(Number::of_float),
            PercentileMethod::NearestRank => self.exact_at(of(total).floor().min(total - 1.0)),
            PercentileMethod::Interpolated => self.exact_at(of(total - 1.0)),
        }
    }

    /// Like [`Digest::percentile`], but a rounded sketch returns the next point above instead of interpolating.
    pub fn upper_percentile(&mut self, percent: f64, method: PercentileMethod) -> Option<Number> {
        let value = self.percentile(percent, method)?;
        if !self.rounded {
            return Some(value);
        }
        let above = self.points.iter().map(|(point, _)| *point).find(|point| *point >= value.as_f64());
        Some(above.map_or(value, Number::of_float))
    }

    /// Value at a rank, counted from 0; each value is repeated as often as its weight.
    fn exact_at(&self, rank: f64) -> Option<Number> {
        let (low, part) = (rank.floor(), rank.fract());
        if self.longs.is_empty() {
            let below = value_at(&self.points, low)?;
            let between = |above: f64| below + (above - below) * part;
            let value = if part == 0.0 { Some(below) } else { value_at(&self.points, low + 1.0).map(between) };
            return value.map(Number::of_float);
        }
        let mut all = std::borrow::Cow::Borrowed(&self.longs);
        if !self.points.is_empty() {
            let all = all.to_mut();
            all.extend(self.points.iter().map(|(value, weight)| ((*value, 0), *weight)));
            all.sort_unstable_by(|a, b| compare(a.0, b.0));
        }
        let number = |(value, rest): LongNumber| NumberParts { value, rest, scale: 0 }.number();
        let below = number(value_at(&all, low)?);
        if part == 0.0 {
            return Some(below);
        }
        let above = number(value_at(&all, low + 1.0)?);
        Some(below.plus(above.minus(below).times(Number::Float(part))))
    }

    /// Value at a cumulative weight; half of a centroid's weight lies before it and half after it.
    fn interpolate(&self, target: f64) -> Option<f64> {
        let (first, last) = (self.points.first()?.0, self.points.last()?.0);
        let mut before = 0.0;
        let mut previous = (0.0, first);
        for (value, weight) in &self.points {
            let middle = before + weight / 2.0;
            if target < middle {
                let width = middle - previous.0;
                let part = if width > 0.0 { (target - previous.0) / width } else { 0.0 };
                return Some(previous.1 + (value - previous.1) * part);
            }
            previous = (middle, *value);
            before += weight;
        }
        Some(last)
    }

    fn flush_buffer(&mut self) {
        if !self.buffer.is_empty() || self.longs.len() > self.longs_sorted {
            self.points.extend(self.buffer.drain(..).map(|value| (value, 1.0)));
            self.merge_points();
        }
    }

    /// Sorts points, merges equal points, and merges neighbours if there are too many points.
    fn merge_points(&mut self) {
        self.points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        self.points.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.longs.sort_unstable_by(|a, b| compare(a.0, b.0));
        self.longs.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.longs_sorted = self.longs.len();
        let is_full = self.rounded || self.points.len() + self.longs.len() > EXACT_VALUES_MAX;
        if self.exact || !is_full {
            return;
        }
        if !self.longs.is_empty() {
            self.points.extend(self.longs.drain(..).map(|((value, _), weight)| (value, weight)));
            self.points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            self.longs_sorted = 0;
        }
        if self.points.len() as f64 > COMPRESSION {
            self.compress();
        }
    }

    fn compress(&mut self) {
        assert!(!self.exact, "points of exact sketches are never merged");
        let total: f64 = self.points.iter().map(|(_, weight)| weight).sum();
        let mut kept: Vec<(f64, f64)> = Vec::with_capacity(COMPRESSION as usize);
        let mut before = 0.0;
        let mut limit = total * next_bound(0.0);
        for (value, weight) in self.points.drain(..) {
            match kept.last_mut() {
                Some(last) if before + last.1 + weight <= limit => {
                    last.0 += (value - last.0) * weight / (last.1 + weight);
                    last.1 += weight;
                }
                last => {
                    before += last.map_or(0.0, |last| last.1);
                    limit = total * next_bound(before / total);
                    kept.push((value, weight));
                }
            }
        }
        self.points = kept;
        self.rounded = true;
    }
}

/// The value at a rank from 0.
fn value_at<T: Copy>(points: &[(T, f64)], rank: f64) -> Option<T> {
    let mut seen = 0.0;
    let at = |(_, weight): &&(T, f64)| {
        seen += weight;
        rank < seen
    };
    points.iter().find(at).or(points.last()).map(|(value, _)| *value)
}

fn compare(a: LongNumber, b: LongNumber) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// The quantile at which a centroid that starts at `quantile` must end.
fn next_bound(quantile: f64) -> f64 {
    let scale = COMPRESSION / std::f64::consts::TAU;
    let position = scale * (2.0 * quantile.clamp(0.0, 1.0) - 1.0).asin() + 1.0;
    let bound = (position / scale).clamp(-std::f64::consts::FRAC_PI_2, std::f64::consts::FRAC_PI_2);
    (bound.sin() + 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use PercentileMethod::{Interpolated, NearestRank};

    fn percentile(digest: &mut Digest, percent: f64, method: PercentileMethod) -> Option<f64> {
        digest.percentile(percent, method).map(Number::as_f64)
    }

    #[test]
    fn few_values_are_exact() {
        let mut digest = Digest::new(false);
        (1..=10).for_each(|value| digest.add(f64::from(value)));
        assert_eq!(percentile(&mut digest, 50.0, Interpolated), Some(5.5));
        assert!((percentile(&mut digest, 95.0, Interpolated).unwrap() - 9.55).abs() < 1e-9);
        for method in [NearestRank, Interpolated] {
            assert_eq!(percentile(&mut digest, 0.0, method), Some(1.0));
            assert_eq!(percentile(&mut digest, 100.0, method), Some(10.0));
            assert_eq!(percentile(&mut Digest::new(false), 50.0, method), None);
        }
        let ranks = [(10.0, 2.0), (25.0, 3.0), (50.0, 6.0), (89.9, 9.0), (95.0, 10.0)];
        ranks
            .iter()
            .for_each(|(percent, value)| assert_eq!(percentile(&mut digest, *percent, NearestRank), Some(*value)));
        let mut hundred = Digest::new(false);
        (1..=100).for_each(|value| hundred.add(f64::from(value)));
        (0..100).for_each(|percent| {
            assert_eq!(percentile(&mut hundred, f64::from(percent), NearestRank), Some(f64::from(percent + 1)));
        });
    }

    #[test]
    fn upper_percentiles_are_not_below_exact_ones() {
        let mut digest = Digest::new(false);
        (1..=5_000).for_each(|value| digest.add(f64::from(value) * f64::from(value)));
        for percent in [1, 10, 50, 75, 95, 99] {
            let exact = f64::from(percent * 50 + 1).powi(2);
            let upper = digest.upper_percentile(f64::from(percent), NearestRank).unwrap().as_f64();
            assert!(exact <= upper && upper < exact * 1.2 + 1_000.0, "{percent}: {upper}, exactly {exact}");
        }
        let mut few = Digest::new(false);
        (1..=10).for_each(|value| few.add(f64::from(value)));
        assert_eq!(few.upper_percentile(50.0, NearestRank), Some(Number::Int(6)));
    }

    #[test]
    fn large_digests_are_accurate_and_mergeable() {
        let (mut left, mut right) = (Digest::new(false), Digest::new(false));
        for value in 0..200_000 {
            let digest = if value % 3 == 0 { &mut left } else { &mut right };
            digest.add(f64::from(value));
        }
        left.merge_state(&right.into_state());
        for percent in [1.0, 25.0, 50.0, 90.0, 99.0, 99.9] {
            let expected = 200_000.0 * percent / 100.0;
            let found = percentile(&mut left, percent, NearestRank).unwrap();
            assert!((found - expected).abs() < 200_000.0 * 0.003, "{percent}: {found} is far from {expected}");
        }
    }

    #[test]
    fn long_numbers_keep_their_digits_until_points_are_merged() {
        let second = 1_700_000_000;
        let figure = |at: i64| NumberParts::of(Number::Nanos((second + at) * 1_000_000_000 + 123_456_789));
        for exact in [false, true] {
            let (mut left, mut right) = (Digest::new(exact), Digest::new(exact));
            for at in 0..9_000 {
                let digest = if at % 2 == 0 { &mut left } else { &mut right };
                digest.add_number_parts(figure(at));
                digest.add_number_parts(NumberParts::of(Number::Int(at % 100)));
            }
            left.merge_state(&right.into_state());
            let expected = Number::Nanos((second + 4_500) * 1_000_000_000 + 123_456_789);
            assert_eq!(left.percentile(75.0, NearestRank), Some(expected));
            assert_eq!(left.upper_percentile(75.0, NearestRank), Some(expected));
            assert_eq!(left.percentile(0.0, NearestRank), Some(Number::Int(0)));
            let last = Number::Nanos((second + 8_999) * 1_000_000_000 + 123_456_789);
            assert_eq!(left.percentile(100.0, Interpolated), Some(last));
            (9_000..20_000).for_each(|at| left.add_number_parts(figure(at)));
            let last = left.percentile(100.0, NearestRank).unwrap();
            let expected = figure(19_999).number();
            assert_eq!(last == expected, exact, "{last:?}");
            assert!((last.as_f64() - expected.as_f64()).abs() < 1.0, "{last:?}");
        }
        let mut two = Digest::new(false);
        [0, 1].into_iter().for_each(|at| two.add_number_parts(figure(at)));
        assert_eq!(two.percentile(50.0, Interpolated), Some(Number::Nanos(second * 1_000_000_000 + 623_456_789)));
    }
}
