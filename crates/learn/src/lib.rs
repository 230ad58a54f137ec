//! Machine learning: columns of a table in, a fitted [`Model`] out, and what it says of other rows.
//!
//! A model is fitted in three steps. [`Encoding`] chooses the columns that can be learnt from and says how a row becomes
//! numbers: a column of numbers is one of the matrix, a column of texts is one for each of its values. The algorithm fits
//! the matrix; what it leaves is a plain value of [`Body`]. [`wire`] writes that as text with a version and a checksum, and
//! checks it when it is read, so that whatever a file holds, reading it gives an error or a model that can be applied.
//!
//! Algorithms are written here and not taken from a library (docs/decisions/0034-learned-models.md). Everything is
//! deterministic: chance comes of a seed that is an argument. Long loops ask [`Stop`] whether to go on.
//!
//! Not here: files, clocks, threads, and how rows are read; [`Values`] is the seam to these.

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

pub use apply::Applied;
pub use encode::{Column, Encoding, Values};
pub use error::LearnError;
pub use fit::{FitRequest, Fitted, fit};
pub use model::{ALGORITHMS, Answer, Body, Model};
pub use options::Options;
pub use rng::sample;

/// Rows that a model learns from at most; of more a sample is drawn (Splunk's `max_inputs`).
pub const ROWS_MAX: usize = 100_000;
/// Columns of numbers at most, those that values of texts become included.
pub const COLUMNS_MAX: usize = 500;
/// Numbers that a model is fitted to at most: rows times columns.
pub const CELLS_MAX: usize = 10_000_000;
/// Distinct values of a column of texts at most; one with more is left out (`max_distinct_cat_values`).
pub const CATEGORIES_MAX: usize = 100;
/// Values that a classifier tells apart at most (`max_distinct_cat_values_for_classifiers`).
pub const CLASSES_MAX: usize = 100;
/// Bytes of a model as it is kept at most (`max_model_size_mb`).
pub const MODEL_BYTES_MAX: usize = 15 << 20;
/// Groups that one density model holds at most.
pub const GROUPS_MAX: usize = 1_024;
/// Thresholds of one density model at most.
pub const THRESHOLDS_MAX: usize = 5;
/// Rows between two looks at [`Stop`].
const ROWS_BETWEEN_STOPS: usize = 1_024;

/// Whether to give up: the one who waits for the result does not any more.
pub type Stop<'a> = &'a dyn Fn() -> bool;

/// An error when the work is to end.
fn go_on(stop: Stop<'_>) -> Result<(), LearnError> {
    if stop() { Err(LearnError::Cancelled) } else { Ok(()) }
}
