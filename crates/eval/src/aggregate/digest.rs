//! Percentile sketch: exact for few distinct values, bins of values beyond that.
//!
//! The exact phase stores each distinct value with its count, including values with more digits than a double. Beyond
//! [`POINTS_MAX`] values, doubles that differ only in their last bits share a bin. As many bits are ignored as it takes
//! to have at most `POINTS_MAX` bins. This number depends only on the values, so that the sketch does not depend on the
//! order in which values were added or sketches were merged.

use std::cmp::Ordering;

use quarry_event::value::Number;
use quarry_spl::ast::PercentileMethod;
use quarry_stdx::number::{f64_of, integer_part};

use super::numbers::NumberParts;

/// Maximum number of distinct values kept exactly, and of bins.
const POINTS_MAX: usize = 10_000;
/// Number of values that are buffered before they are merged.
const BUFFER_MAX: usize = 4_096;

/// Numbers per value or bin in a serialized state. Of a value: the double, the excess of the exact value over the
/// double, and the weight. Of a bin: its smallest value, its largest value, and the weight.
const STATE_POINT: usize = 3;

/// A number that no double represents: the nearest double, and the difference in billionths.
pub(super) type LongNumber = (f64, i64);

/// Values of which all bits except the ignored ones are equal.
#[derive(Clone, Copy, Debug)]
struct Bin {
    low: f64,
    high: f64,
    weight: f64,
}

/// The sketch.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// Sorted values with their weights; empty if there are bins.
    points: Vec<(f64, f64)>,
    /// Like `points`, for values with more digits than a double; the last numbers are unsorted.
    longs: Vec<(LongNumber, f64)>,
    /// Length of the sorted part of `longs`.
    longs_sorted: usize,
    /// Values not yet merged into `points` or `bins`.
    buffer: Vec<f64>,
    /// Sorted bins.
    bins: Vec<Bin>,
    /// Number of last bits that bins ignore; 0 while values are exact.
    ignored_bits: u32,
    /// Whether there must never be bins.
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

    /// Adds another sketch. Values of small sketches stay in the buffer: with many groups, most have few values.
    pub(super) fn merge(&mut self, other: Digest) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if self.is_rounded() || other.is_rounded() {
            return self.merge_state(&other.into_state());
        }
        let has_points = !other.points.is_empty() || !other.longs.is_empty();
        self.buffer.extend(other.buffer);
        if has_points || self.buffer.len() >= BUFFER_MAX {
            let buffered = self.buffer.drain(..).map(|value| (value, 1.0));
            self.points.extend(other.points.into_iter().chain(buffered));
            self.longs.extend(other.longs);
            self.merge_points();
        }
    }

    fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.points.is_empty() && self.longs.is_empty() && self.bins.is_empty()
    }

    /// Adds another sketch, given as its serialized state.
    pub fn merge_state(&mut self, state: &[f64]) {
        self.flush_buffer();
        let Some((ignored_bits, points)) = state.split_first() else { return };
        assert!(points.len().is_multiple_of(STATE_POINT), "a state has STATE_POINT numbers for each point");
        if *ignored_bits != 0.0 {
            self.start_bins();
            self.ignored_bits = self.ignored_bits.max(integer_part(*ignored_bits));
            let bins = points.chunks_exact(STATE_POINT);
            self.bins.extend(bins.map(|bin| Bin { low: bin[0], high: bin[1], weight: bin[2] }));
            return self.merge_bins();
        }
        for point in points.chunks_exact(STATE_POINT) {
            match (point[0], point[1], point[2]) {
                (value, 0.0, weight) => self.points.push((value, weight)),
                (value, rest, weight) => self.longs.push(((value, integer_part(rest)), weight)),
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
            + self.bins.capacity() * size_of::<Bin>()
    }

    /// The serialized state: the number of ignored bits, then `STATE_POINT` numbers per value or bin.
    pub fn into_state(mut self) -> Vec<f64> {
        self.flush_buffer();
        assert!(
            self.buffer.is_empty() && !(self.exact && self.is_rounded()),
            "a complete state of exact values has no bins"
        );
        let points = self.points.iter().flat_map(|(value, weight)| [*value, 0.0, *weight]);
        let longs = self.longs.iter().flat_map(|((value, rest), weight)| [*value, f64_of(*rest), *weight]);
        let bins = self.bins.iter().flat_map(|bin| [bin.low, bin.high, bin.weight]);
        std::iter::once(f64::from(self.ignored_bits)).chain(points).chain(longs).chain(bins).collect()
    }

    /// The value below which `percent` of the numbers lie; `None` without numbers. In a bin, values are interpolated
    /// linearly.
    pub fn percentile(&mut self, percent: f64, method: PercentileMethod) -> Option<Number> {
        self.flush_buffer();
        let points = self.points.iter().map(|(_, weight)| weight);
        let longs = self.longs.iter().map(|(_, weight)| weight);
        let total: f64 = points.chain(longs).chain(self.bins.iter().map(|bin| &bin.weight)).sum();
        let rank = rank_of(total, percent, method);
        if self.is_rounded() { self.interpolate(rank).map(Number::of_float) } else { self.exact_at(rank) }
    }

    /// Like [`Digest::percentile`], but returns the largest value of a bin instead of interpolating.
    pub fn upper_percentile(&mut self, percent: f64, method: PercentileMethod) -> Option<Number> {
        let value = self.percentile(percent, method)?;
        let above = self.bins.iter().map(|bin| bin.high).find(|high| *high >= value.as_f64());
        Some(above.map_or(value, Number::of_float))
    }

    /// Whether values were merged into bins.
    fn is_rounded(&self) -> bool {
        self.ignored_bits > 0
    }

    /// Value at a rank, counted from 0; each value is repeated as often as its weight.
    fn exact_at(&self, rank: f64) -> Option<Number> {
        if self.longs.is_empty() {
            return value_between(rank, false, |rank| value_at(&self.points, rank).map(|value| (value, 0)));
        }
        let mut all = std::borrow::Cow::Borrowed(&self.longs);
        if !self.points.is_empty() {
            let all = all.to_mut();
            all.extend(self.points.iter().map(|(value, weight)| ((*value, 0), *weight)));
            all.sort_unstable_by(|a, b| compare(a.0, b.0));
        }
        value_between(rank, true, |rank| value_at(&all, rank))
    }

    /// Value at a rank, counted from 0, of the values in bins.
    fn interpolate(&self, rank: f64) -> Option<f64> {
        let between = |low: f64, high: f64, part: f64| low + (high - low) * part;
        let mut first = 0.0;
        let mut previous: Option<&Bin> = None;
        for bin in &self.bins {
            if rank < first {
                let below = previous.map_or(bin.low, |bin| bin.high);
                return Some(between(below, bin.low, rank + 1.0 - first));
            }
            let last = first + bin.weight - 1.0;
            if rank <= last {
                let part = if last > first { (rank - first) / (last - first) } else { 0.0 };
                return Some(between(bin.low, bin.high, part));
            }
            first = last + 1.0;
            previous = Some(bin);
        }
        previous.map(|bin| bin.high)
    }

    fn flush_buffer(&mut self) {
        if self.is_rounded() {
            self.longs.drain(..).for_each(|((value, _), _)| self.buffer.push(value));
            self.longs_sorted = 0;
            if !self.buffer.is_empty() {
                self.add_buffer_to_bins();
            }
        } else if !self.buffer.is_empty() || self.longs.len() > self.longs_sorted {
            self.points.extend(self.buffer.drain(..).map(|value| (value, 1.0)));
            self.merge_points();
        }
    }

    /// Sorts points, merges equal points, and replaces them with bins if there are too many points.
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
        let is_full = self.is_rounded() || self.points.len() + self.longs.len() > POINTS_MAX;
        if is_full && !self.exact {
            self.start_bins();
            self.merge_bins();
        }
    }

    /// Turns the points into bins, which are unsorted.
    fn start_bins(&mut self) {
        assert!(!self.exact, "exact sketches have no bins");
        self.ignored_bits = self.ignored_bits.max(1);
        let longs = std::mem::take(&mut self.longs).into_iter().map(|((value, _), weight)| (value, weight));
        let points = std::mem::take(&mut self.points).into_iter().chain(longs);
        self.bins.extend(points.map(|(value, weight)| Bin { low: value, high: value, weight }));
        self.longs_sorted = 0;
    }

    /// Adds the buffered values to the bins. Most of them belong to bins that exist.
    fn add_buffer_to_bins(&mut self) {
        self.buffer.sort_unstable_by(f64::total_cmp);
        let (mut at, bins) = (0, self.bins.len());
        for value in self.buffer.drain(..) {
            let key = sort_key(value) >> self.ignored_bits;
            while at < bins && sort_key(self.bins[at].low) >> self.ignored_bits < key {
                at += 1;
            }
            match self.bins.get_mut(at).filter(|bin| at < bins && sort_key(bin.low) >> self.ignored_bits == key) {
                Some(bin) => {
                    bin.low = bin.low.min(value);
                    bin.high = bin.high.max(value);
                    bin.weight += 1.0;
                }
                None => self.bins.push(Bin { low: value, high: value, weight: 1.0 }),
            }
        }
        if self.bins.len() > bins {
            self.merge_bins();
        }
    }

    /// Sorts bins and merges those of which the remaining bits are equal. Ignores more bits if there are too many bins.
    fn merge_bins(&mut self) {
        // The bins are one or two sorted runs, which a stable sort merges.
        self.bins.sort_by_key(|bin| sort_key(bin.low));
        self.merge_equal_bins();
        // Neighbours share a bin if the highest bit in which they differ is ignored.
        let mut differing = [0_usize; u64::BITS as usize + 1];
        for pair in self.bins.windows(2) {
            let bits = sort_key(pair[0].low) ^ sort_key(pair[1].low);
            differing[(u64::BITS - bits.leading_zeros()) as usize] += 1;
        }
        let mut left = self.bins.len();
        let needed = (0..u64::BITS).find(|bits| {
            left -= differing[*bits as usize];
            left <= POINTS_MAX
        });
        if let Some(bits) = needed.filter(|bits| *bits > self.ignored_bits) {
            self.ignored_bits = bits;
            self.merge_equal_bins();
        }
    }

    fn merge_equal_bins(&mut self) {
        let ignored = self.ignored_bits;
        self.bins.dedup_by(|next, kept| {
            let same = sort_key(next.low) >> ignored == sort_key(kept.low) >> ignored;
            if same {
                kept.high = kept.high.max(next.high);
                kept.weight += next.weight;
            }
            same
        });
    }
}

/// A number that sorts as the double does; 0 and -0 have the same number.
fn sort_key(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if value < 0.0 { !bits } else { bits | 1 << (u64::BITS - 1) }
}

/// The rank of a percentile among `total` numbers, counted from 0.
pub(super) fn rank_of(total: f64, percent: f64, method: PercentileMethod) -> f64 {
    // The division comes last: 29 % of 100 is exactly 29, but 0.29 times 100 is less.
    let of = |numbers: f64| percent.clamp(0.0, 100.0) * numbers / 100.0;
    match method {
        PercentileMethod::NearestRank => of(total).floor().min(total - 1.0),
        PercentileMethod::Interpolated => of(total - 1.0),
    }
}

/// The value at a rank, interpolated between the numbers at the ranks around it; `has_longs` tells whether the numbers
/// may have more digits than a double.
pub(super) fn value_between(
    rank: f64,
    has_longs: bool,
    number_at: impl Fn(f64) -> Option<LongNumber>,
) -> Option<Number> {
    let (low, part) = (rank.floor(), rank.fract());
    let number = |(value, rest): LongNumber| NumberParts { value, rest, scale: 0 }.number();
    let below = number_at(low)?;
    if part == 0.0 {
        return Some(if has_longs { number(below) } else { Number::of_float(below.0) });
    }
    let above = number_at(low + 1.0)?;
    if has_longs {
        let (below, above) = (number(below), number(above));
        return Some(below.plus(above.minus(below).times(Number::Float(part))));
    }
    Some(Number::of_float(below.0 + (above.0 - below.0) * part))
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
        (1..=50_000).for_each(|value| digest.add(f64::from(value).powi(2)));
        for percent in [1, 10, 50, 75, 95, 99] {
            let exact = f64::from(percent * 500 + 1).powi(2);
            let upper = digest.upper_percentile(f64::from(percent), NearestRank).unwrap().as_f64();
            assert!(exact <= upper && upper < exact * 1.004, "{percent}: {upper}, exactly {exact}");
        }
        assert!(digest.is_rounded());
        let mut few = Digest::new(false);
        (1..=10).for_each(|value| few.add(f64::from(value)));
        assert_eq!(few.upper_percentile(50.0, NearestRank), Some(Number::Int(6)));
    }

    #[test]
    fn merged_sketches_equal_a_sketch_of_all_values() {
        // Empty, few values, values of which some were merged before, values with many digits, and bins.
        let parts: [Vec<Number>; 5] = [
            Vec::new(),
            vec![Number::Int(3), Number::Int(1)],
            (0..5_000).map(|value| Number::Int(value % 700)).collect(),
            vec![Number::Nanos(1_700_000_000_123_456_789), Number::Nanos(1_700_000_000_123_456_788)],
            (0..30_000).map(Number::Int).collect(),
        ];
        let of = |numbers: &[Number]| {
            let mut digest = Digest::new(false);
            numbers.iter().for_each(|number| digest.add_number(*number));
            digest
        };
        for one in &parts {
            for other in &parts {
                let mut merged = of(one);
                merged.merge(of(other));
                let all = [one.as_slice(), other.as_slice()].concat();
                assert_eq!(merged.into_state(), of(&all).into_state(), "{} and {}", one.len(), other.len());
            }
        }
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
    fn estimates_depend_on_the_values_only() {
        const COUNT: u32 = 50_000;
        let value = |rank: u32| f64::from(rank).sqrt() - 100.0;
        let state = |order: &dyn Fn(u32) -> u32, parts: u32| {
            let mut digests = vec![Digest::new(false); parts as usize];
            (0..COUNT).for_each(|at| digests[(at % parts) as usize].add(value(order(at))));
            let mut merged = Digest::new(false);
            digests.into_iter().for_each(|digest| merged.merge_state(&digest.into_state()));
            merged.into_state()
        };
        let ascending = state(&|at| at, 1);
        assert_eq!(ascending, state(&|at| COUNT - 1 - at, 1));
        // Parts of 7,143 values are exact, parts of 16,667 values are not.
        assert_eq!(ascending, state(&|at| at * 7_919 % COUNT, 7));
        assert_eq!(ascending, state(&|at| at * 7_919 % COUNT, 3));
        let mut digest = Digest::new(false);
        digest.merge_state(&ascending);
        for percent in [0, 1, 25, 50, 90, 99, 100] {
            let exact = value((COUNT / 100 * percent).min(COUNT - 1));
            for method in [NearestRank, Interpolated] {
                let found = percentile(&mut digest, f64::from(percent), method).unwrap();
                assert!((found - exact).abs() <= exact.abs() * 0.004, "{percent}: {found}, exactly {exact}");
            }
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
