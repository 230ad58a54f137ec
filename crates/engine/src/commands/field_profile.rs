//! Statistics of field values for `anomalousvalue` and `anomalydetection`.

use arrow::record_batch::RecordBatch;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::field_names::{matching_names, names_of};
use quarry_eval::rows::{self, is_hidden};
use quarry_spl::ast::FieldPattern;
use quarry_stdx::number::f64_of;

/// Minimum share of numeric values for which a field counts as numeric.
const NUMERIC_SHARE: f64 = 0.9;

/// Normal distribution function (Abramowitz and Stegun 26.2.17).
pub(super) fn normal_cdf(deviations: f64) -> f64 {
    const WEIGHTS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let (at, density) = (deviations.abs(), (-deviations * deviations / 2.0).exp() / std::f64::consts::TAU.sqrt());
    let share = 1.0 / (1.0 + 0.231_641_9 * at);
    let tail = density * WEIGHTS.iter().rev().fold(0.0, |sum, weight| (sum + weight) * share);
    if deviations >= 0.0 { 1.0 - tail } else { tail }
}

/// The named fields, or all that are not internal.
pub(super) fn select_fields<'n>(fields: &[FieldPattern], names: &'n [String]) -> Vec<&'n str> {
    match fields.is_empty() {
        true => names.iter().map(String::as_str).filter(|name| !name.starts_with('_')).collect(),
        false => matching_names(fields, names),
    }
}

/// Names of the fields in the output.
pub(super) fn shown_names(rows: &RecordBatch) -> Vec<String> {
    names_of(rows).into_iter().filter(|name| !is_hidden(name)).collect()
}

/// Statistics of a field over all rows.
pub(super) struct FieldProfile {
    pub(super) name: String,
    pub(super) count: usize,
    pub(super) distinct: usize,
    numbers: usize,
    pub(super) mean: f64,
    pub(super) deviation: f64,
    /// Relative frequency of each row's value; `None` without a value.
    pub(super) frequencies: Vec<Option<f64>>,
    /// Probability of a number at least this far from the mean; `None` without a number.
    pub(super) tail_probabilities: Vec<Option<f64>>,
}

impl FieldProfile {
    /// The statistics of this field.
    pub(super) fn of(name: &str, rows: &RecordBatch) -> FieldProfile {
        let (reader, count) = (rows::reader(rows, name), rows.num_rows());
        let (mut values, mut counts, mut scratch) = (KeyTable::default(), Vec::<usize>::new(), String::new());
        let number_of = |row: usize| {
            let number = values.intern(reader.text(row, &mut scratch)?.as_bytes()) as usize;
            counts.resize(values.len(), 0);
            counts[number] += 1;
            Some(number)
        };
        let value_numbers: Vec<Option<usize>> = (0..count).map(number_of).collect();
        let present: usize = counts.iter().sum();
        let numbers: Vec<Option<f64>> = (0..count).map(|row| reader.number(row).filter(|n| n.is_finite())).collect();
        let known = numbers.iter().flatten().count();
        let mean = numbers.iter().flatten().sum::<f64>() / f64_of(known.max(1));
        let squares: f64 = numbers.iter().flatten().map(|number| (number - mean).powi(2)).sum();
        let deviation = (squares / f64_of(known.saturating_sub(1).max(1))).sqrt();
        let chance = |number: f64| match deviation > 0.0 {
            true => 2.0 * (1.0 - normal_cdf(((number - mean) / deviation).abs())),
            false => 1.0,
        };
        let share = |number: usize| f64_of(counts[number]) / f64_of(present);
        FieldProfile {
            name: name.to_owned(),
            count: present,
            distinct: counts.len(),
            numbers: known,
            mean,
            deviation,
            frequencies: value_numbers.into_iter().map(|number| number.map(share)).collect(),
            tail_probabilities: numbers.iter().map(|number| number.map(chance)).collect(),
        }
    }

    /// Whether at least the share [`NUMERIC_SHARE`] of the field's values are numbers.
    pub(super) fn is_numeric(&self) -> bool {
        self.count > 0 && f64_of(self.numbers) >= NUMERIC_SHARE * f64_of(self.count)
    }

    /// Share of the field's values for which the number in `figures` is at most the threshold.
    pub(super) fn share_at_most(&self, figures: &[Option<f64>], threshold: f64) -> f64 {
        f64_of(figures.iter().flatten().filter(|figure| **figure <= threshold).count()) / f64_of(self.count.max(1))
    }
}
