//! Scores of the `score` command, which measure how well predictions match actual values.
//!
//! Rows that lack one of the values are ignored. Definitions follow scikit-learn's functions of the same names; but
//! precision, recall and F1 are returned for each class unless an option says otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_stdx::number::{f64_of, integer_part};

use crate::encode::Column;
use crate::model::OutputValue;
use crate::options::Options;
pub use crate::summary::Row;
use crate::{CLASSES_MAX, LearnError, StopCheck, check_stop};

/// Maximum number of rows for silhouettes, which compare each row with each other row.
const SILHOUETTE_ROWS_MAX: usize = 10_000;
/// Maximum number of scored rows.
pub const SCORED_ROWS_MAX: usize = 1_000_000;

/// The result table of a scoring method.
pub fn score(
    method: &str,
    actual: &[Column<'_>],
    predicted: &[Column<'_>],
    rows: usize,
    options: &Options,
    stop: StopCheck<'_>,
) -> Result<Vec<Row>, LearnError> {
    if method == "silhouette_score" {
        return silhouette(actual, predicted, rows, options, stop);
    }
    let pairs: Vec<(Column<'_>, Column<'_>)> = match (actual.len(), predicted.len()) {
        (1, _) => predicted.iter().map(|predicted| (actual[0], *predicted)).collect(),
        (count, other) if count == other => actual.iter().copied().zip(predicted.iter().copied()).collect(),
        (count, other) => {
            let message =
                format!("{count} fields against {other}: name one field before `against`, or as many as after it");
            return Err(LearnError::Data(message));
        }
    };
    let mut table = Vec::new();
    for (one, other) in &pairs {
        check_stop(stop)?;
        let mut part = pair(method, one, other, rows, options)?;
        if pairs.len() > 1 {
            let names = [("actual_field", one.name), ("predicted_field", other.name)];
            let names = names.map(|(field, name)| (field.to_owned(), OutputValue::Text(Arc::from(name))));
            part.iter_mut().for_each(|row| drop(row.splice(0..0, names.clone())));
        }
        table.extend(part);
    }
    Ok(table)
}

fn pair(
    method: &str,
    actual: &Column<'_>,
    predicted: &Column<'_>,
    rows: usize,
    options: &Options,
) -> Result<Vec<Row>, LearnError> {
    let one = |number: f64| Ok(vec![vec![(method.to_owned(), finite(number))]]);
    match method {
        "r2_score" | "mean_squared_error" | "mean_absolute_error" | "explained_variance_score" => {
            one(regression_score(method, &numbers(actual, predicted, rows)?))
        }
        "roc_auc_score" => one(area_under_curve(actual, predicted, rows, options)?),
        _ => {
            let labels = ConfusionMatrix::new(actual, predicted, rows)?;
            match method {
                "accuracy_score" => one(labels.accuracy(options.boolean("normalize", true)?)),
                "confusion_matrix" => Ok(labels.matrix()),
                "precision_recall_fscore_support" => Ok(labels.classification_report()),
                _ => labels.average(method, options),
            }
        }
    }
}

fn finite(number: f64) -> OutputValue {
    if number.is_finite() { OutputValue::Number(number) } else { OutputValue::Null }
}

fn no_rows(actual: &Column<'_>, predicted: &Column<'_>) -> LearnError {
    LearnError::Data(format!("no row has both {} and {}", actual.name, predicted.name))
}

fn numbers(actual: &Column<'_>, predicted: &Column<'_>, rows: usize) -> Result<Vec<(f64, f64)>, LearnError> {
    let pair = |row: usize| Some((actual.values.number(row)?, predicted.values.number(row)?));
    let pairs: Vec<(f64, f64)> = (0..rows).filter_map(pair).collect();
    if pairs.is_empty() { Err(no_rows(actual, predicted)) } else { Ok(pairs) }
}

fn regression_score(method: &str, pairs: &[(f64, f64)]) -> f64 {
    let count = f64_of(pairs.len());
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let middle = mean(&|(actual, _)| *actual);
    let spread = mean(&|(actual, _)| (actual - middle).powi(2));
    let square = mean(&|(actual, predicted)| (actual - predicted).powi(2));
    // For constant actual values, the score only tells whether the prediction is perfect.
    let share = |off: f64| match spread > 0.0 {
        true => 1.0 - off / spread,
        false => f64::from(u8::from(off == 0.0)),
    };
    match method {
        "mean_squared_error" => square,
        "mean_absolute_error" => mean(&|(actual, predicted)| (actual - predicted).abs()),
        "explained_variance_score" => {
            let off = mean(&|(actual, predicted)| actual - predicted);
            share(mean(&|(actual, predicted)| (actual - predicted - off).powi(2)))
        }
        _ => share(square),
    }
}

/// Area under the ROC curve: the share of pairs of a positive and a negative row in which the positive row has the
/// higher number; pairs with equal numbers count half.
fn area_under_curve(
    actual: &Column<'_>,
    predicted: &Column<'_>,
    rows: usize,
    options: &Options,
) -> Result<f64, LearnError> {
    let positive = options.get("pos_label").unwrap_or("1");
    let row = |row: usize| Some((predicted.values.number(row)?, actual.values.text(row)? == positive));
    let mut scored: Vec<(f64, bool)> = (0..rows).filter_map(row).collect();
    let trues = f64_of(scored.iter().filter(|(_, is_true)| *is_true).count());
    let others = f64_of(scored.len()) - trues;
    if trues == 0.0 || others == 0.0 {
        let message = format!("{} needs rows with and without the value {positive}: name it by pos_label", actual.name);
        return Err(LearnError::Data(message));
    }
    scored.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut ranks = 0.0;
    let mut start = 0;
    for group in scored.chunk_by(|one, other| one.0 == other.0) {
        let middle = f64_of(start) + f64_of(group.len() + 1) / 2.0;
        ranks += middle * f64_of(group.iter().filter(|(_, is_true)| *is_true).count());
        start += group.len();
    }
    Ok((ranks - trues * (trues + 1.0) / 2.0) / (trues * others))
}

/// Confusion matrix: counts of rows by actual and predicted class.
struct ConfusionMatrix {
    classes: Vec<String>,
    /// One matrix row per actual class, one after the other.
    counts: Vec<f64>,
}

/// Precision and recall of one class.
struct ClassScore {
    precision: f64,
    recall: f64,
    f1: f64,
    support: f64,
}

impl ConfusionMatrix {
    fn new(actual: &Column<'_>, predicted: &Column<'_>, rows: usize) -> Result<ConfusionMatrix, LearnError> {
        let mut pairs: BTreeMap<(String, String), f64> = BTreeMap::new();
        for row in 0..rows {
            if let (Some(one), Some(other)) = (actual.values.text(row), predicted.values.text(row)) {
                *pairs.entry((one.into_owned(), other.into_owned())).or_default() += 1.0;
                if pairs.len() > CLASSES_MAX * CLASSES_MAX {
                    break;
                }
            }
        }
        if pairs.is_empty() {
            return Err(no_rows(actual, predicted));
        }
        let mut classes: Vec<String> = pairs.keys().flat_map(|(one, other)| [one.clone(), other.clone()]).collect();
        classes.sort_unstable();
        classes.dedup();
        if classes.len() > CLASSES_MAX {
            let what = format!("distinct values of {} and {}", actual.name, predicted.name);
            return Err(LearnError::Limit { what, value: classes.len(), limit: CLASSES_MAX });
        }
        let mut counts = vec![0.0; classes.len() * classes.len()];
        let place = |name: &String| classes.binary_search(name).unwrap_or_default();
        for ((one, other), count) in &pairs {
            counts[place(one) * classes.len() + place(other)] = *count;
        }
        Ok(ConfusionMatrix { classes, counts })
    }

    fn accuracy(&self, as_share: bool) -> f64 {
        let right: f64 = self.counts.iter().step_by(self.classes.len() + 1).sum();
        if as_share { right / self.counts.iter().sum::<f64>() } else { right }
    }

    fn matrix(&self) -> Vec<Row> {
        let lines = self.classes.iter().zip(self.counts.chunks_exact(self.classes.len()));
        let line = |(class, counts): (&String, &[f64])| {
            let name = ("actual".to_owned(), OutputValue::Text(Arc::from(class.as_str())));
            let cells = self.classes.iter().zip(counts);
            let cells =
                cells.map(|(class, count)| (format!("predicted({class})"), OutputValue::Whole(integer_part(*count))));
            std::iter::once(name).chain(cells).collect()
        };
        lines.map(line).collect()
    }

    fn class_score(&self, class: usize) -> ClassScore {
        let count = self.classes.len();
        let right = self.counts[class * count + class];
        let support: f64 = self.counts[class * count..(class + 1) * count].iter().sum();
        let predicted: f64 = self.counts.iter().skip(class).step_by(count).sum();
        ClassScore::new(right, predicted, support)
    }

    fn classification_report(&self) -> Vec<Row> {
        let line = |(at, class): (usize, &String)| {
            let share = self.class_score(at);
            vec![
                ("class".to_owned(), OutputValue::Text(Arc::from(class.as_str()))),
                ("precision".to_owned(), OutputValue::Number(share.precision)),
                ("recall".to_owned(), OutputValue::Number(share.recall)),
                ("fscore".to_owned(), OutputValue::Number(share.f1)),
                ("support".to_owned(), OutputValue::Whole(integer_part(share.support))),
            ]
        };
        self.classes.iter().enumerate().map(line).collect()
    }

    /// Precision, recall or F1 score, by class or averaged.
    fn average(&self, method: &str, options: &Options) -> Result<Vec<Row>, LearnError> {
        let of = |share: &ClassScore| match method {
            "precision_score" => share.precision,
            "recall_score" => share.recall,
            _ => share.f1,
        };
        let shares: Vec<ClassScore> = (0..self.classes.len()).map(|class| self.class_score(class)).collect();
        let one = |number: f64| Ok(vec![vec![(method.to_owned(), OutputValue::Number(number))]]);
        let whole: f64 = shares.iter().map(|share| share.support).sum();
        let positive = options.get("pos_label");
        let binary = || match self.classes.iter().position(|class| Some(class.as_str()) == positive.or(Some("1"))) {
            Some(class) => one(of(&shares[class])),
            None => Err(options.invalid_option("pos_label", format!("one of {}", self.classes.join(", ")))),
        };
        match options.get("average").map(str::to_ascii_lowercase).as_deref() {
            None if positive.is_some() => binary(),
            None | Some("none") => {
                let line = |(class, share): (&String, &ClassScore)| {
                    let class = ("class".to_owned(), OutputValue::Text(Arc::from(class.as_str())));
                    vec![class, (method.to_owned(), OutputValue::Number(of(share)))]
                };
                Ok(self.classes.iter().zip(&shares).map(line).collect())
            }
            Some("binary") => binary(),
            // Each misclassified row is one false positive and one false negative, so all three equal the accuracy.
            Some("micro") => one(self.accuracy(true)),
            Some("macro") => one(shares.iter().map(of).sum::<f64>() / f64_of(shares.len())),
            Some("weighted") => one(shares.iter().map(|share| of(share) * share.support).sum::<f64>() / whole),
            Some(_) => Err(options.invalid_option("average", "binary, micro, macro, weighted or none")),
        }
    }
}

impl ClassScore {
    fn new(right: f64, predicted: f64, support: f64) -> ClassScore {
        let part = |whole: f64| if whole > 0.0 { right / whole } else { 0.0 };
        let f1 = if predicted + support > 0.0 { 2.0 * right / (predicted + support) } else { 0.0 };
        ClassScore { precision: part(predicted), recall: part(support), f1, support }
    }
}

/// Silhouette: how much closer rows are to their own cluster than to the nearest other cluster (Rousseeuw, 1987).
fn silhouette(
    labels: &[Column<'_>],
    features: &[Column<'_>],
    rows: usize,
    options: &Options,
    stop: StopCheck<'_>,
) -> Result<Vec<Row>, LearnError> {
    let [label] = labels else {
        return Err(LearnError::Data("silhouette_score takes one field of groups before `against`".to_owned()));
    };
    let is_sum = match options.get("metric") {
        None | Some("euclidean") => false,
        Some("manhattan" | "cityblock" | "l1") => true,
        Some(_) => return Err(options.invalid_option("metric", "euclidean or manhattan")),
    };
    let row = |row: usize| -> Option<(String, Vec<f64>)> {
        let place = features.iter().map(|column| column.values.number(row)).collect::<Option<Vec<f64>>>()?;
        Some((label.values.text(row)?.into_owned(), place))
    };
    let points: Vec<(String, Vec<f64>)> = (0..rows).filter_map(row).collect();
    if points.len() > SILHOUETTE_ROWS_MAX {
        let what = "rows for silhouette_score: take fewer".to_owned();
        return Err(LearnError::Limit { what, value: points.len(), limit: SILHOUETTE_ROWS_MAX });
    }
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    points.iter().for_each(|(group, _)| *sizes.entry(group).or_default() += 1.0);
    if sizes.len() < 2 || sizes.len() >= points.len() {
        let message = format!(
            "silhouette_score needs at least two groups, and fewer groups than rows: {} has {}",
            label.name,
            sizes.len()
        );
        return Err(LearnError::Data(message));
    }
    let places: BTreeMap<&str, usize> = sizes.keys().enumerate().map(|(at, group)| (*group, at)).collect();
    let counts: Vec<f64> = sizes.values().copied().collect();
    let groups: Vec<usize> = points.iter().map(|(group, _)| places[group.as_str()]).collect();
    let mut whole = 0.0;
    for (own, (_, here)) in groups.iter().zip(&points) {
        check_stop(stop)?;
        let mut sums = vec![0.0; counts.len()];
        for (group, (_, there)) in groups.iter().zip(&points) {
            let parts = here.iter().zip(there).map(|(a, b)| a - b);
            sums[*group] +=
                if is_sum { parts.map(f64::abs).sum() } else { parts.map(|off| off * off).sum::<f64>().sqrt() };
        }
        if counts[*own] > 1.0 {
            let inner = sums[*own] / (counts[*own] - 1.0);
            let others = (0..counts.len()).filter(|group| group != own).map(|group| sums[group] / counts[group]);
            let outer = others.fold(f64::INFINITY, f64::min);
            let most = inner.max(outer);
            whole += if most > 0.0 { (outer - inner) / most } else { 0.0 };
        }
    }
    Ok(vec![vec![("silhouette_score".to_owned(), finite(whole / f64_of(points.len())))]])
}
