//! Gaussian naive Bayes: the columns of each class are assumed to be normally distributed and independent.

use quarry_stdx::number::f64_of;
use serde::{Deserialize, Serialize};

use crate::logistic_regression::softmax;
use crate::matrix::Matrix;
use crate::{LearnError, StopCheck, check_stop, exact_numbers};

/// For each class, its prior probability, and the mean and variance of each column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bayes {
    pub(crate) width: usize,
    #[serde(with = "exact_numbers::list")]
    pub(crate) shares: Vec<f64>,
    /// Means of all columns, class after class.
    #[serde(with = "exact_numbers::list")]
    pub(crate) means: Vec<f64>,
    /// Variances of all columns, class after class.
    #[serde(with = "exact_numbers::list")]
    pub(crate) variances: Vec<f64>,
}

impl Bayes {
    /// Probability of each class.
    pub(crate) fn probabilities(&self, row: &[f64]) -> Vec<f64> {
        let lines = self.means.chunks_exact(self.width).zip(self.variances.chunks_exact(self.width));
        let logs = lines.zip(&self.shares).map(|((means, variances), share)| {
            let parts = row.iter().zip(means).zip(variances);
            let sum: f64 = parts.map(|((cell, mean), variance)| variance.ln() + (cell - mean).powi(2) / variance).sum();
            share.ln() - sum / 2.0
        });
        softmax(logs.collect())
    }
}

/// Fits rows to classes; each class must have a row. The largest variance of any column over all rows, times
/// `smoothing`, is added to every variance. If all columns are constant, 1 is added instead.
pub(crate) fn fit(
    x: &Matrix,
    classes: &[u32],
    count: usize,
    smoothing: f64,
    stop: StopCheck<'_>,
) -> Result<Bayes, LearnError> {
    let width = x.width();
    let (mut sums, mut sizes) = (vec![0.0; count * width], vec![0.0f64; count]);
    for (row, class) in x.iter().zip(classes) {
        let class = *class as usize;
        sizes[class] += 1.0;
        sums[class * width..].iter_mut().zip(row).for_each(|(sum, cell)| *sum += cell);
    }
    check_stop(stop)?;
    let means: Vec<f64> = sums.iter().enumerate().map(|(at, sum)| sum / sizes[at / width]).collect();
    let mut variances = vec![0.0; count * width];
    for (row, class) in x.iter().zip(classes) {
        let class = *class as usize;
        let line = variances[class * width..].iter_mut().zip(&means[class * width..]);
        line.zip(row).for_each(|((variance, mean), cell)| *variance += (cell - mean).powi(2) / sizes[class]);
    }
    check_stop(stop)?;
    let (_, spreads) = crate::linear_regression::means_and_deviations(x);
    let most = spreads.iter().fold(0.0f64, |most, spread| most.max(spread * spread));
    // Constant columns carry no information, but must not cause a division by 0.
    let added = if most > 0.0 { smoothing * most } else { 1.0 };
    variances.iter_mut().for_each(|variance| *variance = (*variance + added).max(f64::MIN_POSITIVE));
    let whole = f64_of(x.rows());
    Ok(Bayes { width, shares: sizes.iter().map(|size| size / whole).collect(), means, variances })
}
