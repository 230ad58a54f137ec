//! Logistic regression: classification by a linear function per class.
//!
//! Minimises the negative log-likelihood plus half the squared coefficients (scikit-learn's default, `C=1`) with the
//! limited-memory BFGS method (Nocedal, Wright: "Numerical Optimization", algorithm 7.5) on scaled columns. Two classes
//! share one function.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::linear_regression::{dot, means_and_deviations};
use crate::matrix::Matrix;
use crate::{FitControl, LearnError, ROWS_PER_STOP_CHECK, check_stop, exact_numbers};

/// Maximum number of steps.
const STEPS_MAX: usize = 300;
/// Number of previous steps used to estimate the curvature.
const HISTORY_STEPS: usize = 10;
/// Ratio of gradient to objective below which the gradient counts as zero.
const CONVERGENCE_RATIO: f64 = 1e-8;
/// Maximum number of halvings of a step.
const HALVINGS_MAX: usize = 40;

/// Coefficients and intercept of each function. For two classes there is one function, otherwise one per class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Logistic {
    /// For each function, the coefficients of the columns, then the intercept.
    #[serde(with = "exact_numbers::list")]
    pub(crate) weights: Vec<f64>,
    /// Number of columns.
    pub(crate) width: usize,
}

impl Logistic {
    /// Probability of each class.
    pub(crate) fn probabilities(&self, row: &[f64]) -> Vec<f64> {
        let logits: Vec<f64> = self
            .weights
            .chunks_exact(self.width + 1)
            .map(|line| dot(&line[..self.width], row) + line[self.width])
            .collect();
        match logits.as_slice() {
            [logit] => {
                let second = sigmoid(*logit);
                vec![1.0 - second, second]
            }
            _ => softmax(logits),
        }
    }
}

fn sigmoid(logit: f64) -> f64 {
    if logit >= 0.0 {
        1.0 / (1.0 + (-logit).exp())
    } else {
        let power = logit.exp();
        power / (1.0 + power)
    }
}

/// Softmax: converts log-probabilities, which may all be shifted by the same constant, to probabilities.
pub(crate) fn softmax(mut logs: Vec<f64>) -> Vec<f64> {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter_mut().for_each(|log| *log = (*log - most).exp());
    let whole: f64 = logs.iter().sum();
    logs.iter_mut().for_each(|share| *share /= whole);
    logs
}

/// The objective function.
struct Problem<'a> {
    x: &'a Matrix,
    classes: &'a [u32],
    functions: usize,
    means: Vec<f64>,
    scales: Vec<f64>,
    has_intercept: bool,
    control: FitControl<'a>,
}

/// Fits rows to classes numbered below `count`. A fit that ends early has the weights of its last step.
pub(crate) fn fit(
    x: &Matrix,
    classes: &[u32],
    count: usize,
    has_intercept: bool,
    control: FitControl<'_>,
) -> Result<Logistic, LearnError> {
    let (mut means, mut scales) = means_and_deviations(x);
    scales.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = 1.0);
    if !has_intercept {
        means = vec![0.0; x.width()];
    }
    let functions = if count == 2 { 1 } else { count };
    let problem = Problem { x, classes, functions, means, scales, has_intercept, control };
    let mut weights = problem.minimise()?;
    for line in weights.chunks_exact_mut(x.width() + 1) {
        line.iter_mut().zip(&problem.scales).for_each(|(weight, scale)| *weight /= scale);
        line[x.width()] -= dot(&line[..x.width()], &problem.means);
    }
    if weights.iter().any(|number| !number.is_finite()) {
        return Err(LearnError::Data("the numbers are too large for fitting".to_owned()));
    }
    Ok(Logistic { weights, width: x.width() })
}

impl Problem<'_> {
    /// Value and gradient of the objective at a point.
    fn value(&self, weights: &[f64], slope: &mut [f64]) -> Result<f64, LearnError> {
        let width = self.x.width();
        slope.fill(0.0);
        let mut value = 0.0;
        let mut scaled = vec![0.0; width];
        for (at, (row, class)) in self.x.iter().zip(self.classes).enumerate() {
            if at % ROWS_PER_STOP_CHECK == 0 {
                check_stop(self.control.stop)?;
            }
            for (column, cell) in row.iter().enumerate() {
                scaled[column] = (cell - self.means[column]) / self.scales[column];
            }
            let logits: Vec<f64> =
                weights.chunks_exact(width + 1).map(|line| dot(&line[..width], &scaled) + line[width]).collect();
            let predicted = if self.functions == 1 { vec![sigmoid(logits[0])] } else { softmax(logits) };
            for (function, predicted) in predicted.iter().enumerate() {
                let is_it = if self.functions == 1 { *class == 1 } else { *class as usize == function };
                let off = predicted - if is_it { 1.0 } else { 0.0 };
                let line = &mut slope[function * (width + 1)..(function + 1) * (width + 1)];
                line.iter_mut().zip(&scaled).for_each(|(slope, cell)| *slope += off * cell);
                if self.has_intercept {
                    line[width] += off;
                }
                let share = if self.functions == 1 && !is_it { 1.0 - predicted } else { *predicted };
                if is_it || self.functions == 1 {
                    value -= share.max(f64::MIN_POSITIVE).ln();
                }
            }
        }
        for (line, slope) in weights.chunks_exact(width + 1).zip(slope.chunks_exact_mut(width + 1)) {
            for ((weight, slope), scale) in line.iter().zip(slope).zip(&self.scales) {
                let plain = weight / scale;
                value += plain * plain / 2.0;
                *slope += plain / scale;
            }
        }
        Ok(value)
    }

    fn minimise(&self) -> Result<Vec<f64>, LearnError> {
        let size = self.functions * (self.x.width() + 1);
        let (mut place, mut slope) = (vec![0.0; size], vec![0.0; size]);
        let mut value = self.value(&place, &mut slope)?;
        let mut remembered: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
        for _ in 0..STEPS_MAX {
            let steepest = slope.iter().fold(0.0f64, |most, slope| most.max(slope.abs()));
            if steepest <= CONVERGENCE_RATIO * value.max(1.0) {
                break;
            }
            let mut way = direction(&slope, &remembered);
            if dot(&way, &slope) >= 0.0 {
                remembered.clear();
                way = slope.iter().map(|slope| -slope).collect();
            }
            let downhill = dot(&way, &slope);
            let mut length = if remembered.is_empty() { (1.0 / steepest).min(1.0) } else { 1.0 };
            let (mut next, mut next_slope) = (place.clone(), slope.clone());
            let mut next_value = f64::INFINITY;
            for _ in 0..HALVINGS_MAX {
                next.iter_mut().zip(&place).zip(&way).for_each(|((next, place), way)| *next = place + length * way);
                next_value = self.value(&next, &mut next_slope)?;
                if next_value <= value + 1e-4 * length * downhill {
                    break;
                }
                length /= 2.0;
            }
            if next_value >= value {
                break;
            }
            let step: Vec<f64> = next.iter().zip(&place).map(|(next, place)| next - place).collect();
            let turn: Vec<f64> = next_slope.iter().zip(&slope).map(|(next, slope)| next - slope).collect();
            if dot(&step, &turn) > f64::EPSILON * dot(&turn, &turn) {
                if remembered.len() == HISTORY_STEPS {
                    remembered.pop_front();
                }
                remembered.push_back((step, turn));
            }
            (place, slope, value) = (next, next_slope, next_value);
            if (self.control.should_end)() {
                break;
            }
        }
        Ok(place)
    }
}

/// The descent direction, given the steps that determine the curvature.
fn direction(slope: &[f64], remembered: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut way: Vec<f64> = slope.iter().map(|slope| -slope).collect();
    let mut parts = Vec::with_capacity(remembered.len());
    for (step, turn) in remembered.iter().rev() {
        let part = dot(step, &way) / dot(step, turn);
        way.iter_mut().zip(turn).for_each(|(way, turn)| *way -= part * turn);
        parts.push(part);
    }
    if let Some((step, turn)) = remembered.back() {
        let scale = dot(step, turn) / dot(turn, turn);
        way.iter_mut().for_each(|way| *way *= scale);
    }
    for ((step, turn), part) in remembered.iter().zip(parts.into_iter().rev()) {
        let back = dot(turn, &way) / dot(step, turn);
        way.iter_mut().zip(step).for_each(|(way, step)| *way += (part - back) * step);
    }
    way
}
