//! `anomalydetection`: finds improbable rows, by one of three methods.
//!
//! `method=histogram` multiplies the relative frequencies of a row's values in their fields, with numbers binned;
//! `method=zscore` is `anomalousvalue`, and `method=iqr` is `outlier`. Scores differ from Splunk's, but the same rows
//! stand out.

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, rows_in_memory};
use quarry_spl::ast::{AnomalyAction, AnomalyDetectionCommand, HistogramDetection};
use quarry_stdx::number::{f64_of, integer_part};

use super::Execute;
use super::field_profile::{FieldProfile, select_fields, shown_names};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of bins of a histogram.
const BINS_MAX: usize = 50;
/// A log-probability is anomalous if it is more than this many interquartile ranges below the lower quartile.
const OUTLIER_IQR_FACTOR: f64 = 1.5;
/// Like [`OUTLIER_IQR_FACTOR`], with `cutoff=true`, which reports fewer anomalies.
const CUTOFF_IQR_FACTOR: f64 = 3.0;

impl Execute for AnomalyDetectionCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        match self {
            AnomalyDetectionCommand::Histogram(command) => Ok(vec![blocking(Histogram(command.clone()))]),
            AnomalyDetectionCommand::ZScore(command) => command.steps(lowering),
            AnomalyDetectionCommand::Quartiles(command) => command.steps(lowering),
        }
    }
}

/// `method=histogram` with its options.
struct Histogram(HistogramDetection);

/// Log-probability of a row, and the field with the rarest value in the row, with the relative frequency of that value.
struct Likelihood<'n> {
    logarithm: f64,
    cause: Option<(&'n str, f64)>,
}

/// Relative frequency of each row's value in a field: by value, or by bin if there are many distinct numbers.
fn value_frequencies(name: &str, rows: &RecordBatch) -> Vec<Option<f64>> {
    let facts = FieldProfile::of(name, rows);
    let bins = f64_of(facts.count).sqrt().ceil().min(f64_of(BINS_MAX));
    if !facts.is_numeric() || f64_of(facts.distinct) <= bins {
        return facts.frequencies;
    }
    let reader = rows::reader(rows, name);
    let numbers: Vec<Option<f64>> =
        (0..rows.num_rows()).map(|row| reader.number(row).filter(|number| number.is_finite())).collect();
    let low = numbers.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = (high - low) / bins;
    let bin = |number: f64| integer_part::<usize>(((number - low) / width).min(bins - 1.0));
    let mut counts = vec![0usize; integer_part(bins)];
    numbers.iter().flatten().for_each(|number| counts[bin(*number)] += 1);
    let of_bin = |number: f64| f64_of(counts[bin(number)]) / f64_of(facts.count);
    numbers.iter().zip(facts.frequencies).map(|(number, frequency)| number.map(of_bin).or(frequency)).collect()
}

impl Histogram {
    fn likelihoods<'n>(
        &self,
        all: &RecordBatch,
        names: &'n [String],
        stop: &Stop,
    ) -> Result<Vec<Likelihood<'n>>, EngineError> {
        let mut fields: Vec<(&str, Vec<Option<f64>>)> = Vec::new();
        for name in select_fields(&self.0.fields, names) {
            stop.check_cancelled()?;
            fields.push((name, value_frequencies(name, all)));
        }
        let of_row = |row: usize| {
            let mut found = Likelihood { logarithm: 0.0, cause: None };
            for (name, shares) in &fields {
                let Some(share) = shares[row] else { continue };
                found.logarithm += share.ln();
                if found.cause.is_none_or(|(_, least)| share < least) {
                    found.cause = Some((*name, share));
                }
            }
            found
        };
        Ok((0..all.num_rows()).map(of_row).collect())
    }

    /// The log-probability below which a row is anomalous, and the quartiles from which it is derived.
    fn threshold(&self, likelihoods: &[Likelihood<'_>]) -> (f64, f64, f64) {
        let mut logarithms: Vec<f64> = likelihoods.iter().map(|likelihood| likelihood.logarithm).collect();
        let mut at = |share: f64| {
            let place = integer_part::<usize>(f64_of(logarithms.len().max(1) - 1) * share);
            match place < logarithms.len() {
                true => *logarithms.select_nth_unstable_by(place, f64::total_cmp).1,
                false => 0.0,
            }
        };
        let (low, high) = (at(0.25), at(0.75));
        let reach = if self.0.cutoff { CUTOFF_IQR_FACTOR } else { OUTLIER_IQR_FACTOR };
        let found = self.0.threshold.map_or(low - reach * (high - low), f64::ln);
        (found, low, high)
    }

    fn summary(&self, likelihoods: &[Likelihood<'_>]) -> Result<RecordBatch, EngineError> {
        let (threshold, low, high) = self.threshold(likelihoods);
        let logarithms = || likelihoods.iter().map(|likelihood| likelihood.logarithm);
        let anomalous = logarithms().filter(|logarithm| *logarithm < threshold).count();
        let figures = [
            ("num_anomalies", f64_of(anomalous)),
            ("thresh", threshold),
            ("max_logprob", logarithms().fold(f64::NEG_INFINITY, f64::max)),
            ("min_logprob", logarithms().fold(f64::INFINITY, f64::min)),
            ("1st_quartile", low),
            ("3rd_quartile", high),
        ];
        let columns = figures.map(|(name, figure)| {
            let mut column = ColumnBuilder::new(1);
            column.push(if figure.is_finite() { Value::from_f64(figure) } else { Value::Null });
            (name, column.finish())
        });
        batch_of(columns, 1)
    }
}

impl BlockingTable for Histogram {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("anomalydetection", rows, context)?;
        let names = shown_names(&all);
        let likelihoods = self.likelihoods(&all, &names, &context.stop)?;
        if self.0.action == AnomalyAction::Summary {
            return self.summary(&likelihoods).map(|table| vec![table]);
        }
        let (threshold, ..) = self.threshold(&likelihoods);
        let mut columns: [ColumnBuilder; 3] = std::array::from_fn(|_| ColumnBuilder::new(all.num_rows()));
        let mut anomalous = Vec::with_capacity(all.num_rows());
        for likelihood in &likelihoods {
            let is_anomalous = likelihood.logarithm < threshold;
            anomalous.push(is_anomalous);
            let cause = likelihood.cause.filter(|_| is_anomalous);
            let [logarithm, name, share] = &mut columns;
            match cause {
                Some((field, least)) => {
                    logarithm.push(Value::from_f64(likelihood.logarithm));
                    name.push_text(field);
                    share.push(Value::from_f64(least));
                }
                None => {
                    logarithm.push_null();
                    name.push_null();
                    share.push_null();
                }
            }
        }
        let mut result = all.clone();
        let names = ["log_event_prob", "probable_cause", "probable_cause_freq"];
        for (name, column) in names.into_iter().zip(columns) {
            result = rows::with_column(&result, name, column.finish())?;
        }
        match self.0.action {
            AnomalyAction::Filter => Ok(vec![rows::filter(&result, &BooleanArray::from(anomalous))?]),
            _ => Ok(vec![result]),
        }
    }
}
