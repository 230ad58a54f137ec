//! Errors of knowledge objects.

use std::path::Path;

use quarry_stdx::{ErrorKind, Fault, HasKind};

/// Failure to read or change an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// No visible object has this name.
    #[error("Could not find object id={0}")]
    Unknown(String),
    /// An object of this name exists.
    #[error("An object with name={0} already exists")]
    Exists(String),
    /// The user may not do this.
    #[error("{0}")]
    Denied(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A file could not be read or written.
    #[error("{0}")]
    Failed(String),
    /// The files shared by nodes cannot be changed now, or another app is being installed.
    #[error("{0}")]
    Busy(String),
}

impl ObjectError {
    /// The same error with paths relative to the data directory, whose location clients need not know.
    #[must_use]
    pub fn relative_to(self, data_dir: &Path) -> ObjectError {
        let folder = format!("{}/", data_dir.display());
        let shown = |text: String| text.replace(&folder, "");
        match self {
            ObjectError::Unknown(_) | ObjectError::Exists(_) => self,
            ObjectError::Denied(text) => ObjectError::Denied(shown(text)),
            ObjectError::Invalid(text) => ObjectError::Invalid(shown(text)),
            ObjectError::Failed(text) => ObjectError::Failed(shown(text)),
            ObjectError::Busy(text) => ObjectError::Busy(shown(text)),
        }
    }
}

impl HasKind for ObjectError {
    fn kind(&self) -> ErrorKind {
        match self {
            ObjectError::Unknown(_) => ErrorKind::NotFound,
            ObjectError::Denied(_) => ErrorKind::Denied,
            ObjectError::Exists(_) | ObjectError::Invalid(_) => ErrorKind::Invalid,
            ObjectError::Failed(_) => ErrorKind::Unavailable,
            ObjectError::Busy(_) => ErrorKind::Busy,
        }
    }
}

impl From<Fault> for ObjectError {
    fn from(fault: Fault) -> ObjectError {
        let text = fault.to_string();
        match fault.kind() {
            ErrorKind::NotFound => ObjectError::Unknown(text),
            ErrorKind::Denied => ObjectError::Denied(text),
            ErrorKind::Invalid => ObjectError::Invalid(text),
            ErrorKind::Busy => ObjectError::Busy(text),
            _ => ObjectError::Failed(text),
        }
    }
}
