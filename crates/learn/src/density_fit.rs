//! Fitting a density to the values of each group.
//!
//! If several kinds of density are possible, the closest density is used. Closeness is measured by the Wasserstein
//! distance (mean distance between the values and the quantiles of the density) or the Kolmogorov-Smirnov distance
//! (largest difference of the distribution functions).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use quarry_stdx::number::{f64_of, integer_part};

use crate::density::{Densities, Density, Group, thresholds};
use crate::encode::{Column, Encoding, Feature};
use crate::fit::FitRequest;
use crate::model::Body;
use crate::options::Options;
use crate::{GROUPS_MAX, LearnError, StopCheck, check_stop};

/// Number of rows of a group below which its density is rough.
const RELIABLE_ROWS_MIN: usize = 50;
/// Minimum and maximum number of steps of a kernel density estimate.
const STEPS_RANGE: (usize, usize) = (512, 4_096);
/// Cut-off of a kernel, in standard deviations.
const KERNEL_CUTOFF_DEVIATIONS: f64 = 4.0;

/// Distance between a density and values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    Wasserstein,
    Kolmogorov,
}

/// Fits densities to the field's values, group by group.
pub(crate) fn fit(
    request: &FitRequest<'_>,
    features: &[Column<'_>],
    notes: &mut Vec<String>,
    stop: StopCheck<'_>,
) -> Result<(Body, Encoding), LearnError> {
    let [column] = features else {
        return Err(LearnError::Data(format!("DensityFunction needs exactly one field, got {}", features.len())));
    };
    let options = &request.options;
    thresholds(options)?;
    options.boolean("show_density", false)?;
    let metric = match options.get("metric") {
        None | Some("wasserstein") => Metric::Wasserstein,
        Some("kolmogorov_smirnov") => Metric::Kolmogorov,
        Some(_) => return Err(options.invalid_option("metric", "wasserstein or kolmogorov_smirnov")),
    };
    let mut values: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
    for row in 0..request.rows {
        let Some(number) = column.values.number(row) else {
            if !column.values.is_null(row) {
                let text = column.values.text(row).unwrap_or_default();
                let message = format!("{} has values that are not numbers, such as `{text}`", column.name);
                return Err(LearnError::Data(message));
            }
            continue;
        };
        let Some(key) = key_of(&request.by, row) else { continue };
        values.entry(key).or_default().push(number);
        if values.len() > GROUPS_MAX {
            let what = "groups of `by`: name fewer fields, or fields with fewer values".to_owned();
            return Err(LearnError::Limit { what, value: values.len(), limit: GROUPS_MAX });
        }
    }
    if values.is_empty() {
        return Err(LearnError::Data(format!("no row has a number in {}", column.name)));
    }
    let few = values.values().filter(|values| values.len() < RELIABLE_ROWS_MIN).count();
    if few > 0 {
        notes.push(format!(
            "{few} of {} groups have fewer than {RELIABLE_ROWS_MIN} rows: their densities are imprecise",
            values.len()
        ));
    }
    let mut groups = Vec::with_capacity(values.len());
    for (key, values) in values {
        check_stop(stop)?;
        groups.push(group(key, values, options, metric, stop)?);
    }
    let metric = if metric == Metric::Wasserstein { "wasserstein" } else { "kolmogorov_smirnov" };
    let encoding = Encoding { features: vec![Feature { field: column.name.to_owned(), categories: None }] };
    Ok((Body::Densities(Densities { metric: metric.to_owned(), groups }), encoding))
}

/// The group key of a row; `None` if a field is missing.
pub(crate) fn key_of(by: &[Column<'_>], row: usize) -> Option<Vec<String>> {
    by.iter().map(|column| column.values.text(row).map(Cow::into_owned)).collect()
}

fn group(
    key: Vec<String>,
    mut values: Vec<f64>,
    options: &Options,
    metric: Metric,
    stop: StopCheck<'_>,
) -> Result<Group, LearnError> {
    values.sort_by(f64::total_cmp);
    let count = f64_of(values.len());
    let (min, max) = (values[0], values[values.len() - 1]);
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let deviation = if min == max { 0.0 } else { (square / count).sqrt() };
    if !mean.is_finite() || !deviation.is_finite() {
        return Err(LearnError::Data("the numbers are too large for fitting".to_owned()));
    }
    let norm = || Density::Norm { mean, deviation };
    let expon = || Density::Expon { start: min, scale: mean - min };
    // Equal values form a point, whatever kind of density is requested.
    let candidates = match options.get("dist").unwrap_or("auto") {
        "norm" | "auto" | "expon" | "gaussian_kde" if deviation == 0.0 => vec![norm()],
        "norm" => vec![norm()],
        "expon" => vec![expon()],
        "gaussian_kde" => vec![kernels(&values, square, stop)?],
        "auto" => vec![norm(), expon(), kernels(&values, square, stop)?],
        _ => return Err(options.invalid_option("dist", "norm, expon, gaussian_kde or auto")),
    };
    let mut best: Option<(Density, f64)> = None;
    for density in candidates {
        let distance = distance(&density, &values, metric);
        if best.as_ref().is_none_or(|best| distance < best.1) {
            best = Some((density, distance));
        }
    }
    let (density, distance) = best.ok_or_else(|| LearnError::Data("there is no density to fit".to_owned()))?;
    let distinct = values.iter().map(|value| value.to_bits()).collect::<BTreeSet<_>>().len() as u64;
    Ok(Group { key, density, count: values.len() as u64, distinct, min, max, mean, deviation, distance })
}

/// Kernel density estimate with Scott's bandwidth, at equal steps.
fn kernels(sorted: &[f64], square: f64, stop: StopCheck<'_>) -> Result<Density, LearnError> {
    let count = f64_of(sorted.len());
    let width = (square / (count - 1.0).max(1.0)).sqrt() * count.powf(-0.2);
    let (first, last) =
        (sorted[0] - KERNEL_CUTOFF_DEVIATIONS * width, sorted[sorted.len() - 1] + KERNEL_CUTOFF_DEVIATIONS * width);
    let steps = integer_part::<usize>((last - first) / width * 8.0).clamp(STEPS_RANGE.0, STEPS_RANGE.1);
    let step = (last - first) / f64_of(steps - 1);
    let mut heights = vec![0.0; steps];
    for (at, value) in sorted.iter().enumerate() {
        if at % crate::ROWS_PER_STOP_CHECK == 0 {
            check_stop(stop)?;
        }
        let place = |at: f64| integer_part::<usize>((at - first) / step).min(steps - 1);
        let (from, to) =
            (place(value - KERNEL_CUTOFF_DEVIATIONS * width), place(value + KERNEL_CUTOFF_DEVIATIONS * width));
        for (offset, height) in heights[from..=to].iter_mut().enumerate() {
            let off = (first + step * f64_of(from + offset) - value) / width;
            *height += (-off * off / 2.0).exp();
        }
    }
    let area: f64 = heights.windows(2).map(|pair| step * (pair[0] + pair[1]) / 2.0).sum();
    heights.iter_mut().for_each(|height| *height /= area);
    Ok(Density::Kernels { start: first, step, heights })
}

fn distance(density: &Density, sorted: &[f64], metric: Metric) -> f64 {
    let count = f64_of(sorted.len());
    match metric {
        Metric::Wasserstein => {
            let off = |(at, value): (usize, &f64)| (value - density.quantile((f64_of(at) + 0.5) / count)).abs();
            sorted.iter().enumerate().map(off).sum::<f64>() / count
        }
        Metric::Kolmogorov => sorted.iter().enumerate().fold(0.0, |most: f64, (at, value)| {
            let below = density.cumulative_probability(*value);
            most.max((below - f64_of(at) / count).abs()).max((below - f64_of(at + 1) / count).abs())
        }),
    }
}
