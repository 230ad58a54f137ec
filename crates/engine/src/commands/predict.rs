//! `predict`: forecasts a series by exponential smoothing with additive errors.
//!
//! A level follows the series; a trend (`LLT`) or a season (`LLP`) may be added; `LLP5` is the mean of the `LLT` and
//! `LLP` forecasts. The smoothing parameters are chosen from a grid so that the one-step errors are smallest. `BiLL`
//! chooses one parameter for two series, and `LLB` also uses the value of a second series at the same time. Confidence
//! bounds are derived from the one-step errors and widen with the forecast horizon. Splunk's filters are not
//! reproduced; results are close, not equal.

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, concat_rows, rows_in_memory};
use quarry_eval::spans::time_ns;
use quarry_spl::ast::{PredictAlgorithm, PredictCommand};
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Smoothing parameters tried for level, trend and season.
const SMOOTHING_FACTORS: [f64; 9] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95];
/// Maximum number of rows.
const ROWS_MAX: usize = 100_000;
/// Minimum autocorrelation of a season.
const SEASON_AUTOCORRELATION_MIN: f64 = 0.3;
/// Maximum length of a detected season, in rows.
const SEASON_ROWS_MAX: usize = 2_000;

impl Execute for PredictCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Predict(self.clone()))])
    }
}

struct Predict(PredictCommand);

impl BlockingTable for Predict {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("predict", rows, context)?;
        let count = all.num_rows();
        if count > ROWS_MAX {
            let what = "predict: too many rows; use a longer span".to_owned();
            return Err(EngineError::Limit { what, limit: "rows of a series", value: ROWS_MAX as u64 });
        }
        let known = count.saturating_sub(self.0.holdback);
        let added = self.0.future.saturating_sub(count - known);
        let mut result = match added {
            0 => all.clone(),
            _ => concat_rows(vec![all.clone(), self.future_rows(&all, added)?])?,
        };
        let shared = self.shared_level(&all, known);
        for (field, name) in &self.0.series {
            let series = numbers_of(&all, field, known);
            if series.iter().flatten().count() < 2 {
                context.messages.push(format!("predict: {field} has fewer than two numbers; nothing is predicted"));
                continue;
            }
            let predicted = match (&self.0.correlate, shared) {
                (Some(other), _) => forecast_with_series(&series, &numbers_of(&all, other, count), result.num_rows()),
                (None, Some(level)) => {
                    let shares = SmoothingFactors { level, slope: 0.0, season: 0.0 };
                    LEVEL_ONLY.forecast(&series, result.num_rows(), shares)
                }
                (None, None) => self.predict_series(&series, result.num_rows(), context, field),
            };
            for (name, column) in self.columns(name, &predicted) {
                result = rows::with_column(&result, &name, column)?;
            }
        }
        Ok(vec![result])
    }
}

/// Mean and variance of a prediction; `None` if there is no prediction.
type Prediction = Option<(f64, f64)>;

/// The numbers of a field in the first rows.
fn numbers_of(all: &RecordBatch, field: &str, rows: usize) -> Vec<Option<f64>> {
    let reader = rows::reader(all, field);
    (0..rows).map(|row| reader.number(row).filter(|number| number.is_finite())).collect()
}

/// Forecasts a series from its level and from another series at the same time. The deviation of the other series
/// from its level is transferred in proportion to the past correlation of the deviations.
fn forecast_with_series(series: &[Option<f64>], other: &[Option<f64>], count: usize) -> Vec<Prediction> {
    let known = &other[..series.len().min(other.len())];
    let (own, others) = (LEVEL_ONLY.fit_and_forecast(series, count), LEVEL_ONLY.fit_and_forecast(known, count));
    let strayed = |values: &[Option<f64>], predicted: &[Prediction], row: usize| {
        let (mean, _) = predicted.get(row).copied().flatten()?;
        Some(values.get(row).copied().flatten()? - mean)
    };
    let (mut both, mut ours, mut theirs) = (0.0, 0.0, 0.0);
    for row in 0..series.len() {
        if let (Some(own), Some(other)) = (strayed(series, &own, row), strayed(known, &others, row)) {
            both += own * other;
            ours += own * own;
            theirs += other * other;
        }
    }
    if ours <= 0.0 || theirs <= 0.0 {
        return own;
    }
    let (slope, explained) = (both / theirs, both * both / (ours * theirs));
    let adjusted = own.iter().enumerate().map(|(row, prediction)| {
        let (mean, variance) = (*prediction)?;
        Some(match strayed(other, &others, row) {
            Some(strayed) => (mean + slope * strayed, variance * (1.0 - explained)),
            None => (mean, variance),
        })
    });
    adjusted.collect()
}

impl Predict {
    /// The common smoothing parameter of two series. It has the smallest sum of errors, each relative to the variance
    /// of its series.
    fn shared_level(&self, all: &RecordBatch, known: usize) -> Option<f64> {
        if self.0.algorithm != PredictAlgorithm::TwoLevels {
            return None;
        }
        let series: Vec<Vec<Option<f64>>> =
            self.0.series.iter().map(|(field, _)| numbers_of(all, field, known)).collect();
        let errors = |level: f64| -> f64 {
            let shares = SmoothingFactors { level, slope: 0.0, season: 0.0 };
            series
                .iter()
                .map(|series| LEVEL_ONLY.run(series, shares).2 / squared_deviations(series).max(f64::MIN_POSITIVE))
                .sum()
        };
        SMOOTHING_FACTORS.into_iter().min_by(|a, b| errors(*a).total_cmp(&errors(*b)))
    }

    /// Rows after the last one, at the interval of the last two.
    fn future_rows(&self, all: &RecordBatch, added: usize) -> Result<RecordBatch, EngineError> {
        let time = rows::reader(all, "_time");
        let mut column = ColumnBuilder::new(added);
        let count = all.num_rows();
        let last = count.checked_sub(1).and_then(|row| time_ns(&time, row));
        let before = count.checked_sub(2).and_then(|row| time_ns(&time, row));
        match last.zip(before) {
            Some((last, before)) if last != before => {
                for step in 1..=added as i64 {
                    let after = (last - before).saturating_mul(step);
                    column.push(Value::Time(last.saturating_add(after)));
                }
                batch_of([("_time", column.finish())], added)
            }
            _ => batch_of([("_time", rows::null_column(added))], added),
        }
    }

    fn predict_series(
        &self,
        series: &[Option<f64>],
        count: usize,
        context: &CommandContext,
        field: &str,
    ) -> Vec<Prediction> {
        let season = || {
            let period = self.0.period.or_else(|| detect_season(series));
            let fits = period.filter(|period| *period >= 2 && series.len() >= 2 * period);
            if fits.is_none() {
                let why = "no seasonality was detected; set period= to at most half the number of rows";
                context.messages.push(format!("predict: {field}: {why}"));
            }
            fits
        };
        let level = LEVEL_ONLY;
        let trend = Model { slope: true, period: None };
        match self.0.algorithm {
            PredictAlgorithm::Level | PredictAlgorithm::TwoLevels | PredictAlgorithm::Beside => {
                level.fit_and_forecast(series, count)
            }
            PredictAlgorithm::Trend => trend.fit_and_forecast(series, count),
            PredictAlgorithm::Season => Model { period: season(), ..level }.fit_and_forecast(series, count),
            PredictAlgorithm::TrendAndSeason => match season() {
                None => trend.fit_and_forecast(series, count),
                period => {
                    let seasonal = Model { period, ..level }.fit_and_forecast(series, count);
                    let pairs = trend.fit_and_forecast(series, count).into_iter().zip(seasonal);
                    let mean = |(a, b): (Prediction, Prediction)| match (a, b) {
                        (Some((a, va)), Some((b, vb))) => Some(((a + b) / 2.0, (va + vb) / 2.0)),
                        (one, other) => one.or(other),
                    };
                    pairs.map(mean).collect()
                }
            },
        }
    }

    fn columns(&self, name: &str, predicted: &[Prediction]) -> Vec<(String, ArrayRef)> {
        let column = |value: &dyn Fn(f64, f64) -> f64| {
            let mut column = ColumnBuilder::new(predicted.len());
            for prediction in predicted {
                match prediction {
                    Some((mean, variance)) => column.push(Value::from_f64(value(*mean, *variance))),
                    None => column.push_null(),
                }
            }
            column.finish()
        };
        let bound = |kind: &str, (percent, given): &(f64, Option<String>)| match given {
            Some(given) if self.0.series.len() == 1 => given.clone(),
            Some(given) => format!("{given}({name})"),
            None => format!("{kind}{percent}({name})"),
        };
        let (above, below) = (deviations_containing(self.0.upper.0), deviations_containing(self.0.lower.0));
        vec![
            (bound("lower", &self.0.lower), column(&|mean, variance| mean - below * variance.sqrt())),
            (name.to_owned(), column(&|mean, _| mean)),
            (bound("upper", &self.0.upper), column(&|mean, variance| mean + above * variance.sqrt())),
        ]
    }
}

/// Number of standard deviations around the mean that contain this percentage of a normal distribution, by bisection.
fn deviations_containing(percent: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 10.0_f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match 2.0 * super::field_profile::normal_cdf(middle) - 1.0 < percent / 100.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// Sum of squared deviations from the mean.
fn squared_deviations(series: &[Option<f64>]) -> f64 {
    let known: Vec<f64> = series.iter().flatten().copied().collect();
    let mean = known.iter().sum::<f64>() / f64_of(known.len().max(1));
    known.iter().map(|number| (number - mean).powi(2)).sum()
}

/// The lag with the highest autocorrelation among the local maxima above [`SEASON_AUTOCORRELATION_MIN`].
fn detect_season(series: &[Option<f64>]) -> Option<usize> {
    let known: Vec<f64> = series.iter().flatten().copied().collect();
    let mean = known.iter().sum::<f64>() / f64_of(known.len());
    let spread: f64 = known.iter().map(|number| (number - mean).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let likeness = |distance: usize| -> f64 {
        let pairs = series.iter().zip(&series[distance..]);
        pairs.filter_map(|(a, b)| Some(((*a)? - mean) * ((*b)? - mean))).sum::<f64>() / spread
    };
    let most = (series.len() / 2).min(SEASON_ROWS_MAX);
    let all: Vec<f64> = (0..=most).map(likeness).collect();
    // Must be a local maximum, so that slow change is not mistaken for seasonality.
    let peaks = (2..most)
        .filter(|at| all[*at] > all[at - 1] && all[*at] >= all[at + 1] && all[*at] > SEASON_AUTOCORRELATION_MIN);
    peaks.max_by(|a, b| all[*a].total_cmp(&all[*b]))
}

/// Components besides the level.
#[derive(Clone, Copy)]
struct Model {
    slope: bool,
    period: Option<usize>,
}

/// A model with a level only, without slope or period.
const LEVEL_ONLY: Model = Model { slope: false, period: None };

/// Smoothing parameters.
#[derive(Clone, Copy)]
struct SmoothingFactors {
    level: f64,
    slope: f64,
    season: f64,
}

/// State of a model after some rows.
struct State {
    level: f64,
    slope: f64,
    season: Vec<f64>,
}

impl Model {
    /// One-step predictions for the known rows, and multi-step predictions for the rows after them.
    fn fit_and_forecast(self, series: &[Option<f64>], count: usize) -> Vec<Prediction> {
        let others: &[f64] = if self.slope || self.period.is_some() { &SMOOTHING_FACTORS } else { &[0.0] };
        let mut best: Option<(f64, SmoothingFactors)> = None;
        for level in SMOOTHING_FACTORS {
            for other in others {
                let shares = SmoothingFactors { level, slope: *other, season: *other };
                let (_, _, errors) = self.run(series, shares);
                if best.is_none_or(|(least, _)| errors < least) {
                    best = Some((errors, shares));
                }
            }
        }
        best.map_or_else(|| vec![None; count], |(_, shares)| self.forecast(series, count, shares))
    }

    /// Predictions with these smoothing factors.
    fn forecast(self, series: &[Option<f64>], count: usize, shares: SmoothingFactors) -> Vec<Prediction> {
        let (state, mut predicted, errors) = self.run(series, shares);
        let tested = predicted.iter().flatten().count().max(1);
        let variance = errors / f64_of(tested);
        let mut result: Vec<Prediction> = predicted.drain(..).map(|mean| mean.map(|mean| (mean, variance))).collect();
        let mut growth = 1.0;
        for step in 1..=count.saturating_sub(series.len()) {
            if step > 1 {
                let back = f64_of(step - 1);
                let seasonal = self.period.is_some_and(|period| (step - 1).is_multiple_of(period));
                let slope = if self.slope { shares.level * shares.slope * back } else { 0.0 };
                let season = if seasonal { shares.season * (1.0 - shares.level) } else { 0.0 };
                growth += (shares.level + slope + season).powi(2);
            }
            let mean = state.level + state.slope * f64_of(step) + self.season_at(&state, series.len() + step - 1);
            result.push(Some((mean, variance * growth)));
        }
        result
    }

    fn season_at(self, state: &State, row: usize) -> f64 {
        self.period.map_or(0.0, |period| state.season[row % period])
    }

    /// The state after all rows, the prediction of each row from the previous rows, and the sum of squared errors.
    fn run(self, series: &[Option<f64>], shares: SmoothingFactors) -> (State, Vec<Option<f64>>, f64) {
        let mut state = self.initial_state(series);
        let mut started = false;
        let mut errors = 0.0;
        let mut predicted = Vec::with_capacity(series.len());
        for (row, value) in series.iter().enumerate() {
            let season = self.season_at(&state, row);
            let mean = state.level + state.slope + season;
            predicted.push(started.then_some(mean));
            let Some(value) = value else {
                state.level += state.slope;
                continue;
            };
            if !started {
                // The first number sets the level.
                (state.level, started) = (value - season, true);
                continue;
            }
            let error = value - mean;
            errors += error * error;
            state.level += state.slope + shares.level * error;
            if self.slope {
                state.slope += shares.level * shares.slope * error;
            }
            if let Some(period) = self.period {
                state.season[row % period] += shares.season * (1.0 - shares.level) * error;
            }
        }
        (state, predicted, errors)
    }

    /// Initial trend from the first two numbers; initial season from the means at each position of the period.
    fn initial_state(self, series: &[Option<f64>]) -> State {
        let mut state = State { level: 0.0, slope: 0.0, season: Vec::new() };
        let mut known = series.iter().enumerate().filter_map(|(row, value)| value.map(|value| (row, value)));
        if self.slope
            && let (Some((first, low)), Some((second, high))) = (known.next(), known.next())
        {
            state.slope = (high - low) / f64_of(second - first);
        }
        if let Some(period) = self.period {
            let all: Vec<f64> = series.iter().flatten().copied().collect();
            let mean = all.iter().sum::<f64>() / f64_of(all.len());
            state.season = (0..period)
                .map(|place| {
                    let own: Vec<f64> = series.iter().skip(place).step_by(period).flatten().copied().collect();
                    if own.is_empty() { 0.0 } else { own.iter().sum::<f64>() / f64_of(own.len()) - mean }
                })
                .collect();
        }
        state
    }
}
