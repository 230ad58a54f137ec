//! Densities of one field, as stored and evaluated: the probability of a value, and the values that count as outliers.
//!
//! Outliers are the values with the lowest density, up to a total probability equal to the threshold: both tails of a
//! normal density, the upper tail of an exponential density, and the lowest parts of a kernel density estimate.
//! `lower_threshold` and `upper_threshold` set the tails separately.

use quarry_stdx::number::{f64_of, integer_part};
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::{LearnError, THRESHOLDS_MAX, exact_numbers};

/// Densities of groups, sorted by key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Densities {
    /// Distance measure between the rows and the density.
    pub(crate) metric: String,
    pub(crate) groups: Vec<Group>,
}

/// The density of one group, and statistics of its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Values of the `by` fields.
    pub(crate) key: Vec<String>,
    pub(crate) density: Density,
    pub(crate) count: u64,
    pub(crate) distinct: u64,
    #[serde(with = "exact_numbers")]
    pub(crate) min: f64,
    #[serde(with = "exact_numbers")]
    pub(crate) max: f64,
    #[serde(with = "exact_numbers")]
    pub(crate) mean: f64,
    #[serde(with = "exact_numbers")]
    pub(crate) deviation: f64,
    #[serde(with = "exact_numbers")]
    pub(crate) distance: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Density {
    /// Normal; a deviation of 0 means a single value.
    Norm {
        #[serde(with = "exact_numbers")]
        mean: f64,
        #[serde(with = "exact_numbers")]
        deviation: f64,
    },
    /// Exponential.
    Expon {
        #[serde(with = "exact_numbers")]
        start: f64,
        #[serde(with = "exact_numbers")]
        scale: f64,
    },
    /// Kernel density estimate with normal kernels, given by heights at equal steps; linear between the steps and 0
    /// outside. The area is 1.
    Kernels {
        #[serde(with = "exact_numbers")]
        start: f64,
        #[serde(with = "exact_numbers")]
        step: f64,
        #[serde(with = "exact_numbers::list")]
        heights: Vec<f64>,
    },
}

/// Range of outlier values, with the total probability of these values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) area: f64,
}

/// Criterion for outliers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Threshold {
    /// Outliers are the values of lowest density.
    Both(f64),
    /// Outliers are the values in the tails.
    Tails(Option<f64>, Option<f64>),
}

/// Thresholds, each with the suffix of the fields it produces.
pub(crate) fn thresholds(options: &Options) -> Result<Vec<(String, Threshold)>, LearnError> {
    let read = |name: &str| -> Result<Option<Vec<(String, f64)>>, LearnError> {
        let Some(text) = options.get(name) else { return Ok(None) };
        let wants = || options.invalid_option(name, format!("up to {THRESHOLDS_MAX} numbers above 0 and below 1"));
        let number = |word: &str| {
            let number: Option<f64> = word.trim().parse().ok().filter(|number| *number > 0.0 && *number < 1.0);
            number.map(|number| (word.trim().to_owned(), number)).ok_or_else(wants)
        };
        let numbers = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        if numbers.len() > THRESHOLDS_MAX { Err(wants()) } else { Ok(Some(numbers)) }
    };
    let (both, lower, upper) = (read("threshold")?, read("lower_threshold")?, read("upper_threshold")?);
    let suffix = |text: &str, count: usize| if count > 1 { format!("_th={text}") } else { String::new() };
    match (both, lower, upper) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            let wants = "no lower_threshold or upper_threshold with it";
            Err(options.invalid_option("threshold", wants))
        }
        (Some(both), None, None) => {
            let count = both.len();
            Ok(both.into_iter().map(|(text, number)| (suffix(&text, count), Threshold::Both(number))).collect())
        }
        (None, None, None) => Ok(vec![(String::new(), Threshold::Both(DEFAULT_THRESHOLD))]),
        (None, lower, upper) => {
            let (lower, upper) = (lower.unwrap_or_default(), upper.unwrap_or_default());
            if !lower.is_empty() && !upper.is_empty() && lower.len() != upper.len() {
                return Err(options.invalid_option("upper_threshold", "as many numbers as lower_threshold has"));
            }
            let count = lower.len().max(upper.len());
            let tails = (0..count).map(|at| {
                let texts = [lower.get(at), upper.get(at)].into_iter().flatten().map(|(text, _)| text.as_str());
                let texts: Vec<&str> = texts.collect();
                let of = |list: &[(String, f64)]| list.get(at).map(|(_, number)| *number);
                (suffix(&texts.join(","), count), Threshold::Tails(of(&lower), of(&upper)))
            });
            Ok(tails.collect())
        }
    }
}

const DEFAULT_THRESHOLD: f64 = 0.01;

impl Density {
    /// The density at a value; `None` if all probability is concentrated at a single value.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        match self {
            Density::Norm { deviation, .. } if *deviation == 0.0 => None,
            Density::Norm { mean, deviation } => {
                let off = (value - mean) / deviation;
                Some((-off * off / 2.0).exp() / (deviation * (2.0 * std::f64::consts::PI).sqrt()))
            }
            Density::Expon { scale, .. } if *scale == 0.0 => None,
            Density::Expon { start, .. } if value < *start => Some(0.0),
            Density::Expon { start, scale } => Some((-(value - start) / scale).exp() / scale),
            Density::Kernels { start, step, heights } => {
                let place = (value - start) / step;
                let inside = place >= 0.0 && place <= f64_of(heights.len() - 1);
                if !inside {
                    return Some(0.0);
                }
                let low = integer_part::<usize>(place).min(heights.len() - 2);
                Some(heights[low] + (heights[low + 1] - heights[low]) * (place - f64_of(low)))
            }
        }
    }

    /// Cumulative distribution function.
    pub(crate) fn cumulative_probability(&self, value: f64) -> f64 {
        match self {
            Density::Norm { mean, deviation } if *deviation == 0.0 => f64::from(u8::from(value >= *mean)),
            Density::Norm { mean, deviation } => erfc((mean - value) / (deviation * std::f64::consts::SQRT_2)) / 2.0,
            Density::Expon { start, scale } => match value < *start {
                true => 0.0,
                false if *scale == 0.0 => 1.0,
                false => 1.0 - (-(value - start) / scale).exp(),
            },
            Density::Kernels { start, step, heights } => {
                let mut area = 0.0;
                for (at, pair) in heights.windows(2).enumerate() {
                    let from = start + step * f64_of(at);
                    let reached = ((value - from) / step).clamp(0.0, 1.0);
                    area += step * reached * (pair[0] + (pair[1] - pair[0]) * reached / 2.0);
                    if reached < 1.0 {
                        break;
                    }
                }
                area
            }
        }
    }

    /// Quantile function.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        match self {
            Density::Norm { mean, deviation } => mean + deviation * normal_quantile(share),
            Density::Expon { start, scale } => start - scale * (-share).ln_1p(),
            Density::Kernels { start, step, heights } => {
                let mut left = share;
                for (at, pair) in heights.windows(2).enumerate() {
                    let area = step * (pair[0] + pair[1]) / 2.0;
                    if area >= left && area > 0.0 {
                        let (height, rise, wanted) = (pair[0], pair[1] - pair[0], left / step);
                        let root = (height * height + 2.0 * rise * wanted).max(0.0).sqrt();
                        let reached = if height + root > 0.0 { 2.0 * wanted / (height + root) } else { 0.0 };
                        return start + step * (f64_of(at) + reached.min(1.0));
                    }
                    left -= area;
                }
                start + step * f64_of(heights.len() - 1)
            }
        }
    }

    /// The ranges of outliers.
    pub(crate) fn outliers(&self, threshold: &Threshold) -> Vec<Range> {
        let lower = |area: f64| Range { low: f64::NEG_INFINITY, high: self.quantile(area), area };
        let upper = |area: f64| Range { low: self.quantile(1.0 - area), high: f64::INFINITY, area };
        match (threshold, self) {
            (Threshold::Tails(low, high), _) => low.map(lower).into_iter().chain(high.map(upper)).collect(),
            (Threshold::Both(area), Density::Norm { .. }) => vec![lower(area / 2.0), upper(area / 2.0)],
            (Threshold::Both(area), Density::Expon { .. }) => vec![upper(*area)],
            (Threshold::Both(area), Density::Kernels { start, step, heights }) => {
                lowest_density_ranges(*start, *step, heights, *area)
            }
        }
    }

    /// Name shown in summaries of models.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Density::Norm { .. } => "Normal",
            Density::Expon { .. } => "Exponential",
            Density::Kernels { .. } => "Gaussian KDE",
        }
    }
}

/// The steps with the smallest areas, up to this total area, and the ranges outside of all steps; adjacent ranges are
/// merged.
fn lowest_density_ranges(start: f64, step: f64, heights: &[f64], area: f64) -> Vec<Range> {
    let areas: Vec<f64> = heights.windows(2).map(|pair| step * (pair[0] + pair[1]) / 2.0).collect();
    let mut order: Vec<usize> = (0..areas.len()).collect();
    order.sort_by(|one, other| areas[*one].total_cmp(&areas[*other]));
    let (mut is_low, mut sum) = (vec![false; areas.len()], 0.0);
    for at in order {
        sum += areas[at];
        if sum > area {
            break;
        }
        is_low[at] = true;
    }
    let mut ranges: Vec<Range> = Vec::new();
    // Outside of all steps, the density is 0.
    ranges.push(Range { low: f64::NEG_INFINITY, high: start, area: 0.0 });
    for at in (0..areas.len()).filter(|at| is_low[*at]) {
        let from = start + step * f64_of(at);
        match ranges.last_mut().filter(|_| at == 0 || is_low[at - 1]) {
            Some(last) => (last.high, last.area) = (from + step, last.area + areas[at]),
            None => ranges.push(Range { low: from, high: from + step, area: areas[at] }),
        }
    }
    let end = start + step * f64_of(areas.len());
    match ranges.last_mut().filter(|_| is_low.last() == Some(&true)) {
        Some(last) => last.high = f64::INFINITY,
        None => ranges.push(Range { low: end, high: f64::INFINITY, area: 0.0 }),
    }
    ranges
}

impl Range {
    /// Whether the range contains a value; its bounds are excluded.
    pub(crate) fn contains(&self, value: f64) -> bool {
        value > self.low && value < self.high
    }

    /// The range in Splunk's format: from, to and area.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}:{}", bound(self.low), bound(self.high), bound(self.area))
    }
}

/// A bound with up to four decimal places.
fn bound(number: f64) -> String {
    if number == f64::INFINITY {
        return "Infinity".to_owned();
    }
    if number == f64::NEG_INFINITY {
        return "-Infinity".to_owned();
    }
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The complementary error function, with a relative error below 1.2e-7 (Press and others: "Numerical Recipes", 6.2).
fn erfc(value: f64) -> f64 {
    const COEFFICIENTS: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let t = 1.0 / (1.0 + value.abs() / 2.0);
    let sum = COEFFICIENTS.iter().fold(0.0, |sum, part| sum * t + part);
    let tail = t * (-value * value + sum).exp();
    if value >= 0.0 { tail } else { 2.0 - tail }
}

/// Quantile function of the standard normal distribution (Wichura: algorithm AS 241, 1988).
pub(crate) fn normal_quantile(share: f64) -> f64 {
    let ratio = |above: [f64; 8], below: [f64; 8], at: f64| {
        let of = |parts: [f64; 8]| parts.iter().rev().fold(0.0, |sum, part| sum * at + part);
        of(above) / of(below)
    };
    let off = share - 0.5;
    if off.abs() <= 0.425 {
        return off * ratio(CENTRAL_COEFFICIENTS.0, CENTRAL_COEFFICIENTS.1, 0.180_625 - off * off);
    }
    let tail = if off < 0.0 { share } else { 1.0 - share };
    if tail <= 0.0 {
        return if off < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let root = (-tail.ln()).sqrt();
    let value = if root <= 5.0 {
        ratio(INTERMEDIATE_COEFFICIENTS.0, INTERMEDIATE_COEFFICIENTS.1, root - 1.6)
    } else {
        ratio(TAIL_COEFFICIENTS.0, TAIL_COEFFICIENTS.1, root - 5.0)
    };
    if off < 0.0 { -value } else { value }
}

const CENTRAL_COEFFICIENTS: ([f64; 8], [f64; 8]) = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_545,
    ],
);
const INTERMEDIATE_COEFFICIENTS: ([f64; 8], [f64; 8]) = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);
const TAIL_COEFFICIENTS: ([f64; 8], [f64; 8]) = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);
