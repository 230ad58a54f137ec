//! Scaling of columns.

use quarry_stdx::number::{f64_of, integer_part};
use serde::{Deserialize, Serialize};

use crate::matrix::Matrix;
use crate::options::Options;
use crate::{LearnError, StopCheck, check_stop, exact_numbers};

/// Subtrahend and divisor of each column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scales {
    /// Prefix of the resulting fields: `SS` or `RS`.
    pub(crate) prefix: String,
    #[serde(with = "exact_numbers::list")]
    pub(crate) middles: Vec<f64>,
    /// Divisors, none of which is 0.
    #[serde(with = "exact_numbers::list")]
    pub(crate) scales: Vec<f64>,
}

/// `StandardScaler`: mean and population standard deviation.
pub(crate) fn standard(x: &Matrix, options: &Options) -> Result<Scales, LearnError> {
    let (means, spreads) = crate::linear_regression::means_and_deviations(x);
    let middles = if options.boolean("with_mean", true)? { means } else { vec![0.0; x.width()] };
    let scales = if options.boolean("with_std", true)? { spreads } else { vec![1.0; x.width()] };
    Ok(Scales { prefix: "SS".to_owned(), middles, scales: replace_zeros(scales) })
}

/// `RobustScaler`: median and the difference of two quantiles.
pub(crate) fn robust(x: &Matrix, options: &Options, stop: StopCheck<'_>) -> Result<Scales, LearnError> {
    let (low, high) = quantile_range(options)?;
    let (centres, divides) = (options.boolean("with_centering", true)?, options.boolean("with_scaling", true)?);
    let (mut middles, mut scales) = (Vec::new(), Vec::new());
    for column in 0..x.width() {
        check_stop(stop)?;
        let mut cells: Vec<f64> = x.column(column).collect();
        cells.sort_by(f64::total_cmp);
        middles.push(if centres { quantile(&cells, 0.5) } else { 0.0 });
        scales.push(if divides { quantile(&cells, high) - quantile(&cells, low) } else { 1.0 });
    }
    Ok(Scales { prefix: "RS".to_owned(), middles, scales: replace_zeros(scales) })
}

fn replace_zeros(mut scales: Vec<f64>) -> Vec<f64> {
    scales.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = 1.0);
    scales
}

/// Parses `quantile_range=25-75` or `25,75` and returns both quantiles as fractions of 1.
fn quantile_range(options: &Options) -> Result<(f64, f64), LearnError> {
    let Some(text) = options.get("quantile_range") else { return Ok((0.25, 0.75)) };
    let text = text.trim_matches(['(', ')']);
    let pair = text.split_once([',', '-']).and_then(|(low, high)| {
        let pair: (f64, f64) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        (0.0 <= pair.0 && pair.0 < pair.1 && pair.1 <= 100.0).then_some((pair.0 / 100.0, pair.1 / 100.0))
    });
    pair.ok_or_else(|| options.invalid_option("quantile_range", "two percentages such as 25-75"))
}

/// The quantile of sorted numbers, interpolated linearly.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * f64_of(sorted.len().saturating_sub(1));
    let (low, high) = (integer_part::<usize>(place), integer_part::<usize>(place.ceil()));
    match (sorted.get(low), sorted.get(high)) {
        (Some(low), Some(high)) => low + (high - low) * place.fract(),
        _ => 0.0,
    }
}
