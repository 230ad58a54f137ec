//! Principal component analysis.

use quarry_stdx::number::f64_of;
use serde::{Deserialize, Serialize};

use crate::linear_regression::dot;
use crate::matrix::Matrix;
use crate::solve::eigen_symmetric;
use crate::{LearnError, ROWS_PER_STOP_CHECK, StopCheck, check_stop, exact_numbers};

/// Maximum number of columns; the computing time grows with their third power.
const PCA_COLUMNS_MAX: usize = 200;

/// Principal axes, in descending order of variance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axes {
    #[serde(with = "exact_numbers::list")]
    pub(crate) means: Vec<f64>,
    /// Unit vectors of the axes, one after the other; the largest component of each vector is positive.
    #[serde(with = "exact_numbers::list")]
    pub(crate) axes: Vec<f64>,
    /// Variance along each axis.
    #[serde(with = "exact_numbers::list")]
    pub(crate) variances: Vec<f64>,
    /// Total variance.
    #[serde(with = "exact_numbers")]
    pub(crate) whole: f64,
}

impl Axes {
    /// Coordinates of a row along each axis.
    pub(crate) fn project(&self, row: &[f64]) -> Vec<f64> {
        let centred: Vec<f64> = row.iter().zip(&self.means).map(|(cell, mean)| cell - mean).collect();
        self.axes.chunks_exact(self.means.len()).map(|axis| dot(axis, &centred)).collect()
    }
}

/// Number of components kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ComponentCount {
    All,
    /// The given number of first components.
    Count(usize),
    /// As many components as are needed to explain this share of the variance.
    Share(f64),
}

/// Finds the axes.
pub(crate) fn fit(x: &Matrix, kept: ComponentCount, stop: StopCheck<'_>) -> Result<Axes, LearnError> {
    let width = x.width();
    if width > PCA_COLUMNS_MAX {
        let what = "columns for PCA, counting each value of a text field: name fewer fields".to_owned();
        return Err(LearnError::Limit { what, value: width, limit: PCA_COLUMNS_MAX });
    }
    if x.rows() < 2 {
        return Err(LearnError::Data("PCA needs two rows with a value of every field".to_owned()));
    }
    let (means, _) = crate::linear_regression::means_and_deviations(x);
    let mut products = vec![0.0; width * width];
    let freedom = f64_of(x.rows() - 1);
    let mut centred = vec![0.0; width];
    for (at, row) in x.iter().enumerate() {
        if at % ROWS_PER_STOP_CHECK == 0 {
            check_stop(stop)?;
        }
        centred.iter_mut().zip(row).zip(&means).for_each(|((centred, cell), mean)| *centred = cell - mean);
        for (line, one) in products.chunks_exact_mut(width).zip(&centred) {
            line.iter_mut().zip(&centred).for_each(|(sum, other)| *sum += one * other / freedom);
        }
    }
    let whole = (0..width).map(|at| products[at * width + at]).sum::<f64>();
    if !whole.is_finite() {
        return Err(LearnError::Data("the numbers are too large for fitting".to_owned()));
    }
    let found = eigen_symmetric(products, width, stop)?;
    let most = width.min(x.rows());
    let count = match kept {
        ComponentCount::All => most,
        ComponentCount::Count(count) if count > most => {
            let what = "components for PCA, which finds at most one per column and one per row".to_owned();
            return Err(LearnError::Limit { what, value: count, limit: most });
        }
        ComponentCount::Count(count) => count,
        ComponentCount::Share(share) => {
            let mut sum = 0.0;
            let reached = found.iter().position(|(variance, _)| {
                sum += variance;
                sum >= share * whole
            });
            reached.map_or(most, |place| place + 1).min(most)
        }
    };
    let mut axes = Axes { means, axes: Vec::new(), variances: Vec::new(), whole };
    for (variance, axis) in found.into_iter().take(count) {
        let greatest =
            axis.iter().copied().fold(0.0f64, |most, cell| if cell.abs() > most.abs() + 1e-12 { cell } else { most });
        let sign = if greatest < 0.0 { -1.0 } else { 1.0 };
        axes.axes.extend(axis.iter().map(|cell| cell * sign));
        axes.variances.push(variance.max(0.0));
    }
    Ok(axes)
}
