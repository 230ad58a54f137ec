//! Fitting: from columns and an algorithm's name to a model.

use std::collections::BTreeMap;

use quarry_stdx::number::u32_of;

use crate::cluster::CLUSTERS_MAX;
use crate::encode::{Column, Encoding, NumericRows};
use crate::linear_regression::Penalty;
use crate::model::{Body, Model, OutputValue};
use crate::options::Options;
use crate::pca::ComponentCount;
use crate::tree_grow::{GrowthOptions, Targets};
use crate::{
    CLASSES_MAX, FitControl, LearnError, ROWS_MAX, StopCheck, bayes, check_stop, cluster, density_fit,
    linear_regression, logistic_regression, pca, scale, tree_grow,
};

/// Input for fitting a model.
pub struct FitRequest<'a> {
    /// One of [`crate::ALGORITHMS`].
    pub algorithm: &'a str,
    /// The target field.
    pub target: Option<Column<'a>>,
    /// Columns from which the model predicts.
    pub features: Vec<Column<'a>>,
    /// Fields that define groups.
    pub by: Vec<Column<'a>>,
    /// Number of rows of each column.
    pub rows: usize,
    /// Options of the algorithm.
    pub options: Options,
    /// Name of the resulting field, if given.
    pub output: Option<String>,
}

/// Result of a fit.
#[derive(Debug)]
pub struct FitResult {
    /// The fitted model, ready to be stored or applied.
    pub model: Model,
    /// Labels of the fitted rows, for algorithms that cannot be applied to other rows.
    pub labels: Option<(String, Vec<OutputValue>)>,
    /// Notes for the user about columns and rows that were not used.
    pub notes: Vec<String>,
}

/// Fits a model to rows.
pub fn fit(request: &FitRequest<'_>, control: FitControl<'_>) -> Result<FitResult, LearnError> {
    let stop = control.stop;
    if request.rows > ROWS_MAX {
        let what = "rows to learn from".to_owned();
        return Err(LearnError::Limit { what, value: request.rows, limit: ROWS_MAX });
    }
    let mut notes = Vec::new();
    let options: BTreeMap<String, String> =
        request.options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut model = Model {
        algorithm: request.algorithm.to_owned(),
        options,
        target: request.target.map(|column| column.name.to_owned()),
        classes: Vec::new(),
        output: request.output.clone(),
        by: request.by.iter().map(|column| column.name.to_owned()).collect(),
        encoding: Encoding::default(),
        body: Body::Nothing,
    };
    // The target is not a feature, even if a wildcard matches it.
    let is_target = |column: &&Column<'_>| model.target.as_deref() == Some(column.name);
    let features: Vec<Column<'_>> = request.features.iter().filter(|column| !is_target(column)).copied().collect();
    if request.algorithm == "DensityFunction" {
        (model.body, model.encoding) = density_fit::fit(request, &features, &mut notes, stop)?;
        return Ok(FitResult { model, labels: None, notes });
    }
    model.encoding = Encoding::learn(&features, request.rows, &mut notes, stop)?;
    let mut encoded = model.encoding.matrix(&features, request.rows, stop)?;
    let mut labels = None;
    match request.target {
        Some(target) => {
            (model.body, model.classes) = supervised(request, &target, &mut encoded, control)?;
        }
        None => {
            if encoded.rows.is_empty() {
                return Err(no_rows(request.algorithm));
            }
            if request.algorithm == "DBSCAN" {
                labels = Some(dbscan(request, &encoded, stop)?);
            } else {
                model.body = transformer(request, &encoded, control)?;
            }
        }
    }
    check_stop(stop)?;
    Ok(FitResult { model, labels, notes })
}

fn no_rows(algorithm: &str) -> LearnError {
    LearnError::Data(format!("{algorithm} has no row to learn from: no row has a value of every field"))
}

/// Fits a model with a target field. Rows without a target value are not used.
fn supervised(
    request: &FitRequest<'_>,
    target: &Column<'_>,
    encoded: &mut NumericRows,
    control: FitControl<'_>,
) -> Result<(Body, Vec<String>), LearnError> {
    let algorithm = request.algorithm;
    let has_target = |row: &usize| !target.values.is_null(*row);
    if !encoded.rows.iter().all(has_target) {
        let mut kept =
            NumericRows { matrix: crate::matrix::Matrix::of_width(encoded.matrix.width()), rows: Vec::new() };
        for (at, row) in encoded.rows.iter().enumerate().filter(|(_, row)| has_target(row)) {
            kept.matrix.add_row().copy_from_slice(encoded.matrix.row(at));
            kept.rows.push(*row);
        }
        *encoded = kept;
    }
    if encoded.rows.is_empty() {
        return Err(no_rows(algorithm));
    }
    match algorithm {
        "LogisticRegression" | "GaussianNB" | "DecisionTreeClassifier" | "RandomForestClassifier" => {
            classifier(request, target, encoded, control)
        }
        _ => Ok((regressor(request, target, encoded, control)?, Vec::new())),
    }
}

fn classifier(
    request: &FitRequest<'_>,
    target: &Column<'_>,
    encoded: &NumericRows,
    control: FitControl<'_>,
) -> Result<(Body, Vec<String>), LearnError> {
    let (options, x) = (&request.options, &encoded.matrix);
    let texts: Vec<String> =
        encoded.rows.iter().map(|row| target.values.text(*row).unwrap_or_default().into_owned()).collect();
    let mut classes = texts.clone();
    classes.sort_unstable();
    classes.dedup();
    let count = classes.len();
    if count > CLASSES_MAX {
        let what = format!("distinct values of {}, too many for {}", target.name, request.algorithm);
        return Err(LearnError::Limit { what, value: count, limit: CLASSES_MAX });
    }
    let truth: Vec<u32> = texts.iter().map(|text| u32_of(classes.binary_search(text).unwrap_or_default())).collect();
    options.boolean("probabilities", false)?;
    let body = match request.algorithm {
        "LogisticRegression" => {
            if count < 2 {
                let message = format!("{} has one value in all rows: there is nothing to distinguish", target.name);
                return Err(LearnError::Data(message));
            }
            Body::Logistic(logistic_regression::fit(
                x,
                &truth,
                count,
                options.boolean("fit_intercept", true)?,
                control,
            )?)
        }
        "GaussianNB" => {
            let smoothing = options.number("var_smoothing", (0.0, 1e9))?.unwrap_or(1e-9);
            Body::Bayes(bayes::fit(x, &truth, count, smoothing, control.stop)?)
        }
        name => {
            let growth = GrowthOptions::new(options, x.width(), name == "RandomForestClassifier", true)?;
            Body::Forest(tree_grow::fit(x, &Targets::Classes(&truth, count), &growth, control)?)
        }
    };
    Ok((body, classes))
}

fn regressor(
    request: &FitRequest<'_>,
    target: &Column<'_>,
    encoded: &NumericRows,
    control: FitControl<'_>,
) -> Result<Body, LearnError> {
    let (options, x) = (&request.options, &encoded.matrix);
    let number = |row: &usize| {
        target.values.number(*row).ok_or_else(|| {
            let text = target.values.text(*row).unwrap_or_default();
            LearnError::Data(format!(
                "{} has values that are not numbers, such as `{text}`: {} predicts numbers",
                target.name, request.algorithm
            ))
        })
    };
    let y = encoded.rows.iter().map(number).collect::<Result<Vec<f64>, _>>()?;
    if matches!(request.algorithm, "DecisionTreeRegressor" | "RandomForestRegressor") {
        let growth = GrowthOptions::new(options, x.width(), request.algorithm == "RandomForestRegressor", false)?;
        return Ok(Body::Forest(tree_grow::fit(x, &Targets::Numbers(&y), &growth, control)?));
    }
    let alpha = options.number("alpha", (0.0, 1e300))?.unwrap_or(1.0);
    let penalty = match request.algorithm {
        "LinearRegression" => Penalty::None,
        "Ridge" => Penalty::Ridge(alpha),
        "Lasso" => Penalty::ElasticNet { alpha, share: 1.0 },
        "ElasticNet" => Penalty::ElasticNet { alpha, share: options.number("l1_ratio", (0.0, 1.0))?.unwrap_or(0.5) },
        other => return Err(unknown_algorithm(other)),
    };
    Ok(Body::Linear(linear_regression::fit(x, &y, penalty, options.boolean("fit_intercept", true)?, control.stop)?))
}

fn transformer(request: &FitRequest<'_>, encoded: &NumericRows, control: FitControl<'_>) -> Result<Body, LearnError> {
    let stop = control.stop;
    let (options, x) = (&request.options, &encoded.matrix);
    Ok(match request.algorithm {
        "KMeans" => {
            let count = options.number("k", (1, CLUSTERS_MAX))?.unwrap_or(8);
            Body::Clusters(cluster::k_means(x, count, options.seed()?, control)?)
        }
        "PCA" => {
            let kept = match (options.number("k", (1, 10_000usize))?, options.number("variance", (0.0, 1.0))?) {
                (Some(count), _) => ComponentCount::Count(count),
                (None, Some(share)) => ComponentCount::Share(share),
                (None, None) => ComponentCount::All,
            };
            Body::Axes(pca::fit(x, kept, stop)?)
        }
        "StandardScaler" => Body::Scales(scale::standard(x, options)?),
        "RobustScaler" => Body::Scales(scale::robust(x, options, stop)?),
        other => return Err(unknown_algorithm(other)),
    })
}

fn dbscan(
    request: &FitRequest<'_>,
    encoded: &NumericRows,
    stop: StopCheck<'_>,
) -> Result<(String, Vec<OutputValue>), LearnError> {
    let distance = request.options.number("eps", (1e-300, 1e300))?.unwrap_or(0.5);
    let neighbours = request.options.number("min_samples", (1, ROWS_MAX))?.unwrap_or(5);
    let groups = cluster::dbscan(&encoded.matrix, distance, neighbours, stop)?;
    let mut answers = vec![OutputValue::Null; request.rows];
    for (row, group) in encoded.rows.iter().zip(groups) {
        answers[*row] = OutputValue::Whole(group);
    }
    Ok((request.output.clone().unwrap_or_else(|| "cluster".to_owned()), answers))
}

fn unknown_algorithm(algorithm: &str) -> LearnError {
    LearnError::Data(format!("there is no algorithm {algorithm}"))
}
