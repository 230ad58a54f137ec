//! Errors of running searches, with their kind for the caller.

use quarry_spl::ast::Span;
use quarry_spl::truncate_message;
use quarry_stdx::{ErrorKind, Fault, HasKind};

/// Failure of a search.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The search is invalid; the text is for the user.
    #[error("{}", truncate_message(message.clone()))]
    Invalid {
        /// Problem and remedy.
        message: String,
        /// Position in the search, if known.
        span: Option<Span>,
    },
    /// The user's roles do not allow a command.
    #[error(
        "user {user} may not run `{command}`: it requires the capability {capability}, which none of the user's roles \
         has"
    )]
    Forbidden {
        /// The command; `search` if the user may not search at all.
        command: String,
        /// Splunk's name of the required capability.
        capability: String,
        /// The user.
        user: String,
        /// Position in the search, if known.
        span: Option<Span>,
    },
    /// A resource other than events failed, such as a lookup table, a program or the node.
    #[error("{}", truncate_message(fault.to_string()))]
    Failed {
        /// The error, which names what failed.
        fault: Fault,
        /// Position in the search, if known.
        span: Option<Span>,
    },
    /// A limit was reached.
    #[error("{what} (limit: {limit} = {value})")]
    Limit {
        /// The problem, usually followed by the remedy.
        what: String,
        /// Name of the limit.
        limit: &'static str,
        /// Value of the limit.
        value: u64,
    },
    /// Grouping or sorting needs more memory than allowed and cannot spill.
    #[error(
        "the search needs more memory for grouping or sorting than it may have; group by fewer fields, or raise [search] max_mem_usage_mb in limits.conf"
    )]
    Memory,
    /// A panic in a stage of the search, which is a bug in Quarry.
    #[error("internal error while {stage}: {message}; the search has no answer, please report it")]
    Internal {
        /// Stage of the search.
        stage: &'static str,
        /// Panic message.
        message: String,
    },
    /// The store could not read the data.
    #[error(transparent)]
    Store(#[from] quarry_store::StoreError),
    /// Arrow refused an operation, which is a bug unless memory ran out.
    #[error("arrow: {}", truncate_message(.0.to_string()))]
    Arrow(#[from] arrow::error::ArrowError),
    /// DataFusion failed.
    #[error("execution: {}", truncate_message(.0.to_string()))]
    DataFusion(datafusion_common::DataFusionError),
}

impl From<datafusion_common::DataFusionError> for EngineError {
    /// Distinguishes an exhausted memory pool from other errors.
    fn from(error: datafusion_common::DataFusionError) -> EngineError {
        use datafusion_common::DataFusionError;
        if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
            return EngineError::Memory;
        }
        match error {
            // This crate's own error, which passed through a DataFusion plan.
            DataFusionError::External(inner) => match inner.downcast::<EngineError>() {
                Ok(ours) => *ours,
                Err(other) => EngineError::DataFusion(DataFusionError::External(other)),
            },
            other => EngineError::DataFusion(other),
        }
    }
}

impl From<Fault> for EngineError {
    /// Invalid input and unknown names make the search invalid.
    fn from(fault: Fault) -> EngineError {
        match fault.kind() {
            ErrorKind::Invalid | ErrorKind::NotFound => EngineError::invalid(fault.to_string()),
            _ => EngineError::Failed { fault, span: None },
        }
    }
}

impl HasKind for EngineError {
    fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Invalid { .. } | EngineError::Limit { .. } => ErrorKind::Invalid,
            EngineError::Forbidden { .. } => ErrorKind::Denied,
            EngineError::Memory | EngineError::DataFusion(_) => ErrorKind::Unavailable,
            EngineError::Internal { .. } | EngineError::Arrow(_) => ErrorKind::Bug,
            EngineError::Store(error) => error.kind(),
            EngineError::Failed { fault, .. } => fault.kind(),
        }
    }
}

impl EngineError {
    /// An error about something that the search names or needs, with its position.
    pub fn at(fault: impl Into<Fault>, span: Span) -> EngineError {
        EngineError::from(fault.into()).with_span(Some(span))
    }

    /// Position in the search, if known.
    pub fn span(&self) -> Option<Span> {
        match self {
            EngineError::Invalid { span, .. }
            | EngineError::Forbidden { span, .. }
            | EngineError::Failed { span, .. } => *span,
            _ => None,
        }
    }

    /// The same error with this position; kinds of errors that have no position are unchanged.
    pub fn with_span(mut self, position: Option<Span>) -> EngineError {
        if let EngineError::Invalid { span, .. }
        | EngineError::Forbidden { span, .. }
        | EngineError::Failed { span, .. } = &mut self
        {
            *span = position;
        }
        self
    }

    /// The same error, raised inside a saved search; `span` is the position that names the saved search.
    pub fn in_saved_search(self, name: &str, span: Span) -> EngineError {
        match self {
            EngineError::Invalid { message, .. } => {
                EngineError::Invalid { message: format!("saved search {name}: {message}"), span: Some(span) }
            }
            EngineError::Failed { fault, .. } => {
                EngineError::Failed { fault: fault.with_context(format_args!("saved search {name}")), span: Some(span) }
            }
            other => other,
        }
    }

    /// An [`EngineError::Invalid`] without a position.
    pub fn invalid(message: impl Into<String>) -> EngineError {
        EngineError::Invalid { message: message.into(), span: None }
    }
}
