//! Linear regression: ordinary least squares, ridge, lasso and elastic net.
//!
//! All four are solved from the cross products of the columns, which are scaled and, if there is an intercept, centred
//! first; the penalty is adjusted to the scale, so that the coefficients apply to the original columns. Least squares
//! and ridge solve a system of linear equations; lasso and elastic net use coordinate descent (Friedman, Hastie,
//! Tibshirani: "Regularization Paths for Generalized Linear Models via Coordinate Descent", 2010). The objective
//! functions are those that scikit-learn documents for its classes of these names, which Splunk's toolkit uses.

use quarry_stdx::number::f64_of;
use serde::{Deserialize, Serialize};

use crate::matrix::Matrix;
use crate::solve::solve_symmetric;
use crate::{LearnError, ROWS_PER_STOP_CHECK, StopCheck, check_stop, exact_numbers};

/// Maximum number of rounds of coordinate descent; the solution so far is then used.
const ROUNDS_MAX: usize = 10_000;
/// Change of the scaled coefficients, relative to the largest coefficient, up to which the coefficients count as
/// converged.
const CONVERGENCE_THRESHOLD: f64 = 1e-10;
/// Ratio of standard deviation to mean up to which a column counts as constant.
const CONSTANT_RATIO_MAX: f64 = 1e-10;

/// `y = intercept + coefficients . x`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    #[serde(with = "exact_numbers::list")]
    pub(crate) coefficients: Vec<f64>,
    #[serde(with = "exact_numbers")]
    pub(crate) intercept: f64,
}

/// Penalty term of the objective function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Penalty {
    /// No penalty.
    None,
    /// `alpha` times the sum of squared coefficients, added to the sum of squared errors.
    Ridge(f64),
    /// Elastic net: `alpha` times (`share` times the sum of absolute coefficients, plus half of `1 - share` times the
    /// sum of squared coefficients), added to half the mean squared error.
    ElasticNet { alpha: f64, share: f64 },
}

impl Linear {
    /// The prediction for a row.
    pub(crate) fn predict(&self, row: &[f64]) -> f64 {
        self.intercept + dot(&self.coefficients, row)
    }
}

/// The scalar product of two vectors.
pub(crate) fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Mean and standard deviation of every column; the deviation of a column that is constant except for rounding is 0.
pub(crate) fn means_and_deviations(x: &Matrix) -> (Vec<f64>, Vec<f64>) {
    let count = f64_of(x.rows().max(1));
    let mut means = vec![0.0; x.width()];
    x.iter().for_each(|row| means.iter_mut().zip(row).for_each(|(mean, cell)| *mean += cell / count));
    let mut squares = vec![0.0; x.width()];
    x.iter().for_each(|row| {
        squares
            .iter_mut()
            .zip(row)
            .zip(&means)
            .for_each(|((square, cell), mean)| *square += (cell - mean).powi(2) / count);
    });
    let spread = |(square, mean): (f64, &f64)| {
        let spread = square.sqrt();
        if spread <= CONSTANT_RATIO_MAX * mean.abs() { 0.0 } else { spread }
    };
    let spreads = squares.into_iter().zip(&means).map(spread).collect();
    (means, spreads)
}

/// Cross products of scaled columns, divided by the number of rows: of the columns with each other, and with the
/// target.
struct CrossProducts {
    column_products: Vec<f64>,
    target_products: Vec<f64>,
}

fn cross_products(
    x: &Matrix,
    y: &[f64],
    (means, scales): (&[f64], &[f64]),
    stop: StopCheck<'_>,
) -> Result<CrossProducts, LearnError> {
    let (width, count) = (x.width(), f64_of(x.rows()));
    let mut sums = CrossProducts { column_products: vec![0.0; width * width], target_products: vec![0.0; width] };
    let mut scaled = vec![0.0; width];
    for (at, (row, y)) in x.iter().zip(y).enumerate() {
        if at % ROWS_PER_STOP_CHECK == 0 {
            check_stop(stop)?;
        }
        for (column, cell) in row.iter().enumerate() {
            scaled[column] = (cell - means[column]) / scales[column];
        }
        for (column, cell) in scaled.iter().enumerate().filter(|(_, cell)| **cell != 0.0) {
            sums.target_products[column] += cell * y / count;
            let line = &mut sums.column_products[column * width..column * width + column + 1];
            line.iter_mut().zip(&scaled).for_each(|(sum, other)| *sum += cell * other / count);
        }
    }
    for row in 0..width {
        for column in 0..row {
            sums.column_products[column * width + row] = sums.column_products[row * width + column];
        }
    }
    Ok(sums)
}

/// Fits a linear function to the target values of rows.
pub(crate) fn fit(
    x: &Matrix,
    y: &[f64],
    penalty: Penalty,
    has_intercept: bool,
    stop: StopCheck<'_>,
) -> Result<Linear, LearnError> {
    let (width, count) = (x.width(), f64_of(x.rows()));
    let (mut means, mut scales) = means_and_deviations(x);
    let mut middle = y.iter().sum::<f64>() / count;
    if !has_intercept {
        scales = (0..width).map(|at| (x.column(at).map(|cell| cell * cell).sum::<f64>() / count).sqrt()).collect();
        means = vec![0.0; width];
        middle = 0.0;
    }
    scales.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = 1.0);
    let centred: Vec<f64> = y.iter().map(|y| y - middle).collect();
    let mut sums = cross_products(x, &centred, (&means, &scales), stop)?;
    let solved = match penalty {
        Penalty::None => solve_symmetric(sums.column_products, &sums.target_products, width, stop)?,
        Penalty::Ridge(alpha) => {
            for (at, scale) in scales.iter().enumerate() {
                sums.column_products[at * width + at] += alpha / (count * scale * scale);
            }
            solve_symmetric(sums.column_products, &sums.target_products, width, stop)?
        }
        Penalty::ElasticNet { alpha, share } => coordinate_descent(&sums, &scales, alpha, share, stop)?,
    };
    let coefficients: Vec<f64> = solved.iter().zip(&scales).map(|(solved, scale)| solved / scale).collect();
    let intercept = middle - dot(&coefficients, &means);
    if !intercept.is_finite() || coefficients.iter().any(|number| !number.is_finite()) {
        return Err(LearnError::Data("the numbers are too large for fitting".to_owned()));
    }
    Ok(Linear { coefficients, intercept })
}

/// Minimises the elastic net objective by coordinate descent.
fn coordinate_descent(
    sums: &CrossProducts,
    scales: &[f64],
    alpha: f64,
    share: f64,
    stop: StopCheck<'_>,
) -> Result<Vec<f64>, LearnError> {
    let width = scales.len();
    let mut solution = vec![0.0; width];
    for _ in 0..ROUNDS_MAX {
        check_stop(stop)?;
        let mut moved: f64 = 0.0;
        for at in 0..width {
            let line = &sums.column_products[at * width..(at + 1) * width];
            let own = line[at] + alpha * (1.0 - share) / (scales[at] * scales[at]);
            let pull = sums.target_products[at] - dot(line, &solution) + line[at] * solution[at];
            let limit = alpha * share / scales[at];
            let next = if own > 0.0 { pull.signum() * (pull.abs() - limit).max(0.0) / own } else { 0.0 };
            moved = moved.max((next - solution[at]).abs());
            solution[at] = next;
        }
        let largest = solution.iter().fold(0.0f64, |most, number| most.max(number.abs()));
        if moved <= CONVERGENCE_THRESHOLD * largest.max(f64::MIN_POSITIVE) {
            break;
        }
    }
    Ok(solution)
}
