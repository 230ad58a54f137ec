//! What goes wrong when a model is fitted, read or applied.

use quarry_stdx::{ErrorKind, HasKind};
use thiserror::Error;

/// An error of this crate.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LearnError {
    /// More than there may be.
    #[error("{what}: {value}, the limit is {limit}")]
    Limit {
        /// What there is too much of, and what to do.
        what: String,
        /// How much there is.
        value: usize,
        /// How much there may be.
        limit: usize,
    },
    /// The rows do not make a model.
    #[error("{0}")]
    Data(String),
    /// An option has a value that it cannot have.
    #[error("`{name}` wants {wants}, got `{got}`")]
    Option {
        /// Its name.
        name: String,
        /// What it may be.
        wants: String,
        /// What it is.
        got: String,
    },
    /// Bytes that are no model.
    #[error("this is no model that can be read: {0}")]
    Format(String),
    /// Nobody waits any more.
    #[error("cancelled")]
    Cancelled,
}

impl HasKind for LearnError {
    fn kind(&self) -> ErrorKind {
        match self {
            LearnError::Limit { .. } | LearnError::Data(_) | LearnError::Option { .. } => ErrorKind::Invalid,
            LearnError::Format(_) => ErrorKind::Corrupt,
            // Its search was told to end.
            LearnError::Cancelled => ErrorKind::Busy,
        }
    }
}
