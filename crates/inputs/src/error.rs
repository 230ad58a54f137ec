//! Errors of inputs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use quarry_pipeline::PipelineError;
use quarry_stdx::{self as stdx, HasKind};

use crate::SinkError;
use crate::file::FileReport;

/// Failure of an input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file cannot be opened or read.
    #[error("{}: {}", path.display(), reason)]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's or the decoder's error.
        reason: String,
    },
    /// A file became shorter between two reads, for example because rotation truncated it.
    #[error("{}: was truncated while it was read", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// A compressed file is damaged.
    #[error("{}: cannot be decompressed beyond byte {offset} of its content: {reason}", path.display())]
    Decompress {
        /// The file.
        path: PathBuf,
        /// Number of decompressed bytes before the damage.
        offset: u64,
        /// The decoder's error.
        reason: String,
    },
    /// A name, glob or regular expression is invalid or matches nothing.
    #[error("{pattern}: {reason}")]
    Pattern {
        /// The name, glob or regular expression as typed.
        pattern: String,
        /// Reason why it is invalid or matches nothing.
        reason: String,
    },
    /// The configuration of the file's sourcetype is invalid.
    #[error("{}: {source}", path.display())]
    Pipeline {
        /// The file.
        path: PathBuf,
        /// The invalid setting.
        source: PipelineError,
    },
    /// The sink refused the events.
    #[error("{}: events cannot be stored, so adding stopped: {source}", path.display())]
    Sink {
        /// The file being read.
        path: PathBuf,
        /// The sink's error.
        source: SinkError,
    },
    /// Only a part of a file could be read; the events before the error are stored.
    #[error("{fault}; {} events before that position are added", report.events)]
    PartiallyRead {
        /// The error.
        fault: Box<InputError>,
        /// Counts of the events before the error.
        report: Box<FileReport>,
    },
}

impl HasKind for InputError {
    fn kind(&self) -> stdx::ErrorKind {
        match self {
            InputError::Pattern { .. } => stdx::ErrorKind::Invalid,
            InputError::Read { .. }
            | InputError::Truncated { .. }
            | InputError::Pipeline { .. }
            | InputError::Sink { .. } => stdx::ErrorKind::Unavailable,
            InputError::Decompress { .. } => stdx::ErrorKind::Corrupt,
            InputError::PartiallyRead { fault, .. } => fault.kind(),
        }
    }
}

impl InputError {
    pub(crate) fn read(path: &Path, error: &std::io::Error) -> InputError {
        let path = path.to_path_buf();
        let reason = match error.kind() {
            // `read_exact` returns this error; decompression reports a truncated file with a text of its own.
            ErrorKind::UnexpectedEof if error.get_ref().is_none() => return InputError::Truncated { path },
            ErrorKind::NotFound => "no such file".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        InputError::Read { path, reason }
    }

    /// Counts of the events before the error, if there were any.
    pub fn report(&self) -> Option<&FileReport> {
        match self {
            InputError::PartiallyRead { report, .. } => Some(report),
            _ => None,
        }
    }

    pub(crate) fn sink(path: &Path, source: SinkError) -> InputError {
        InputError::Sink { path: path.to_path_buf(), source }
    }
}
