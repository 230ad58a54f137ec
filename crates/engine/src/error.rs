//! What can go wrong while a search runs, and which kind it is for the caller.

use quarry_spl::ast::Span;

/// Failure of a search.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The search asks for something that cannot be; the text is for the user.
    #[error("{message}")]
    Invalid {
        /// What is wrong and what to do.
        message: String,
        /// Where in the search, when known.
        span: Option<Span>,
    },
    /// A limit was reached; names it and its value.
    #[error("{what}: limit {limit} = {value} reached")]
    Limit {
        /// What needed more.
        what: String,
        /// Name of the limit.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// The store could not read.
    #[error(transparent)]
    Store(#[from] quarry_store::StoreError),
    /// Arrow refused an operation: a bug of ours unless memory ran out.
    #[error("arrow: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// DataFusion failed.
    #[error("execution: {0}")]
    DataFusion(#[from] datafusion_common::DataFusionError),
}

impl EngineError {
    /// An [`EngineError::Invalid`] without a place.
    pub fn invalid(message: impl Into<String>) -> EngineError {
        EngineError::Invalid { message: message.into(), span: None }
    }
}
