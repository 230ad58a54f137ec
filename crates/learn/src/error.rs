//! Errors that occur when a model is fitted, read or applied.

use quarry_stdx::{ErrorKind, HasKind};
use thiserror::Error;

/// An error of this crate.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LearnError {
    /// A limit was exceeded.
    #[error("{value} {what} (the limit is {limit})")]
    Limit {
        /// Quantity that exceeds the limit, as a plural noun, and how to reduce it.
        what: String,
        /// Actual quantity.
        value: usize,
        /// Maximum.
        limit: usize,
    },
    /// The rows do not yield a model.
    #[error("{0}")]
    Data(String),
    /// An option has an invalid value.
    #[error("`{name}` expects {wants}, got `{got}`")]
    Option {
        /// Name of the option.
        name: String,
        /// Valid values.
        wants: String,
        /// The given value.
        got: String,
    },
    /// The bytes are not a valid model.
    #[error("this model cannot be read: {0}")]
    Format(String),
    /// The caller no longer needs the result.
    #[error("cancelled")]
    Cancelled,
}

impl HasKind for LearnError {
    fn kind(&self) -> ErrorKind {
        match self {
            LearnError::Limit { .. } | LearnError::Data(_) | LearnError::Option { .. } => ErrorKind::Invalid,
            LearnError::Format(_) => ErrorKind::Corrupt,
            // The search was cancelled.
            LearnError::Cancelled => ErrorKind::Busy,
        }
    }
}
