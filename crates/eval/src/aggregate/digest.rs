//! A sketch of a distribution for percentiles: exact while there are few distinct values, a t-digest beyond.
//!
//! The exact phase keeps each distinct value with its count. Above [`EXACT_VALUES_MAX`] values neighbours join into
//! centroids, small ones at the ends, so that extreme percentiles stay sharp. Source: Dunning and Ertl, "Computing
//! extremely accurate quantiles using t-digests" (2019), scale function k1.

use quarry_spl::ast::PercentileMethod;

/// Distinct values kept exactly (limits.conf `[stats] perc_digest_type` exactness bound).
const EXACT_VALUES_MAX: usize = 10_000;
/// Values collected before they are sorted in.
const BUFFER_MAX: usize = 4_096;
/// Size of the sketch: about this many centroids.
const COMPRESSION: f64 = 400.0;

/// The sketch.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// Sorted values or centroids with their weights.
    points: Vec<(f64, f64)>,
    /// Values not sorted in yet.
    buffer: Vec<f64>,
    /// Whether points have been joined.
    rounded: bool,
    /// Whether points must never be joined.
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
            self.settle();
        }
    }

    /// Adds another sketch in state form.
    pub fn merge_state(&mut self, state: &[f64]) {
        self.settle();
        let Some((rounded, points)) = state.split_first() else { return };
        assert!(points.len().is_multiple_of(2), "values and weights in turn, as they were written");
        self.rounded |= *rounded != 0.0;
        self.points.extend(points.chunks_exact(2).map(|point| (point[0], point[1])));
        self.join();
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of::<Digest>()
            + self.points.capacity() * size_of::<(f64, f64)>()
            + self.buffer.capacity() * size_of::<f64>()
    }

    /// As state: whether it rounds, then values and weights in turn.
    pub fn into_state(mut self) -> Vec<f64> {
        self.settle();
        assert!(
            self.buffer.is_empty() && !(self.exact && self.rounded),
            "a state holds all, and exact ones do not round"
        );
        let head = if self.rounded { 1.0 } else { 0.0 };
        std::iter::once(head).chain(self.points.into_iter().flat_map(|(value, weight)| [value, weight])).collect()
    }

    /// The value below which `percent` of the numbers lie; `None` without numbers. A sketch that rounds goes by line.
    pub fn percentile(&mut self, percent: f64, method: PercentileMethod) -> Option<f64> {
        self.settle();
        let total: f64 = self.points.iter().map(|(_, weight)| weight).sum();
        let (first, last) = (self.points.first()?.0, self.points.last()?.0);
        // Divided last: 29 of a hundred are 29 of 100, but 0.29 times 100 is less.
        let of = |numbers: f64| percent.clamp(0.0, 100.0) * numbers / 100.0;
        match method {
            _ if self.rounded => Some(self.interpolated(of(total), first, last)),
            PercentileMethod::NearestRank => self.exact_at(of(total).floor().min(total - 1.0)),
            PercentileMethod::Interpolated => self.exact_at(of(total - 1.0)),
        }
    }

    /// As [`Digest::percentile`]; of a sketch that rounds not the value on the line, but the point above it.
    pub fn upper_percentile(&mut self, percent: f64, method: PercentileMethod) -> Option<f64> {
        let value = self.percentile(percent, method)?;
        let above = self.points.iter().map(|(point, _)| *point).find(|point| *point >= value);
        Some(if self.rounded { above.unwrap_or(value) } else { value })
    }

    /// Value at a rank from 0, where each value stands for `weight` equal ones.
    fn exact_at(&self, rank: f64) -> Option<f64> {
        let (low, part) = (rank.floor(), rank.fract());
        let value_at = |rank: f64| {
            let mut seen = 0.0;
            let at = |(_, weight): &&(f64, f64)| {
                seen += weight;
                rank < seen
            };
            let found = self.points.iter().find(at).or(self.points.last());
            found.map(|(value, _)| *value)
        };
        let below = value_at(low)?;
        if part == 0.0 { Some(below) } else { value_at(low + 1.0).map(|above| below + (above - below) * part) }
    }

    /// Value at a cumulated weight, where a centroid's weight lies half before and half after it.
    fn interpolated(&self, target: f64, first: f64, last: f64) -> f64 {
        let mut before = 0.0;
        let mut previous = (0.0, first);
        for (value, weight) in &self.points {
            let middle = before + weight / 2.0;
            if target < middle {
                let width = middle - previous.0;
                let part = if width > 0.0 { (target - previous.0) / width } else { 0.0 };
                return previous.1 + (value - previous.1) * part;
            }
            previous = (middle, *value);
            before += weight;
        }
        last
    }

    fn settle(&mut self) {
        if !self.buffer.is_empty() {
            self.points.extend(self.buffer.drain(..).map(|value| (value, 1.0)));
            self.join();
        }
    }

    /// Sorts points, joins equal ones, and neighbours when there are too many.
    fn join(&mut self) {
        self.points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        self.points.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        if !self.exact
            && (self.rounded || self.points.len() > EXACT_VALUES_MAX)
            && self.points.len() as f64 > COMPRESSION
        {
            self.compress();
        }
    }

    fn compress(&mut self) {
        assert!(!self.exact, "points of exact sketches are never joined");
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

/// The quantile where a centroid that starts at `quantile` must end.
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

    #[test]
    fn few_values_are_exact() {
        let mut digest = Digest::new(false);
        (1..=10).for_each(|value| digest.add(f64::from(value)));
        assert_eq!(digest.percentile(50.0, Interpolated), Some(5.5));
        assert!((digest.percentile(95.0, Interpolated).unwrap() - 9.55).abs() < 1e-9);
        for method in [NearestRank, Interpolated] {
            assert_eq!(digest.percentile(0.0, method), Some(1.0));
            assert_eq!(digest.percentile(100.0, method), Some(10.0));
            assert_eq!(Digest::new(false).percentile(50.0, method), None);
        }
        let ranks = [(10.0, 2.0), (25.0, 3.0), (50.0, 6.0), (89.9, 9.0), (95.0, 10.0)];
        ranks.iter().for_each(|(percent, value)| assert_eq!(digest.percentile(*percent, NearestRank), Some(*value)));
        let mut hundred = Digest::new(false);
        (1..=100).for_each(|value| hundred.add(f64::from(value)));
        (0..100).for_each(|percent| {
            assert_eq!(hundred.percentile(f64::from(percent), NearestRank), Some(f64::from(percent + 1)));
        });
    }

    #[test]
    fn an_upper_percentile_is_no_less_than_the_exact_one() {
        let mut digest = Digest::new(false);
        (1..=5_000).for_each(|value| digest.add(f64::from(value) * f64::from(value)));
        for percent in [1, 10, 50, 75, 95, 99] {
            let exact = f64::from(percent * 50 + 1).powi(2);
            let upper = digest.upper_percentile(f64::from(percent), NearestRank).unwrap();
            assert!(exact <= upper && upper < exact * 1.2 + 1_000.0, "{percent}: {upper}, exactly {exact}");
        }
        let mut few = Digest::new(false);
        (1..=10).for_each(|value| few.add(f64::from(value)));
        assert_eq!(few.upper_percentile(50.0, NearestRank), Some(6.0));
    }

    #[test]
    fn many_values_are_close_and_merge() {
        let (mut left, mut right) = (Digest::new(false), Digest::new(false));
        for value in 0..200_000 {
            let digest = if value % 3 == 0 { &mut left } else { &mut right };
            digest.add(f64::from(value));
        }
        left.merge_state(&right.into_state());
        for percent in [1.0, 25.0, 50.0, 90.0, 99.0, 99.9] {
            let expected = 200_000.0 * percent / 100.0;
            let found = left.percentile(percent, NearestRank).unwrap();
            assert!((found - expected).abs() < 200_000.0 * 0.003, "{percent}: {found} is far from {expected}");
        }
    }
}
