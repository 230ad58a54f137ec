//! Errors of the queue and its configuration.

use std::path::{Path, PathBuf};

use quarry_stdx::{ErrorKind, HasKind};

/// Failure of the queue or its configuration.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ForwardError {
    /// A file operation failed.
    #[error("{}: {what}: {reason}", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// The failed operation, for the message.
        what: &'static str,
        /// The system's reason.
        reason: String,
    },
    /// Records of the queue cannot be read and are given up.
    #[error("{}: {} lost: {reason}", path.display(), match first == last {
        true => format!("record {first} is"),
        false => format!("records {first} to {last} are"),
    })]
    Lost {
        /// The file.
        path: PathBuf,
        /// Number of the first lost record.
        first: u64,
        /// Number of the last lost record.
        last: u64,
        /// Reason.
        reason: String,
    },
    /// Another process has the queue open.
    #[error(
        "{}: another forwarder has this folder open: stop that forwarder, or name another folder with --data-dir",
        path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// An earlier write failed and left the state on disk unknown.
    #[error("the queue has failed and accepts nothing until the forwarder is restarted: {0}")]
    Failed(String),
    /// The forwarder stops.
    #[error("the forwarder is stopping")]
    Stopping,
    /// An invalid pattern in outputs.conf.
    #[error("outputs.conf [tcpout]: forwardedindex pattern {pattern}: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Reason.
        reason: String,
    },
}

impl ForwardError {
    pub(crate) fn disk(path: &Path, what: &'static str, error: &std::io::Error) -> ForwardError {
        ForwardError::Disk { path: path.to_path_buf(), what, reason: error.to_string() }
    }
}

impl HasKind for ForwardError {
    fn kind(&self) -> ErrorKind {
        match self {
            ForwardError::Pattern { .. } => ErrorKind::Invalid,
            ForwardError::Locked { .. } | ForwardError::Stopping => ErrorKind::Busy,
            ForwardError::Disk { .. } | ForwardError::Lost { .. } | ForwardError::Failed(_) => ErrorKind::Unavailable,
        }
    }
}
