//! Machine learning: fits a [`Model`] to the columns of a table, and applies it to other rows.
//!
//! Fitting has three steps. [`Encoding`] chooses the usable columns and defines how a row becomes numbers: a numeric
//! column becomes one matrix column, and a categorical column one matrix column for each of its values. The algorithm
//! is fitted to the matrix; its result is plain data ([`Body`]). [`wire`] serializes the model as text with a version
//! and a checksum, and validates each model that it reads, so that reading any file yields either an error or a usable
//! model.
//!
//! Algorithms are implemented here, not taken from a library (docs/decisions/0034-machine-learning.md). Everything is
//! deterministic: random numbers come from a seed argument. Long loops poll [`StopCheck`].
//!
//! Not here: files, clocks, threads, reading rows; [`Values`] is the interface to the caller.

mod apply;
mod bayes;
mod cluster;
mod density;
mod density_fit;
mod encode;
mod error;
mod exact_numbers;
mod fit;
mod linear_regression;
mod logistic_regression;
mod matrix;
mod model;
mod options;
mod pca;
mod rng;
mod scale;
pub mod score;
mod solve;
mod summary;
#[cfg(test)]
mod tests;
mod tree;
mod tree_grow;
pub mod wire;

pub use apply::Predictor;
pub use encode::{Column, Encoding, Values};
pub use error::LearnError;
pub use fit::{FitRequest, FitResult, fit};
pub use model::{ALGORITHMS, Body, Model, OutputValue};
pub use options::Options;
pub use rng::sample;

/// Maximum number of rows that a model can be fitted to (Splunk's `max_inputs`); if there are more rows, the caller
/// takes a [`sample`].
pub const ROWS_MAX: usize = 100_000;
/// Maximum number of matrix columns, including the columns of categorical fields.
pub const COLUMNS_MAX: usize = 500;
/// Maximum number of matrix cells: rows times columns.
pub const CELLS_MAX: usize = 10_000_000;
/// Maximum number of distinct values of a categorical column; a column with more values is dropped
/// (`max_distinct_cat_values`).
pub const CATEGORIES_MAX: usize = 100;
/// Maximum number of classes of a classifier (`max_distinct_cat_values_for_classifiers`).
pub const CLASSES_MAX: usize = 100;
/// Maximum bytes of a stored model (`max_model_size_mb`).
pub const MODEL_BYTES_MAX: usize = 15 << 20;
/// Maximum number of groups of a density model.
pub const GROUPS_MAX: usize = 1_024;
/// Maximum number of thresholds of a density model.
pub const THRESHOLDS_MAX: usize = 5;
/// Number of rows between two polls of [`StopCheck`].
const ROWS_PER_STOP_CHECK: usize = 1_024;

/// Returns true if the work should be abandoned, because its result is no longer needed.
pub type StopCheck<'a> = &'a dyn Fn() -> bool;

/// Whether a fit goes on.
#[derive(Clone, Copy)]
pub struct FitControl<'a> {
    /// Whether the fit should be abandoned.
    pub stop: StopCheck<'a>,
    /// Whether the fit should end with what it has learnt so far, if its algorithm can.
    pub should_end: StopCheck<'a>,
}

/// Fails if the work should be abandoned.
fn check_stop(stop: StopCheck<'_>) -> Result<(), LearnError> {
    if stop() { Err(LearnError::Cancelled) } else { Ok(()) }
}
