//! Errors of logins, and of changes of users and tokens.

use quarry_stdx::{ErrorKind, Fault, HasKind};

/// Error of authenticating a request, or of changing users or tokens.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AuthError {
    /// No `Authorization` header, or a header of an unknown form.
    #[error("not logged in: send `Authorization: Splunk KEY`, `Bearer KEY` or basic credentials")]
    Missing,
    /// Wrong user name, password, session key or token, or an expired session or token.
    #[error("login failed: wrong user name or password, or the session has ended")]
    Denied,
    /// Too many failed logins.
    #[error("too many failed logins: try again in {retry_after_s} s")]
    Throttled {
        /// Seconds to wait.
        retry_after_s: u64,
    },
    /// Too many logins are being checked.
    #[error("too many logins at once: try again in {retry_after_s} s")]
    Busy {
        /// Seconds to wait.
        retry_after_s: u64,
    },
    /// The stored password hash cannot be read, or hashing failed.
    #[error("user {user}: the stored password cannot be used: {reason}")]
    BadRecord {
        /// User name.
        user: String,
        /// Reason.
        reason: String,
    },
    /// No such user.
    #[error("there is no user {0}")]
    UnknownUser(String),
    /// No such token.
    #[error("Could not find object id={0}")]
    UnknownToken(String),
    /// The user exists already.
    #[error("there is a user {0} already")]
    UserExists(String),
    /// The change is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The caller may not make this change.
    #[error("{0}")]
    Forbidden(String),
    /// The records could not be written.
    #[error("the change cannot be saved: {0}")]
    Failed(Fault),
}

impl HasKind for AuthError {
    fn kind(&self) -> ErrorKind {
        match self {
            AuthError::Missing | AuthError::Denied | AuthError::Forbidden(_) => ErrorKind::Denied,
            AuthError::Throttled { .. } | AuthError::Busy { .. } => ErrorKind::Busy,
            AuthError::BadRecord { .. } => ErrorKind::Corrupt,
            AuthError::UnknownUser(_) | AuthError::UnknownToken(_) => ErrorKind::NotFound,
            AuthError::UserExists(_) | AuthError::Invalid(_) => ErrorKind::Invalid,
            AuthError::Failed(fault) => fault.kind(),
        }
    }
}
