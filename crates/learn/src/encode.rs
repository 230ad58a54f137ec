//! Encoding table columns as numbers.
//!
//! As in Splunk's toolkit, a column without values is dropped, and so is a categorical column with more than
//! [`CATEGORIES_MAX`] distinct values. A column with a non-numeric value is categorical and becomes one 0/1 column per
//! value (one-hot encoding). Rows with a missing value are used neither for fitting nor for prediction. When the model
//! is applied, an unknown category is 0 in all columns of its field.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::matrix::Matrix;
use crate::{CATEGORIES_MAX, CELLS_MAX, COLUMNS_MAX, LearnError, StopCheck, check_stop};

/// The values of a column.
pub trait Values {
    /// Whether a row has no value.
    fn is_null(&self, row: usize) -> bool;
    /// The value of a row, if it is a finite number.
    fn number(&self, row: usize) -> Option<f64>;
    /// The value of a row as text.
    fn text(&self, row: usize) -> Option<Cow<'_, str>>;
}

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// Values of the field.
    pub values: &'a dyn Values,
}

/// A field used as a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Feature {
    /// Name of the field.
    pub(crate) field: String,
    /// Sorted values of the field, if it is categorical.
    pub(crate) categories: Option<Vec<String>>,
}

/// Encoding of rows as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encoding {
    pub(crate) features: Vec<Feature>,
}

/// Rows as numbers.
pub(crate) struct NumericRows {
    /// The numbers.
    pub(crate) matrix: Matrix,
    /// For each row of the matrix, the row of the table.
    pub(crate) rows: Vec<usize>,
}

impl Encoding {
    /// Chooses the usable columns; `notes` receives messages about the other columns.
    pub(crate) fn learn(
        columns: &[Column<'_>],
        rows: usize,
        notes: &mut Vec<String>,
        stop: StopCheck<'_>,
    ) -> Result<Encoding, LearnError> {
        let mut features = Vec::new();
        for column in columns {
            check_stop(stop)?;
            let field = column.name.to_owned();
            let filled = || (0..rows).filter(|row| !column.values.is_null(*row));
            if filled().next().is_none() {
                notes.push(format!("{field} has no value in any row and is left out"));
            } else if filled().all(|row| column.values.number(row).is_some()) {
                features.push(Feature { field, categories: None });
            } else {
                match categories(column, filled()) {
                    Some(categories) => features.push(Feature { field, categories: Some(categories) }),
                    None => {
                        notes.push(format!("{field} has more than {CATEGORIES_MAX} distinct values and is left out"))
                    }
                }
            }
        }
        let encoding = Encoding { features };
        if encoding.features.is_empty() {
            let details = if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) };
            return Err(LearnError::Data(format!("there is no field to fit to{details}")));
        }
        match encoding.width() {
            width if width > COLUMNS_MAX => {
                let what = "columns to learn from, counting each value of a text field: name fewer fields".to_owned();
                Err(LearnError::Limit { what, value: width, limit: COLUMNS_MAX })
            }
            _ => Ok(encoding),
        }
    }

    /// Number of columns of the matrix.
    pub(crate) fn width(&self) -> usize {
        self.features.iter().map(|feature| feature.categories.as_ref().map_or(1, Vec::len)).sum()
    }

    /// Names of the columns of the matrix: `field`, or `field=value`.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for feature in &self.features {
            match &feature.categories {
                None => names.push(feature.field.clone()),
                Some(values) => names.extend(values.iter().map(|value| format!("{}={value}", feature.field))),
            }
        }
        names
    }

    /// The rows with a value in every field, as numbers. A text in a numeric field counts as missing.
    pub(crate) fn matrix(
        &self,
        columns: &[Column<'_>],
        rows: usize,
        stop: StopCheck<'_>,
    ) -> Result<NumericRows, LearnError> {
        let width = self.width();
        let mut found = Vec::with_capacity(self.features.len());
        for feature in &self.features {
            let column = columns.iter().find(|column| column.name == feature.field);
            found.push((
                feature,
                column.ok_or_else(|| LearnError::Data(format!("the field {} is missing", feature.field)))?,
            ));
        }
        let mut encoded = NumericRows { matrix: Matrix::of_width(width), rows: Vec::new() };
        for row in 0..rows {
            if row % crate::ROWS_PER_STOP_CHECK == 0 {
                check_stop(stop)?;
            }
            if (encoded.rows.len() + 1).saturating_mul(width) > CELLS_MAX {
                let what = "cells (rows times columns) to learn from: take fewer rows or fields".to_owned();
                return Err(LearnError::Limit { what, value: rows.saturating_mul(width), limit: CELLS_MAX });
            }
            match fill(&found, row, encoded.matrix.add_row()) {
                true => encoded.rows.push(row),
                false => encoded.matrix.drop_row(),
            }
        }
        Ok(encoded)
    }
}

/// Writes one row; `false` if a value is missing.
fn fill(features: &[(&Feature, &Column<'_>)], row: usize, out: &mut [f64]) -> bool {
    let mut at = 0;
    for (feature, column) in features {
        if column.values.is_null(row) {
            return false;
        }
        match &feature.categories {
            None => {
                let Some(number) = column.values.number(row) else { return false };
                out[at] = number;
                at += 1;
            }
            Some(values) => {
                let Some(text) = column.values.text(row) else { return false };
                if let Ok(place) = values.binary_search_by(|value| value.as_str().cmp(&text)) {
                    out[at + place] = 1.0;
                }
                at += values.len();
            }
        }
    }
    true
}

/// The distinct values, sorted; `None` if there are too many.
fn categories(column: &Column<'_>, rows: impl Iterator<Item = usize>) -> Option<Vec<String>> {
    let mut distinct: BTreeSet<String> = BTreeSet::new();
    for row in rows {
        let text = column.values.text(row)?;
        if !distinct.contains(text.as_ref()) {
            distinct.insert(text.into_owned());
            if distinct.len() > CATEGORIES_MAX {
                return None;
            }
        }
    }
    Some(distinct.into_iter().collect())
}
