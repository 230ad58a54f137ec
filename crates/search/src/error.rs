//! Errors of searches and of jobs.

use arrow::error::ArrowError;
use quarry_engine::EngineError;
use quarry_spl::Diagnostic;
use quarry_stdx::{ErrorKind, HasKind};

/// Error of a search, or of creating a job.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The search does not parse.
    #[error("{}", first_message(.0))]
    Syntax(Vec<Diagnostic>),
    /// A time in the request is invalid.
    #[error("{name}: {reason}")]
    Time {
        /// Name of the parameter.
        name: &'static str,
        /// Reason.
        reason: String,
    },
    /// The search failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The rows of a job cannot be written or read.
    #[error("the rows of the job: {0}")]
    Rows(#[from] ArrowError),
    /// The requested name of a job is invalid.
    #[error("id={0} cannot name a job: use only letters, digits, `.`, `_` and `-`, and no dot at the start")]
    InvalidJobName(String),
    /// A job of this name exists.
    #[error("there is a job {0} already")]
    JobExists(String),
    /// The folder of jobs cannot be written.
    #[error("the folder of jobs cannot be written: {0}")]
    JobFolder(#[from] std::io::Error),
    /// Too many unfinished jobs.
    #[error("{most} jobs wait or run, the maximum: cancel some or wait")]
    TooManyUnfinishedJobs {
        /// The maximum.
        most: usize,
    },
    /// Too many jobs that have not expired.
    #[error(
        "there are {most} jobs, the maximum: remove some (DELETE search/jobs/SID), or create them with a shorter timeout"
    )]
    TooManyJobs {
        /// The maximum.
        most: usize,
    },
    /// The rows of all jobs take too much disk space.
    #[error(
        "the rows of all jobs take {most_gb} GB of disk, the maximum: remove some (DELETE search/jobs/SID), or create \
         them with a shorter timeout"
    )]
    JobsTooLarge {
        /// The maximum in GB.
        most_gb: u64,
    },
    /// The user's jobs exceed their disk quota.
    #[error(
        "the jobs of user {user} take {used_mb} MB of disk, and srchDiskQuota of the user's roles is {quota_mb} MB: remove some \
         (DELETE search/jobs/SID)"
    )]
    DiskQuota {
        /// The user.
        user: String,
        /// MB used by the user's jobs.
        used_mb: u64,
        /// The user's quota in MB.
        quota_mb: u64,
    },
}

impl SearchError {
    /// Diagnostics with their positions; `None` if no position is known.
    pub fn diagnostics(&self) -> Option<Vec<Diagnostic>> {
        match self {
            SearchError::Syntax(diagnostics) => Some(diagnostics.clone()),
            SearchError::Engine(error @ (EngineError::Invalid { .. } | EngineError::Failed { .. })) => {
                Some(vec![Diagnostic::error(error.to_string(), error.span()?)])
            }
            _ => None,
        }
    }
}

impl HasKind for SearchError {
    fn kind(&self) -> ErrorKind {
        match self {
            SearchError::Syntax(_)
            | SearchError::Time { .. }
            | SearchError::InvalidJobName(_)
            | SearchError::JobExists(_) => ErrorKind::Invalid,
            SearchError::Engine(error) => error.kind(),
            SearchError::Rows(_) | SearchError::JobFolder(_) => ErrorKind::Unavailable,
            SearchError::TooManyUnfinishedJobs { .. }
            | SearchError::TooManyJobs { .. }
            | SearchError::JobsTooLarge { .. }
            | SearchError::DiskQuota { .. } => ErrorKind::Busy,
        }
    }
}

fn first_message(diagnostics: &[Diagnostic]) -> String {
    diagnostics.first().map(Diagnostic::to_string).unwrap_or_default()
}
