//! Applying a model: its predictions for rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::density::{Densities, Density, Range, thresholds};
use crate::density_fit::key_of;
use crate::encode::{Column, NumericRows};
use crate::model::{Body, Model, OutputValue};
use crate::options::Options;
use crate::{LearnError, StopCheck};

/// Thresholds. If `apply` sets any of them, all thresholds set by `fit` are ignored.
const THRESHOLDS: [&str; 3] = ["threshold", "lower_threshold", "upper_threshold"];

/// A model prepared for prediction.
pub struct Predictor {
    model: Model,
    names: Vec<String>,
    with_probabilities: bool,
    densities: Option<PreparedDensities>,
}

struct PreparedDensities {
    shows_density: bool,
    /// Number of thresholds.
    thresholds: usize,
    groups: BTreeMap<Vec<String>, PreparedGroup>,
}

struct PreparedGroup {
    density: Density,
    /// For each threshold: the outlier ranges, and their text form.
    outliers: Vec<(Vec<Range>, Arc<[String]>)>,
}

impl Model {
    /// Prepares the model; `options` override the options of `fit`, and `output` is the name of the resulting field.
    pub fn prepare(self, options: &Options, output: Option<&str>) -> Result<Predictor, LearnError> {
        if !self.can_be_applied() {
            return Err(LearnError::Data(format!(
                "{} can only be applied to the rows it was fitted to",
                self.algorithm
            )));
        }
        let own = self.options();
        let replaces = THRESHOLDS.iter().any(|name| options.get(name).is_some());
        let kept = own.iter().filter(|(name, _)| !replaces || !THRESHOLDS.contains(name));
        let all = options.or(&kept.collect());
        let own_output = self.output.clone();
        let output = output.or(own_output.as_deref());
        let refuse = |name: &str| {
            options.invalid_option(name, format!("an algorithm that has this option ({} does not)", self.algorithm))
        };
        let is_density = matches!(self.body, Body::Densities(_));
        for (name, _) in options.iter() {
            let fits = if name == "probabilities" { !self.classes.is_empty() } else { is_density };
            if !fits {
                return Err(refuse(name));
            }
        }
        let with_probabilities = !self.classes.is_empty() && all.boolean("probabilities", false)?;
        let densities = match &self.body {
            Body::Densities(densities) => Some(prepare_densities(densities, &all)?),
            _ => None,
        };
        let names = self.names(output, with_probabilities, &all)?;
        Ok(Predictor { model: self, names, with_probabilities, densities })
    }

    /// Names of the resulting fields.
    fn names(&self, output: Option<&str>, probabilities: bool, options: &Options) -> Result<Vec<String>, LearnError> {
        let prefixed = |prefix: &str| format!("{}_", output.unwrap_or(prefix));
        Ok(match &self.body {
            Body::Axes(axes) => (1..=axes.variances.len()).map(|at| format!("{}{at}", prefixed("PC"))).collect(),
            Body::Scales(scales) => {
                self.encoding.names().iter().map(|name| format!("{}{name}", prefixed(&scales.prefix))).collect()
            }
            Body::Clusters(_) => vec![output.unwrap_or("cluster").to_owned(), "cluster_distance".to_owned()],
            Body::Densities(_) => {
                let field = self.encoding.features.first().map_or("", |feature| feature.field.as_str());
                let outlier = output.map_or_else(|| format!("IsOutlier({field})"), str::to_owned);
                let mut names = Vec::new();
                for (suffix, _) in thresholds(options)? {
                    names.extend([format!("{outlier}{suffix}"), format!("BoundaryRanges{suffix}")]);
                }
                if options.boolean("show_density", false)? {
                    names.push(format!("ProbabilityDensity({field})"));
                }
                names
            }
            Body::Linear(_) | Body::Logistic(_) | Body::Bayes(_) | Body::Forest(_) => {
                let target = self.target.as_deref().unwrap_or_default();
                let mut names = vec![output.map_or_else(|| format!("predicted({target})"), str::to_owned)];
                if probabilities {
                    names.extend(self.classes.iter().map(|class| format!("probability({target}={class})")));
                }
                names
            }
            Body::Nothing => Vec::new(),
        })
    }
}

fn prepare_densities(densities: &Densities, options: &Options) -> Result<PreparedDensities, LearnError> {
    let thresholds = thresholds(options)?;
    let group = |density: &Density| {
        let outliers = thresholds.iter().map(|(_, threshold)| {
            let ranges = density.outliers(threshold);
            let texts: Vec<String> = ranges.iter().map(Range::text).collect();
            (ranges, texts.into())
        });
        PreparedGroup { density: density.clone(), outliers: outliers.collect() }
    };
    let groups = densities.groups.iter().map(|found| (found.key.clone(), group(&found.density))).collect();
    let shows_density = options.boolean("show_density", false)?;
    Ok(PreparedDensities { shows_density, thresholds: thresholds.len(), groups })
}

impl Predictor {
    /// The model that makes the predictions.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Names of the resulting fields.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The resulting fields, in the order of [`Predictor::names`]: one value per row.
    pub fn apply(
        &self,
        columns: &[Column<'_>],
        rows: usize,
        stop: StopCheck<'_>,
    ) -> Result<Vec<Vec<OutputValue>>, LearnError> {
        let mut answers = vec![vec![OutputValue::Null; rows]; self.names.len()];
        if let Some(densities) = &self.densities {
            self.densities(densities, columns, rows, &mut answers)?;
            return Ok(answers);
        }
        let classes: Vec<Arc<str>> = self.model.classes.iter().map(|class| Arc::from(class.as_str())).collect();
        let encoded = self.model.encoding.matrix(columns, rows, stop)?;
        for (at, row) in encoded.rows.iter().enumerate() {
            self.predict_row(&encoded, at, &classes, |place, answer| {
                if let Some(column) = answers.get_mut(place) {
                    column[*row] = answer;
                }
            });
        }
        Ok(answers)
    }

    /// Predicts one row; passes each value to `put` with the index of its field.
    fn predict_row(
        &self,
        encoded: &NumericRows,
        at: usize,
        classes: &[Arc<str>],
        mut put: impl FnMut(usize, OutputValue),
    ) {
        let row = encoded.matrix.row(at);
        let probabilities = match &self.model.body {
            Body::Linear(linear) => return put(0, number(linear.predict(row))),
            Body::Forest(forest) if classes.is_empty() => return put(0, number(forest.number(row))),
            Body::Clusters(clusters) => {
                let (cluster, distance) = clusters.nearest(row);
                put(0, OutputValue::Whole(cluster as i64));
                return put(1, number(distance));
            }
            Body::Axes(axes) => {
                return axes.project(row).into_iter().enumerate().for_each(|(place, along)| put(place, number(along)));
            }
            Body::Scales(scales) => {
                let scaled = row.iter().zip(&scales.middles).zip(&scales.scales);
                return scaled.enumerate().for_each(|(place, ((cell, middle), scale))| {
                    put(place, number((cell - middle) / scale));
                });
            }
            Body::Logistic(logistic) => logistic.probabilities(row),
            Body::Bayes(bayes) => bayes.probabilities(row),
            Body::Forest(forest) => forest.probabilities(row, classes.len()),
            Body::Densities(_) | Body::Nothing => return,
        };
        let best = probabilities
            .iter()
            .enumerate()
            .fold((0, f64::NEG_INFINITY), |best, (class, share)| if *share > best.1 { (class, *share) } else { best });
        if let Some(class) = classes.get(best.0) {
            put(0, OutputValue::Text(Arc::clone(class)));
        }
        if self.with_probabilities {
            probabilities.into_iter().enumerate().for_each(|(class, share)| put(class + 1, number(share)));
        }
    }

    fn densities(
        &self,
        ready: &PreparedDensities,
        columns: &[Column<'_>],
        rows: usize,
        answers: &mut [Vec<OutputValue>],
    ) -> Result<(), LearnError> {
        let column_of = |name: &str| {
            let found = columns.iter().find(|column| column.name == name).copied();
            found.ok_or_else(|| LearnError::Data(format!("the field {name} is missing")))
        };
        let by = self.model.by.iter().map(|name| column_of(name)).collect::<Result<Vec<_>, _>>()?;
        let Some(feature) = self.model.encoding.features.first() else { return Ok(()) };
        let column = column_of(&feature.field)?;
        let found = |row: usize| Some((row, column.values.number(row)?, ready.groups.get(&key_of(&by, row)?)?));
        for (row, value, group) in (0..rows).filter_map(found) {
            for (place, (ranges, texts)) in group.outliers.iter().enumerate() {
                let is_outlier = ranges.iter().any(|range| range.contains(value));
                answers[place * 2][row] = OutputValue::Whole(i64::from(is_outlier));
                answers[place * 2 + 1][row] = OutputValue::List(Arc::clone(texts));
            }
            if ready.shows_density {
                answers[ready.thresholds * 2][row] = group.density.at(value).map_or(OutputValue::Null, number);
            }
        }
        Ok(())
    }
}

fn number(number: f64) -> OutputValue {
    if number.is_finite() { OutputValue::Number(number) } else { OutputValue::Null }
}
