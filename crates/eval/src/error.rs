//! What can go wrong while a search runs, and which kind it is for the caller.

use quarry_spl::ast::Span;
use quarry_spl::bounded;

/// Failure of a search.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The search asks for something that cannot be; the text is for the user.
    #[error("{}", bounded(message.clone()))]
    Invalid {
        /// What is wrong and what to do.
        message: String,
        /// Where in the search, when known.
        span: Option<Span>,
    },
    /// A command that the user's roles do not allow.
    #[error(
        "user {user} may not run `{command}`: it takes the capability {capability}, which none of the user's roles has"
    )]
    Forbidden {
        /// The command; `search` where nothing may be searched.
        command: String,
        /// Splunk's name of what it takes.
        capability: String,
        /// Who asked.
        user: String,
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
    /// Grouping or sorting needs more memory than it may have, and cannot spill.
    #[error(
        "the search needs more memory for grouping or sorting than it may have; group by fewer fields, or raise [search] max_mem_usage_mb in limits.conf"
    )]
    Memory,
    /// A panic: a bug of ours ended a stage of the search.
    #[error("internal error while {stage}: {message}; the search has no answer, please report it")]
    Internal {
        /// What the search was at.
        stage: &'static str,
        /// What the panic said.
        message: String,
    },
    /// The store could not read.
    #[error(transparent)]
    Store(#[from] quarry_store::StoreError),
    /// Arrow refused an operation: a bug of ours unless memory ran out.
    #[error("arrow: {}", bounded(.0.to_string()))]
    Arrow(#[from] arrow::error::ArrowError),
    /// DataFusion failed.
    #[error("execution: {}", bounded(.0.to_string()))]
    DataFusion(datafusion_common::DataFusionError),
}

impl From<datafusion_common::DataFusionError> for EngineError {
    /// Tells a full memory pool from faults.
    fn from(error: datafusion_common::DataFusionError) -> EngineError {
        use datafusion_common::DataFusionError;
        if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
            return EngineError::Memory;
        }
        match error {
            // An error of ours that went through a plan.
            DataFusionError::External(inner) => match inner.downcast::<EngineError>() {
                Ok(ours) => *ours,
                Err(other) => EngineError::DataFusion(DataFusionError::External(other)),
            },
            other => EngineError::DataFusion(other),
        }
    }
}

impl EngineError {
    /// What it means to the caller.
    pub fn kind(&self) -> quarry_stdx::ErrorKind {
        match self {
            EngineError::Invalid { .. } | EngineError::Limit { .. } => quarry_stdx::ErrorKind::Invalid,
            EngineError::Forbidden { .. } => quarry_stdx::ErrorKind::Denied,
            EngineError::Memory | EngineError::DataFusion(_) => quarry_stdx::ErrorKind::Unavailable,
            EngineError::Internal { .. } | EngineError::Arrow(_) => quarry_stdx::ErrorKind::Bug,
            EngineError::Store(error) => error.kind(),
        }
    }

    /// The same error of a saved search, at the place where that is named.
    pub fn in_saved_search(self, name: &str, span: Span) -> EngineError {
        match self {
            EngineError::Invalid { message, .. } => {
                EngineError::Invalid { message: format!("saved search {name}: {message}"), span: Some(span) }
            }
            other => other,
        }
    }

    /// An [`EngineError::Invalid`] without a place.
    pub fn invalid(message: impl Into<String>) -> EngineError {
        EngineError::Invalid { message: message.into(), span: None }
    }
}
