//! The contents of a model as a table.

use std::sync::Arc;

use crate::density::Density;
use crate::model::{Body, Model, OutputValue};

/// A row of a table: names of fields and their values.
pub type Row = Vec<(String, OutputValue)>;

fn text(text: impl AsRef<str>) -> OutputValue {
    OutputValue::Text(Arc::from(text.as_ref()))
}

fn row<const N: usize>(cells: [(&str, OutputValue); N]) -> Row {
    cells.into_iter().map(|(name, answer)| (name.to_owned(), answer)).collect()
}

impl Model {
    /// Fitted parameters: coefficients, centres, densities.
    pub fn summary(&self) -> Vec<Row> {
        let names = self.encoding.names();
        match &self.body {
            Body::Linear(linear) => {
                let lines = names.iter().map(String::as_str).zip(linear.coefficients.iter().copied());
                let all = lines.chain([("_intercept", linear.intercept)]);
                all.map(|(name, number)| row([("feature", text(name)), ("coefficient", OutputValue::Number(number))]))
                    .collect()
            }
            Body::Logistic(logistic) => {
                // With two classes, the only decision function belongs to the second class.
                let classes = if self.classes.len() == 2 { &self.classes[1..] } else { &self.classes[..] };
                let features: Vec<&str> = names.iter().map(String::as_str).chain(["_intercept"]).collect();
                let lines = classes.iter().zip(logistic.weights.chunks_exact(logistic.width + 1));
                let cells = lines.flat_map(|(class, weights)| {
                    features.iter().zip(weights).map(move |(feature, weight)| {
                        row([
                            ("class", text(class)),
                            ("feature", text(feature)),
                            ("coefficient", OutputValue::Number(*weight)),
                        ])
                    })
                });
                cells.collect()
            }
            Body::Bayes(bayes) => {
                let lines = bayes.means.iter().zip(&bayes.variances).enumerate();
                let line = |(at, (mean, variance)): (usize, (&f64, &f64))| {
                    let (class, column) = (at / bayes.width, at % bayes.width);
                    row([
                        ("class", text(self.classes.get(class).map_or("", String::as_str))),
                        ("feature", text(names.get(column).map_or("", String::as_str))),
                        ("mean", OutputValue::Number(*mean)),
                        ("variance", OutputValue::Number(*variance)),
                        ("prior", OutputValue::Number(bayes.shares.get(class).copied().unwrap_or_default())),
                    ])
                };
                lines.map(line).collect()
            }
            Body::Forest(forest) => {
                let mut lines: Vec<(&String, f64)> = names.iter().zip(forest.importances.iter().copied()).collect();
                lines.sort_by(|one, other| other.1.total_cmp(&one.1));
                let line = |(name, number): (&String, f64)| {
                    row([("feature", text(name)), ("importance", OutputValue::Number(number))])
                };
                lines.into_iter().map(line).collect()
            }
            Body::Scales(scales) => {
                let middle = if scales.prefix == "SS" { "mean" } else { "center" };
                let lines = names.iter().zip(&scales.middles).zip(&scales.scales);
                lines
                    .map(|((name, mean), scale)| {
                        row([
                            ("fields", text(name)),
                            (middle, OutputValue::Number(*mean)),
                            ("scale", OutputValue::Number(*scale)),
                        ])
                    })
                    .collect()
            }
            Body::Clusters(_) | Body::Axes(_) => self.summary_of_points(&names),
            Body::Densities(_) => self.summary_of_densities(),
            Body::Nothing => Vec::new(),
        }
    }

    /// One row per centre or axis, with one field per column.
    fn summary_of_points(&self, names: &[String]) -> Vec<Row> {
        let with = |mut row: Row, numbers: &[f64]| {
            row.extend(names.iter().zip(numbers).map(|(name, number)| (name.clone(), OutputValue::Number(*number))));
            row
        };
        match &self.body {
            Body::Clusters(clusters) => {
                let lines = clusters.centres.chunks_exact(clusters.width).zip(&clusters.sizes).enumerate();
                let line = |(at, (centre, size)): (usize, (&[f64], &u64))| {
                    let head = row([
                        ("cluster", OutputValue::Whole(at as i64)),
                        ("count", OutputValue::Whole(*size as i64)),
                        ("inertia", OutputValue::Number(clusters.inertia)),
                    ]);
                    with(head, centre)
                };
                lines.map(line).collect()
            }
            Body::Axes(axes) => {
                let lines = axes.axes.chunks_exact(axes.means.len()).zip(&axes.variances).enumerate();
                let line = |(at, (axis, variance)): (usize, (&[f64], &f64))| {
                    let share = if axes.whole > 0.0 { variance / axes.whole } else { 0.0 };
                    let head = row([
                        ("component", text(format!("PC_{}", at + 1))),
                        ("explained_variance", OutputValue::Number(*variance)),
                        ("explained_variance_ratio", OutputValue::Number(share)),
                    ]);
                    with(head, axis)
                };
                lines.map(line).collect()
            }
            _ => Vec::new(),
        }
    }

    fn summary_of_densities(&self) -> Vec<Row> {
        let Body::Densities(densities) = &self.body else { return Vec::new() };
        let line = |group: &crate::density::Group| {
            let other = match &group.density {
                Density::Norm { mean, deviation } => format!("mean={mean}, std={deviation}"),
                Density::Expon { start, scale } => format!("loc={start}, scale={scale}"),
                Density::Kernels { heights, step, .. } => format!("steps={}, width={step}", heights.len()),
            };
            let keys = self.by.iter().zip(&group.key).map(|(name, value)| (name.clone(), text(value)));
            let facts = row([
                ("type", text(group.density.name())),
                ("count", OutputValue::Whole(group.count as i64)),
                ("cardinality", OutputValue::Whole(group.distinct as i64)),
                ("min", OutputValue::Number(group.min)),
                ("max", OutputValue::Number(group.max)),
                ("mean", OutputValue::Number(group.mean)),
                ("std", OutputValue::Number(group.deviation)),
                ("distance", OutputValue::Number(group.distance)),
                ("metric", text(&densities.metric)),
                ("other", text(other)),
            ]);
            keys.chain(facts).collect()
        };
        densities.groups.iter().map(line).collect()
    }
}
