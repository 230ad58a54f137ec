//! `analyzefields`: measures how well each numeric field predicts the values of one field, the class.
//!
//! A number is assigned to its most probable class. The numbers of each class are assumed to be normally distributed,
//! and classes are weighted by frequency (Gaussian naive Bayes with one feature). Splunk documents the output columns
//! but not the method; this is the simplest classifier that uses location and spread.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, batch_of, is_hidden, rows_in_memory};
use quarry_spl::ast::AnalyzeFieldsCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of classes; each number is compared with all classes.
const CLASSES_MAX: usize = 1_000;
/// Minimum variance of a class, as a share of the variance of all numbers; applies if the numbers of the class are
/// equal.
const VARIANCE_RATIO_MIN: f64 = 1e-9;

impl Execute for AnalyzeFieldsCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(AnalyzeFields(self.class_field.clone()))])
    }
}

/// The command with the name of its class field.
struct AnalyzeFields(String);

/// The numbers of a class.
#[derive(Clone, Copy, Default)]
struct Class {
    count: f64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
    right: f64,
}

impl Class {
    /// Adds a number (Welford's method).
    fn add(&mut self, number: f64) {
        self.count += 1.0;
        let distance = number - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (number - self.mean);
    }

    /// Log-likelihood of number and class together, without the terms that are the same for all classes.
    fn likelihood(&self, number: f64, least: f64) -> f64 {
        let variance = (self.squares / self.count).max(least);
        self.count.ln() - 0.5 * (2.0 * PI * variance).ln() - (number - self.mean).powi(2) / (2.0 * variance)
    }
}

/// Output row for one field.
struct FieldStatistics {
    count: f64,
    accuracy: f64,
    balanced: f64,
}

/// The statistics of `points`: class and number of each row that has both.
fn statistics_of(points: &[(usize, f64)], classes: usize) -> FieldStatistics {
    let mut known = vec![Class::default(); classes];
    let mut all = Class::default();
    for (class, number) in points {
        known[*class].add(*number);
        all.add(*number);
    }
    let least = (all.squares / all.count * VARIANCE_RATIO_MIN).max(f64::MIN_POSITIVE);
    let present: Vec<usize> = (0..classes).filter(|class| known[*class].count > 0.0).collect();
    let mut right = 0.0;
    for (class, number) in points {
        let likelihood = |class: &usize| known[*class].likelihood(*number, least);
        // Of equally probable classes, the first one is chosen.
        let best = present.iter().rev().max_by(|a, b| likelihood(a).total_cmp(&likelihood(b)));
        if best == Some(class) {
            known[*class].right += 1.0;
            right += 1.0;
        }
    }
    let shares = present.iter().map(|class| known[*class].right / known[*class].count);
    FieldStatistics {
        count: all.count,
        accuracy: right / all.count,
        balanced: shares.sum::<f64>() / f64_of(present.len()),
    }
}

impl BlockingTable for AnalyzeFields {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("analyzefields", rows, context)?;
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let classes = rows::reader(&all, &self.0);
        let mut class_of = Vec::with_capacity(all.num_rows());
        for row in 0..all.num_rows() {
            let next = numbers.len();
            class_of.push(classes.values(row).next().map(|value| *numbers.entry(value.into_owned()).or_insert(next)));
        }
        if numbers.len() > CLASSES_MAX {
            let what = format!("analyzefields: {} has too many values; choose another classfield", self.0);
            return Err(EngineError::Limit { what, limit: "classes", value: CLASSES_MAX as u64 });
        }
        let labelled = class_of.iter().flatten().count();
        if labelled == 0 {
            context.messages.push(format!("analyzefields: no row has a value of {}", self.0));
            return Ok(Vec::new());
        }
        let names =
            names_of(&all).into_iter().filter(|name| !is_hidden(name) && !name.starts_with('_') && *name != self.0);
        let mut found: Vec<(String, FieldStatistics)> = Vec::new();
        let start = context.stop.begin_work();
        for name in names {
            if context.stop.should_end_work(start) {
                break;
            }
            let reader: ColumnReader = rows::reader(&all, &name);
            let point = |(row, class): (usize, &Option<usize>)| {
                Some(((*class)?, reader.number(row).filter(|number| number.is_finite())?))
            };
            let points: Vec<(usize, f64)> = class_of.iter().enumerate().filter_map(point).collect();
            if !points.is_empty() {
                found.push((name, statistics_of(&points, numbers.len())));
            }
        }
        let mut columns: [ColumnBuilder; 5] = std::array::from_fn(|_| ColumnBuilder::new(found.len()));
        for (name, scores) in &found {
            columns[0].push_text(name);
            columns[1].push(Value::from_f64(scores.count));
            for (column, value) in
                columns[2..].iter_mut().zip([scores.count / f64_of(labelled), scores.accuracy, scores.balanced])
            {
                column.push(Value::from_f64(value));
            }
        }
        let names = ["field", "count", "cocur", "acc", "balacc"];
        Ok(vec![batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), found.len())?])
    }
}
